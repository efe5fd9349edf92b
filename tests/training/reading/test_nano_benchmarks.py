"""benchmarks/nano_*.py on a tiny model and a few pages: every state is measured, every row is gathered."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from shutil import copy

import numpy as np
import pytest
from PIL import Image

import tiny
from reading_tools import script


def judged_folder(root: Path) -> Path:
    (root / "images").mkdir(parents=True)
    (root / "qrels").mkdir()
    pages = [{"_id": f"p{i}", "image": f"images/{i}.png"} for i in range(3)]
    for i, page in enumerate(pages):
        Image.fromarray(tiny.page(160, 120, i)).save(root / page["image"])
    asked = "".join(json.dumps({"_id": f"q{i}", "text": f"question number {i}"}) + "\n" for i in range(3))
    (root / "corpus.jsonl").write_text("".join(json.dumps(page) + "\n" for page in pages))
    (root / "queries.jsonl").write_text(asked)
    lines = ["query-id\tcorpus-id\tscore", *(f"q{i}\tp{i}\t1" for i in range(3))]
    (root / "qrels" / "test.tsv").write_text("\n".join(lines) + "\n")
    return root


def test_every_state_is_measured_and_every_row_gathered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = judged_folder(tmp_path / "docvqa-dev")
    results = tmp_path / "results" / "nano"
    for name, variants in (("robustness", 3), ("probe", 1)):
        tiny.model(variants, 2 if variants > 1 else 0).save_pretrained(tmp_path / name)
        words = [str(folder), "--model", str(tmp_path / name), "--out", str(results / f"{name}.json")]
        monkeypatch.setattr(sys, "argv", ["nano_robustness.py", *words, "--device", "cpu"])
        script("nano_robustness", "benchmarks").main()
    both = [str(folder), "--model", str(tmp_path / "robustness"), str(tmp_path / "probe"), "--states", "as it is"]
    monkeypatch.setattr(sys, "argv", ["nano_robustness.py", *both, "--out", str(tmp_path / "both"), "--device", "cpu"])
    script("nano_robustness", "benchmarks").main()
    for name in ("robustness", "probe"):
        alone, beside = (json.loads((at / f"{name}.json").read_text()) for at in (results, tmp_path / "both"))
        assert alone["model_hash"] == beside["model_hash"]
        alone, beside = alone["datasets"]["docvqa-dev"], beside["datasets"]["docvqa-dev"]
        assert alone["per_query"] == beside["per_query"], "several models at once find what one finds alone"
    found = json.loads((results / "robustness.json").read_text())
    assert str(tmp_path) not in json.dumps(found), "no figure names a machine's folders"
    found = found["datasets"]["docvqa-dev"]
    assert list(found["states"]) == ["as it is", "75 % size", "noisy scan", "inverted"]
    assert sum(found["parts"]["usage"]) == pytest.approx(1)
    mean = np.mean(list(found["per_query"].values()))
    assert found["states"]["as it is"]["ndcg@10"] == pytest.approx(mean, abs=1e-3)
    assert found["parts"]["max"] == found["states"]["as it is"]
    copy(results / "robustness.json", results / "judged.json")
    table = script("nano", "benchmarks").gather(tmp_path / "results", ["docvqa-dev"])
    rows = {row["row"]: row for row in table["datasets"]["docvqa-dev"]}
    assert {"nano K=5", "K=5, fused", "K=5, variant 3 alone", "K=5, pages: inverted"} <= rows.keys()
    over = rows["K=1 with its probe"]["K=5 over it"]
    difference = rows["nano K=5"]["ndcg@10"] - rows["K=1 with its probe"]["ndcg@10"]
    assert over["difference"] == pytest.approx(difference, abs=1e-3)
    assert "nano/piece-plain.json" in table["missing"]
    assert table["checkpoints"]["nano/probe.json"] == json.loads((results / "probe.json").read_text())["model_hash"]


def test_states_change_pages_and_scans_are_the_same_every_time() -> None:
    states = script("nano_robustness", "benchmarks").STATES
    page = Image.fromarray(tiny.page(160, 120, 0)).convert("RGB")
    made = {name: np.asarray(state(page, "p")) for name, state in states.items()}
    assert np.array_equal(made["as it is"], np.asarray(page))
    assert made["75 % size"].shape == (120, 90, 3)
    assert np.array_equal(made["inverted"], 255 - np.asarray(page))
    assert np.array_equal(made["noisy scan"], np.asarray(states["noisy scan"](page, "p")))
    assert not np.array_equal(made["noisy scan"], np.asarray(states["noisy scan"](page, "another")))
