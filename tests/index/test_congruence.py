"""One scenario, every codec and every place: add, search, filter, replace, delete, reopen.

The reference is plain: every page encoded, packed and unpacked by the codec, scored exhaustively in float32. An index
must rank like it; and the codec itself stays within its stated loss of the floats.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from index.papers import picture, tiff
from varsdoc import Index, VarsDoc, score_pages
from varsdoc.index.codecs import get_codec
from varsdoc.pages import Page, find, read

QUERIES = ("the red valve", "growth of revenue in Europe")
# Largest error of a score per query token; sixteen dimensions, where one bit each says little.
LOSS = {"float16": 2e-3, "int8": 2e-2, "int4": 0.1, "binary": 0.35}


def documents(folder: Path) -> Path:
    tiff(folder / "a.tiff", [1, 2, 3])
    tiff(folder / "b.tiff", [4, 5])
    picture(folder / "deep" / "c.png", 6, (112, 84))
    picture(folder / "d.png", 7)
    return folder


class Reference:
    """Every page of a folder, by (document, page)."""

    def __init__(self, folder: Path, model: VarsDoc, codec: str, options: dict[str, Any]) -> None:
        pages = [item for item in read(find([folder])) if isinstance(item, Page)]
        embedded = model.encode_pages([page.image() for page in pages])
        one = get_codec(codec, **options)
        self.keys = [(page.document.name, page.number + 1) for page in pages]
        self.exact = [page.variants.float() for page in embedded]
        self.coded = [torch.from_numpy(one.unpack(one.pack(page.numpy()))) for page in self.exact]

    def scores(self, vectors: torch.Tensor, coded: bool = True) -> dict[tuple[str, int], float]:
        total = score_pages([vectors], self.coded if coded else self.exact).total[0]
        return dict(zip(self.keys, total.tolist(), strict=True))


def agree(index: Index, reference: Reference, model: VarsDoc, codec: str, lossy: bool) -> None:
    for query in QUERIES:
        vectors = model.encode_queries([query])[0]
        expected, exact = reference.scores(vectors), reference.scores(vectors, coded=False)
        hits = index.search(query, k=50)
        assert {(hit.document, hit.page) for hit in hits} == set(expected)
        for hit in hits:
            assert hit.score == pytest.approx(expected[hit.document, hit.page], abs=0.02 * len(vectors))
            assert hit.score == max(hit.variant_scores) == hit.variant_scores[hit.variant]
            assert hit.score_normalised == pytest.approx(hit.score / len(vectors))
            if not lossy:
                error = abs(hit.score - exact[hit.document, hit.page]) / len(vectors)
                assert error < LOSS[codec]
        # The same order, wherever the reference itself tells two pages apart.
        for better, worse in pairwise(hits):
            assert expected[better.document, better.page] > expected[worse.document, worse.page] - 0.02 * len(vectors)


CASES = [
    ("float16", {}, "folder", 1 << 30),
    ("int8", {}, "folder", 1 << 30),
    ("int8", {}, "folder", 0),
    ("int4", {}, "folder", 1 << 30),
    ("int4", {"share": 0.95}, "folder", 0),
    ("binary", {}, "folder", 1 << 30),
    ("binary", {"share": True}, "folder", 0),
    ("int8", {"pool": 3, "share": True}, "folder", 1 << 30),
    ("int8", {}, "s3", 1 << 30),
    ("int4", {"share": True}, "s3", 1 << 30),
    ("binary", {"share": True}, "s3", 0),
]


@pytest.mark.parametrize(("codec", "options", "place", "memory"), CASES)
def test_add_search_filter_replace_delete_reopen(
    codec: str, options: dict[str, Any], place: str, memory: int, model: VarsDoc, tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:  # fmt: skip
    folder = documents(tmp_path / "papers")
    path = f"{request.getfixturevalue('s3')}/{codec}" if place == "s3" else str(tmp_path / "index")

    def reopened() -> Index:
        return Index.open(path, model, codec=codec, codec_options=options, memory=memory)

    def check(index: Index) -> None:
        lossy = "pool" in options or isinstance(options.get("share"), float)
        agree(index, Reference(folder, model, codec, options), model, codec, lossy)

    index = reopened()
    done = index.add(folder, metadata={"year": 2020})
    assert (done.added, done.unchanged, done.replaced, done.failed) == (7, 0, 0, [])
    check(index)

    only = index.search(QUERIES[0], where="document = 'a.tiff' AND page >= 2 AND year = 2020")
    assert {(hit.document, hit.page) for hit in only} == {("a.tiff", 2), ("a.tiff", 3)}
    everything = {(hit.document, hit.page): hit.score for hit in index.search(QUERIES[0], k=50)}
    assert all(hit.score == everything[hit.document, hit.page] for hit in only)

    tiff(folder / "a.tiff", [11, 12])
    done = index.add(folder)
    assert (done.added, done.unchanged, done.replaced) == (0, 4, 2)
    check(index)

    assert index.remove("b.tiff") == 2
    (folder / "b.tiff").unlink()
    check(index)

    again = reopened()
    check(again)
    assert [(d.document, d.pages) for d in again.list()] == [("a.tiff", 2), ("d.png", 1), ("deep/c.png", 1)]
    done = again.add(folder)
    assert (done.added, done.unchanged, done.replaced, done.gone) == (0, 4, 0, [])


def test_an_image_region_and_heatmap_come_with_every_place(model: VarsDoc, tmp_path: Path, s3: str) -> None:
    folder = documents(tmp_path / "papers")
    for path in (str(tmp_path / "index"), f"{s3}/pictures"):
        index = Index.open(path, model)
        index.add(folder)
        hit = index.search(QUERIES[0], k=1)[0]
        assert hit.image().size in {(84, 112), (112, 84)}
        assert hit.heatmap().size == hit.image().size
        box = hit.region
        assert box is None or (0 <= box[0] < box[2] <= 1 and 0 <= box[1] < box[3] <= 1)
        assert np.isfinite(hit.similarity(variant=0, token=0)).all()


def test_a_second_writer_on_s3_is_refused(model: VarsDoc, tmp_path: Path, s3: str) -> None:
    from varsdoc.errors import BusyError

    first, second = (Index.open(f"{s3}/busy", model) for _ in range(2))
    with first._store.writing(), pytest.raises(BusyError, match="its lease ends in"):
        second.add(documents(tmp_path / "papers"))
    assert second.add(tmp_path / "papers").added == 7
