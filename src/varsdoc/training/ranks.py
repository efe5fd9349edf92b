"""What ranks exchange: pages with their gradient, sums with their gradient, small facts without.

Every rank scores its own queries against the pages of all ranks. The gradient that another rank's loss has for our
pages must come back to us: plain `all_gather` drops it without a word. Without a process group everything here is the
identity, so one process takes the same code path.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional as F


def world_size() -> int:
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    return dist.get_rank() if world_size() > 1 else 0


def leave() -> None:
    """Close the process group. Left open, its threads can abort a process that has done its work (seen with gloo)."""
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()


def sum_over_ranks(x: Tensor) -> Tensor:
    """The sum of a tensor over all ranks, with gradient."""
    return _Sum.apply(x) if world_size() > 1 else x


def gather_rows(x: Tensor) -> Tensor:
    """Rows of all ranks, in rank order, with gradient. Ranks may differ in every size: shorter ones are padded with 0
    along all but the first axis.
    """
    if world_size() == 1:
        return x
    shapes = _shapes(x)
    widest = shapes.amax(0)
    missing = [int(want) - have for have, want in zip(x.shape, widest, strict=True)]
    padded = F.pad(x, [n for more in reversed(missing) for n in (0, more)])
    everything = _Gather.apply(padded) if x.is_floating_point() else _all_gather(padded)
    return torch.cat([part[:rows] for part, rows in zip(everything, shapes[:, 0].tolist(), strict=True)])


def rows_before(x: Tensor) -> int:
    """How many rows the ranks before this one hold."""
    return 0 if world_size() == 1 else int(_shapes(x)[: rank(), 0].sum())


def _shapes(x: Tensor) -> Tensor:
    return _all_gather(torch.tensor(x.shape, device=x.device)).cpu()


def _all_gather(x: Tensor) -> Tensor:
    parts = [torch.empty_like(x) for _ in range(world_size())]
    dist.all_gather(parts, x.contiguous())
    return torch.stack(parts)


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return _all_gather(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        total = grads[0].contiguous().clone()
        dist.all_reduce(total)
        return total[rank()]


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        total = x.detach().clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        total = grads[0].contiguous().clone()
        dist.all_reduce(total)
        return total
