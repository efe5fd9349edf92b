"""The model with which a piece of reading begins."""

from __future__ import annotations

import torch
from torch import nn

from varsdoc.errors import ConfigError
from varsdoc.model import VarsDoc, nano_config
from varsdoc.model.checkpoint import nano_folder, read_tokenizer
from varsdoc.training.build import load_to_train
from varsdoc.training.config import ModelConfig
from varsdoc.training.reading.config import ReadConfig


def build(config: ReadConfig) -> VarsDoc:
    """The source with as many variants as the config asks for, or fresh weights; in float32 on the CPU."""
    if config.source is None:
        plain = nano_config().with_(variants=1, branch_layers=0, heads="shared", trained=False)
        model = VarsDoc(plain, read_tokenizer(nano_folder()), config.seed)
    else:
        model = load_to_train(config.source, ModelConfig(noise=config.noise), config.seed)
    wanted = (config.variants, config.branch_layers)
    if model.config.variants > 1 and config.variants == 1:
        keep_variant(model, config.source_variant, probe=config.branch_layers == model.config.branch_layers)
    if (model.config.variants, model.config.branch_layers) != wanted:
        own_head = config.variants > 1 or model.query_head is not None
        model.expand(*wanted, heads="separate" if own_head else "shared", noise=config.noise, seed=config.seed)
        if config.fresh:
            _forget(model, config.seed)
        _spread(model, config.probe_noise, config.seed)
    limits = {"min_visual_tokens": config.min_visual_tokens, "max_visual_tokens": config.max_visual_tokens}
    model.reconfigure(model.config.with_(**{name: limit for name, limit in limits.items() if limit is not None}))
    return model


def keep_variant(model: VarsDoc, variant: int, probe: bool = False) -> None:
    """One variant of several, in place: its head, the query head and, if asked for, its probe stay.

    Without its probe the variant reads a little differently; a short warm-up makes up for it, and whoever wants another
    probe expands the result.
    """
    if not 0 <= variant < model.config.variants:
        raise ConfigError(f"source_variant must lie between 0 and {model.config.variants - 1}, not {variant}.")
    model.heads = nn.ModuleList([model.head(variant)])
    each = model.config.probes_per_variant if probe else 0
    model.probes = nn.Parameter(model.probes.detach()[variant * each : (variant + 1) * each].clone())
    heads = "separate" if model.query_head is not None else "shared"
    branch_layers = model.config.branch_layers if probe else 0
    model.reconfigure(model.config.with_(variants=1, branch_layers=branch_layers, heads=heads, trained=False))


def _forget(model: VarsDoc, seed: int) -> None:
    """New page heads for the variants of an expansion; blocks and query head stay what they learnt.

    On the toy of three intents (benchmarks/toy_switches.py) copies of a trained head stay copies, copies with noise as
    large as their weights specialise now and then, and new heads do: .21, .40 and .68 of NDCG@10.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for head in model.heads:
            assert isinstance(head, nn.Linear)
            head.reset_parameters()


def _spread(model: VarsDoc, noise: float, seed: int) -> None:
    """Move probes apart: near-identical ones read alike for ever (docs/log.md, the toy of three intents)."""
    spread = model.backbone.language_model.embed_tokens.weight.detach().float().std().cpu()
    moved = torch.randn(model.probes.shape, generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        model.probes.add_((noise * spread * moved).to(model.probes))
