"""Write a checkpoint so that a full disk or a kill leaves the previous one whole.

Everything is written into a folder beside the files it replaces; only when all of it is on disk are the old files
swapped, `varsdoc.json` last: a folder with a varsdoc.json is whole.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from varsdoc.errors import CheckpointError, ConfigError
from varsdoc.model import lora
from varsdoc.model.device import DTYPES
from varsdoc.model.int8 import Int8Linear, quantise_rows
from varsdoc.model.qwen25vl import config_json
from varsdoc.model.sources import OWN, PACKAGED, SCALE, first_line

if TYPE_CHECKING:
    from varsdoc.model.varsdoc import VarsDoc

SHARD_BYTES = 4 * 1024**3
_WRITTEN = ("model*.safetensors", "model.safetensors.index.json", "adapter_*", "varsdoc.safetensors", "config.json")


def save(
    model: VarsDoc,
    folder: str | Path,
    *,
    dtype: str | torch.dtype | None = None,
    base: str | Path | None = None,
    shard_bytes: int = SHARD_BYTES,
) -> None:
    """Write a checkpoint. A model with LoRA is saved as an adapter over its base; merge it first to save it whole.

    dtype  None: as it is in memory; float32, bfloat16, float16; or int8 (matrices, one scale per row; heads and
           probes in float32), which is dequantised when it is loaded. An adapter is always stored as it is
    base   what the adapter stands on, where the model was not loaded from it
    """
    target = Path(folder)
    kind = None if dtype is None else str(dtype).removeprefix("torch.")
    adapter = lora.has_lora(model.backbone)
    if kind not in (None, "int8", *DTYPES):
        raise ConfigError(f"There is no dtype {kind!r}; save as float32, bfloat16, float16 or int8.")
    if any(isinstance(module, Int8Linear) for module in model.modules()):
        raise ConfigError("This model computes in int8 and its weights are gone; load it in float32 and save that.")
    if adapter and kind is not None:
        raise ConfigError("An adapter is stored in the dtype it was trained in; leave dtype out or merge_lora() first.")
    beneath = _base_name(model, target, base) if adapter else ""
    staged = target / ".saving"
    try:
        target.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(staged, ignore_errors=True)
        staged.mkdir()
        if adapter:
            _write_adapter(model, staged, beneath)
        else:
            state = {name.removeprefix("backbone."): tensor for name, tensor in model.state_dict().items()}
            _write_shards(dict(_stored_as(state, kind)), staged, shard_bytes)
            (staged / "config.json").write_text(config_json(model.config.backbone))
        model.processor.tokenizer.save(str(staged / "tokenizer.json"), pretty=False)
        settings = json.dumps(model.config.settings(), indent=2, ensure_ascii=False) + "\n"
        (staged / "varsdoc.json").write_text(settings, encoding="utf-8")
        _swap(staged, target)
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or first_line(error)
        raise CheckpointError(f"{target} cannot be written ({reason}).") from error
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def _swap(staged: Path, target: Path) -> None:
    """New files in, files of an older save out, the one that says "whole" last."""
    new = {path.name for path in staged.iterdir()}
    (target / "varsdoc.json").unlink(missing_ok=True)
    for pattern in _WRITTEN:
        for stale in target.glob(pattern):
            if stale.name not in new:
                stale.unlink()
    for name in sorted(new - {"varsdoc.json"}):
        os.replace(staged / name, target / name)
    os.replace(staged / "varsdoc.json", target / "varsdoc.json")


def _base_name(model: VarsDoc, target: Path, base: str | Path | None) -> str:
    """How an adapter names its base: as it was told; a hub id; else the way from the adapter, so that both can move."""
    if base is not None and str(base) != PACKAGED:
        return str(Path(base).resolve()) if Path(base).is_dir() else str(base)
    name = str(base) if base is not None else model.base
    if name is None:
        raise ConfigError(
            "This adapter stands on weights that no folder holds; pass base=, or merge_lora() and save the whole model."
        )
    if name == PACKAGED or not Path(name).is_dir():
        return name
    if Path(name).resolve() == target.resolve():
        raise ConfigError(f"{target} is the base of this adapter; save the adapter to another folder.")
    try:
        return Path(os.path.relpath(Path(name).resolve(), target.resolve())).as_posix()
    except ValueError:  # another drive
        return str(Path(name).resolve())


def _write_adapter(model: VarsDoc, folder: Path, base: str) -> None:
    config = lora.adapter_config(model.backbone)
    config.base_model_name_or_path = base
    own = {name: tensor.contiguous() for name, tensor in model.state_dict().items() if name.startswith(OWN)}
    save_file(lora.adapter_state(model.backbone), str(folder / "adapter_model.safetensors"), {"format": "pt"})
    save_file(own, str(folder / "varsdoc.safetensors"), {"format": "pt"})
    config.save_pretrained(str(folder))


def _stored_as(state: dict[str, Tensor], kind: str | None) -> Iterator[tuple[str, Tensor]]:
    for name, tensor in state.items():
        if kind == "int8" and tensor.ndim >= 2 and not name.startswith(OWN):
            values, scale = quantise_rows(tensor.flatten(1))
            yield name, values.view(tensor.shape)
            yield name + SCALE, scale.view(-1, *[1] * (tensor.ndim - 1))
        else:
            yield name, (tensor if kind is None else tensor.to(DTYPES.get(kind, torch.float32))).contiguous()


def _write_shards(state: dict[str, Tensor], folder: Path, limit: int) -> None:
    shards: list[dict[str, Tensor]] = [{}]
    size = 0
    for name, tensor in sorted(state.items()):
        if shards[-1] and size + tensor.nbytes > limit:
            shards.append({})
            size = 0
        shards[-1][name] = tensor
        size += tensor.nbytes
    if len(shards) == 1:
        save_file(shards[0], str(folder / "model.safetensors"), {"format": "pt"})
        return
    where: dict[str, str] = {}
    for i, shard in enumerate(shards, 1):
        file = f"model-{i:05d}-of-{len(shards):05d}.safetensors"
        save_file(shard, str(folder / file), {"format": "pt"})
        where |= dict.fromkeys(shard, file)
    total = sum(tensor.nbytes for tensor in state.values())
    index = json.dumps({"metadata": {"total_size": total}, "weight_map": where}, indent=2, sort_keys=True)
    (folder / "model.safetensors.index.json").write_text(index)
