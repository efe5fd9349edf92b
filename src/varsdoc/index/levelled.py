"""Cells below a page that repeat its turned print (model.levelling): kept as bytes, and led back to where it stands.

What fits such a cell fits the print that it repeats. So regions, heatmaps and explanations look at similarities in
which each cell of the page has the best of its own and of those that repeat it; the maximum over all cells, which is
the score, stays the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_NUMBER = np.dtype("<i4")


def to_bytes(levelled: Sequence[int]) -> bytes | None:
    """Nothing where the page has no such cells."""
    return np.asarray(levelled, _NUMBER).tobytes() if len(levelled) else None


def count(levelled: bytes) -> int:
    """How many such cells a page has."""
    return len(levelled) // _NUMBER.itemsize


def led_back(similarity: np.ndarray, levelled: bytes, start: int, cells: int) -> np.ndarray:
    """(T, M), with the page's `cells` from `start` on raised to those behind them that repeat them.

    >>> led_back(np.array([[0.0, 0.3, 0.1, 0.9, 0.4]]), to_bytes([1, -1]), 1, 2).tolist()
    [[0.0, 0.3, 0.9, 0.9, 0.4]]
    """
    if not levelled:
        return similarity
    repeated = np.frombuffer(levelled, _NUMBER)
    below = np.flatnonzero(repeated >= 0)
    raised = similarity.copy()
    np.maximum.at(raised.T, start + repeated[below], similarity.T[start + cells + below])
    return raised
