"""Save and load.

Our folder:  config.json (the backbone's, as transformers writes it), varsdoc.json (our settings), tokenizer.json,
             model.safetensors (or shards with an index): language_model.*, visual.*, probes, heads.k.*, query_head.*
With LoRA:   adapter_config.json and adapter_model.safetensors as PEFT writes them, varsdoc.json, tokenizer.json,
             varsdoc.safetensors (probes and heads); the base is named in adapter_config.json.

Safetensors only: loading a checkpoint never runs code from it. Files are written beside their target and moved into
place, weights first and varsdoc.json last, so that a folder with a varsdoc.json is whole.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import Qwen2_5_VLConfig

from varsdoc.errors import CheckpointError, ConfigError
from varsdoc.model import colqwen, lora
from varsdoc.model.config import Heads, VarsConfig
from varsdoc.model.int8 import Int8Linear, quantise_rows
from varsdoc.model.qwen25vl import architecture, config_json
from varsdoc.model.sources import SCALE, hash_tensors, locate, read_json, read_tensors, stored_tensors, weight_files
from varsdoc.model.varsdoc import VarsDoc

SHARD_BYTES = 4 * 1024**3
_OWN = ("probes", "heads.", "query_head.")


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
    """Load a model for use or for training.

    source             None: the packaged checkpoint; a folder; or a hub id, from the cache where it is there
    variants           K. A checkpoint with one variant is expanded to K; any other K must be the checkpoint's
    branch_layers      n. Only where the checkpoint has no probe yet; 4 where variants asks for expansion
    heads              "separate" or "shared" after an expansion
    device, dtype      default: GPU in bfloat16 where there is one, else CPU in float32; dtype="int8" on CPU
    max_visual_tokens  another cap than the checkpoint's
    query_prefix       another prefix than the checkpoint's ("Query: " for ColQwen2.5 up to 0.3.12, "" since)
    base               for an adapter: its base, where adapter_config.json names one that is not here
    noise, seed        of an expansion, and of fresh probes and heads
    """
    folder = nano_folder() if source is None else locate(source)
    if (folder / "varsdoc.json").is_file():
        model = _load_own_adapter(folder, base) if colqwen.is_adapter(folder) else _load_own(folder, seed)
    else:
        model = _load_foreign(folder, base, seed)
    model.source = "the packaged checkpoint (varsdoc-nano)" if source is None else str(source)
    _fit(model, variants, branch_layers, heads, noise, seed)
    overrides: dict[str, Any] = {"max_visual_tokens": max_visual_tokens, "query_prefix": query_prefix}
    given = {key: value for key, value in overrides.items() if value is not None}
    if given:
        model.config = model.processor.config = model.config.with_(**given)
    if not model.config.trained:
        reason = "random weights from a fixed seed" if source is None else "its probes or heads are fresh"
        warnings.warn(
            f"{model.source} is untrained ({reason}): its answers mean nothing until it is trained.",
            UntrainedWarning,
            stacklevel=3,
        )
    model.eval()  # a loaded LoRA adapter comes in training mode, its dropout active
    return model.to_device(device, dtype)


def _fit(
    model: VarsDoc, variants: int | None, branch_layers: int | None, heads: Heads | None, noise: float, seed: int
) -> None:
    """Bring a loaded model to the K and n that were asked for, or say why that cannot be."""
    config = model.config
    k = config.variants if variants is None else variants
    n = (
        branch_layers
        if branch_layers is not None
        else (config.branch_layers or (4 if k > 1 and config.variants == 1 else 0))
    )
    config.with_(variants=k, branch_layers=n)  # refuses K = 0 and n > L with a sentence
    if config.variants > 1 and k != config.variants:
        raise CheckpointError(
            f"{model.source} has K={config.variants} variants, and K={k} was asked for; "
            "only a checkpoint with one variant can be expanded."
        )
    if n != config.branch_layers and config.probes:
        raise CheckpointError(
            f"{model.source} was made with branch_layers={config.branch_layers}, and {n} was asked for; leave it out."
        )
    if heads == "shared" and config.heads == "separate":
        raise CheckpointError(f"{model.source} has separate heads; they cannot be shared.")
    if config.variants == 1 and (k, n, heads or config.heads) != (1, config.branch_layers, config.heads):
        model.expand(k, n, heads or ("separate" if k > 1 else config.heads), noise, seed)
        model.config = model.processor.config = model.config.with_(trained=False)


def _empty(config: VarsConfig, tokenizer: Tokenizer) -> VarsDoc:
    """A model without weights, to be filled."""
    with torch.device("meta"):
        return VarsDoc(config, tokenizer)


def _fill(module: nn.Module, state: dict[str, Tensor], source: str) -> None:
    """Put every tensor in its place; shapes and names must match."""
    expected = module.state_dict()
    lora.require_same_keys(set(state), set(expected), source)
    for name, tensor in state.items():
        if tensor.shape != expected[name].shape:
            raise CheckpointError(
                f"{source} has {name} with shape {tuple(tensor.shape)}, "
                f"where the config makes it {tuple(expected[name].shape)}."
            )
    module.load_state_dict({name: t if t.is_floating_point() else t.float() for name, t in state.items()}, assign=True)
    _restore_tables(module)


def _restore_tables(module: nn.Module) -> None:
    """Rotation tables are computed, not stored: make them again where the model was built without memory."""
    for name, child in list(module.named_modules()):
        if any(buffer.is_meta for buffer in child.buffers(recurse=False)):
            parent, _, attribute = name.rpartition(".")
            setattr(module.get_submodule(parent), attribute, type(child)(child.config))


def _tokenizer(folder: Path) -> Tokenizer:
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise CheckpointError(f"{folder} has no tokenizer.json; copy it from the Qwen2.5-VL model it was made from.")
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:
        raise CheckpointError(f"{path} cannot be read ({str(error).splitlines()[0]}).") from error


def _own_config(folder: Path, backbone: Qwen2_5_VLConfig) -> VarsConfig:
    try:
        return VarsConfig.from_settings(backbone, read_json(folder / "varsdoc.json"), str(folder / "varsdoc.json"))
    except ConfigError as error:
        raise CheckpointError(str(error)) from error


def _load_own(folder: Path, seed: int) -> VarsDoc:
    config = _own_config(folder, colqwen.backbone_config(folder))
    tokenizer = _tokenizer(folder)
    if folder == nano_folder() and not (folder / "model.safetensors").is_file():
        return VarsDoc(config, tokenizer, seed)
    model = _empty(config, tokenizer)
    paths = weight_files(folder)
    _fill(model, {_outer(name): tensor for name, tensor in read_tensors(paths).items()}, str(folder))
    model._stored_hash = hash_tensors(_hashed(config), stored_tensors(paths))
    return model


def _load_own_adapter(folder: Path, base: str | Path | None) -> VarsDoc:
    origin = locate(base if base is not None else colqwen.base_of(folder))
    if colqwen.is_adapter(origin):
        raise CheckpointError(f"{origin} is an adapter itself; merge it and give the merged folder as base.")
    config = _own_config(folder, colqwen.backbone_config(origin))
    model = _empty(config, _tokenizer(folder))
    state = {
        name: tensor
        for name, tensor in colqwen.read_merged(origin).items()
        if not name.startswith((*_OWN, colqwen.HEAD))
    }
    state |= read_tensors([folder / "varsdoc.safetensors"])
    _fill(model, {_outer(name): tensor for name, tensor in state.items()}, f"{folder} over {origin}")
    adapter = folder / "adapter_model.safetensors"
    lora.load_adapter(model.backbone, LoraConfig.from_pretrained(str(folder)), read_tensors([adapter]), str(folder))
    return model


def _load_foreign(folder: Path, base: str | Path | None, seed: int) -> VarsDoc:
    """A plain Qwen2.5-VL (fresh head) or a ColQwen2.5 release: one variant, no probe, one head for everything."""
    release = folder
    if colqwen.is_adapter(folder):
        folder = locate(base if base is not None else colqwen.base_of(folder))
    backbone = colqwen.backbone_config(folder)
    config = VarsConfig(backbone, variants=1, branch_layers=0, heads="shared")
    images = colqwen.image_settings(release, config.cell_size**2) or colqwen.image_settings(folder, config.cell_size**2)
    state = colqwen.read_merged(folder)
    head = {
        name.removeprefix(colqwen.HEAD + "."): state.pop(name) for name in list(state) if name.startswith(colqwen.HEAD)
    }
    dim = len(head["weight"]) if "weight" in head else config.dim
    if not head:
        images.pop("max_visual_tokens", None)  # a bare Qwen2.5-VL has the limit of a chat model; ours is ColQwen2.5's
    config = config.with_(dim=dim, trained=bool(head), **images)
    tokenizer = _tokenizer(release if (release / "tokenizer.json").is_file() else folder)
    model = _empty(config, tokenizer)
    if not head:
        head = _fresh_head(config, seed)
    state = {"backbone." + name: tensor for name, tensor in state.items()}
    _fill(
        model,
        state
        | {f"heads.0.{name}": tensor for name, tensor in head.items()}
        | {"probes": torch.empty(0, config.hidden_size)},
        str(folder),
    )
    if colqwen.is_adapter(release):
        colqwen.fold_adapter(model.backbone, model.head(0), release)
    return model


def _fresh_head(config: VarsConfig, seed: int) -> dict[str, Tensor]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return dict(nn.Linear(config.hidden_size, config.dim).state_dict())


def _outer(name: str) -> str:
    return name if name.startswith(_OWN) else "backbone." + name


def _inner(name: str) -> str:
    return name.removeprefix("backbone.")


def save(
    model: VarsDoc,
    folder: str | Path,
    *,
    dtype: str | None = None,
    base: str | Path | None = None,
    shard_bytes: int = SHARD_BYTES,
) -> None:
    """Write a checkpoint. A model with LoRA is saved as an adapter over `base`; merge it first to save it whole.

    dtype  None: as it is in memory; float32, bfloat16, float16; or int8 (matrices, one scale per row; heads and
           probes in float32), which is dequantised when it is loaded
    """
    if any(isinstance(module, Int8Linear) for module in model.modules()):
        raise ConfigError("This model computes in int8 and its weights are gone; load it in float32 and save that.")
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    (target / "varsdoc.json").unlink(missing_ok=True)
    if lora.has_lora(model.backbone):
        _save_adapter(model, target, base)
    else:
        state = {_inner(name): tensor for name, tensor in model.state_dict().items()}
        _save_shards(dict(_stored_as(state, dtype)), target, shard_bytes)
        _write(target / "config.json", lambda path: path.write_text(config_json(model.config.backbone)))
    _write(target / "tokenizer.json", lambda path: model.processor.tokenizer.save(str(path)))
    settings = json.dumps(model.config.settings(), indent=2, ensure_ascii=False) + "\n"
    _write(target / "varsdoc.json", lambda path: path.write_text(settings, encoding="utf-8"))


def _save_adapter(model: VarsDoc, target: Path, base: str | Path | None) -> None:
    config = lora.adapter_config(model.backbone)
    config.base_model_name_or_path = str(base if base is not None else model.source)
    own = {name: tensor.contiguous() for name, tensor in model.state_dict().items() if name.startswith(_OWN)}
    _write(target / "adapter_model.safetensors", lambda path: save_file(lora.adapter_state(model.backbone), str(path)))
    _write(target / "varsdoc.safetensors", lambda path: save_file(own, str(path)))
    config.save_pretrained(str(target))


def _stored_as(state: dict[str, Tensor], dtype: str | None) -> Iterator[tuple[str, Tensor]]:
    kinds = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
    if dtype not in (None, "int8", *kinds):
        raise ConfigError(f"There is no dtype {dtype!r}; save as float32, bfloat16, float16 or int8.")
    for name, tensor in state.items():
        if dtype == "int8" and tensor.ndim >= 2 and not name.startswith(_OWN):
            values, scale = quantise_rows(tensor.flatten(1))
            yield name, values.view(tensor.shape)
            yield name + SCALE, scale.view(-1, *[1] * (tensor.ndim - 1))
        else:
            yield name, (tensor if dtype is None else tensor.to(kinds.get(dtype, torch.float32))).contiguous()


def _save_shards(state: dict[str, Tensor], target: Path, limit: int) -> None:
    shards: list[dict[str, Tensor]] = [{}]
    size = 0
    for name, tensor in sorted(state.items()):
        if shards[-1] and size + tensor.nbytes > limit:
            shards.append({})
            size = 0
        shards[-1][name] = tensor
        size += tensor.nbytes
    for stale in (*target.glob("model*.safetensors"), target / "model.safetensors.index.json"):
        stale.unlink(missing_ok=True)
    if len(shards) == 1:
        _write(target / "model.safetensors", partial(_save_tensors, shards[0]))
        return
    names = [f"model-{i + 1:05d}-of-{len(shards):05d}.safetensors" for i in range(len(shards))]
    for name, shard in zip(names, shards, strict=True):
        _write(target / name, partial(_save_tensors, shard))
    where = {key: name for name, shard in zip(names, shards, strict=True) for key in shard}
    total = sum(tensor.nbytes for tensor in state.values())
    index = json.dumps({"metadata": {"total_size": total}, "weight_map": where}, indent=2, sort_keys=True)
    _write(target / "model.safetensors.index.json", lambda path: path.write_text(index))


def _save_tensors(tensors: dict[str, Tensor], path: Path) -> None:
    save_file(tensors, str(path), {"format": "pt"})


def _write(target: Path, write: Callable[[Path], Any]) -> None:
    """Beside the target first, then moved: a full disk or a kill leaves the old file whole."""
    beside = target.with_name(f".{target.name}.partial")
    try:
        write(beside)
        os.replace(beside, target)
    finally:
        beside.unlink(missing_ok=True)


def _hashed(config: VarsConfig) -> dict[str, Any]:
    """The settings that change an embedding."""
    kept = {f.name for f in fields(VarsConfig)} - {"backbone", "trained"}
    own = {key: value for key, value in config.settings().items() if key in kept}
    return own | {"backbone": architecture(config.backbone)}


def hash_model(model: VarsDoc) -> str:
    """The hash that the model would have as a saved checkpoint in its present dtype."""
    return hash_tensors(_hashed(model.config), iter({_inner(n): t for n, t in model.state_dict().items()}.items()))
