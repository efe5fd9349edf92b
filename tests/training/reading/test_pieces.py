"""Several pieces in one process: the second starts from the first, both leave parts that make a model, and are not
trained twice.
"""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

import tiny
from reading_tools import pack_folder, script
from varsdoc.errors import ConfigError
from varsdoc.model import VarsDoc
from varsdoc.training.reading.config import ReadConfig


def settings(tmp_path: Path, **changes: Any) -> dict[str, Any]:
    common = {
        "stage": "read",
        "steps": 2,
        "warmup": 1,
        "batch_tokens": 2100,
        "workers": 1,
        "pool": 8,
        "real_pool": 8,
        "real_made": 0.5,
        "pairs": [str(tmp_path / "packs")],
        "pairs_share": 1.0,
        "pairs_from": 0.0,
        "log_every": 1,
        "save_every": 1,
        "optimiser": "adamw",
    }
    return common | changes


def test_pieces_run_one_after_the_other_and_leave_models_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_pieces = script("read_pieces")
    monkeypatch.setattr(read_pieces, "PROFILED", -9)  # look where the time of the first step goes
    tiny.model(3, 2).save_pretrained(tmp_path / "start")
    pack_folder(tmp_path / "packs")
    first = settings(tmp_path, output=str(tmp_path / "one"), source=str(tmp_path / "start"), source_variant=1)
    second = settings(
        tmp_path,
        output=str(tmp_path / "two"),
        source=str(tmp_path / "one" / "model"),
        variants=2,
        branch_layers=2,
        noise=1.0,
        probe_noise=1.0,
        assign=0.1,
        aggregation="fused",
        tell_variants="each",
        mean_from=0.5,
    )
    paths = []
    for name, content in (("one", first), ("two", second)):
        (tmp_path / f"{name}.yaml").write_text(json.dumps(content))
        paths.append(str(tmp_path / f"{name}.yaml"))
    configs = read_pieces.read_configs(paths)
    begin = tmp_path / "begin"
    read_pieces.warm(configs, tmp_path / "out", until=begin)
    begin.write_text("30\n")
    read_pieces.warm(configs, tmp_path / "nothing", until=begin)
    assert not (tmp_path / "nothing").exists(), "the file was there: no more compiling"
    assert read_pieces.minutes_in(begin) == 30
    assert read_pieces.run_pieces(configs, tmp_path / "out", minutes=30) == ["one", "two"]
    lines = [json.loads(line) for line in (tmp_path / "out" / "log.jsonl").read_text().splitlines()]
    assert [(line["piece"], line["step"]) for line in lines] == [(p, i) for p in ("one", "two") for i in (0, 1, 2)]
    assert all(0 <= line["told"] <= 1 and line["tell"] >= 0 for line in lines if line["step"])
    parts = sorted((tmp_path / "out").glob("two.tar.gz.*"))
    with tarfile.open(fileobj=io.BytesIO(b"".join(part.read_bytes() for part in parts))) as tar:
        tar.extractall(tmp_path / "back", filter="data")
    model = VarsDoc.from_pretrained(tmp_path / "back" / "two", device="cpu")
    assert (model.config.variants, model.config.branch_layers, model.config.trained) == (2, 2, True)
    assert "step.py" in (tmp_path / "out" / "python.txt").read_text()
    assert not list((tmp_path / "out").glob("one-last.tar.gz.*"))
    assert list((tmp_path / "out").glob("two-last.tar.gz.00")), "beside a mean also what the piece ended with"
    stamp = (tmp_path / "two" / "log.jsonl").stat().st_mtime_ns
    assert read_pieces.run_pieces(configs, tmp_path / "out", minutes=30) == ["one", "two"]
    assert (tmp_path / "two" / "log.jsonl").stat().st_mtime_ns == stamp, "a finished piece is left alone"


def test_a_piece_that_was_cut_off_goes_on_for_what_it_had_left(tmp_path: Path) -> None:
    read_pieces = script("read_pieces")
    config = ReadConfig(output=str(tmp_path), steps=100, save_every=10, max_minutes=8.0, seed=1)
    assert read_pieces.resumed(config, 5.0).max_minutes == 5.0
    assert read_pieces.resumed(config, 50.0).source is None
    (tmp_path / "latest").mkdir()
    (tmp_path / "latest" / "varsdoc.json").write_text("{}")
    lines = [{"step": 0, "minutes": 0.0}, {"step": 10, "minutes": 2.0}, {"step": 20, "minutes": 3.0}, {"step": 25}]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    again = read_pieces.resumed(config, 50.0)
    assert (again.steps, again.max_minutes, again.source) == (80, 5.0, str(tmp_path / "latest"))
    assert again.seed != config.seed, "other pages than those it has seen"


def test_what_is_missing_is_said_before_the_first_minute(tmp_path: Path) -> None:
    read_pieces = script("read_pieces")
    (tmp_path / "one.yaml").write_text(json.dumps({"stage": "read", "output": "a", "source": "b/model"}))
    with pytest.raises(ConfigError, match="names the folder b/model, which does not exist"):
        read_pieces.read_configs([str(tmp_path / "one.yaml")])


def test_questions_that_fit_many_pages_are_left_out(tmp_path: Path) -> None:
    ocr_words = script("ocr_words")
    words = {f"p{i}": [["Letter", 0, 0, 1, 1, 90], ["date", 0, 0, 1, 1, 90]] for i in range(9)}
    words["p0"] += [["Income", 0, 0, 1, 1, 90], ["Europe", 0, 0, 1, 1, 40]]
    asked = ["What is the date of the letter?", "What income had Europe?", "Who is it?"]
    (tmp_path / "qrels").mkdir()
    rows = "".join(f"q{i}\tp0\t1\n" for i in range(3))
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + rows)
    queries = [json.dumps({"_id": f"q{i}", "text": text}) for i, text in enumerate(asked)]
    (tmp_path / "queries.jsonl").write_text("\n".join(queries) + "\n")
    assert ocr_words.questions_of(tmp_path, words) == {"p0": ["What income had Europe?"]}


def test_slices_hold_every_pack_once_and_fit_a_call(tmp_path: Path) -> None:
    carry = script("carry_slices")
    packs = pack_folder(tmp_path / "packs", 9, 1500)
    sizes = {pack: carry.size_of(pack) for pack in packs}
    limit = 2 * max(sizes.values())
    slices = carry.spread(packs, limit)
    assert sorted(pack for some in slices for pack in some) == sorted(packs)
    assert 1 < len(slices) < len(packs)
    assert all(sum(sizes[pack] for pack in some) <= limit for some in slices)
    carry.link(packs[0], tmp_path / "there")
    assert (tmp_path / "there" / "pages.bin").read_bytes() == (packs[0] / "pages.bin").read_bytes()


def test_what_is_compared_gets_the_same_steps_in_the_time_that_is_left(tmp_path: Path) -> None:
    read_pieces = script("read_pieces")
    log = [{"step": 0, "minutes": 0.0, "pages": 0}, {"step": 50, "minutes": 2.0, "pages": 1}]
    log += [{"step": i, "minutes": 2.0 + (i - 50) / 200, "pages": i} for i in (100, 150, 200)]
    log.insert(3, {"step": 120, "minutes": 2.3, "docvqa-dev": 0.5})
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in log))
    assert read_pieces.seconds_per_step(tmp_path / "log.jsonl") == pytest.approx(0.3)
    pieces = [ReadConfig(steps=900, variants=5), ReadConfig(steps=900), ReadConfig(steps=900)]
    steps = {piece.steps for piece in read_pieces.fit_steps(pieces, 0.3, minutes=10)}
    assert steps == {int((600 - 3 * read_pieces.AROUND) / (0.3 * 3.6))}
    assert {piece.steps for piece in read_pieces.fit_steps(pieces, 0.3, minutes=60)} == {900}
