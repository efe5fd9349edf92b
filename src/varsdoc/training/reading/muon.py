"""Muon over many small matrices: equal shapes are orthogonalised together.

`torch.optim.Muon` goes matrix by matrix, some two thousand kernel launches for a model of a hundred small matrices:
30 ms of a 260 ms step on an H200. The arithmetic is the same here in one batched product per shape (tested equal).
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
STEPS = 5
EPSILON = 1e-7


class BatchedMuon:
    """Nesterov momentum, Newton-Schulz in bfloat16, decoupled decay, the update's size matched to AdamW's."""

    def __init__(
        self, matrices: Iterable[nn.Parameter], lr: float, weight_decay: float, momentum: float = 0.95
    ) -> None:
        groups: dict[torch.Size, list[nn.Parameter]] = {}
        for matrix in matrices:
            groups.setdefault(matrix.shape, []).append(matrix)
        self.groups = list(groups.values())
        self.momenta = [torch.zeros(len(group), *group[0].shape, device=group[0].device) for group in self.groups]
        self.param_groups = [{"lr": lr}]
        self.weight_decay, self.momentum = weight_decay, momentum

    @torch.no_grad()
    def step(self) -> None:
        lr = self.param_groups[0]["lr"]
        for group, momentum in zip(self.groups, self.momenta, strict=True):
            grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in group]
            grad = torch.stack(grads)  # (n, rows, cols)
            momentum.lerp_(grad, 1 - self.momentum)
            update = orthogonal(grad.lerp_(momentum, self.momentum))
            size = lr * 0.2 * max(update.shape[1:]) ** 0.5
            held: list[Tensor] = list(group)
            torch._foreach_mul_(held, 1 - lr * self.weight_decay)
            torch._foreach_add_(held, list(update.to(group[0].dtype).unbind()), alpha=-size)


def orthogonal(matrices: Tensor) -> Tensor:
    """Nearly the orthogonal factor of each matrix (n, rows, cols), by five Newton-Schulz iterations in bfloat16."""
    a, b, c = COEFFICIENTS
    x = matrices.bfloat16()
    tall = x.shape[1] > x.shape[2]
    if tall:
        x = x.transpose(1, 2)
    x = x / x.flatten(1).norm(dim=1).clamp(min=EPSILON)[:, None, None]
    for _ in range(STEPS):
        gram = x @ x.transpose(1, 2)
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.transpose(1, 2) if tall else x
