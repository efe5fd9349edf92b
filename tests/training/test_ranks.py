"""Two processes over gloo give the loss and the gradients of one process with the same global batch."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from training.launch import torchrun
from training.two_ranks import CASES, fresh_model, share, step


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two")
    done = torchrun(str(Path(__file__).parent / "two_ranks.py"), str(folder))
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.mark.parametrize("name", CASES)
def test_two_processes_are_one(two: Path, name: str) -> None:
    config, rows, _ = CASES[name]
    model = fresh_model()
    one = step(model, share(model, range(rows[1].stop), None), config)
    largest = max(one[key].abs().max().item() for key, _ in model.named_parameters())
    for rank in (0, 1):
        results = torch.load(two / f"{name}-{rank}.pt")
        assert set(results) == set(one)
        for key, expected in one.items():
            scale = 1.0 if key in ("loss", "balance", "wins", "tie_rate") else largest
            assert (results[key] - expected).abs().max().item() <= 1e-4 * scale, key
    if config.balance and name != "pairwise":
        assert one["balance"] > 1e-3  # otherwise this would not have tested it
