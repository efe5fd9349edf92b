"""From a config to the model that is trained: load or make it, expand it, choose what gradients reach."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch
from torch import nn

from varsdoc.errors import ConfigError
from varsdoc.model import UntrainedWarning, VarsConfig, VarsDoc
from varsdoc.model.checkpoint import load, nano_folder, read_tokenizer
from varsdoc.model.colqwen import backbone_config, base_of, is_adapter
from varsdoc.model.sources import locate, read_json
from varsdoc.training.config import ModelConfig, TrainConfig, load_config


def source_of(config: TrainConfig) -> str | None:
    """Where this stage starts: the named source, the result of the stage before, or the packaged checkpoint."""
    return str(load_config(config.after).result) if config.after else config.model.source


def build_model(config: TrainConfig) -> VarsDoc:
    """The model before its first step, in float32 on the CPU; frozen weights in bfloat16 where the run is."""
    source, wanted = source_of(config), config.model
    model = _fresh(source, wanted, config.seed) if wanted.fresh else load_to_train(source, wanted, config.seed)
    spread_probes(model, wanted.probes_per_variant, wanted.noise, config.seed)
    choose_trainable(model, wanted, config.seed)
    if config.optim.bf16:
        for parameter in model.parameters():
            if not parameter.requires_grad:
                # Not module.to(): that would round the rotation tables too.
                parameter.data = parameter.data.to(torch.bfloat16)
    if config.optim.gradient_checkpointing:
        model.backbone.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model


def architecture(folder: Path, wanted: ModelConfig) -> VarsConfig:
    """The settings of a source with the config's changes; a foreign one is ColQwen2.5 without a probe."""
    origin = locate(base_of(folder)) if is_adapter(folder) else folder
    backbone = backbone_config(origin)
    if (folder / "varsdoc.json").is_file():
        config = VarsConfig.from_settings(backbone, read_json(folder / "varsdoc.json"))
    else:
        config = VarsConfig(backbone, variants=1, branch_layers=0, heads="shared")
    changes = {
        name: getattr(wanted, name)
        for name in ("variants", "branch_layers", "heads", "max_visual_tokens", "query_prefix")
        if getattr(wanted, name) is not None
    }
    return config.with_(**changes, trained=False)


def _fresh(source: str | None, wanted: ModelConfig, seed: int) -> VarsDoc:
    folder = nano_folder() if source is None else locate(source)
    model = VarsDoc(architecture(folder, wanted), read_tokenizer(folder), seed)
    model.source = f"fresh weights of {source or 'varsdoc-nano'}"
    return model


def load_to_train(source: str | None, wanted: ModelConfig, seed: int) -> VarsDoc:
    """A source as the config wants it, in float32 on the CPU."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrainedWarning)  # it is about to be trained
        return load(
            source,
            variants=wanted.variants,
            branch_layers=wanted.branch_layers,
            heads=wanted.heads,
            noise=wanted.noise,
            seed=seed,
            max_visual_tokens=wanted.max_visual_tokens,
            query_prefix=wanted.query_prefix,
            device="cpu",
            dtype="float32",
        )


def spread_probes(model: VarsDoc, count: int, noise: float, seed: int) -> None:
    """Give every variant `count` probes, copies of its one: the ablation in which all probes share one stream."""
    have = model.config.probes_per_variant
    if count == have or not model.config.probes:
        return
    if have != 1:
        raise ConfigError(f"The model has {have} probes per variant; only one can be spread to {count}.")
    generator = torch.Generator().manual_seed(seed)
    probes = model.probes.detach().repeat_interleave(count, 0)
    moved = noise * probes.std() * torch.randn(probes.shape, generator=generator)
    moved[::count] = 0  # the first copy of each stays what it was
    model.probes = nn.Parameter(probes + moved)
    model.reconfigure(model.config.with_(probes_per_variant=count))


def choose_trainable(model: VarsDoc, wanted: ModelConfig, seed: int) -> None:
    """LoRA or everything. An adapter that came with the source goes on training, or is folded in."""
    torch.manual_seed(seed)  # LoRA starts at random
    model.set_trainable(wanted.lora, wanted.vision)
    if not model.probes.numel():
        model.probes.requires_grad_(False)  # DDP waits for a gradient of everything that says it wants one


def source_settings(source: str | None) -> dict[str, Any]:
    """varsdoc.json of a source; empty for a foreign one, which has neither probe nor variants."""
    folder = nano_folder() if source is None else locate(source)
    settings = folder / "varsdoc.json"
    return read_json(settings) if settings.is_file() else {}
