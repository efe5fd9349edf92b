"""Pages of earlier steps that stay as wrong answers: four times as many to be told apart for a tenth of the time.

A step holds some sixty pages, a collection thousands; a word that beats sixty wrong pages loses to the next thousand.
Encoding is what costs, so the vectors of the last few steps are kept, without their gradients, and every word and query
of a step is ranked against them too. The weights move little in a few steps (cross-batch memory, Wang et al. 2020).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from varsdoc.training.scoring import score_all

Part = tuple[Tensor, Tensor]  # vectors (P, K, M, d) and mask (P, M) of some pages


def fused_part(vectors: Tensor, mask: Tensor) -> Part:
    """All variants' cells as one reading: (P, K, M, d) -> (P, 1, K * M, d)."""
    return vectors.flatten(1, 2)[:, None], mask.repeat(1, vectors.shape[1])


@dataclass(frozen=True)
class Ranked:
    """Pages against which a step ranks, and what is known of them."""

    vectors: Tensor  # (P, K, M, d)
    mask: Tensor  # (P, M)
    page: Tensor  # (P,) equal numbers are the same page
    present: Tensor  # (P, BITS / 8): which words it prints
    texts: Tensor  # (P, queries) numbers of the queries that it was asked

    def detach(self) -> Ranked:
        return Ranked(self.vectors.detach(), self.mask, self.page, self.present, self.texts)

    @property
    def each(self) -> Part:
        """Its variants, each a reading of its own."""
        return self.vectors, self.mask

    @property
    def fused(self) -> Part:
        """All variants' cells as one reading."""
        return fused_part(self.vectors, self.mask)


class Bank:
    """The pages of the last `steps` steps."""

    def __init__(self, steps: int) -> None:
        self.kept: deque[Ranked] = deque(maxlen=steps)

    def __iter__(self) -> Iterator[Ranked]:
        return iter(self.kept)

    def add(self, pages: Ranked) -> None:
        if self.kept.maxlen:
            self.kept.append(pages.detach())


def score_parts(queries: Tensor, mask: Tensor, parts: Iterable[Part]) -> Tensor:
    """`score_all` over the pages of all parts: (Q, T, d) -> (Q, P, K)."""
    return torch.cat([score_all(queries, mask, *part) for part in parts], 1)
