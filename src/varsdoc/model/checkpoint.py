"""Load a model, whoever wrote it.

Our folder:  config.json (the backbone's, as transformers writes it), varsdoc.json (our settings), tokenizer.json,
             model.safetensors (or shards with an index): language_model.*, visual.*, probes, heads.k.*, query_head.*
With LoRA:   adapter_config.json and adapter_model.safetensors as PEFT writes them, varsdoc.json, tokenizer.json,
             varsdoc.safetensors (probes and heads); the base is named in adapter_config.json.
Others:      a plain Qwen2.5-VL, or a ColQwen2.5 release, merged or as an adapter (colqwen.py).

Safetensors only: loading a checkpoint never runs code from it.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import Qwen2_5_VLConfig

from varsdoc.errors import CheckpointError, ConfigError
from varsdoc.model import colqwen, lora
from varsdoc.model.config import Heads, VarsConfig
from varsdoc.model.device import DTYPES, choose_device, choose_dtype
from varsdoc.model.fingerprint import Origin, state_of
from varsdoc.model.sources import (
    PACKAGED,
    first_line,
    locate,
    outer_name,
    read_json,
    read_tensors,
    require_same_tensors,
    weight_files,
)
from varsdoc.model.varsdoc import VarsDoc


class UntrainedWarning(UserWarning):
    """The model's probes or heads have seen no training: its answers mean nothing yet."""


def nano_folder() -> Path:
    """The checkpoint in the package."""
    return Path(str(files("varsdoc.model") / "nano"))


def nano_config() -> VarsConfig:
    """The settings of varsdoc-nano: about 30 million parameters, five variants."""
    folder = nano_folder()
    return VarsConfig.from_settings(colqwen.backbone_config(folder), read_json(folder / "varsdoc.json"))


def load(
    source: str | Path | None = None,
    *,
    variants: int | None = None,
    branch_layers: int | None = None,
    heads: Heads | None = None,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    max_visual_tokens: int | None = None,
    query_prefix: str | None = None,
    base: str | Path | None = None,
    noise: float = 0.0,
    seed: int = 0,
) -> VarsDoc:
    """`VarsDoc.from_pretrained`, which says what the options mean."""
    target = choose_device(device)
    precision = choose_dtype(dtype, target)
    folder = nano_folder() if source is None else locate(source)
    model = _load_any(folder, base, seed, precision)
    if not _is_packaged(source):
        model.source = str(source)
        if model.base == str(folder):
            model.base = str(source)  # a hub id stays one: its place in the cache means nothing elsewhere
    _fit(model, variants, branch_layers, heads, noise, seed)
    overrides: dict[str, Any] = {"max_visual_tokens": max_visual_tokens, "query_prefix": query_prefix}
    given = {key: value for key, value in overrides.items() if value is not None}
    if isinstance(max_visual_tokens, int) and 0 < max_visual_tokens < model.config.min_visual_tokens:
        # A lower cap takes the floor with it, and leaves room between: pages are enlarged to whole cells.
        given["min_visual_tokens"] = max(1, int(0.9 * max_visual_tokens))
    if given:
        model.reconfigure(model.config.with_(**given))
    if not model.config.trained:
        reason = "its probes or heads are fresh" if model.origin else "random weights from a fixed seed"
        warnings.warn(
            f"{model.source} is untrained ({reason}): its answers mean nothing until it is trained.",
            UntrainedWarning,
            stacklevel=3,
        )
    return model.to_device(target, precision)


def _is_packaged(source: str | Path | None) -> bool:
    return source is None or Path(source).resolve() == nano_folder().resolve()


def _load_any(folder: Path, base: str | Path | None, seed: int, precision: str) -> VarsDoc:
    """By what lies in the folder. Ends with the weights as stored, on the CPU."""
    if not (folder / "varsdoc.json").is_file():
        model = _load_foreign(folder, base, seed, precision)
    elif colqwen.is_adapter(folder):
        model = _load_own_adapter(folder, base, precision)
    else:
        model = _load_own(folder, seed)
    model.eval()
    if model.origin is not None:
        model.origin = replace(model.origin, state=state_of(model))
    return model


def _fit(
    model: VarsDoc, variants: int | None, branch_layers: int | None, heads: Heads | None, noise: float, seed: int
) -> None:
    """Bring a loaded model to the K and n that were asked for, or say why that cannot be."""
    config = model.config
    k = config.variants if variants is None else variants
    n = branch_layers
    if n is None:
        n = config.branch_layers or (4 if k > 1 and config.variants == 1 else 0)
    wanted = config.with_(variants=k, branch_layers=n, heads=heads or config.heads)  # refuses K = 0 and n > L
    if config.variants > 1 and k != config.variants:
        raise CheckpointError(
            f"{model.source} has K={config.variants} variants, and K={k} was asked for; "
            "only a checkpoint with one variant can be expanded."
        )
    if n != config.branch_layers and config.probes:
        raise CheckpointError(
            f"{model.source} was made with branch_layers={config.branch_layers}, and {n} was asked for; leave it out."
        )
    if wanted.heads == "shared" and config.heads == "separate":
        raise CheckpointError(f"{model.source} has separate heads; they cannot be shared.")
    if config.variants > 1 and wanted.heads != config.heads:
        raise CheckpointError(f"{model.source} has one head for all variants; separate ones come by training.")
    if (k, n, wanted.heads) != (config.variants, config.branch_layers, config.heads):
        origin = model.origin
        model.expand(k, n, heads or ("separate" if k > 1 else config.heads), noise, seed)
        if origin is not None:
            recipe = f"expanded to K={k}, n={n}, {model.config.heads} heads, noise {noise}, seed {seed}"
            model.origin = replace(origin, recipe=recipe, state=state_of(model))


def _empty(config: VarsConfig, tokenizer: Tokenizer) -> VarsDoc:
    """A model without weights, to be filled."""
    with torch.device("meta"):
        return VarsDoc(config, tokenizer)


def _fill(module: nn.Module, state: dict[str, Tensor], source: str) -> None:
    """Put every tensor in its place; shapes and names must match."""
    require_same_tensors(state, module.state_dict(), source)
    module.load_state_dict(state, assign=True)
    _restore_tables(module)


def _restore_tables(module: nn.Module) -> None:
    """Rotation tables are computed, not stored: make them again where the model was built without memory."""
    for name, child in list(module.named_modules()):
        if any(buffer.is_meta for buffer in child.buffers(recurse=False)):
            parent, _, attribute = name.rpartition(".")
            setattr(module.get_submodule(parent), attribute, type(child)(child.config))


def read_tokenizer(folder: Path) -> Tokenizer:
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise CheckpointError(f"{folder} has no tokenizer.json; copy it from the Qwen2.5-VL model it was made from.")
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the Rust side raises bare exceptions
        raise CheckpointError(f"{path} cannot be read ({first_line(error)}).") from error


def _own_config(folder: Path, backbone: Qwen2_5_VLConfig) -> VarsConfig:
    try:
        return VarsConfig.from_settings(backbone, read_json(folder / "varsdoc.json"), str(folder / "varsdoc.json"))
    except ConfigError as error:
        raise CheckpointError(f"{folder / 'varsdoc.json'}: {error}") from error


def _load_own(folder: Path, seed: int) -> VarsDoc:
    config = _own_config(folder, colqwen.backbone_config(folder))
    tokenizer = read_tokenizer(folder)
    packaged = _is_packaged(folder)
    if packaged and not (folder / "model.safetensors").is_file():
        model = VarsDoc(config, tokenizer, seed)
    else:
        model = _empty(config, tokenizer)
        paths = weight_files(folder)
        _fill(model, {outer_name(name): tensor for name, tensor in read_tensors(paths).items()}, str(folder))
        model.origin = Origin(tuple(paths), "", 0)
    model.source = "the packaged checkpoint (varsdoc-nano)" if packaged else str(folder)
    model.base = PACKAGED if packaged else str(folder)
    return model


def _load_own_adapter(folder: Path, base: str | Path | None, precision: str) -> VarsDoc:
    """LoRA, probes and heads over the backbone of whatever the base is, an adapter release included."""
    name = str(base) if base is not None else colqwen.base_of(folder)
    beneath = _load_any(nano_folder() if name == PACKAGED else locate(name), None, 0, precision)
    if lora.has_lora(beneath.backbone):
        lora.merge_lora(beneath.backbone)
    model = _empty(_own_config(folder, beneath.config.backbone), read_tokenizer(folder))
    own = folder / "varsdoc.safetensors"
    state = {f"backbone.{key}": tensor for key, tensor in beneath.backbone.state_dict().items()}
    _fill(model, state | read_tensors([own]), f"{folder} over {name}")
    lora.load_adapter(model.backbone, folder, read_tensors([folder / "adapter_model.safetensors"]))
    model.base = name
    under = beneath.origin.files if beneath.origin else ()
    model.origin = Origin((*under, own, folder / "adapter_model.safetensors"), "", 0)
    return model


def _load_foreign(folder: Path, base: str | Path | None, seed: int, precision: str) -> VarsDoc:
    """A plain Qwen2.5-VL (fresh head) or a ColQwen2.5 release: one variant, no probe, one head for everything."""
    release = folder
    if colqwen.is_adapter(release):
        folder = locate(base if base is not None else colqwen.base_of(release))
    config = VarsConfig(colqwen.backbone_config(folder), variants=1, branch_layers=0, heads="shared")
    state = colqwen.read_merged(folder)
    adapter = colqwen.read_adapter(release) if colqwen.is_adapter(release) else None
    head = colqwen.split_head(state) | (adapter.head if adapter else {})
    config = config.with_(
        dim=len(head["weight"]) if "weight" in head else config.dim,
        trained=bool(head),
        **colqwen.image_settings((release, folder), config.cell_size**2, with_limit=bool(head)),
    )
    model = _empty(config, read_tokenizer(release if (release / "tokenizer.json").is_file() else folder))
    whole = {f"backbone.{name}": tensor for name, tensor in state.items()}
    whole |= {f"heads.0.{name}": tensor for name, tensor in (head or _fresh_head(config, seed)).items()}
    _fill(model, whole | {"probes": torch.empty(0, config.hidden_size)}, str(folder))
    paths = weight_files(folder)
    if adapter is not None:
        # In the dtype that was asked for: folding into half precision would round what float32 could hold.
        model.convert(DTYPES.get(precision, torch.float32))
        colqwen.fold_adapter(model.backbone, model.head(0), adapter, release)
        paths.append(release / "adapter_model.safetensors")
    model.source = model.base = str(release)
    model.origin = Origin(tuple(paths), "" if head else f"fresh head, seed {seed}", 0)
    return model


def _fresh_head(config: VarsConfig, seed: int) -> dict[str, Tensor]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return dict(nn.Linear(config.hidden_size, config.dim).state_dict())
