"""A loss that is no number: the step is left out; a piece in which it stays so ends with a sentence."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import tiny
from reading_tools import script
from varsdoc.model import VarsDoc
from varsdoc.training.reading import stage
from varsdoc.training.reading.config import ReadConfig
from varsdoc.training.reading.master import MasterWeights
from varsdoc.training.reading.step import Losses
from varsdoc.training.trainer import TrainingError


def test_gradients_that_are_no_numbers_move_nothing_and_leave_no_trace() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Linear(5, 3))
    weights = MasterWeights(model, 0.01, 0.0, muon=False)
    before = weights.flat.clone()
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    model[1].bias.grad = torch.tensor([0.0, torch.inf, torch.nan])
    assert not weights.step(1.0, 1.0).isfinite()
    assert torch.equal(weights.flat, before)
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    assert weights.step(1.0, 1.0).isfinite()
    assert weights.flat.isfinite().all()
    assert not torch.equal(weights.flat, before)


def settings(tmp_path: Path, name: str) -> ReadConfig:
    tiny.model(1, 0, heads="shared").save_pretrained(tmp_path / "start")
    return ReadConfig(
        output=str(tmp_path / name),
        source=str(tmp_path / "start"),
        steps=6,
        warmup=1,
        batch_tokens=800,
        workers=1,
        pool=8,
        log_every=1,
        save_every=100,
        optimiser="adamw",
        bank=1,
    )


def spoil(monkeypatch: pytest.MonkeyPatch, spoilt: set[int], of: str = "") -> None:
    """Those steps have no loss, in the piece of that name or in any."""
    plain, count = stage.step, [0]

    def bad(model: VarsDoc, *given: Any) -> Losses:
        losses = plain(model, *given)
        count[0] += 1
        here = count[0] in spoilt and given[3].output.endswith(of)
        return replace(losses, total=losses.total * torch.nan) if here else losses

    monkeypatch.setattr(stage, "step", bad)


def test_a_step_without_a_loss_is_left_out_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    spoil(monkeypatch, {3, 5})
    model, steps, loss = stage.read_stage(settings(tmp_path, "run"))
    assert steps == 6
    assert torch.tensor(loss).isfinite()
    assert all(p.isfinite().all() for p in VarsDoc.from_pretrained(model, device="cpu").parameters())
    assert [record.args[0] for record in caplog.records if "left out" in record.message] == [3, 5]  # type: ignore[index]


def test_a_piece_that_stays_without_a_loss_ends_and_the_next_one_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil(monkeypatch, set(range(2, 7)), of="one")
    one, two = (settings(tmp_path, name) for name in ("one", "two"))
    with pytest.raises(TrainingError, match="not a number at step 5"):
        stage.read_stage(one)
    assert not (tmp_path / "one" / "model").exists()
    spoil(monkeypatch, set(range(2, 7)), of="one")
    assert script("read_pieces").run_pieces([one, two], tmp_path / "out", minutes=30) == ["two"]
    lines = [json.loads(line) for line in (tmp_path / "out" / "log.jsonl").read_text().splitlines()]
    assert lines[-1]["piece"] == "two"
