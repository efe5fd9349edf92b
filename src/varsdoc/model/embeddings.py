"""What encoding gives, and how a list of pages is cut into batches."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from tqdm import tqdm


@dataclass(frozen=True, eq=False)
class PageEmbedding:
    """One encoded page: K variants of M vectors, and where its image cells are among them.

    Behind the cells there may be others that repeat turned print, level (model.levelling).
    """

    variants: Tensor  # (K, M, dim), unit length
    grid: tuple[int, int]  # rows and columns of cells
    image_start: int
    levelled: tuple[int, ...] = ()  # of the cells that follow the page's: the cell that each repeats, or -1

    @property
    def cells(self) -> Tensor:
        """The image cells alone, row by row: (K, rows * cols, dim)."""
        return self.variants[:, self.image_start : self.image_start + self.grid[0] * self.grid[1]]


@dataclass(frozen=True)
class Encoded:
    """Embeddings of a padded batch with their true mask: pages (B, K, M, dim), queries (B, T, dim); padding is 0."""

    vectors: Tensor
    mask: Tensor  # (B, M) or (B, T) bool


def group_by_size(sizes: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Batches of indices: like sizes together, the padded size of a batch within the budget where one item allows it.

    >>> list(group_by_size([3, 9, 3, 4], budget=8))
    [[0, 2], [3], [1]]
    """
    group: list[int] = []
    for i in sorted(range(len(sizes)), key=sizes.__getitem__):
        if group and sizes[i] * (len(group) + 1) > budget:
            yield group
            group = []
        group.append(i)
    if group:
        yield group


def progress_bar(total: int | None, unit: str, progress: bool | None) -> Any:
    wanted = (sys.stderr.isatty() and (total is None or total > 8)) if progress is None else progress
    return tqdm(total=total, unit=unit, desc=f"encoding {'pages' if unit == 'page' else 'queries'}", disable=not wanted)
