"""Weights laid out for large matrix products: q, k and v side by side, gate and up side by side, rows aligned.

Qwen2.5-VL's vision tower has a feed-forward width of 3,420 and patches of 588 numbers: rows of bfloat16 that are no
multiple of 16 bytes, which the tensor cores' fast paths refuse. Here both are padded with zeros to a multiple of 64; a
zero row of gate and up gives silu(0) * 0 = 0, so nothing changes. These are copies: the model's own parameters stay.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

ALIGN = 64


class VisionBlock(NamedTuple):
    norm_in: Tensor
    qkv: Tensor
    qkv_bias: Tensor
    out: Tensor
    out_bias: Tensor
    norm_out: Tensor
    gate_up: Tensor
    gate_up_bias: Tensor
    down: Tensor
    down_bias: Tensor


class LanguageBlock(NamedTuple):
    norm_in: Tensor
    qkv: Tensor
    qkv_bias: Tensor
    out: Tensor
    norm_out: Tensor
    gate_up: Tensor
    down: Tensor


def patch_embedding(visual: Any) -> Tensor:
    """(hidden, numbers of a patch, aligned). A still image repeats itself in time: the kernel is summed over time."""
    weight = visual.patch_embed.proj.weight.detach().sum(2).flatten(1)
    return _columns(weight)


def vision_block(block: Any) -> VisionBlock:
    attention, mlp = block.attn, block.mlp
    gate_up = torch.cat([_rows(layer.weight.detach()) for layer in (mlp.gate_proj, mlp.up_proj)])
    bias = torch.cat([_rows(layer.bias.detach()) for layer in (mlp.gate_proj, mlp.up_proj)])
    return VisionBlock(
        block.norm1.weight.detach(),
        attention.qkv.weight.detach(),
        attention.qkv.bias.detach(),
        attention.proj.weight.detach(),
        attention.proj.bias.detach(),
        block.norm2.weight.detach(),
        gate_up,
        bias,
        _columns(mlp.down_proj.weight.detach()),
        mlp.down_proj.bias.detach(),
    )


def language_block(block: Any) -> LanguageBlock:
    attention, mlp = block.self_attn, block.mlp
    parts = (attention.q_proj, attention.k_proj, attention.v_proj)
    return LanguageBlock(
        block.input_layernorm.weight.detach(),
        torch.cat([part.weight.detach() for part in parts]),
        torch.cat([part.bias.detach() for part in parts]),
        attention.o_proj.weight.detach(),
        block.post_attention_layernorm.weight.detach(),
        torch.cat([_rows(layer.weight.detach()) for layer in (mlp.gate_proj, mlp.up_proj)]),
        _columns(mlp.down_proj.weight.detach()),
    )


def _rows(x: Tensor) -> Tensor:
    """Zeros at the end of the first dimension."""
    return F.pad(x, (0, 0) * (x.ndim - 1) + (0, -len(x) % ALIGN))


def _columns(x: Tensor) -> Tensor:
    return F.pad(x, (0, -x.shape[1] % ALIGN))
