"""Turned print is found, and the answer points at where it stands on the page."""

from __future__ import annotations

from pathlib import Path

import lancedb
import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from index.papers import pdf
from varsdoc import Index, VarsDoc
from varsdoc.index.levelled import led_back, to_bytes

TITLES = ["Wholesale price index", "Number of students", "Average water temperature"]


def chart(path: Path, title: str) -> None:
    """Bars with years, and a title that runs up beside them and says alone what they are about."""
    page = Image.new("RGB", (640, 446), "white")
    draw = ImageDraw.Draw(page)
    font = ImageFont.load_default(12)
    for i, height in enumerate((120, 200, 160, 260, 230)):
        draw.rectangle((140 + 90 * i, 380 - height, 190 + 90 * i, 380), "steelblue")
        draw.text((150 + 90 * i, 388), str(2015 + i), "black", font)
    length = int(font.getlength(title)) + 8
    line = Image.new("RGB", (length, 20), "white")
    ImageDraw.Draw(line).text((4, 2), title, (70, 70, 70), font)
    page.paste(line.rotate(90, expand=True), (40, 220 - length // 2))
    page.save(path)


@pytest.fixture(scope="module")
def charts(tmp_path_factory: pytest.TempPathFactory) -> Index:
    base = tmp_path_factory.mktemp("levelled")
    (base / "charts").mkdir()
    for i, title in enumerate(TITLES):
        chart(base / "charts" / f"{i}.png", title)
    index = Index.open(base / "index", VarsDoc.from_pretrained(device="cpu"))
    assert index.add(base / "charts").added == 3
    return index


@pytest.mark.parametrize("i", range(3))
def test_an_upright_title_is_found_and_the_region_is_where_it_stands(charts: Index, i: int) -> None:
    hit = charts.search(TITLES[i].lower(), k=3)[0]
    assert hit.document == f"{i}.png"
    assert hit.region is not None
    x0, y0, x1, y1 = hit.region
    assert x0 < 50 / 640 < x1 < 0.2
    assert y0 < 0.5 < y1
    rows, cols = hit.grid
    assert hit.similarity().shape == (rows, cols)
    assert np.unravel_index(hit.similarity().argmax(), (rows, cols))[1] <= 4
    telling = max(hit.explain(), key=lambda word: word.score)
    assert telling.cell is not None
    assert telling.cell[1] <= 4


def test_leading_back_changes_no_maximum_and_only_cells_of_the_page() -> None:
    similarity = np.random.default_rng(0).random((4, 2 + 12 + 6 + 1))
    levelled = to_bytes([3, 3, -1, 11, 0, -1])
    assert levelled is not None
    raised = led_back(similarity, levelled, 2, 12)
    assert (raised.max(1) == similarity.max(1)).all()
    assert (raised[:, 5] == similarity[:, [5, 14, 15]].max(1)).all()
    assert (raised[:, 13] == similarity[:, [13, 17]].max(1)).all()
    assert (raised[:, 2] == similarity[:, [2, 18]].max(1)).all()
    untouched = np.setdiff1d(np.arange(21), [2, 5, 13])
    assert (raised[:, untouched] == similarity[:, untouched]).all()
    assert led_back(similarity, b"", 2, 12) is similarity
    assert to_bytes(()) is None


def test_a_collection_of_before_is_read_added_to_and_encoded_anew(model: VarsDoc, tmp_path: Path) -> None:
    """Its table lacks the column."""
    pdf(tmp_path / "old.pdf", ["valve pressure"])
    pdf(tmp_path / "new.pdf", ["expense claim"])
    index = Index.open(tmp_path / "index", model)
    index.add(tmp_path / "old.pdf")
    before = [(hit.id, hit.score, hit.region) for hit in index.search("valve", k=5)]
    database = lancedb.connect(tmp_path / "index")
    (name,) = [name for name in database.list_tables().tables if name.startswith("pages_")]
    database.open_table(name).drop_columns(["levelled"])
    again = Index.open(tmp_path / "index", model)
    assert [(hit.id, hit.score, hit.region) for hit in again.search("valve", k=5)] == before
    assert again.add(tmp_path / "new.pdf").added == 1
    assert len(again.search("claim", k=5)) == 2
    again.reindex()
    assert len(Index.open(tmp_path / "index", model).search("claim", k=5)) == 2
