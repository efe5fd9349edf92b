"""Which cell of a page fits a token best, and by how much, without the similarities ever being written to memory.

For training on a GPU: 18,000 tokens against 250 pages of a thousand cells are ten gigabytes of similarities, of which a
maximum and its index are wanted. Held equal to the plain form in `training.scoring` by tests/training/test_scoring.py.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from varsdoc.scoring.fused import INTERPRETED, on

ROWS, CELLS = 128, 64  # of a program's tile: tokens, and cells at a time
OPTIONS: dict[str, Any] = {} if INTERPRETED else {"num_warps": 4, "num_stages": 3}


@triton.jit
def winners_kernel(
    tokens, groups, mask, best, index, count, cells, variants,
    DIM: tl.constexpr, ROWS: tl.constexpr, CELLS: tl.constexpr,
):  # fmt: skip
    """A tile of tokens (count, DIM) against one group (cells, DIM); mask (groups / variants, cells)."""
    group = tl.program_id(1).to(tl.int64)
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    axis = tl.arange(0, DIM)
    row_there = rows < count
    asked = tl.load(tokens + rows[:, None] * DIM + axis[None, :], mask=row_there[:, None], other=0.0)
    top = tl.full((ROWS,), float("-inf"), tl.float32)
    where = tl.zeros((ROWS,), tl.int32)
    for first in range(0, cells, CELLS):
        cell = first + tl.arange(0, CELLS)
        there = cell < cells
        seen = tl.load(mask + (group // variants) * cells + cell, mask=there, other=0)
        place = groups + group * cells * DIM + cell[None, :] * DIM + axis[:, None]
        shown = tl.load(place, mask=there[None, :], other=0.0)
        products = tl.dot(asked, shown)
        products = tl.where((seen != 0)[None, :], products, float("-inf"))
        found, at = tl.max(products, 1, return_indices=True)
        better = found > top
        top = tl.where(better, found, top)
        where = tl.where(better, first + at, where)
    out = group * count + rows
    tl.store(best + out, top, mask=row_there)
    tl.store(index + out, where, mask=row_there)


def winners(tokens: Tensor, pages: Tensor, page_mask: Tensor) -> tuple[Tensor, Tensor]:
    """The best product of every token (N, d) on every page and variant (P, K, M, d), and its cell: (P, K, N) each.

    float32 and int32. page_mask (P, M) is true on real cells; a page without any gives -inf and cell 0.
    """
    (p, k, m, d), n = pages.shape, len(tokens)
    best = torch.empty(p, k, n, dtype=torch.float32, device=tokens.device)
    index = torch.empty(p, k, n, dtype=torch.int32, device=tokens.device)
    seen = page_mask.to(torch.uint8).contiguous()
    grid = (triton.cdiv(n, ROWS), p * k)
    given = (tokens.contiguous(), pages.contiguous(), seen)
    with on(tokens.device):
        winners_kernel[grid](*given, best, index, n, m, k, DIM=d, ROWS=ROWS, CELLS=CELLS, **OPTIONS)
    return best, index
