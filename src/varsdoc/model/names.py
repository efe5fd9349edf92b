"""Tensor names: those of every transformers and colpali-engine release, in our spelling."""

from __future__ import annotations

import re

HEAD = "custom_text_proj"
_RENAMES = (
    (re.compile(r"^base_model\.model\."), ""),
    (re.compile(r"^vlm\."), ""),
    (re.compile(r"^embedding_proj_layer\."), f"{HEAD}."),
    (re.compile(r"^model\.(visual|language_model)\."), r"\1."),
    (re.compile(r"^model\.(layers|embed_tokens|norm)\."), r"language_model.\1."),
)


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
