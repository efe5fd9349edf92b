"""A collection held on a device: the same answers as without, whatever is added, replaced and removed.

And adding with chunks in flight, as beside a GPU. Both run on the CPU here: the scores then come from the PyTorch
fallback, the threads are real.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from index.papers import pdf, picture, tiff
from varsdoc import Index, VarsDoc
from varsdoc.errors import ConfigError
from varsdoc.index import encoder, holding
from varsdoc.scoring.device import DevicePages
from varsdoc.scoring.packed import PackedPages


def answers(index: Index, **options: object) -> list[tuple[str, int, int]]:
    return [(hit.document, hit.page, hit.variant) for hit in index.search("red valve", k=20, **options)]  # type: ignore[arg-type]


@pytest.mark.parametrize("codec", ["float16", "int8", "int4", "binary"])
def test_a_held_collection_answers_as_one_in_memory(codec: str, model: VarsDoc, tmp_path: Path) -> None:
    for i in range(4):
        picture(tmp_path / "in" / f"{i}.png", i)
    tiff(tmp_path / "in" / "more.tiff", [7, 8, 9])
    share = {"share": True}
    plain = Index.open(tmp_path / "at", model, codec=codec, codec_options=share)
    plain.add(tmp_path / "in")
    held = Index.open(tmp_path / "at", model, hold="cpu")
    for aggregation in ("max", "mean", "fused"):
        expected = plain.search("red valve", k=5, aggregation=aggregation, exhaustive=True)
        found = held.search("red valve", k=5, aggregation=aggregation)
        assert [(hit.id, hit.variant) for hit in found] == [(hit.id, hit.variant) for hit in expected]
        for a, b in zip(found, expected, strict=True):
            assert a.variant_scores == pytest.approx(b.variant_scores, abs=1e-3)
    snapshot = held._view.snapshot
    assert snapshot is not None
    assert snapshot.held is not None
    assert snapshot.packed is None, "codes lie on the device alone"
    assert len(held.search("red valve", k=20, where="document = 'more.tiff'")) == 3
    assert held.search("red valve", k=1)[0].heatmap() is not None


def test_a_held_collection_follows_the_writer(model: VarsDoc, tmp_path: Path) -> None:
    source = tmp_path / "in"
    for i in range(5):
        picture(source / f"{i}.png", i)
    writer, held = Index.open(tmp_path / "at", model), Index.open(tmp_path / "at", model, hold="cpu")
    writer.add(source)
    assert answers(held) == answers(writer)
    snapshot = held._view.snapshot
    assert snapshot is not None
    assert snapshot.held is not None
    first = snapshot.held
    picture(source / "new.png", 77)
    picture(source / "2.png", 55)
    writer.add(source)
    writer.remove("0.png")
    assert answers(held) == answers(writer)
    assert snapshot.held is first, "new pages are added to those that are there"
    assert len(answers(held)) == 5
    os.utime(source / "1.png")
    for name in ("1.png", "2.png", "3.png", "4.png"):
        writer.remove(name)
    assert answers(held) == answers(writer)
    assert [document for document, _, _ in answers(held)] == ["new.png"]


def test_where_codes_do_not_fit_search_goes_on_without(
    model: VarsDoc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(3):
        picture(tmp_path / "in" / f"{i}.png", i)
    writer = Index.open(tmp_path / "at", model)
    writer.add(tmp_path / "in")
    room = [True]
    monkeypatch.setattr(holding, "fits", lambda *_: room[0])
    held = Index.open(tmp_path / "at", model, hold="cpu")
    expected = answers(writer)
    assert answers(held) == expected
    room[0] = False
    picture(tmp_path / "in" / "3.png", 3)
    writer.add(tmp_path / "in")
    assert answers(held) == answers(writer)
    assert held._view.snapshot is not None
    assert held._view.snapshot.held is None
    room[0] = True
    writer.remove("3.png")
    assert answers(held) == expected
    assert held._view.snapshot.held is not None


def test_a_device_that_runs_out_of_memory_after_all_is_done_without(
    model: VarsDoc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for i in range(4):
        picture(tmp_path / "in" / f"{i}.png", i)
    writer = Index.open(tmp_path / "at", model)
    writer.add(tmp_path / "in")
    room = [5]  # pages on the device at a time

    def fill(self: DevicePages, packed: PackedPages) -> None:
        if len(self) + len(packed) > room[0]:
            raise torch.cuda.OutOfMemoryError("no memory left")
        extend(self, packed)

    extend = DevicePages.extend
    monkeypatch.setattr(DevicePages, "extend", fill)
    held = Index.open(tmp_path / "at", model, hold="cpu")
    assert answers(held) == answers(writer)
    snapshot = held._view.snapshot
    assert snapshot is not None
    for i in (10, 11):  # one goes and one comes, twice: six pages lie there, unless it begins anew
        picture(tmp_path / "in" / "0.png", i)
        writer.add(tmp_path / "in")
        assert answers(held) == answers(writer)
    assert snapshot.held is not None
    assert len(snapshot.held) == 4
    assert not caplog.records
    room[0] = 3
    picture(tmp_path / "in" / "5.png", 5)
    writer.add(tmp_path / "in")
    assert answers(held) == answers(writer)
    assert snapshot.held is None
    assert "do not fit on cpu; search goes on without it" in caplog.text


def test_candidates_come_from_summaries_on_the_device(
    model: VarsDoc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "in"
    for i in range(12):
        picture(source / f"{i}.png", i)
    tiff(source / "more.tiff", [30, 31, 32])
    writer, held = Index.open(tmp_path / "at", model, codec="binary"), Index.open(tmp_path / "at", model, hold="cpu")
    writer.add(source)
    only = "document != '3.png'"
    assert answers(held, candidates=4) == answers(writer, candidates=4)
    assert answers(held, candidates=4, where=only) == answers(writer, candidates=4, where=only)
    snapshot = held._view.snapshot
    assert snapshot is not None
    assert snapshot.held_summaries is not None
    first = snapshot.held_summaries
    picture(source / "new.png", 77)
    writer.add(source)
    writer.remove("0.png")
    assert answers(held, candidates=4) == answers(writer, candidates=4)
    assert snapshot.held_summaries is first
    assert len(first.pages) == 16, "what is new was added; what is gone keeps its row"
    assert len(answers(held)) == 15, "without candidates every page is scored"
    picture(source / "newer.png", 78)
    writer.add(source)
    monkeypatch.setattr(holding, "fits", lambda device, codec, stored, there: codec != "int8")  # the codes are binary
    assert answers(held, candidates=4) == answers(writer, candidates=4), "no room for them: the first stage in memory"
    assert snapshot.held is not None
    assert not len(first.pages), "and their memory is free"


def test_summaries_that_do_not_fit_after_all_are_searched_in_memory(
    model: VarsDoc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(6):
        picture(tmp_path / "in" / f"{i}.png", i)
    writer, held = Index.open(tmp_path / "at", model, codec="binary"), Index.open(tmp_path / "at", model, hold="cpu")
    writer.add(tmp_path / "in")
    assert len(answers(held)) == 6
    tried = []

    def full(pages: DevicePages, *codes: object) -> None:
        tried.append(pages.codec)
        if len(tried) > 2:
            raise torch.cuda.OutOfMemoryError("no memory left")
        add(pages, *codes)  # type: ignore[arg-type]

    add = DevicePages.add_codes
    monkeypatch.setattr(DevicePages, "add_codes", full)
    for _ in range(2):
        assert answers(held, candidates=4) == answers(writer, candidates=4)
    assert tried == ["int8"] * 3, "tried once"
    snapshot = held._view.snapshot
    assert snapshot is not None
    assert snapshot.held_summaries is not None
    assert not len(snapshot.held_summaries.pages)


def test_a_wrong_device_is_said_when_the_collection_is_opened(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="There is no device 'gpu'"):
        Index.open(tmp_path / "at", hold="gpu")


def test_hybrid_on_a_held_collection(model: VarsDoc, tmp_path: Path) -> None:
    pdf(tmp_path / "in" / "words.pdf", ["valve pressure manual", "travel expense claim", "annual revenue growth"])
    writer, held = Index.open(tmp_path / "at", model), Index.open(tmp_path / "at", model, hold="cpu")
    writer.add(tmp_path / "in")
    found = held.search("travel expense", k=3, hybrid=True)
    assert [(hit.page, hit.fused_score) for hit in found] == [
        (hit.page, hit.fused_score) for hit in writer.search("travel expense", k=3, hybrid=True)
    ]


def test_chunks_in_flight_store_the_same_pages(model: VarsDoc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "in"
    tiff(source / "long.tiff", list(range(10)))
    for i in range(3):
        picture(source / f"{i}.png", 20 + i)
    (source / "broken.png").write_bytes(b"no picture")
    plain = Index.open(tmp_path / "plain", model)
    expected = plain.add(source)
    monkeypatch.setitem(encoder.CHUNK_PAGES, "cpu", 3)
    monkeypatch.setitem(encoder.IN_FLIGHT, "cpu", 2)
    flying = Index.open(tmp_path / "flying", model)
    done = flying.add(source)
    assert done.to_json() == expected.to_json()
    assert done.added == 13
    assert flying._encoder._threads is None, "its threads are ended"
    for question in ("red valve", "blue"):
        a, b = plain.search(question, k=20), flying.search(question, k=20)
        assert [(hit.id, hit.score) for hit in a] == [(hit.id, hit.score) for hit in b]
    assert flying.add(source).unchanged == 13


def test_a_failure_in_flight_stops_the_run_and_a_later_one_goes_on(
    model: VarsDoc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "in"
    for i in range(8):
        picture(source / f"{i}.png", i)
    monkeypatch.setitem(encoder.CHUNK_PAGES, "cpu", 2)
    monkeypatch.setitem(encoder.IN_FLIGHT, "cpu", 2)
    index = Index.open(tmp_path / "at", model)
    real, calls = encoder.pack, []

    def full(*arguments: object) -> object:
        calls.append(arguments)
        if len(calls) > 4:
            raise MemoryError("no room")
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(encoder, "pack", full)
    with pytest.raises(MemoryError):
        index.add(source)
    monkeypatch.setattr(encoder, "pack", real)
    done = index.add(source)
    assert len(index) == 8
    assert done.added + done.unchanged == 8
