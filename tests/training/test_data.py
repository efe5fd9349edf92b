"""The three layouts, bad records, and judged folders."""

from __future__ import annotations

import io
import json
import logging
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from training.tiny import draw_page, question, run_settings, tiny_model, write_beir, write_config
from varsdoc.model import Processor
from varsdoc.training.data import Collate, Pairs
from varsdoc.training.judge import ndcg, read_judged
from varsdoc.training.sources import DataError, open_source
from varsdoc.training.stages import train


@pytest.fixture(scope="module")
def processor() -> Processor:
    return tiny_model().processor


def png(i: int) -> bytes:
    buffer = io.BytesIO()
    draw_page(i).save(buffer, "PNG")
    return buffer.getvalue()


def write_parquet(path: Path, rows: range, broken: tuple[int, ...] = ()) -> None:
    images = [{"bytes": b"no picture" if i in broken else png(i % 12), "path": f"{i}.png"} for i in rows]
    table = pa.table({"image": images, "query": [question(i) for i in rows], "source": ["x"] * len(rows)})
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, row_group_size=3)


def write_jsonl(folder: Path, count: int, broken: dict[int, str] | None = None) -> Path:
    folder.mkdir(exist_ok=True)
    for i in range(12):
        draw_page(i).save(folder / f"{i}.png")
    lines = [json.dumps({"image": f"{i % 12}.png", "query": question(i)}) for i in range(count)]
    for i, line in (broken or {}).items():
        lines[i] = line
    (folder / "pairs.jsonl").write_text("\n".join(lines) + "\n")
    return folder / "pairs.jsonl"


def test_the_colpali_layout_is_read_across_files_and_row_groups(tmp_path: Path, processor: Processor) -> None:
    write_parquet(tmp_path / "data" / "train-00000-of-00002.parquet", range(7))
    write_parquet(tmp_path / "data" / "train-00001-of-00002.parquet", range(7, 14))
    write_parquet(tmp_path / "data" / "test-00000-of-00001.parquet", range(3))
    pairs = Pairs([str(tmp_path)], processor)
    assert len(pairs) == 14
    assert [pairs[i].query for i in range(14)] == [question(i) for i in range(14)]
    assert pairs[0].page == pairs[12].page  # the same picture, by content
    assert pairs[0].page != pairs[1].page
    assert (pairs[2].patches.pixels == processor.page(draw_page(2)).pixels).all()


def test_a_beir_folder_gives_a_pair_for_every_judgement_above_zero(tmp_path: Path, processor: Processor) -> None:
    folder = write_beir(tmp_path / "judged", 4)
    qrels = folder / "qrels" / "test.tsv"
    qrels.write_text(qrels.read_text() + "q0\tp2\t2\nq0\tp3\t0\n")
    pairs = Pairs([str(folder)], processor)
    assert [(p.query, p.page) for p in (pairs[i] for i in range(5))][-1] == (question(0), "judged/p2")
    assert len(pairs) == 5


def test_sources_of_different_layouts_are_joined(tmp_path: Path, processor: Processor) -> None:
    write_parquet(tmp_path / "a" / "x.parquet", range(3))
    pairs = Pairs(
        [str(tmp_path / "a"), str(write_jsonl(tmp_path / "b", 2)), str(write_beir(tmp_path / "c", 2))], processor
    )
    assert [pairs[i].query for i in range(7)] == [question(i) for i in (0, 1, 2, 0, 1, 0, 1)]


def test_a_batch_is_cut_into_micro_batches(tmp_path: Path, processor: Processor) -> None:
    pairs = Pairs([str(write_jsonl(tmp_path / "b", 5))], processor)
    parts = Collate(processor, 2)([pairs[i] for i in range(5)])
    assert [len(part) for part in parts] == [2, 2, 1]
    assert torch.cat([part.ids.page for part in parts]).unique().numel() == 5


BAD = {
    40: "{not json",
    41: json.dumps({"image": "absent.png", "query": "where"}),
    42: json.dumps({"image": "3.png", "query": "  "}),
    43: json.dumps({"image": "pairs.jsonl", "query": "not a picture"}),
    44: json.dumps({"image": "3.png"}),
    45: json.dumps(["3.png", "a list"]),
    46: json.dumps({"image": "3.png", "query": 7}),
}


def test_bad_records_are_named_and_the_next_good_one_takes_their_place(tmp_path: Path, processor: Processor) -> None:
    pairs = Pairs([str(write_jsonl(tmp_path / "b", 800, BAD))], processor)
    example = pairs[40]
    assert example.query == question(47)
    assert [bad.name.rpartition(":")[2] for bad in example.skipped] == ["41", "42", "43", "44", "45", "46", "47"]
    assert all(bad.reason for bad in example.skipped)


def test_a_run_counts_and_names_bad_records(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    content = run_settings(root, steps=30, batch=8)
    content["data"] = {"train": [str(write_jsonl(root / "pairs", 240, {3: "{", 100: "{"}))], "workers": 2}
    with caplog.at_level(logging.WARNING):
        finished = train(write_config(root / "c.yaml", **content))
    assert finished.bad_records == 2
    named = [record.getMessage() for record in caplog.records if "skipped the record" in record.getMessage()]
    assert sorted(line.split("pairs.jsonl:")[1].split(":")[0] for line in named) == ["101", "4"]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_run_ends_when_more_than_one_percent_is_bad(root: Path, workers: int) -> None:
    content = run_settings(root, steps=30, batch=8)
    broken = dict.fromkeys(range(3, 240, 60), "{")
    content["data"] = {"train": [str(write_jsonl(root / "pairs", 240, broken))], "workers": workers}
    with pytest.raises(
        DataError, match=r"^3 of 240 training records are bad, more than 1 %; the last is .*jsonl:\d+ \(.*\)\.$"
    ):
        train(write_config(root / "c.yaml", **content))


def test_all_bad_ends_at_the_first_record_with_one_sentence(root: Path) -> None:
    content = run_settings(root, steps=3, batch=8)
    content["model"]["branch_layers"] = 0
    content["data"] = {"train": [str(write_jsonl(root / "pairs", 20, dict.fromkeys(range(20), "{")))], "workers": 1}
    with pytest.raises(DataError, match=r"^1 of 20 training records are bad") as error:
        train(write_config(root / "c.yaml", **content))
    assert "\n" not in str(error.value)


def test_what_is_no_training_set_is_refused_with_a_sentence(tmp_path: Path, processor: Processor) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "none.jsonl").write_text("\n")
    pq.write_table(pa.table({"picture": [1]}), tmp_path / "columns.parquet")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and then nothing")
    torn = write_beir(tmp_path / "torn", 2)
    (torn / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq0 p0 1\n")
    for paths, sentence in (
        ([], "names no training data"),
        ([str(tmp_path / "empty")], "neither corpus.jsonl nor a parquet file"),
        ([str(tmp_path / "none.jsonl")], "is empty"),
        ([str(tmp_path / "columns.parquet")], "has no column image"),
        ([str(tmp_path / "broken.parquet")], "cannot be read as parquet"),
        ([str(tmp_path / "absent")], "There is no training set"),
        ([str(torn)], r"test.tsv:2 is not query-id, corpus-id, score"),
    ):
        with pytest.raises(DataError, match=sentence) as error:
            Pairs(paths, processor)
        assert "\n" not in str(error.value)


def test_a_hub_id_without_a_network_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(DataError, match="could not be fetched from the hub") as error:
        open_source("vidore/colpali_train_set")
    assert "\n" not in str(error.value)


def test_a_judged_folder_is_checked(tmp_path: Path) -> None:
    folder = write_beir(tmp_path / "judged", 3)
    assert len(read_judged(str(folder))) == 3
    (folder / "some.jsonl").write_text('{"_id": "q1", "text": "what"}\n{"_id": "unjudged", "text": "what"}\n')
    assert read_judged(str(folder), str(folder / "some.jsonl")).queries == ["what"]
    qrels = folder / "qrels" / "test.tsv"
    qrels.write_text(qrels.read_text() + "q0\tp99\t1\n")
    with pytest.raises(DataError, match=r"p99, which corpus.jsonl lacks"):
        read_judged(str(folder))
    qrels.write_text("query-id\tcorpus-id\tscore\n")
    with pytest.raises(DataError, match="3 pages and 0 judged queries"):
        read_judged(str(folder))


def test_ndcg_with_grades() -> None:
    scores = torch.tensor([0.1, 0.9, 0.5, 0.2])
    gained, ideal = 1 / 1 + 3 / 2, 3 / 1 + 1 / 1.5849625  # order 1, 2, 3, 0: grades 1, 0, 3; discounts 1, log2 3, 2
    assert ndcg(scores, {1: 1, 3: 3}) == pytest.approx(gained / ideal)
    assert ndcg(torch.arange(20.0), {0: 1}) == 0
