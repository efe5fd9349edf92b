"""Usage, ties and gaps against a plain count, and against what training logs."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from varsdoc.errors import InputError
from varsdoc.evaluation.analysis import variant_usage
from varsdoc.training import losses


def test_usage_and_ties_equal_a_plain_count(random: np.random.Generator) -> None:
    own = np.round(random.normal(10, 0.02, (300, 5)), 3)
    tokens = random.integers(3, 30, 300)
    found = variant_usage(own, tokens, [f"p{i % 40}" for i in range(300)])
    wins, tied, tied_mean = [0] * 5, 0, 0
    for row, length in zip(own.tolist(), tokens.tolist(), strict=True):
        wins[row.index(max(row))] += 1
        first, second = sorted(row)[-1], sorted(row)[-2]
        tied += first - second <= 0.01
        tied_mean += (first - second) / length <= 0.01
    assert found.usage == [count / 300 for count in wins]
    assert found.max_usage == max(wins) / 300
    assert found.tie_rate == tied / 300
    assert found.tie_rate_mean == tied_mean / 300
    assert sum(found.histogram()["counts"]) == 300


def test_ties_are_those_that_training_logs(random: np.random.Generator) -> None:
    own = random.normal(10, 0.02, (200, 4)).astype(np.float32)
    tokens = random.integers(3, 30, 200)
    found = variant_usage(own, tokens, ["p"] * 200)
    theirs = losses.tied(torch.from_numpy(own)).float().mean().item()
    scaled = losses.tied(losses.Scale("mean")(torch.from_numpy(own), torch.from_numpy(tokens))).float().mean().item()
    assert found.tie_rate == pytest.approx(theirs, abs=0.006)
    assert found.tie_rate_mean == pytest.approx(scaled, abs=0.006)


def test_winners_per_document_add_up() -> None:
    own = np.array([[2.0, 1.0], [1.0, 2.0], [3.0, 1.0], [1.0, 2.0]])
    found = variant_usage(own, [5, 5, 5, 5], ["a", "a", "b", "c"])
    assert found.documents() == [
        {"page": "a", "queries": 2, "wins": [1, 1], "variants_used": 2},
        {"page": "b", "queries": 1, "wins": [1, 0], "variants_used": 1},
        {"page": "c", "queries": 1, "wins": [0, 1], "variants_used": 1},
    ]


def test_one_variant_wins_all_and_ties_with_none() -> None:
    found = variant_usage(np.ones((3, 1)), [4, 4, 4], ["a", "b", "c"])
    assert (found.usage, found.max_usage, found.tie_rate) == ([1.0], 1.0, 0.0)
    assert found.histogram() == {"edges": [], "counts": []}


def test_no_pairs_are_refused() -> None:
    with pytest.raises(InputError, match="there are 0"):
        variant_usage(np.zeros((0, 3)), [], [])
