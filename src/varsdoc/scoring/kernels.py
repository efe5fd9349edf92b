"""Block kernels: packed codes of some pages against queries, the best token of each variant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from varsdoc.errors import InputError
from varsdoc.scoring.codes import unpack

if TYPE_CHECKING:
    from varsdoc.scoring.packed import PackedPages

BLOCK = 4096  # vectors unpacked at a time


@dataclass(frozen=True)
class PackedQueries:
    """All queries' tokens side by side."""

    flat: Tensor  # (all tokens, D) float32
    lengths: list[int]

    @classmethod
    def of(cls, queries: Sequence[np.ndarray], dim: int, codec: str) -> PackedQueries:
        arrays = [np.asarray(query, np.float32) for query in queries]
        for i, query in enumerate(arrays):
            if query.ndim != 2 or query.shape[1] != dim or not len(query):
                raise InputError(f"query {i} has shape {query.shape}; give (tokens, {dim}) with at least one token.")
            if not np.isfinite(query).all():
                raise InputError(f"query {i} has numbers that are not finite; encode it again, in float32.")
        return cls(torch.from_numpy(np.concatenate(arrays)), [len(query) for query in arrays])


def best_tokens(
    queries: PackedQueries, pages: PackedPages, rows: np.ndarray, fused: bool, threads: int | None
) -> tuple[Tensor, Tensor | None]:
    """Sums of maxima: variants (Q, rows, K), and fused (Q, rows) where wanted."""
    variants = torch.empty(len(queries.lengths), len(rows), pages.variants)
    together = torch.empty(len(queries.lengths), len(rows))
    for i, row in enumerate(rows):
        vectors = torch.from_numpy(unpack(pages.blob(int(row))))  # (K, M, D)
        best = (vectors @ queries.flat.T).amax(1)  # (K, tokens)
        for q, part in enumerate(best.split(queries.lengths, dim=1)):
            variants[q, i] = part.sum(1)
            together[q, i] = part.amax(0).sum()
    return variants, together
