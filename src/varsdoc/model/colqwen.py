"""Checkpoints of others: a plain Qwen2.5-VL, and ColQwen2.5 releases, merged or as a LoRA adapter over a base.

Their tensor names changed with transformers and colpali-engine; all spellings are mapped to ours:
`language_model.*`, `visual.*`, and `custom_text_proj.*` for the head.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from peft import LoraConfig
from torch import Tensor, nn
from transformers import Qwen2_5_VLConfig

from varsdoc.errors import CheckpointError
from varsdoc.model.lora import load_adapter, merge_lora
from varsdoc.model.sources import read_json, read_tensors, weight_files

HEAD = "custom_text_proj"
_RENAMES = (
    (re.compile(r"^base_model\.model\."), ""),
    (re.compile(r"^vlm\."), ""),
    (re.compile(r"^embedding_proj_layer\."), f"{HEAD}."),
    (re.compile(r"^model\.(visual|language_model)\."), r"\1."),
    (re.compile(r"^model\.(layers|embed_tokens|norm)\."), r"language_model.\1."),
)
# The output layer of the generator, and rotation tables that some versions stored.
_UNUSED = re.compile(r"^(lm_head\.|.*rotary_(pos_)?emb\.inv_freq$)")


def rename(name: str) -> str:
    """A tensor's name in our terms.

    >>> rename("base_model.model.model.layers.0.mlp.up_proj.lora_A.weight")
    'language_model.layers.0.mlp.up_proj.lora_A.weight'
    >>> rename("model.visual.patch_embed.proj.weight"), rename("base_model.model.custom_text_proj.lora_B.weight")
    ('visual.patch_embed.proj.weight', 'custom_text_proj.lora_B.weight')
    """
    for pattern, replacement in _RENAMES:
        name = pattern.sub(replacement, name)
    return name


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
            f"{folder / 'config.json'} is not a valid Qwen2.5-VL config ({_first_line(error)})."
        ) from error


def image_settings(folder: Path, cell_area: int) -> dict[str, Any]:
    """Pixel statistics and limits where the release names them; limits in cells."""
    path = folder / "preprocessor_config.json"
    if not path.is_file():
        return {}
    content = read_json(path)
    settings: dict[str, Any] = {key: tuple(content[key]) for key in ("image_mean", "image_std") if key in content}
    size = content.get("size") or {}
    for ours, pixels in (
        ("max_visual_tokens", content.get("max_pixels") or size.get("longest_edge") or size.get("max_pixels")),
        ("min_visual_tokens", content.get("min_pixels") or size.get("shortest_edge") or size.get("min_pixels")),
    ):
        if pixels:
            settings[ours] = max(1, int(pixels) // cell_area)
    return settings


def read_merged(folder: Path) -> dict[str, Tensor]:
    """All tensors of a Qwen2.5-VL or a merged ColQwen2.5 under our names."""
    state = {rename(name): tensor for name, tensor in read_tensors(weight_files(folder)).items()}
    return {name: tensor for name, tensor in state.items() if not _UNUSED.match(name)}


def base_of(folder: Path) -> str:
    """What an adapter says it was trained on: a hub id, or a folder as written or beside the adapter."""
    name = read_json(folder / "adapter_config.json").get("base_model_name_or_path")
    if not name:
        raise CheckpointError(f"{folder / 'adapter_config.json'} names no base model; pass base=FOLDER.")
    beside = folder / name
    return str(beside) if beside.is_dir() else str(name)


def fold_adapter(backbone: nn.Module, head: nn.Linear, folder: Path) -> None:
    """Add a release's LoRA, head included, to the weights of its base."""
    config = LoraConfig.from_pretrained(str(folder))
    state = {rename(name): tensor for name, tensor in read_tensors([folder / "adapter_model.safetensors"]).items()}
    if not state:
        raise CheckpointError(f"{folder / 'adapter_model.safetensors'} holds no tensor; fetch it again.")
    whole = nn.Module()
    whole.language_model, whole.visual, whole.custom_text_proj = backbone.language_model, backbone.visual, head
    whole.config = backbone.config
    load_adapter(whole, config, state, str(folder))
    merge_lora(whole)
    head.weight, head.bias = whole.custom_text_proj.weight, whole.custom_text_proj.bias


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
