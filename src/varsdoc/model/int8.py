"""The int8 option on CPU: matrices as int8 with one scale per output channel, a quarter of the memory.

A matrix is made float32 for the moment it is needed, which costs a hundredth of a page's product and nothing that shows
for a question, and the product is float32's own, through oneDNN where that is quicker (onednn.py). So results are
those of the rounded matrices in float32, whatever stands beside a page in its batch. Activations of one byte were too
coarse (cosines to float32 down to 0.9936, at other tokens with every checkpoint), and int8 products of two bytes no
quicker than oneDNN's float32. Heads, norms and embeddings stay in float32.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from varsdoc.model import onednn


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
        product = onednn.linear if onednn.suits(x) else F.linear
        return product(x, self.float_matrix(), self.bias)

    def float_matrix(self) -> Tensor:
        return self.weight * self.scale

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, int8"


def to_int8(module: nn.Module) -> None:
    """Replace every `nn.Linear` below a module, in place."""
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, Int8Linear(child))
        else:
            to_int8(child)
