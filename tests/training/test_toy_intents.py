"""A smoke version of benchmarks/toy_intents.py: every row and scale runs, and the figures mean what they say."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import pytest

from training.launch import ROOT


@pytest.fixture(scope="module")
def toy() -> ModuleType:
    spec = importlib.util.spec_from_file_location("toy_intents", ROOT / "benchmarks" / "toy_intents.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["toy_intents"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_every_row_runs_on_every_scale(toy: ModuleType) -> None:
    for loss in toy.SCALES.values():
        for row in toy.ROWS:
            outcome = toy.run(row, loss, seed=0, steps=2)
            assert 0 <= outcome.ndcg <= 1
            assert 1 / 3 <= outcome.max_usage <= 1
            if row == "K=1":
                assert (outcome.max_usage, outcome.tie_rate) == (1, 0)


def test_three_readings_beat_one_where_one_cannot_hold_three_intents(toy: ModuleType) -> None:
    loss = toy.SCALES["sum (the paper, literally)"]
    one = toy.run("K=1", loss, seed=0, steps=120)
    three = toy.run("K=3 without warm-up", loss, seed=0, steps=120)
    assert one.ndcg > 2 * 10 / toy.TEST_PAGES  # chance is below ten places of 256
    assert three.ndcg > one.ndcg + 0.05
