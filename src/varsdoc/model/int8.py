"""The int8 option on CPU: int8 weights per output channel, a quarter of the memory, and float32's results.

One byte is too coarse for an activation. Single cells and query tokens tip over whichever layers stay in float32, and
which ones do changes with every checkpoint (cosines to float32 down to 0.9936; the bound is 0.999). So:
- Many rows (a page): the matrix is made float32 for the moment it is needed, which costs a hundredth of its product,
  and the product is float32's own, through oneDNN where that is quicker (onednn.py).
- Few rows (a question): making the matrix float32 would cost as much as the product. The product is int8's, and an
  activation has two int8 digits with a scale of its token: exact to fifteen bits, whatever stands beside it.
  (torch's `quantize_dynamic` has one scale per tensor, so that neighbours in a batch change each other.)
Heads, norms, softmax and embeddings stay in float32.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from varsdoc.model import onednn

FEW = 64
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
    """A frozen `nn.Linear` whose matrix is int8, float32 in and out."""

    weight: Tensor
    scale: Tensor
    bias: Tensor | None

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        values, scale = quantise_rows(linear.weight.detach())
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.register_buffer("weight", values)  # (out, in)
        self.register_buffer("scale", scale)  # (out, 1)
        self.register_buffer("bias", None if linear.bias is None else linear.bias.detach().float())

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, self.in_features)
        out = self._few(rows) if len(rows) <= FEW else self._many(rows)
        return out.view(*x.shape[:-1], self.out_features)

    def float_matrix(self) -> Tensor:
        return self.weight * self.scale

    def _many(self, x: Tensor) -> Tensor:
        product = onednn.linear if onednn.suits(x) else F.linear
        return product(x, self.float_matrix(), self.bias)

    def _few(self, x: Tensor) -> Tensor:
        scale = x.abs().amax(-1, keepdim=True).clamp_min_(1e-12).div_(127)
        scaled = x / scale
        first = scaled.round()
        second = scaled.sub_(first).mul_(REST).round_()
        matrix = self.weight.t()
        out = torch._int_mm(second.to(torch.int8), matrix) / REST  # int32 products are exact
        out.add_(torch._int_mm(first.to(torch.int8), matrix)).mul_(scale).mul_(self.scale.view(-1))
        return out if self.bias is None else out.add_(self.bias)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, int8"


def to_int8(module: nn.Module) -> None:
    """Replace every `nn.Linear` below a module, in place."""
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, Int8Linear(child))
        else:
            to_int8(child)
