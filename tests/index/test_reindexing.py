"""Encoding anew: beside the old collection, resumable, swapped by one commit, and nothing lost."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from index.conftest import save_checkpoint
from index.papers import pdf, picture, tiff
from varsdoc import Index, VarsDoc
from varsdoc.errors import FingerprintError
from varsdoc.index.encoder import DEFAULT_CODEC, Encoder
from varsdoc.index.store import Store


@pytest.fixture
def papers(tmp_path: Path) -> Path:
    tiff(tmp_path / "papers" / "a.tiff", [1, 2, 3])
    picture(tmp_path / "papers" / "b.png", 4)
    pdf(tmp_path / "papers" / "c.pdf", ["revenue growth", "red valve"])
    return tmp_path / "papers"


def ranking(index: Index, query: str = "valve") -> list[tuple[str, float]]:
    return [(hit.id, round(hit.score, 4)) for hit in index.search(query, k=50)]


def test_reindex_gives_what_indexing_anew_gives(
    papers: Path, tmp_path: Path, model: VarsDoc, other_checkpoint: Path
) -> None:
    index = Index.open(tmp_path / "index", model)
    index.add(papers, metadata={"year": 2020})
    reader = Index.open(tmp_path / "index")
    before = ranking(reader)
    for path in papers.iterdir():
        path.unlink()  # the stored pictures are enough
    done = index.reindex(other_checkpoint, codec="binary", device="cpu")
    assert (done.pages, done.documents, done.swapped, done.failed) == (6, 3, True, [])
    assert ranking(reader) == ranking(index) != before  # a reader without a model of its own follows
    assert index.fingerprint.variants == 2
    assert index.fingerprint.codec == "binary"
    assert {d.document: dict(d.metadata) for d in index.list()}["c.pdf"] == {"year": 2020}
    assert index.search("valve", hybrid=True)[0].document == "c.pdf"
    assert sorted(p.name for p in (tmp_path / "index").glob("*.lance")) == [
        "collection.lance",
        "documents_2.lance",
        "pages_2.lance",
    ]
    fresh = Index.open(tmp_path / "index", other_checkpoint, device="cpu")
    assert ranking(fresh) == ranking(index)
    with pytest.raises(FingerprintError):
        Index.open(tmp_path / "index", model)


def test_a_reindex_with_the_same_encoder_is_not_needed(papers: Path, tmp_path: Path, model: VarsDoc) -> None:
    index = Index.open(tmp_path / "index", model)
    index.add(papers)
    done = index.reindex()
    assert (done.needed, done.swapped, done.pages) == (False, True, 0)


def test_a_stopped_reindex_changes_nothing_and_goes_on(
    papers: Path, tmp_path: Path, model: VarsDoc, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = Index.open(tmp_path / "index", model)
    index.add(papers)
    before = ranking(index)
    calls: list[int] = []
    encode = Encoder.encode

    def stop_at_third(self: Encoder, pages, versions, found):  # type: ignore[no-untyped-def]
        calls.append(len(pages))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return encode(self, pages, versions, found)

    monkeypatch.setattr(Encoder, "encode", stop_at_third)
    with pytest.raises(KeyboardInterrupt):
        index.reindex(codec="float16")
    assert calls == [3, 1, 2]
    assert ranking(index) == before
    # The collection lives on meanwhile: one document goes, one changes.
    index.remove("b.png")
    tiff(papers / "a.tiff", [7])
    index.add(papers / "a.tiff")
    assert index.fingerprint.codec == DEFAULT_CODEC
    calls.clear()
    monkeypatch.setattr(Encoder, "encode", lambda s, p, v, f: calls.append(len(p)) or encode(s, p, v, f))
    done = index.reindex(codec="float16")
    assert (done.swapped, done.pages, calls) == (True, 3, [1, 2])
    assert [(d.document, d.pages) for d in index.list()] == [("a.tiff", 1), ("c.pdf", 2)]
    whole = Index.open(tmp_path / "whole", model, codec="float16")
    for name in ("a.tiff", "c.pdf"):
        whole.add(papers / name)
    assert ranking(index) == ranking(whole)


def test_another_codec_keeps_the_settings_that_the_encoder_was_opened_with(
    papers: Path, tmp_path: Path, checkpoint: Path
) -> None:
    narrow = VarsDoc.from_pretrained(checkpoint, device="cpu", max_visual_tokens=12, query_prefix="Find: ")
    index = Index.open(tmp_path / "index", narrow)
    index.add(papers)
    made_with = index.fingerprint
    assert Index.open(tmp_path / "index").reindex(codec="float16", device="cpu").swapped
    assert index.fingerprint.hash == made_with.hash
    assert (index.fingerprint.max_visual_tokens, index.fingerprint.query_prefix) == (12, "Find: ")


def test_a_checkpoint_that_was_trained_further_is_taken_as_it_is_today(
    papers: Path, tmp_path: Path, other_checkpoint: Path
) -> None:
    place = save_checkpoint(tmp_path / "model", seed=3)
    index = Index.open(tmp_path / "index", place, device="cpu")
    index.add(papers)
    shutil.rmtree(place)
    shutil.copytree(other_checkpoint, place)
    assert Index.open(tmp_path / "index").reindex(device="cpu").swapped
    assert index.fingerprint.variants == 2


def stop_before(monkeypatch: pytest.MonkeyPatch, table: str) -> None:
    """As if killed there: a table is about to be made."""
    create = Store._create

    def stopped(self: Store, name: str, **content: object) -> None:
        if name == table:
            raise KeyboardInterrupt
        create(self, name, **content)

    monkeypatch.setattr(Store, "_create", stopped)


def test_a_kill_between_two_reindexes_loses_no_page(
    papers: Path, tmp_path: Path, model: VarsDoc, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = Index.open(tmp_path / "index", model, images=False)
    index.add(papers)
    (papers / "b.png").rename(tmp_path / "away.png")
    assert not index.reindex(codec="float16").swapped  # it waits for a file
    with monkeypatch.context() as patch:
        stop_before(patch, "documents_2")
        with pytest.raises(KeyboardInterrupt):
            index.reindex(codec="binary")
    (tmp_path / "away.png").rename(papers / "b.png")
    assert index.reindex(codec="float16").swapped
    assert len(index.search("valve", k=50)) == 6


def test_a_reindex_that_is_called_off_leaves_nothing_behind(papers: Path, tmp_path: Path, model: VarsDoc) -> None:
    index = Index.open(tmp_path / "index", model, images=False)
    index.add(papers)
    before = ranking(index)
    (papers / "b.png").rename(tmp_path / "away.png")
    assert not index.reindex(codec="float16").swapped
    assert not index.reindex(codec=DEFAULT_CODEC).needed
    assert not (tmp_path / "index" / "pages_2.lance").exists()
    assert ranking(index) == before


def test_without_pictures_a_lost_source_stops_the_swap_and_is_named(
    papers: Path, tmp_path: Path, model: VarsDoc
) -> None:
    index = Index.open(tmp_path / "index", model, images=False)
    index.add(papers)
    before = ranking(index)
    (papers / "b.png").rename(tmp_path / "away.png")
    done = index.reindex(codec="float16")
    assert not done.swapped
    assert [Path(failed.source).name for failed in done.failed] == ["b.png"]
    assert index.fingerprint.codec == DEFAULT_CODEC
    assert ranking(index) == before
    (tmp_path / "away.png").rename(papers / "b.png")
    done = index.reindex(codec="float16")
    assert (done.swapped, done.pages) == (True, 6)
    assert len(index) == 6
    (papers / "b.png").unlink()
    done = index.reindex(codec="binary", drop_unreadable=True)
    assert (done.swapped, len(done.failed)) == (True, 1)
    assert [d.document for d in index.list()] == ["a.tiff", "c.pdf"]
