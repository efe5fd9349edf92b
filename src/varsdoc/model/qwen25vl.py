"""The one file that knows Qwen2.5-VL: embed, rotate, run a block, norm. Another backbone is another such file."""

from __future__ import annotations

import copy
import json
from typing import Any

import torch
from torch import Tensor
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLModel
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLMLP, Qwen2MLP, apply_rotary_pos_emb

from varsdoc.errors import ConfigError
from varsdoc.model.attention import IMPLEMENTATION, TokenLayout, repeat_heads
from varsdoc.model.onednn import FeedForward, use_onednn
from varsdoc.model.processor import PageBatch, QueryBatch
from varsdoc.model.vision import encode_patches

Rotary = tuple[Tensor, Tensor]


class VisionFeedForward(FeedForward, Qwen2_5_VLMLP):
    """Of the vision tower."""


class TextFeedForward(FeedForward, Qwen2MLP):
    """Of the language model."""


def build(config: Qwen2_5_VLConfig) -> Qwen2_5_VLModel:
    """A backbone with fresh weights whose attention is ours.

    It gets a copy of the config: transformers keeps the choice of attention there, and a model that shares it would
    switch ours off without a word.
    """
    model = Qwen2_5_VLModel._from_config(copy.deepcopy(config), attn_implementation=IMPLEMENTATION, dtype=torch.float32)
    gated = ((config.vision_config, Qwen2_5_VLMLP, VisionFeedForward), (config.text_config, Qwen2MLP, TextFeedForward))
    use_onednn(model, {stock: ours for part, stock, ours in gated if part.hidden_act == "silu"})
    return model


def config_json(config: Qwen2_5_VLConfig) -> str:
    """config.json as transformers writes it, without what depends on its version or on this machine."""
    content = json.loads(config.to_json_string())
    for part in (content, content.get("text_config", {}), content.get("vision_config", {})):
        for volatile in ("transformers_version", "dtype", "_name_or_path"):
            part.pop(volatile, None)
    return json.dumps(content, indent=2, sort_keys=True) + "\n"


def architecture(config: Qwen2_5_VLConfig) -> dict[str, Any]:
    """What of a backbone's configuration changes an embedding: the same under every version of transformers."""
    text, vision = config.text_config, config.vision_config
    rope = text.rope_parameters or {}
    return {
        "text": {name: getattr(text, name) for name in _TEXT},
        "vision": {name: getattr(vision, name) for name in _VISION},
        "full_attention": list(vision.fullatt_block_indexes),
        "rope": [float(rope.get("rope_theta", 0)), rope.get("rope_type"), list(rope.get("mrope_section") or [])],
        "image_token_id": config.image_token_id,
    }


_TEXT = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "hidden_act",
    "rms_norm_eps",
)
_VISION = (
    "depth",
    "hidden_size",
    "intermediate_size",
    "num_heads",
    "in_channels",
    "patch_size",
    "temporal_patch_size",
    "spatial_merge_size",
    "window_size",
    "out_hidden_size",
    "hidden_act",
)


def qwen_3b(image_token_id: int = 8190) -> Qwen2_5_VLConfig:
    """The shape of Qwen2.5-VL-3B, for estimates and tests; its image token is that of the small tokenizer."""
    return Qwen2_5_VLConfig(
        text_config={
            "vocab_size": 151936,
            "hidden_size": 2048,
            "intermediate_size": 11008,
            "num_hidden_layers": 36,
            "num_attention_heads": 16,
            "num_key_value_heads": 2,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]},
        },
        vision_config={
            "depth": 32,
            "hidden_size": 1280,
            "intermediate_size": 3420,
            "num_heads": 16,
            "out_hidden_size": 2048,
            "fullatt_block_indexes": [7, 15, 23, 31],
            "window_size": 112,
        },
        image_token_id=image_token_id,
    )


class Qwen25VL:
    """A stateless view of a `Qwen2_5_VLModel` in the terms of the paper."""

    def __init__(self, model: Qwen2_5_VLModel) -> None:
        self.model = model
        self.text: Any = model.language_model
        self.blocks: Any = self.text.layers
        self.scale = self.blocks[0].self_attn.scaling
        for part in (self.text, model.visual):
            if part.config._attn_implementation != IMPLEMENTATION:
                raise ConfigError(
                    f"The backbone's attention was switched to {part.config._attn_implementation!r}; "
                    f"switch it back with set_attn_implementation({IMPLEMENTATION!r})."
                )

    def embed_pages(self, batch: PageBatch, mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:
        """Document tokens x_1..x_M: prompt text and image cells. (B, M, hidden)"""
        hidden = self.text.embed_tokens(batch.input_ids)
        cells = encode_patches(self.model.visual, batch.pixels, batch.grids, mean, std)
        where = (batch.input_ids == self.model.config.image_token_id)[..., None]
        return hidden.masked_scatter(where.expand_as(hidden), cells.to(hidden.dtype))

    def embed_queries(self, batch: QueryBatch) -> Tensor:
        return self.text.embed_tokens(batch.input_ids)

    def rotary(self, hidden: Tensor, positions: Tensor) -> Rotary:
        return self.text.rotary_emb(hidden, positions)

    def block(
        self, index: int, hidden: Tensor, rotary: Rotary, layout: TokenLayout | None, mask: Tensor | None = None
    ) -> Tensor:
        """A stock block; with a layout it attends through `attention.attend`, without one through the dense mask."""
        return self.blocks[index](hidden, attention_mask=mask, position_embeddings=rotary, layout=layout)

    def qkv(self, index: int, hidden: Tensor, rotary: Rotary) -> tuple[Tensor, Tensor, Tensor]:
        """The first half of a block: rotated queries and keys, values; (B, heads, S, d) each."""
        attention = self.blocks[index].self_attn
        x = self.blocks[index].input_layernorm(hidden)
        q, k, v = (
            project(x).unflatten(-1, (-1, attention.head_dim)).transpose(1, 2)
            for project in (attention.q_proj, attention.k_proj, attention.v_proj)
        )
        q, k = apply_rotary_pos_emb(q, k, *rotary)
        return q, repeat_heads(k, q.shape[1]), repeat_heads(v, q.shape[1])

    def finish(self, index: int, hidden: Tensor, attended: Tensor) -> Tensor:
        """The second half of a block: output projection, residual, feed-forward. attended (..., heads, S, d)"""
        block = self.blocks[index]
        hidden = hidden + block.self_attn.o_proj(attended.transpose(-3, -2).flatten(-2))
        return hidden + block.mlp(block.post_attention_layernorm(hidden))

    def norm(self, hidden: Tensor) -> Tensor:
        return self.text.norm(hidden)

    def plain(self, hidden: Tensor, positions: Tensor, mask: Tensor) -> Tensor:
        """The stock language model from first block to final norm: for queries, and for pages without a probe."""
        output = self.text(
            inputs_embeds=hidden, position_ids=positions, attention_mask=mask.to(torch.long), use_cache=False
        )
        return output.last_hidden_state
