"""Float32 on a CPU through oneDNN, which is where torch leaves most of a processor unused.

torch multiplies float32 matrices with MKL, and MKL uses half the vector width on processors that are not Intel's: 220
GFLOP/s where oneDNN, which is in the same torch, reaches 500 (two cores of an AMD EPYC with AVX-512;
benchmarks/encode_cpu.py times both). So three things of a backbone ask oneDNN where
no gradient is wanted:
- every `nn.Linear`;
- a feed-forward, with its activation and its product inside oneDNN's own products, some rows at a time, which then
  stay in the cache;
- full attention over a long page, written out as its two products, again some rows at a time.
Elsewhere (training, another dtype or device, a processor without AVX-512, a torch without oneDNN) everything is torch's
own. The same sums in float32 in another order: equal within rounding (tests/model/test_onednn.py).
"""

from __future__ import annotations

import os
import platform
from functools import lru_cache
from typing import Any

# oneDNN and its wrapper in torch each keep what they made ready for up to 1,024 shapes, half a megabyte a shape, and
# pages and questions have many: hundreds of megabytes in a server. 64 are as quick. Both are read at the first product.
for _name in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
    os.environ.setdefault(_name, "64")

import torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

# Rows at a time, so that what stands between two products stays in the cache.
ATTENTION_ROWS = 128
FEED_FORWARD_ROWS = 512
# Shorter runs are quicker in torch's own attention.
LONG = 2048


@lru_cache(maxsize=1)
def available() -> bool:
    """Whether this processor and this torch have what it takes."""
    return (
        platform.machine().lower() in ("x86_64", "amd64")
        and torch.backends.mkldnn.is_available()
        and torch.backends.cpu.get_cpu_capability() == "AVX512"
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )


def suits(x: Tensor) -> bool:
    """Whether a product with x may go this way: oneDNN's operators have no gradient, and a compiler does better."""
    if torch.is_grad_enabled() or torch.compiler.is_compiling() or torch.jit.is_tracing():
        return False
    if torch.is_autocast_enabled("cpu"):
        return False
    return x.dtype == torch.float32 and x.device.type == "cpu" and available()


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, activation: str = "none") -> Tensor:
    """`F.linear`, and an activation in oneDNN's words. `suits` must be asked before."""
    out: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, _dense(bias), activation, [], "")
    return out


def _dense(bias: Tensor | None) -> Tensor | None:
    return None if bias is None else bias.contiguous()  # oneDNN's operators read one with strides wrongly


class OneDnnLinear(nn.Linear):
    """An `nn.Linear` with its own parameters, names and gradients, quicker where no gradient is wanted."""

    def forward(self, x: Tensor) -> Tensor:
        if suits(x) and self.weight.dtype == torch.float32:
            return linear(x, self.weight, self.bias)
        return F.linear(x, self.weight, self.bias)

    def float_matrix(self) -> Tensor | None:
        return self.weight if self.weight.dtype == torch.float32 else None


class FeedForward(nn.Module):
    """Mixed into a gated feed-forward of transformers, down(silu(gate(x)) * up(x)), with its parameters and names.

    Its three layers are taken as matrices where they say how (`float_matrix`: `OneDnnLinear`, `int8.Int8Linear`). With
    anything else, a LoRA layer or one with hooks say, the stock forward runs.
    """

    def forward(self, x: Tensor) -> Tensor:
        if suits(x) and x.numel() >= FEED_FORWARD_ROWS * x.shape[-1]:
            layers = [_matrix_and_bias(layer) for layer in (self.gate_proj, self.up_proj, self.down_proj)]
            if None not in layers:
                rows = x.reshape(-1, x.shape[-1]).split(FEED_FORWARD_ROWS)
                return torch.cat([_feed_forward(part, *layers) for part in rows]).view(x.shape)  # type: ignore[arg-type]
        return super().forward(x)


Layer = tuple[Tensor, Tensor | None]


def _matrix_and_bias(layer: Any) -> Layer | None:
    hooked = layer._forward_hooks or layer._forward_pre_hooks or "forward" in vars(layer)
    matrix = layer.float_matrix() if hasattr(layer, "float_matrix") and not hooked else None
    return None if matrix is None else (matrix, layer.bias)


def _feed_forward(x: Tensor, gate: Layer, up: Layer, down: Layer) -> Tensor:
    matrix, bias = up
    gated = linear(x, *gate, activation="swish")
    inner = torch.ops.mkldnn._linear_pointwise.binary(x, gated, matrix, _dense(bias), "mul")
    return linear(inner, *down)


def use_onednn(module: nn.Module, feed_forwards: dict[type[nn.Module], type[nn.Module]]) -> None:
    """Let what is below a module ask oneDNN first, in place. `feed_forwards`: stock classes and what replaces them."""
    for child in module.modules():
        replaced = OneDnnLinear if type(child) is nn.Linear else feed_forwards.get(type(child))
        if replaced is not None:
            child.__class__ = replaced


def full_attention(q: Tensor, k: Tensor, v: Tensor, scale: float | None) -> Tensor:
    """`F.scaled_dot_product_attention` without a mask of q, k, v (B, heads, S, d), in products if that is quicker."""
    if q.shape[2] < LONG or not suits(q):
        return F.scaled_dot_product_attention(q, k, v, scale=scale)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    out = torch.empty_like(q)
    for b in range(q.shape[0]):
        for head in range(q.shape[1]):
            queries, keys, values = q[b, head].contiguous(), k[b, head] * scale, v[b, head].mT.contiguous()
            parts = (linear(linear(part, keys).softmax(-1), values) for part in queries.split(ATTENTION_ROWS))
            torch.cat([*parts], out=out[b, head])
    return out
