"""What evaluation asks of a retriever: images and questions in, vectors out.

A single-vector model is the smallest case: one variant of one vector a page, one vector a question; MaxSim is then the
cosine. A multi-vector model has one variant of many vectors; VaRS-Doc has K of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class Identity:
    """What must stand beside every figure made with a retriever."""

    name: str  # the folder's name or the hub id, as it was asked for
    kind: str  # varsdoc, clip, siglip, colpali, ...
    hash: str  # 16 hex digits over weights and every setting that changes an embedding
    variants: int
    token_cap: int | None  # most visual tokens of a page
    dtype: str
    device: str
    note: str = ""  # what a reader must know: "K=1, plain (no probe)", "fresh probes, untrained"

    @property
    def space(self) -> str:
        """The model's place in the embedding cache. Devices share it, precisions do not."""
        return f"{self.kind}-{self.hash}-{self.dtype}"


@dataclass(frozen=True)
class Layout:
    """Where a page's cells are among its vectors, row by row."""

    rows: int
    cols: int
    start: int
    levelled: tuple[int, ...] = ()  # of vectors behind the cells: the cell that each repeats, or -1 (model.levelling)

    def led_back(self, likeness: NDArray[np.float32]) -> NDArray[np.float32]:
        """(..., vectors) -> (..., rows * cols): of each cell the best of its own and of what repeats it."""
        end = self.start + self.rows * self.cols
        cells = likeness[..., self.start : end].copy()
        for i, cell in enumerate(self.levelled):
            if cell >= 0:
                np.maximum(cells[..., cell], likeness[..., end + i], out=cells[..., cell])
        return cells


class Retriever(Protocol):
    """Anything that embeds pages and questions into one space."""

    @property
    def identity(self) -> Identity: ...

    def encode_pages(self, images: Sequence[Any]) -> list[Vectors]:
        """Pillow images -> one (K, M, dim) array each."""

    def encode_queries(self, texts: Sequence[str]) -> list[Vectors]:
        """Questions -> one (T, dim) array each."""
