"""What is deleted gives its bytes back, and no reader loses what it looks at."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

import pytest

from index.papers import picture, tiff
from varsdoc import Index, VarsDoc
from varsdoc.errors import CollectionError
from varsdoc.index.store import Generation
from varsdoc.index.tidying import optimize

SOON = timedelta(microseconds=1)


@pytest.fixture
def index(tmp_path: Path, model: VarsDoc) -> Index:
    return Index.open(tmp_path / "index", model)


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writers keep old versions for a moment instead of an hour."""
    optimize = Generation.optimize
    monkeypatch.setattr(Generation, "optimize", lambda self, exclusive: optimize(self, exclusive, SOON))


def bytes_on_disk(place: Path) -> int:
    return sum(path.stat().st_size for path in (place / "pages_1.lance" / "data").iterdir())


@pytest.mark.usefixtures("hurried")
def test_a_document_that_changes_every_day_does_not_fill_the_disk(index: Index, tmp_path: Path) -> None:
    sizes = []
    for seed in range(5):
        index.add(picture(tmp_path / "a.png", seed))
        sizes.append(bytes_on_disk(tmp_path / "index"))
    assert max(sizes) < 2 * sizes[0]
    assert len(index.search("valve")) == 1


@pytest.mark.usefixtures("hurried")
def test_a_document_that_is_removed_gives_its_bytes_back(index: Index, tmp_path: Path) -> None:
    """Also where its pages share a file with others'."""
    tiff(tmp_path / "p" / "a.tiff", [1, 2, 3, 4])
    picture(tmp_path / "p" / "b.png", 5)
    index.add(tmp_path / "p")
    before, kept = bytes_on_disk(tmp_path / "index"), index.search("valve", where="document = 'b.png'")[0].score
    index.remove("a.tiff")
    index.add(tmp_path / "p" / "b.png")  # the first run after readers had their time
    assert bytes_on_disk(tmp_path / "index") < before / 2
    assert [(hit.document, hit.score) for hit in index.search("valve")] == [("b.png", kept)]


def test_a_version_stays_for_readers_from_when_it_was_replaced(index: Index, tmp_path: Path) -> None:
    """However long ago it was made."""
    index.add(picture(tmp_path / "a.png", 1))
    hit = index.search("valve")[0]
    then = hit.jpeg()
    time.sleep(1.1)
    index.add(picture(tmp_path / "a.png", 2))
    index._store.generation(1).optimize(exclusive=True, keep=timedelta(seconds=1), force=True)
    assert hit.jpeg() == then


def test_a_small_change_rewrites_nothing(index: Index, tmp_path: Path) -> None:
    tiff(tmp_path / "p" / "a.tiff", list(range(8)))
    index.add(tmp_path / "p")
    files = {path.name for path in (tmp_path / "index" / "pages_1.lance" / "data").iterdir()}
    index.add(picture(tmp_path / "p" / "b.png", 9))
    index.remove("b.png")
    assert files <= {path.name for path in (tmp_path / "index" / "pages_1.lance" / "data").iterdir()}
    assert len(index) == 8


def test_a_reader_finds_pages_that_were_rewritten_without_a_change_of_documents(
    index: Index, tmp_path: Path, model: VarsDoc
) -> None:
    for seed in range(3):
        index.add(picture(tmp_path / f"{seed}.png", seed))
    first, second = (Index.open(tmp_path / "index", model) for _ in range(2))
    hit = first.search("valve")[0]
    assert second.search("valve")[0].id == hit.id
    with pytest.warns(UserWarning, match="removes every version"):
        optimize(index._store.generation(1).pages, timedelta(0), exclusive=True)
    with pytest.raises(CollectionError, match="search again"):
        hit.jpeg()
    assert second.page_jpeg(hit.id) == first.search("valve")[0].jpeg()
