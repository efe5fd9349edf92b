"""Killed, out of disk, not a number: what was saved stays whole, and going on gives what would have come."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import TrainerCallback

from training.launch import python
from training.tiny import run_settings, write_beir, write_config
from varsdoc.errors import ConfigError
from varsdoc.model import VarsDoc
from varsdoc.training.config import load_config
from varsdoc.training.stages import make_trainer, optimiser_steps, train, training_arguments
from varsdoc.training.trainer import TrainingError

ACCIDENT = str(Path(__file__).parent / "interrupted.py")


def settings(root: Path, output: str) -> dict[str, Any]:
    """LoRA with dropout, a shuffled epoch and a worker: everything that draws random numbers."""
    content = run_settings(root, output, steps=8, batch=4)
    content["model"] |= {"variants": 3, "heads": "separate", "lora": {"r": 4, "alpha": 8, "dropout": 0.3}}
    content["loss"] = {"kind": "infonce"}
    content["data"]["workers"] = 1
    return content | {"save_every": 3}


def logged(run: Path) -> dict[int, dict[str, float]]:
    last = max(run.glob("checkpoint-*"), key=lambda path: int(path.name.split("-")[1]))
    history = json.loads((last / "trainer_state.json").read_text())["log_history"]
    return {line["step"]: line for line in history if "loss" in line}


def test_a_killed_run_goes_on_as_if_nothing_had_happened(root: Path) -> None:
    whole = write_config(root / "whole.yaml", **settings(root, "whole"))
    train(whole)
    config = write_config(root / "killed.yaml", **settings(root, "killed"))
    done = python(ACCIDENT, "kill", "5", str(config))
    assert done.returncode == -9
    assert [path.name for path in (root / "killed").glob("checkpoint-*")] == ["checkpoint-3"]
    with pytest.raises(ConfigError, match="add --resume"):
        train(config)
    assert train(config, resume=True).steps == 8
    expected, ours = logged(root / "whole"), logged(root / "killed")
    assert set(ours) == set(expected) == set(range(1, 9))
    for step in range(1, 9):
        for name in ("loss", "loss_retrieval", "loss_balance", "loss_diversity", "learning_rate", "usage_0"):
            assert ours[step][name] == pytest.approx(expected[step][name], abs=1e-5), (step, name)
    models = [VarsDoc.from_pretrained(root / name / "model").state_dict() for name in ("whole", "killed")]
    for name, tensor in models[0].items():
        torch.testing.assert_close(tensor, models[1][name], rtol=0, atol=1e-6)


def test_a_full_disk_leaves_the_previous_checkpoint_whole(root: Path) -> None:
    config = write_config(root / "full.yaml", **settings(root, "full"))
    done = python(ACCIDENT, "fill", "5", str(config))
    assert done.returncode == 1
    message = next(line for line in done.stderr.splitlines() if line.startswith("error: "))
    assert message.startswith("error: Saving step 6 failed")
    assert "checkpoint-3 is whole" in message
    assert sorted(path.name for path in (root / "full").iterdir()) == ["checkpoint-3", "config.yaml"]
    assert train(config, resume=True).steps == 8


class Spoil(TrainerCallback):
    """A weight becomes NaN, as after a step too far."""

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        if state.global_step == 4:
            with torch.no_grad():
                model.encoder.heads[0].bias[0] = math.nan


def test_a_loss_that_is_nan_stops_the_run_and_names_the_batch(root: Path) -> None:
    config = load_config(write_config(root / "nan.yaml", **settings(root, "nan")))
    trainer = make_trainer(config, training_arguments(config))
    trainer.add_callback(Spoil())
    with pytest.raises(
        TrainingError, match=r"The loss is nan at step 5, on the batch of .*query q\d+ page p\d+"
    ) as error:
        trainer.train()
    assert "checkpoint-3" in str(error.value)
    assert [path.name for path in (root / "nan").glob("checkpoint-*")] == ["checkpoint-3"]
    whole = VarsDoc.from_pretrained(root / "nan" / "checkpoint-3")
    assert all(tensor.isfinite().all() for tensor in whole.state_dict().values())


def test_a_gradient_that_is_not_finite_never_reaches_the_weights(root: Path) -> None:
    config = load_config(write_config(root / "inf.yaml", **settings(root, "inf")))
    trainer = make_trainer(config, training_arguments(config))
    before = {name: p.detach().clone() for name, p in trainer.encoder.named_parameters()}
    trainer.encoder.probes.register_hook(lambda grad: grad * math.inf)
    with pytest.raises(TrainingError, match=r"The gradient is .* at step 1"):
        trainer.train()
    for name, parameter in trainer.encoder.named_parameters():
        torch.testing.assert_close(parameter.detach(), before[name], rtol=0, atol=0)


def test_checkpoints_beyond_the_number_to_keep_are_dropped(root: Path) -> None:
    content = settings(root, "keep") | {"save_every": 2, "keep": 2}
    train(write_config(root / "keep.yaml", **content))
    assert sorted(path.name for path in (root / "keep").glob("checkpoint-*")) == ["checkpoint-6", "checkpoint-8"]


def test_resuming_a_finished_run_changes_nothing(root: Path) -> None:
    config = write_config(root / "done.yaml", **settings(root, "done"))
    first = train(config)
    before = VarsDoc.from_pretrained(first.model).checkpoint_hash
    (first.model / "varsdoc.json").unlink()  # as if the last save had failed
    again = train(config, resume=True)
    assert again.steps == first.steps == 8
    assert again.loss == pytest.approx(first.loss, abs=1e-4)
    assert VarsDoc.from_pretrained(again.model).checkpoint_hash == before


@pytest.mark.parametrize("optim", [{"batch": 5}, {"batch": 6, "micro_batch": 2}, {"batch": 6, "micro_batch": 3}])
@pytest.mark.parametrize("grad_cache", [False, True])
def test_a_run_takes_the_steps_that_were_planned(root: Path, optim: dict[str, int], grad_cache: bool) -> None:
    content = run_settings(
        root, "plan", epochs=1.5, steps=None, grad_cache=grad_cache and "micro_batch" in optim, **optim
    )
    content["data"]["train"] = [str(write_beir(root / "odd", 23))]
    path = write_config(root / "plan.yaml", **content)
    assert train(path).steps == optimiser_steps(load_config(path), 23, 1)
