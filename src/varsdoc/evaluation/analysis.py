"""Which readings are used: counted on (query, gold page) pairs, as in the paper.

usage          share of pairs that each variant wins (argmax; the first of equals)
max_usage      the largest of these: near 1 is collapse onto one branch
tie_rate       share of pairs whose two best variants lie within 0.01 on sums
tie_rate_mean  the same on sum / query tokens
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from varsdoc.errors import InputError

TIE = 0.01
GAP_BINS = 30

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Usage:
    """What the variants of a model did on a judged set."""

    usage: list[float]
    tie_rate: float
    tie_rate_mean: float
    gaps: Floats  # (pairs,) best minus second-best variant, on sums; empty with one variant
    winners: NDArray[np.int64]  # (pairs,)
    pages: list[str]  # the gold page of each pair

    @property
    def max_usage(self) -> float:
        return max(self.usage)

    def histogram(self, bins: int = GAP_BINS) -> dict[str, list[float]]:
        """Counts of score gaps; the last bin ends at the largest gap."""
        if not len(self.gaps):
            return {"edges": [], "counts": []}
        counts, edges = np.histogram(self.gaps, bins=bins, range=(0.0, max(float(self.gaps.max()), 1e-6)))
        return {"edges": [float(x) for x in edges], "counts": [int(x) for x in counts]}

    def documents(self) -> list[dict[str, Any]]:
        """Per gold page: how often each variant won, most contested pages first."""
        table: dict[str, list[int]] = {}
        for page, winner in zip(self.pages, self.winners, strict=True):
            table.setdefault(page, [0] * len(self.usage))[winner] += 1
        rows = [
            {"page": page, "queries": sum(wins), "wins": wins, "variants_used": sum(w > 0 for w in wins)}
            for page, wins in table.items()
        ]
        return sorted(rows, key=lambda row: (-row["variants_used"], -row["queries"], row["page"]))


def variant_usage(own: NDArray[Any], query_tokens: Sequence[int] | NDArray[Any], pages: Sequence[str]) -> Usage:
    """From the variants' scores on gold pages.

    own           (pairs, K) sums
    query_tokens  (pairs,)
    pages         (pairs,) ids of the gold pages

    Three pairs; the second is a tie, won by the first of equals.

    >>> found = variant_usage(np.array([[1.0, 2.0], [3.0, 3.0], [5.0, 4.0]]), [10, 10, 10], ["a", "b", "a"])
    >>> [round(share, 2) for share in found.usage], round(found.tie_rate, 2), found.gaps.tolist()
    ([0.67, 0.33], 0.33, [1.0, 0.0, 1.0])
    """
    scores = np.asarray(own, np.float64)
    if scores.ndim != 2 or not len(scores):
        raise InputError(f"Usage is counted on pairs of a query and its page, and there are {len(scores)}.")
    winners = scores.argmax(1)
    shares = np.bincount(winners, minlength=scores.shape[1]) / len(scores)
    if scores.shape[1] == 1:
        empty = np.zeros(0)
        return Usage(shares.tolist(), 0.0, 0.0, empty, winners, list(pages))
    best = np.sort(scores, axis=1)[:, ::-1]
    gaps = best[:, 0] - best[:, 1]
    tokens = np.asarray(query_tokens, np.float64)
    tied, tied_mean = gaps <= TIE, gaps / tokens <= TIE
    return Usage(shares.tolist(), float(tied.mean()), float(tied_mean.mean()), gaps, winners, list(pages))
