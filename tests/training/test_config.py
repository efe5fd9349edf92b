"""Configs: strict, inherited, and looked at without running."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from training.launch import ROOT, environment, python
from training.tiny import run_settings, write_config
from varsdoc.errors import ConfigError
from varsdoc.model import LoraSettings
from varsdoc.training.config import load_config
from varsdoc.training.plan import plan


def test_a_config_inherits_and_changes(tmp_path: Path) -> None:
    write_config(
        tmp_path / "a.yaml", output="x", model={"variants": 3, "lora": {"r": 4}}, data={"train": ["one", "two"]}
    )
    (tmp_path / "b.yaml").write_text("base: a.yaml\nmodel: {noise: 0.1}\ndata: {train: [three]}\noptim: {lr: 5e-4}\n")
    config = load_config(tmp_path / "b.yaml")
    assert (config.model.variants, config.model.noise, config.data.train) == (3, 0.1, ["three"])
    assert config.model.lora == LoraSettings(r=4)
    assert config.optim.lr == 5e-4
    (tmp_path / "c.yaml").write_text("base: b.yaml\nmodel: {lora: null}\n")
    assert load_config(tmp_path / "c.yaml").model.lora is None


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("stepz: 4", "has the unknown key 'stepz'; known are"),
        ("optim: {learning_rate: 1}", r"has the unknown key 'optim.learning_rate'"),
        ("model: {lora: {rank: 4}}", r"has the unknown key 'model.lora.rank'"),
        ("optim: {batch: many}", "optim.batch must be a whole number, not 'many'"),
        ("optim: {batch: true}", "optim.batch must be a whole number, not True"),
        ("optim: {batch: 0}", "optim.batch must be above 0, not 0"),
        ("optim: {lr: .nan}", "optim.lr must be above 0, not nan"),
        ("loss: {hardness: soft}", "loss.hardness must be none or paper or normalised, not 'soft'"),
        ("loss: {temperature: 0}", "loss.temperature must be above 0"),
        ("loss: 3", "loss must be LossConfig, not 3"),
        ("model: {lora: {r: 4}, vision: true}", "model.vision needs lora: null"),
        ("model: {fresh: true}", "model.fresh needs vision: true"),
        ("model: {fresh: true, vision: true, lora: {r: 4}}", "model.vision needs lora: null"),
        ("optim: {grad_cache: true}", "needs optim.micro_batch"),
        ("optim: {batch: 6, micro_batch: 4}", r"optim.batch \(6\) must be a multiple"),
        ("after: x.yaml\nmodel: {source: y}", "not both"),
        ("base: self.yaml", "inherits from itself"),
        ("base: absent.yaml", r"There is no file .*absent.yaml"),
        ("- 1\n- 2", "holds a list instead of settings"),
        ("a: [", "cannot be read as YAML"),
    ],
)
def test_a_wrong_config_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "self.yaml").write_text(text)
    with pytest.raises(ConfigError, match=sentence) as error:
        load_config(tmp_path / "self.yaml")
    assert "\n" not in str(error.value)


def test_the_command_line_answers_in_one_line(tmp_path: Path) -> None:
    done = python("-m", "varsdoc.cli", "train", str(tmp_path / "absent.yaml"))
    assert done.returncode == 1
    assert done.stderr.strip().startswith("error: There is no file")
    assert "\n" not in done.stderr.strip()
    assert done.stdout == ""


def test_a_dry_run_needs_neither_weights_nor_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    made = plan(ROOT / "configs" / "paper" / "adapt.yaml")
    assert (made.variants, made.branch_layers, made.heads) == (5, 4, "separate")
    assert (made.global_batch, made.steps) == (128, 2 * (118_695 // 128))
    lora = 36 * 32 * ((2048 + 2048) * 2 + (2048 + 256) * 2 + (2048 + 11008) * 3)
    assert made.trainable == lora + 5 * 2048 + 6 * (2048 * 128 + 128)
    assert 3.7e9 < made.parameters < 3.9e9
    assert 20e9 < made.memory.total < 80e9
    said = "\n".join(made.lines())
    assert "missing     the weights of Qwen/Qwen2.5-VL-3B-Instruct" in said
    assert "missing     the result of" in said


def test_a_dry_run_counts_what_is_there(root: Path) -> None:
    content = run_settings(root, batch=4)
    del content["optim"]["steps"]
    made = plan(write_config(root / "c.yaml", **content))
    assert (made.pairs, made.steps, made.missing) == (24, 6, [])
    whole = sum(p.stat().st_size for p in (root / "base").glob("*.safetensors")) / 4
    assert abs(made.parameters - whole) < 0.02 * whole
    content["data"]["train"] = [str(root / "absent")]
    content["eval"] = {"folder": str(root / "nowhere")}
    made = plan(write_config(root / "c.yaml", **content))
    assert made.missing == [f"the training data {root / 'absent'}", f"the judged folder {root / 'nowhere'}"]
    assert made.steps is None


def test_the_room_names_its_public_things() -> None:
    import varsdoc.training as room

    assert {name: getattr(room, name).__name__ for name in room.__all__} == {name: name for name in room.__all__}
    with pytest.raises(AttributeError):
        room.absent  # noqa: B018


def test_the_room_trains_without_extras(root: Path) -> None:
    """As on a bare GPU host: these imports fail as if the packages were not there."""
    content: dict[str, Any] = run_settings(root, steps=1)
    content["report_to"] = ["tensorboard"]
    config = write_config(root / "c.yaml", **content)
    code = f"""
import importlib.util, sys
absent = ("tensorboard", "tensorboardX", "pyarrow", "rich", "lancedb", "pypdfium2", "datasets", "typer")
class Absent:
    def find_spec(self, name, *_):
        if name.split(".")[0] in absent:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
plain = importlib.util.find_spec
importlib.util.find_spec = lambda name, *a: None if name in absent else plain(name, *a)
from varsdoc.training.stages import train
print(train({str(config)!r}).steps)
"""
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, timeout=120)
    assert done.stdout.strip().endswith("1"), done.stderr[-2000:]
    assert "tensorboard is not installed" in done.stderr
