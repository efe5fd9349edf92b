"""What stands between two attentions, as functions of tensors alone.

Weights come as arguments, so one compiled piece serves all blocks of its tower, and the number of rows is the only size
that changes: `torch.compile` sees it twice and then keeps it open. Widths are marked as fixed (`Compiled`), or a second
model of other widths in the same process would leave them open too, and kernels for any width are slower. For the same
reason no piece takes a whole number: head counts are read off weights and rotations. Attention itself stays outside, in
torch's fused kernels. Every formula is transformers' own (modeling_qwen2_5_vl), in its order of rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from varsdoc.model.fast.weights import LanguageBlock, VisionBlock

VISION_EPSILON = 1e-6


def rms(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    y = x.float()
    return weight * (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + epsilon)).to(x.dtype)


def _turn(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


def embed_patches(pixels: Tensor, weight: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """uint8 patches (N, 3 * patch * patch) -> (N, hidden)."""
    values = ((pixels.unflatten(1, (3, -1)).float() / 255 - mean) / std).flatten(1).to(weight.dtype)
    return F.linear(F.pad(values, (0, weight.shape[1] - values.shape[1])), weight)


def vision_in(x: Tensor, w: VisionBlock, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(N, hidden) -> queries, keys, values (N, heads, d)."""
    all_three = F.linear(rms(x, w.norm_in, VISION_EPSILON), w.qkv, w.qkv_bias)
    q, k, v = all_three.unflatten(-1, (3, -1, cos.shape[-1])).unbind(-3)
    return _turn(q.float(), cos, sin).to(x.dtype), _turn(k.float(), cos, sin).to(x.dtype), v


def vision_out(x: Tensor, attended: Tensor, w: VisionBlock) -> Tensor:
    x = x + F.linear(attended, w.out, w.out_bias)
    gate, up = F.linear(rms(x, w.norm_out, VISION_EPSILON), w.gate_up, w.gate_up_bias).chunk(2, -1)
    return x + F.linear(F.silu(gate) * up, w.down, w.down_bias)


def language_in(x: Tensor, w: LanguageBlock, cos: Tensor, sin: Tensor, epsilon: float) -> tuple[Tensor, Tensor, Tensor]:
    """(..., N, hidden) -> queries (..., N, heads, d), keys and values (..., N, kv heads, d)."""
    width = cos.shape[-1]
    both = F.linear(rms(x, w.norm_in, epsilon), w.qkv, w.qkv_bias).unflatten(-1, (-1, width))
    heads = w.out.shape[1] // width
    kv = (both.shape[-2] - heads) // 2
    q, k, v = both.split([heads, kv, kv], -2)
    return _turn(q, cos, sin), _turn(k, cos, sin), v


def language_out(x: Tensor, attended: Tensor, w: LanguageBlock, epsilon: float) -> Tensor:
    x = x + F.linear(attended, w.out)
    gate, up = F.linear(rms(x, w.norm_out, epsilon), w.gate_up).chunk(2, -1)
    return x + F.linear(F.silu(gate) * up, w.down)


def merge_own(out: Tensor, lse: Tensor, q: Tensor, own_k: Tensor, own_v: Tensor, scale: float) -> Tensor:
    """`attention.merge_keys` with the logits of a few own keys: out and q (B, heads, S, d), own (B, heads, P, d)."""
    logits = (q.float().unsqueeze(-2) * own_k.float().unsqueeze(-3)).sum(-1) * scale  # (B, heads, S, P)
    total = torch.logaddexp(lse, logits.logsumexp(-1))
    kept = torch.exp(lse - total).unsqueeze(-1) * out.float()
    added = (torch.exp(logits - total.unsqueeze(-1)).unsqueeze(-1) * own_v.float().unsqueeze(-3)).sum(-2)
    return (kept + added).to(out.dtype)


def project(x: Tensor, norm: Tensor, weight: Tensor, bias: Tensor, epsilon: float) -> Tensor:
    """Final norm and heads: (K, N, hidden), weight (K, dim, hidden), bias (K, dim) -> unit vectors (K, N, dim)."""
    vectors = torch.baddbmm(bias.unsqueeze(1), rms(x, norm, epsilon), weight.mT)
    return F.normalize(vectors.float(), dim=-1, eps=1e-12)


class Compiled:
    """A piece, compiled; of some arguments, dimensions that a model's shape fixes."""

    def __init__(self, piece: Callable[..., Any], backend: str, fixed: dict[int, tuple[int, ...]]) -> None:
        self._run = torch.compile(piece, backend=backend)
        self._fixed = fixed

    def __call__(self, *arguments: Any) -> Any:
        for i, dims in self._fixed.items():
            for dim in dims:
                torch._dynamo.mark_static(arguments[i], dim % arguments[i].ndim)
        return self._run(*arguments)


def fix(weights: Iterable[Tensor]) -> None:
    """Shapes of weights are no reason to leave a size open."""
    for weight in weights:
        torch._dynamo.mark_static(weight)
