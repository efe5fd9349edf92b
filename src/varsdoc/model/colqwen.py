"""Checkpoints of others: a plain Qwen2.5-VL, and ColQwen2.5 releases, merged or as a LoRA adapter over a base.

Their tensor names changed with transformers and colpali-engine; all spellings are mapped to ours:
`language_model.*`, `visual.*`, and `custom_text_proj.*` for the head.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from transformers import Qwen2_5_VLConfig

from varsdoc.errors import CheckpointError
from varsdoc.model.lora import load_adapter, merge_lora
from varsdoc.model.names import HEAD, rename
from varsdoc.model.sources import first_line, read_json, read_tensors, weight_files

# The output layer of the generator, and rotation tables that some versions stored.
_UNUSED = re.compile(r"^(lm_head\.|.*rotary_(pos_)?emb\.inv_freq$)")


def is_adapter(folder: Path) -> bool:
    return (folder / "adapter_config.json").is_file()


def backbone_config(folder: Path) -> Qwen2_5_VLConfig:
    """config.json as a Qwen2.5-VL configuration; other architectures are refused by name."""
    content = read_json(folder / "config.json")
    content = content.get("vlm_config", content)
    kind = content.get("model_type")
    if kind not in ("qwen2_5_vl", "colqwen2_5"):
        raise CheckpointError(f"{folder} holds a model of type {kind!r}; varsdoc reads Qwen2.5-VL and ColQwen2.5.")
    content = {key: value for key, value in content.items() if key != "model_type"}
    try:
        return Qwen2_5_VLConfig(**content)
    except Exception as error:  # transformers validates field by field, in several types
        raise CheckpointError(
            f"{folder / 'config.json'} is not a valid Qwen2.5-VL config ({first_line(error)})."
        ) from error


def image_settings(folders: Sequence[Path], cell_area: int, with_limit: bool) -> dict[str, Any]:
    """Pixel statistics and limits in cells, of the first folder that names them.

    with_limit  false for a bare Qwen2.5-VL: it has the 16,384 cells of a chat model, and ours is ColQwen2.5's 768
    """
    content = next((found for found in map(_image_processor, folders) if found), None)
    if content is None:
        return {}
    size = content.get("size") or {}
    try:
        settings: dict[str, Any] = {
            key: tuple(float(x) for x in content[key]) for key in ("image_mean", "image_std") if key in content
        }
        most = content.get("max_pixels") or size.get("longest_edge") or size.get("max_pixels")
        least = content.get("min_pixels") or size.get("shortest_edge") or size.get("min_pixels")
        limits = {"max_visual_tokens": most if with_limit else None, "min_visual_tokens": least}
        return settings | {key: max(1, int(pixels) // cell_area) for key, pixels in limits.items() if pixels}
    except (TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(
            f"The image settings beside {folders[0]} cannot be read ({first_line(error)})."
        ) from error


def _image_processor(folder: Path) -> dict[str, Any] | None:
    """preprocessor_config.json, or its part of the newer processor_config.json."""
    if (folder / "preprocessor_config.json").is_file():
        return read_json(folder / "preprocessor_config.json")
    if (folder / "processor_config.json").is_file():
        part = read_json(folder / "processor_config.json").get("image_processor")
        return part if isinstance(part, dict) else None
    return None


def read_merged(folder: Path) -> dict[str, Tensor]:
    """All tensors of a Qwen2.5-VL or a merged ColQwen2.5 under our names."""
    state = {rename(name): tensor for name, tensor in read_tensors(weight_files(folder)).items()}
    return {name: tensor for name, tensor in state.items() if not _UNUSED.match(name)}


def split_head(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Take the head's weight and bias out of a model's tensors; empty where it has none."""
    prefix = HEAD + "."
    return {name.removeprefix(prefix): state.pop(name) for name in list(state) if name.startswith(prefix)}


def base_of(folder: Path) -> str:
    """What an adapter says it was trained on: a hub id, a folder as written, or one named from the adapter's place."""
    name = read_json(folder / "adapter_config.json").get("base_model_name_or_path")
    if not isinstance(name, str) or not name:
        raise CheckpointError(f"{folder / 'adapter_config.json'} names no base model; pass base=FOLDER.")
    beside = folder / name
    return str(beside) if beside.is_dir() else name


@dataclass(frozen=True)
class Adapter:
    """A release's LoRA tensors under our names, and a head that it stored whole (PEFT's modules_to_save)."""

    lora: dict[str, Tensor]
    head: dict[str, Tensor]


def read_adapter(folder: Path) -> Adapter:
    stored = read_tensors([folder / "adapter_model.safetensors"])
    state = {rename(name).replace(".modules_to_save.", "."): tensor for name, tensor in stored.items()}
    whole = {f"{HEAD}.weight", f"{HEAD}.bias"}
    head = {name.removeprefix(HEAD + "."): tensor for name, tensor in state.items() if name in whole}
    lora = {name: tensor for name, tensor in state.items() if name not in whole}
    if not lora:
        raise CheckpointError(f"{folder / 'adapter_model.safetensors'} holds no LoRA tensor; fetch it again.")
    return Adapter(lora, head)


def fold_adapter(backbone: nn.Module, head: nn.Linear, adapter: Adapter, folder: Path) -> None:
    """Add a release's LoRA, head included, to the weights of its base."""
    whole = nn.Module()
    whole.language_model, whole.visual, whole.custom_text_proj = backbone.language_model, backbone.visual, head
    whole.config = backbone.config
    whole.eval()
    load_adapter(whole, folder, adapter.lora)
    merge_lora(whole)
    head.weight, head.bias = whole.custom_text_proj.weight, whole.custom_text_proj.bias
