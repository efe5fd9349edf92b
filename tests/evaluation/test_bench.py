"""The efficiency table: what is measured, and that K changes what it must and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tiny
from varsdoc.errors import ConfigError
from varsdoc.evaluation.bench import Plan, counts, measure, sample_page, with_variants
from varsdoc.index.codecs import get_codec


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    model = tiny.model(variants=5)
    model.reconfigure(model.config.with_(trained=True))
    model.save_pretrained(tmp_path / "m")
    return str(tmp_path / "m")


def test_one_run_measures_every_k(checkpoint: str, folder: Path) -> None:
    found = measure(Plan(checkpoint, str(folder), count=3, batch=2, repeats=2, device="cpu", codec="float16"))
    assert [row["variants"] for row in found["rows"]] == [1, 3, 5]
    assert found["rows"][0]["label"] == "K=1 (plain, no probe)"
    assert [row["bytes_ratio"] for row in found["rows"]] == pytest.approx([1, 3, 5], rel=0.05)
    for row in found["rows"]:
        assert row["index_ms_per_page"] > 0
        assert row["query_ms"] > 0
    model = tiny.model(variants=5)
    pages = model.encode_pages([p.image() for p in _pages(folder)[:3]])
    sizes = [len(get_codec("float16").pack(page.variants.numpy())) for page in pages]
    assert found["rows"][2]["index_bytes_per_page"] == pytest.approx(np.mean(sizes))
    assert {"token_cap", "dtype", "machine", "command", "batch", "repeats", "codec", "data"} <= found.keys()
    assert (found["batch"], found["repeats"], found["pages"], found["data"]) == (2, 2, 3, "tiny-dev")
    assert found["model"]["name"] == "m"
    assert found["model"]["variants"] == 5
    assert found["published"][0] == {"label": "K=1", "mib": 1.48, "index_ms": 201.85, "query_ms": 22.38}


def _pages(folder: Path):
    from varsdoc.evaluation.judged import read_folder

    return read_folder(folder).pages


def test_a_long_run_shows_life_can_be_bounded_and_leaves_what_it_has(
    checkpoint: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from typer.testing import CliRunner

    from varsdoc.cli import app
    from varsdoc.evaluation import progress

    monkeypatch.setattr(progress, "QUIET_S", 0.0)
    out = tmp_path / "results" / "bench.json"
    arguments = ["bench", "--model", checkpoint, "--pages", str(folder), "--count", "4", "--batch", "2", "--variants"]
    arguments += ["1,5", "--repeats", "50", "--max-seconds", "0.001", "--device", "cpu", "--out", str(out)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    found = json.loads(out.read_text())
    assert found["complete"] is True
    assert [(row["index_repeats"], row["query_repeats"]) for row in found["rows"]] == [(1, 1), (1, 1)]
    assert "K=5: indexing: 4 x 51, the first to warm up" in done.stderr
    assert "K=1: indexing: 2 of 204" in done.stderr  # a step for each batch, not only for each repeat
    for said in ("K=1 (plain, no probe)", "mean of 1;", "token cap", "float32", "codec float16", "batch 2", "thread"):
        assert said in done.stdout
    kept: list[dict[str, Any]] = []

    def keep(table: dict[str, Any]) -> None:
        kept.append(table | {"rows": [*table["rows"]]})
        if table["rows"]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(Plan(checkpoint, str(folder), count=1, repeats=1, device="cpu"), keep)
    assert [(len(table["rows"]), table["complete"]) for table in kept] == [(0, False), (1, False)]


def test_what_cannot_be_measured_is_refused_before_an_hour_is_spent(checkpoint: str, folder: Path) -> None:
    kept: list[dict[str, Any]] = []
    with pytest.raises(ConfigError, match="K=7 can only be measured from K=1"):
        measure(Plan(checkpoint, str(folder), count=1, variants=(1, 7), device="cpu"), kept.append)
    assert kept == []


def test_fewer_variants_are_the_first_ones_of_the_model() -> None:
    image = tiny.page(84, 112)
    whole = tiny.model(variants=5).encode_pages([image])[0].variants
    three = with_variants(tiny.model(variants=5), 3).encode_pages([image])[0].variants
    torch.testing.assert_close(three, whole[:3], atol=1e-5, rtol=0)


def test_one_variant_is_the_plain_backbone() -> None:
    model = with_variants(tiny.model(variants=5), 1)
    assert (model.config.variants, model.config.branch_layers, len(model.probes)) == (1, 0, 0)
    assert model.encode_pages([tiny.page(84, 84)])[0].variants.shape[0] == 1


def test_a_model_with_one_variant_is_expanded() -> None:
    model = with_variants(tiny.model(variants=1, branch_layers=2), 3)
    assert model.encode_pages([tiny.page(84, 84)])[0].variants.shape[0] == 3
    with pytest.raises(ConfigError, match="K=7 can only be measured from K=1"):
        with_variants(tiny.model(variants=5), 7)


def test_wrong_plans_are_refused() -> None:
    assert counts("1,3,5") == (1, 3, 5)
    with pytest.raises(ConfigError, match="like 1,3,5"):
        counts("few")
    with pytest.raises(ConfigError, match="1 or more, not 0"):
        counts("0,3")
    with pytest.raises(ConfigError, match="--repeats must be 1 or more"):
        Plan(repeats=0)
    with pytest.raises(ConfigError, match="--max-seconds must be more than 0"):
        Plan(max_seconds=0)
    assert sample_page(1).size == (1240, 1754)
    assert sample_page(1).tobytes() != sample_page(2).tobytes()
