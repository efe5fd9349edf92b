"""Intervals and tests against scipy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from varsdoc.errors import InputError
from varsdoc.evaluation.statistics import bootstrap_interval, paired_test


def test_bootstrap_interval_agrees_with_scipy(random: np.random.Generator) -> None:
    values = random.beta(0.5, 0.5, 200)
    theirs = stats.bootstrap((values,), np.mean, method="percentile", n_resamples=10_000, rng=1).confidence_interval
    low, high = bootstrap_interval(values)
    assert low == pytest.approx(theirs.low, abs=0.004)
    assert high == pytest.approx(theirs.high, abs=0.004)
    assert bootstrap_interval(values) == (low, high)  # seeded


def test_randomisation_test_agrees_with_the_exact_one(random: np.random.Generator) -> None:
    a, b = random.random(11), random.random(11) + 0.15

    def mean_difference(x: np.ndarray, y: np.ndarray) -> float:
        return float(np.mean(x - y))

    exact = stats.permutation_test((a, b), mean_difference, permutation_type="samples", n_resamples=np.inf).pvalue
    found = paired_test(a, b)
    assert found.p_value == pytest.approx(exact, abs=0.02)
    assert found.difference == pytest.approx((a - b).mean())
    assert found.wins + found.losses + found.ties == 11


def test_no_difference_is_no_evidence() -> None:
    found = paired_test([0.5, 1.0, 0.0], [0.5, 1.0, 0.0])
    assert (found.p_value, found.difference, found.ties) == (1.0, 0.0, 3)


def test_a_clear_difference_is_found_and_its_p_is_never_zero() -> None:
    found = paired_test(np.ones(200), np.zeros(200))
    assert 0 < found.p_value < 0.001
    assert found.low == found.high == 1.0


def test_another_set_of_queries_is_refused() -> None:
    with pytest.raises(InputError, match="same queries: 2 against 3"):
        paired_test([1, 2], [1, 2, 3])
    with pytest.raises(InputError, match="no query"):
        bootstrap_interval([])
