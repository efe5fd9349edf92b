"""How sure a mean over queries is, and whether two models differ on the same queries. Seeded: the same every time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from varsdoc.errors import InputError

Floats = NDArray[np.float64]
RESAMPLES = 10_000
LEVEL = 0.95
_CHUNK = 4_000_000  # drawn numbers at a time


def bootstrap_interval(
    values: Sequence[float] | Floats, resamples: int = RESAMPLES, level: float = LEVEL, seed: int = 0
) -> tuple[float, float]:
    """Percentile interval of the mean, queries drawn with replacement.

    >>> bootstrap_interval([0.5, 0.5, 0.5])
    (0.5, 0.5)
    """
    means = _resampled_means(np.asarray(values, float), resamples, seed)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _resampled_means(values: Floats, resamples: int, seed: int) -> Floats:
    if not len(values):
        raise InputError("There is no query to resample.")
    random = np.random.default_rng(seed)
    step = max(1, _CHUNK // len(values))
    parts = [
        values[random.integers(0, len(values), (min(step, resamples - start), len(values)))].mean(1)
        for start in range(0, resamples, step)
    ]
    return np.concatenate(parts)


@dataclass(frozen=True)
class Paired:
    """Two models on the same queries: a minus b."""

    difference: float
    low: float
    high: float
    p_value: float  # two-sided, sign-flip randomisation
    wins: int
    losses: int
    ties: int
    queries: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def paired_test(
    a: Sequence[float] | Floats, b: Sequence[float] | Floats, resamples: int = RESAMPLES, seed: int = 0
) -> Paired:
    """Mean difference with its bootstrap interval, and a randomisation test: were a and b exchangeable per query?

    The p-value counts the observed labelling as one of the draws, so it is never 0.
    """
    first, second = np.asarray(a, float), np.asarray(b, float)
    if first.shape != second.shape or not len(first):
        raise InputError(f"A paired test needs the same queries: {len(first)} against {len(second)}.")
    difference = first - second
    low, high = bootstrap_interval(difference, resamples, seed=seed)
    return Paired(
        float(difference.mean()),
        low,
        high,
        _sign_flip(difference, resamples, seed),
        int((difference > 0).sum()),
        int((difference < 0).sum()),
        int((difference == 0).sum()),
        len(difference),
    )


def _sign_flip(difference: Floats, resamples: int, seed: int) -> float:
    moved = difference[difference != 0]  # a tie is a tie under either sign
    if not len(moved):
        return 1.0
    observed = abs(moved.sum())
    random = np.random.default_rng(seed)
    step = max(1, _CHUNK // len(moved))
    extreme = 0
    for start in range(0, resamples, step):
        signs = random.integers(0, 2, (min(step, resamples - start), len(moved))) * 2 - 1
        # A hair of slack: sums of the same numbers in another order differ in the last bits.
        extreme += int((np.abs((signs * moved).sum(1)) >= observed - 1e-12 * (1 + observed)).sum())
    return (extreme + 1) / (resamples + 1)
