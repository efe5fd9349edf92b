"""What adding promises: the same again changes nothing, a change replaces, nothing is lost or removed silently."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from index.papers import pdf, picture, tiff
from varsdoc import Index, VarsDoc
from varsdoc.errors import CollectionError, ConfigError, FingerprintError, InputError
from varsdoc.index.encoder import DEFAULT_CODEC, Encoder
from varsdoc.index.store import Generation, Store
from varsdoc.pages import DocumentEnd, Failure, Page, find, read


@pytest.fixture
def papers(tmp_path: Path) -> Path:
    tiff(tmp_path / "papers" / "a.tiff", [1, 2, 3])
    picture(tmp_path / "papers" / "b.png", 4)
    return tmp_path / "papers"


@pytest.fixture
def index(tmp_path: Path, model: VarsDoc) -> Index:
    return Index.open(tmp_path / "index", model)


def pages_in_table(path: Path) -> int:
    store = Store(path)
    return int(store.generation(store.state().generation).pages.count_rows())


def names(index: Index) -> list[str]:
    return [document.document for document in index.list()]


def test_adding_twice_changes_nothing(index: Index, papers: Path, tmp_path: Path) -> None:
    assert index.add(papers).added == 4
    before = {hit.id: hit.score for hit in index.search("valve")}
    again = index.add([papers, papers / "a.tiff"])
    assert (again.added, again.unchanged, again.replaced) == (0, 4, 0)
    assert {hit.id: hit.score for hit in index.search("valve")} == before
    assert pages_in_table(tmp_path / "index") == 4


def test_a_changed_document_replaces_itself_and_leaves_nothing(index: Index, papers: Path, tmp_path: Path) -> None:
    index.add(papers)
    tiff(papers / "a.tiff", [5])
    assert index.add(papers).replaced == 1
    assert [(d.document, d.pages) for d in index.list()] == [("a.tiff", 1), ("b.png", 1)]
    assert pages_in_table(tmp_path / "index") == 2


def test_a_document_that_became_unreadable_keeps_its_previous_version(index: Index, papers: Path) -> None:
    index.add(papers)
    before = {hit.id: hit.score for hit in index.search("valve")}
    (papers / "a.tiff").write_bytes(b"II*\0 this is no picture")
    done = index.add(papers)
    assert [failed.source for failed in done.failed] == [str((papers / "a.tiff").resolve())]
    assert {hit.id: hit.score for hit in index.search("valve")} == before


def test_a_document_that_breaks_off_is_not_shown_in_part(
    index: Index, papers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaking_off(*args: Any, **options: Any) -> Iterator[Page | Failure | DocumentEnd]:
        for item in read(*args, **options):
            if isinstance(item, DocumentEnd) and item.pages == 3:
                failure = Failure(item.document.source, "It has too many bad pages.")
                yield from (failure, DocumentEnd(item.document, item.pages, (failure,)))
            else:
                yield item

    monkeypatch.setattr("varsdoc.pages.read", breaking_off)
    done = index.add(papers)
    assert (done.added, [Path(failed.source).name for failed in done.failed]) == (1, ["a.tiff"])
    assert names(index) == ["b.png"]
    assert pages_in_table(tmp_path / "index") == 1


def test_files_that_are_gone_are_counted_and_pruned_on_request(index: Index, papers: Path, tmp_path: Path) -> None:
    index.add(papers)
    other = picture(tmp_path / "elsewhere" / "c.png", 9)
    index.add(other)
    (papers / "a.tiff").unlink()
    other.unlink()
    done = index.add(papers)
    assert done.gone == ["a.tiff"]
    assert names(index) == ["a.tiff", "b.png", "c.png"]
    assert index.add(papers, prune=True).pruned == ["a.tiff"]
    assert names(index) == ["b.png", "c.png"]


def test_a_folder_that_is_not_there_prunes_nothing(index: Index, papers: Path, tmp_path: Path) -> None:
    index.add(papers)
    papers.rename(tmp_path / "unmounted")
    done = index.add(papers, prune=True)
    assert (done.gone, done.pruned, len(done.failed)) == ([], [], 1)
    assert len(index) == 4
    papers.mkdir()
    assert index.add(papers / "b.png", prune=True).pruned == ["b.png"]
    assert names(index) == ["a.tiff"]


def test_two_sources_with_one_name_are_told_apart_and_stay_so(index: Index, tmp_path: Path) -> None:
    first = picture(tmp_path / "one" / "page.png", 1)
    second = picture(tmp_path / "two" / "page.png", 2)
    index.add(tmp_path / "one")
    index.add(tmp_path / "two")
    sources = {d.document: d.source for d in index.list()}
    assert sources == {"page.png": str(first), "page (2).png": str(second)}
    index.remove("page.png")
    picture(second, 3)
    index.add(tmp_path / "two")
    assert names(index) == ["page (2).png"]
    index.add(tmp_path / "one")
    assert {d.document: d.source for d in index.list()} == sources


def test_a_name_means_the_document_and_not_a_file_in_the_working_folder(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = picture(tmp_path / "two" / "page.png", 2)
    picture(tmp_path / "one" / "page.png", 1)
    index.add(second)
    index.add(tmp_path / "one")
    index.add(second, metadata={"year": 2023})  # its row is now behind the other's
    assert names(index) == ["page (2).png", "page.png"]
    monkeypatch.chdir(tmp_path / "one")  # here page.png is the other one
    index.remove("page.png")
    assert {d.source for d in index.list()} == {str(tmp_path / "one" / "page.png")}
    index.remove(str(tmp_path / "one" / "page.png"))
    assert names(index) == []


def test_metadata_is_laid_over_and_filters(index: Index, papers: Path, tmp_path: Path) -> None:
    file = tmp_path / "about.jsonl"
    lines = [{"document": "a.tiff", "team": "Sales", "draft": True}, {"document": "papers/b.png", "team": "It's"}]
    file.write_text("\n".join(json.dumps(line) for line in lines))
    index.add(papers, metadata={"year": 2023}, metadata_file=file)
    assert {d.document: d.metadata for d in index.list()} == {
        "a.tiff": {"draft": True, "team": "Sales", "year": 2023},
        "b.png": {"team": "It's", "year": 2023},
    }
    assert index.add(papers, metadata={"year": 2024, "draft": None}).unchanged == 4
    assert [d.document for d in index.list("year = 2024 AND team IS NOT NULL")] == ["a.tiff", "b.png"]
    assert {hit.document for hit in index.search("valve", where="metadata.team = 'It''s'")} == {"b.png"}
    tiff(papers / "a.tiff", [8])
    index.add(papers)
    assert {hit.metadata["team"] for hit in index.search("valve", where="document = 'a.tiff'")} == {"Sales"}


def test_a_metadata_file_may_hold_any_sign_in_its_texts(index: Index, papers: Path, tmp_path: Path) -> None:
    """JSON lets a line separator (U+2028) and its like stand in a string."""
    file = tmp_path / "about.jsonl"
    lines = [{"document": name, "title": "one\u2028two\x85three"} for name in ("a.tiff", "b.png")]
    file.write_text("\r\n".join(json.dumps(line, ensure_ascii=False) for line in lines), encoding="utf-8")
    index.add(papers, metadata_file=file)
    assert {d.metadata["title"] for d in index.list()} == {"one\u2028two\x85three"}


@pytest.mark.parametrize(
    "wrong", [{"page": 1}, {"": 1}, {"x.y": 1}, {"list": [1]}, {"big": 2**70}, {"bad": float("nan")}]
)
def test_metadata_that_cannot_be_filtered_is_refused(index: Index, papers: Path, wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        index.add(papers, metadata=wrong)


def test_a_stopped_run_shows_whole_documents_and_the_next_one_encodes_only_the_rest(
    papers: Path, model: VarsDoc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiff(papers / "c.tiff", list(range(20, 40)))
    encoded: list[int] = []
    encode = Encoder.encode

    def stop_after_two(self: Encoder, pages, versions, found):  # type: ignore[no-untyped-def]
        if len(encoded) == 2:
            raise KeyboardInterrupt
        encoded.append(len(pages))
        return encode(self, pages, versions, found)

    monkeypatch.setattr(Encoder, "encode", stop_after_two)
    with pytest.raises(KeyboardInterrupt):
        Index.open(tmp_path / "index", model).add(papers)
    monkeypatch.undo()
    assert encoded == [8, 8]
    index = Index.open(tmp_path / "index", model)
    assert names(index) == ["a.tiff", "b.png"]
    assert pages_in_table(tmp_path / "index") == 16
    done = index.add(papers)
    assert (done.added, done.unchanged, done.reused) == (20, 4, 12)
    assert pages_in_table(tmp_path / "index") == 24
    assert len({hit.id for hit in index.search("valve", k=50)}) == 24


def test_what_a_stopped_run_left_is_dropped_by_the_next_writer(
    index: Index, papers: Path, tmp_path: Path, model: VarsDoc
) -> None:
    index.add(papers)
    store = Store(tmp_path / "index")
    generation = store.generation(1)
    row = generation.pages.search().limit(1).to_arrow()
    orphan = row.set_column(row.schema.get_field_index("version"), "version", [["0" * 32]])
    generation.pages.add(orphan)
    assert pages_in_table(tmp_path / "index") == 5
    index.add(papers)
    assert pages_in_table(tmp_path / "index") == 4


def test_a_page_that_failed_is_named_and_tried_again(
    index: Index, papers: Path, model: VarsDoc, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that the model refuses today; the next run brings it, and does not encode its neighbours anew."""
    refused = Page.image(next(p for p in read(find([papers / "a.tiff"])) if isinstance(p, Page) and p.number == 1))
    encoded: list[int] = []
    encode_pages = model.encode_pages

    def choosy(images, **options):  # type: ignore[no-untyped-def]
        if any(image.tobytes() == refused.tobytes() for image in images):
            raise InputError("This page is not to my taste.")
        return encode_pages(images, **options)

    monkeypatch.setattr(model, "encode_pages", choosy)
    done = index.add(papers)
    assert (done.added, [(f.page, f.reason) for f in done.failed]) == (3, [(2, "This page is not to my taste.")])
    assert sorted((hit.document, hit.page) for hit in index.search("v")) == [("a.tiff", 1), ("a.tiff", 3), ("b.png", 1)]
    again = index.add(papers)
    assert (again.added, again.unchanged, [f.page for f in again.failed]) == (0, 3, [2])

    def counting(images, **options):  # type: ignore[no-untyped-def]
        encoded.append(len(images))
        return encode_pages(images, **options)

    monkeypatch.setattr(model, "encode_pages", counting)
    now = index.add(papers)
    assert (now.added, now.unchanged, now.failed, encoded) == (1, 3, [], [1])
    assert len(index.search("v")) == len(index) == 4


def test_another_encoder_is_refused_and_both_are_named(
    index: Index, papers: Path, tmp_path: Path, checkpoint: Path, other_checkpoint: Path
) -> None:
    index.add(papers)
    with pytest.raises(FingerprintError) as caught:
        Index.open(tmp_path / "index", other_checkpoint, device="cpu")
    assert str(checkpoint) in str(caught.value)
    assert str(other_checkpoint) in str(caught.value)
    assert "reindex" in str(caught.value)
    with pytest.raises(FingerprintError, match=f"codes as {DEFAULT_CODEC} with pool=2, and binary was"):
        Index.open(tmp_path / "index", codec="binary")
    for same in ({"codec": "int4"}, {"codec": "int4", "codec_options": {"pool": 2, "share": False}}):
        Index.open(tmp_path / "index", **same)
    with pytest.raises(FingerprintError, match="int4 was asked"):
        Index.open(tmp_path / "index", codec_options={"pool": 1})


def test_the_encoder_is_found_again_by_its_fingerprint(index: Index, papers: Path, tmp_path: Path) -> None:
    index.add(papers)
    again = Index.open(tmp_path / "index")
    assert [hit.id for hit in again.search("valve")] == [hit.id for hit in index.search("valve")]


def test_without_pictures_pages_are_rendered_again_while_the_file_is_the_same(tmp_path: Path, model: VarsDoc) -> None:
    source = pdf(tmp_path / "papers" / "a.pdf", ["one", "two"])
    plain = Index.open(tmp_path / "plain", model, images=False)
    stored = Index.open(tmp_path / "stored", model)
    for index in (plain, stored):
        index.add(source)
    hit, same = plain.search("one")[0], stored.search("one")[0]
    assert hit.jpeg() == same.jpeg()
    assert plain._store.generation(1).pages.count_rows("jpeg IS NOT NULL") == 0
    pdf(source, ["three"])
    with pytest.raises(CollectionError, match="cannot be rendered again"):
        hit.image()


def test_a_folder_with_other_things_is_not_written_to(papers: Path, model: VarsDoc) -> None:
    with pytest.raises(CollectionError, match="has other things in it"):
        Index.open(papers, model)


def test_a_tilde_is_the_home_folder_for_paths_and_collections_alike(
    papers: Path, tmp_path: Path, model: VarsDoc, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    index = Index.open("~/index", model)
    assert index.add("~/papers").added == 4
    assert (tmp_path / "index" / "collection.lance").is_dir()
    (papers / "b.png").unlink()
    assert index.add("~/papers").gone == ["b.png"]


def test_nothing_found_makes_no_collection(index: Index, tmp_path: Path) -> None:
    done = index.add(tmp_path / "nowhere")
    assert done.nothing_done
    assert len(done.failed) == 1
    with pytest.raises(CollectionError, match="There is no collection"):
        index.search("valve")


def test_what_a_kill_left_of_a_new_collection_is_no_collection(papers: Path, tmp_path: Path, model: VarsDoc) -> None:
    os.makedirs(tmp_path / "index" / "collection.lance" / "_versions")
    os.makedirs(tmp_path / "index" / "pages_1.lance" / "data")
    index = Index.open(tmp_path / "index", model)
    assert index.add(papers).added == 4
    assert len(index) == 4


def test_a_page_that_is_there_stays_though_it_cannot_be_drawn_again(
    index: Index, papers: Path, model: VarsDoc, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One page is missing, so the document is read again; this time its neighbour fails, for want of memory say."""
    refused = Page.image(next(p for p in read(find([papers / "a.tiff"])) if isinstance(p, Page) and p.number == 1))
    encode_pages = model.encode_pages

    def choosy(images, **options):  # type: ignore[no-untyped-def]
        if any(image.tobytes() == refused.tobytes() for image in images):
            raise InputError("This page is not to my taste.")
        return encode_pages(images, **options)

    monkeypatch.setattr(model, "encode_pages", choosy)
    index.add(papers)
    monkeypatch.setattr("varsdoc.pages.read", _failing_on(2))
    again = index.add(papers)
    assert (again.added, again.unchanged, [f.page for f in again.failed]) == (0, 3, [2])
    assert sorted((hit.document, hit.page) for hit in index.search("v")) == [("a.tiff", 1), ("a.tiff", 3), ("b.png", 1)]


def _failing_on(number: int) -> Callable[..., Iterator[Page | Failure | DocumentEnd]]:
    """The reader, but a page comes as a failure."""

    def reading(*args: Any, **options: Any) -> Iterator[Page | Failure | DocumentEnd]:
        for item in read(*args, **options):
            bad = isinstance(item, Page) and item.number == number
            yield Failure(item.document.source, "It needs more memory.", number) if bad else item

    return reading


@pytest.mark.parametrize("wrong", [{"codec": "int2"}, {"codec_options": {"pool": 0}}, {"codec_options": {"poool": 2}}])
def test_a_codec_that_cannot_be_is_refused_before_anything_is_made(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Index.open(tmp_path / "index", **wrong)
    assert not (tmp_path / "index").exists()


def test_a_page_that_was_staged_late_is_not_seen_before_its_commit(
    index: Index, papers: Path, model: VarsDoc, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that was missing is encoded by a later run, which is killed before it says so."""
    with monkeypatch.context() as patch:
        patch.setattr("varsdoc.pages.read", _failing_on(1))
        assert [failed.page for failed in index.add(papers).failed] == [2]
    with monkeypatch.context() as patch:
        patch.setattr(Generation, "commit", _killed)
        with pytest.raises(KeyboardInterrupt):
            index.add(papers)
    shown = [("a.tiff", 1), ("a.tiff", 3), ("b.png", 1)]
    assert sorted((hit.document, hit.page) for hit in index.search("v")) == shown
    done = index.add(papers)
    assert (done.added, done.unchanged, done.failed) == (1, 3, [])
    assert len(index.search("v")) == 4


def _killed(*_: Any) -> None:
    raise KeyboardInterrupt


def test_text_that_was_not_asked_for_comes_in_later_without_encoding_again(
    tmp_path: Path, model: VarsDoc, monkeypatch: pytest.MonkeyPatch
) -> None:
    papers = tmp_path / "papers"
    pdf(papers / "a.pdf", ["revenue growth", "red valve"])
    picture(papers / "b.png", 4)
    index, reader = (Index.open(tmp_path / "index", model) for _ in range(2))
    index.add(papers, text=False, metadata={"year": 2020})
    with pytest.warns(UserWarning, match="text layer"):
        plain = [(hit.id, hit.score) for hit in reader.search("valve", hybrid=True)]
    monkeypatch.setattr(VarsDoc, "encode_pages", lambda *_, **__: pytest.fail("encoded again"))
    done = index.add(papers)
    assert (done.added, done.unchanged, done.replaced, done.failed) == (0, 3, 0, [])
    first = reader.search("valve", hybrid=True)[0]
    assert (first.document, first.page) == ("a.pdf", 2)
    assert sorted((hit.id, hit.score) for hit in reader.search("valve")) == sorted(plain)
    assert all(hit.jpeg() for hit in reader.search("valve"))
    assert {d.document: dict(d.metadata) for d in index.list()} == {n: {"year": 2020} for n in ("a.pdf", "b.png")}
    # Once looked for, a picture's missing text is not looked for again.
    monkeypatch.setattr("varsdoc.index.adding.Run.take", lambda *_: pytest.fail("read again"))
    assert index.add(papers).unchanged == 3
    assert index.add(papers, text=False).unchanged == 3
    assert reader.search("valve", hybrid=True)[0].page == 2
