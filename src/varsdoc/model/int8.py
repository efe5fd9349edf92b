"""The int8 option on CPU: int8 weights per output channel, activations of two int8 digits per token.

torch's own `quantize_dynamic` scales activations per tensor, so that the pages of a batch change each other's results.
Here every token has its own scale: batching changes nothing. Heads, norms, softmax and embeddings stay in float32.

One byte is too coarse for an activation. Single cells and query tokens tip over whichever layers stay in float32, and
which ones do changes with every checkpoint (cosines to float32 down to 0.9936; the bound is 0.999). So an activation
has a second byte for what the first leaves over: two exact products instead of one, on any checkpoint as good as
float32, in a quarter of the memory and, on two cores, a twentieth less time for a page (encode_cpu.json).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

# Rows at a time: what is quantised, multiplied and scaled back stays in the cache of a core.
ROWS = 512
REST = 2 * 127  # steps of the second digit in one of the first, which rounding leaves within half a step


def quantise_rows(weight: Tensor) -> tuple[Tensor, Tensor]:
    """A matrix as int8 with one scale per row: weight ~ values * scale.

    >>> values, scale = quantise_rows(torch.tensor([[1.0, -2.0], [0.0, 0.0]]))
    >>> values
    tensor([[  64, -127],
            [   0,    0]], dtype=torch.int8)
    >>> (values * scale).round(decimals=2)
    tensor([[ 1.0100, -2.0000],
            [ 0.0000,  0.0000]])
    """
    scale = weight.float().abs().amax(-1, keepdim=True).clamp_min(1e-12) / 127
    return (weight.float() / scale).round().clamp(-127, 127).to(torch.int8), scale


class Int8Linear(nn.Module):
    """A frozen `nn.Linear` in int8 arithmetic, float32 in and out."""

    weight: Tensor
    scale: Tensor
    bias: Tensor | None

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        values, scale = quantise_rows(linear.weight.detach())
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.register_buffer("weight", values.t().contiguous())  # (in, out)
        self.register_buffer("scale", scale.view(-1))
        self.register_buffer("bias", None if linear.bias is None else linear.bias.detach().float())

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, self.in_features)
        out = rows.new_empty(len(rows), self.out_features)
        for start in range(0, len(rows), ROWS):
            self._rows(rows[start : start + ROWS], out[start : start + ROWS])
        return out.view(*x.shape[:-1], self.out_features)

    def _rows(self, x: Tensor, out: Tensor) -> None:
        # Two passes, and still 14 times faster than vector_norm(inf) or aminmax, which are not vectorised here.
        scale = x.abs().amax(-1, keepdim=True).clamp_min_(1e-12).div_(127)
        scaled = x / scale
        first = scaled.round()
        second = scaled.sub_(first).mul_(REST).round_()
        torch.mul(torch._int_mm(second.to(torch.int8), self.weight), 1 / REST, out=out)  # int32 products are exact
        out.add_(torch._int_mm(first.to(torch.int8), self.weight)).mul_(scale).mul_(self.scale)
        if self.bias is not None:
            out.add_(self.bias)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, int8"


def to_int8(module: nn.Module) -> None:
    """Replace every `nn.Linear` below a module, in place."""
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, Int8Linear(child))
        else:
            to_int8(child)
