"""Charts of Chart-to-text as training pages: what is asked about them, and which are kept for judging."""

from __future__ import annotations

import itertools
import json
import random
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from reading_tools import script
from varsdoc.training.generator.canvas import Canvas, Style
from varsdoc.training.generator.fonts import inspect


def draw(heights: list[int], text: str = "", paper: str | None = "white") -> Image.Image:
    """Bars on paper, or on none at all, as Statista's pictures come."""
    image = Image.new("RGB", (800, 560), paper) if paper else Image.new("RGBA", (800, 560))
    pen = ImageDraw.Draw(image)
    for i, height in enumerate(heights):
        pen.rectangle((80 + 120 * i, 500 - height, 150 + 120 * i, 500), "navy")
    pen.text((40, 510), text, "black", ImageFont.load_default(24))
    return image


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Three charts of Statista and one of Pew."""
    folder = tmp_path / "checkout" / "statista_dataset" / "dataset"
    for kind in ("imgs", "titles", "captions", "data"):
        (folder / kind).mkdir(parents=True)
        (tmp_path / "checkout" / "pew_dataset" / "dataset" / kind).mkdir(parents=True)
    heights = {1: [400, 300, 200, 100], 2: [100, 420, 90, 400], 3: [60, 60, 440, 60]}
    for number, bars in heights.items():
        draw(bars, paper=None).save(folder / "imgs" / f"{number}.png")
        (folder / "titles" / f"{number}.txt").write_text(f"Output of plant {number} from 2016 to 2019 ( in tons )")
        (folder / "captions" / f"{number}.txt").write_text(
            f"This statistic shows the output of plant {number} since 2016 . In 2019 , it had {bars[3]} tons ."
        )
        rows = "".join(f"{2016 + i},{100 * bar + number}\n" for i, bar in enumerate(bars))
        (folder / "data" / f"{number}.csv").write_text("Year,Output in tons\n" + rows)
    pew = tmp_path / "checkout" / "pew_dataset" / "dataset"
    draw([10, 200, 30, 10]).save(pew / "imgs" / "7.png")
    (pew / "titles" / "7.txt").write_text("Publik 's spoli licy")
    (pew / "captions" / "7.txt").write_text("Half of adults (52%) say they read books. Few say they do not.")
    (pew / "data" / "7.txt").write_text("Half of | adults")
    return tmp_path / "checkout"


def test_a_chart_is_asked_for_by_title_caption_and_table(checkout: Path) -> None:
    charts = script("chart_pages")
    found = {chart.name: chart for chart in charts.charts_of(checkout, "statista", 9)}
    asked = charts.questions(found["statista_1"], random.Random(1))
    assert asked[:3] == [
        "Output of plant 1 from 2016 to 2019 (in tons)",
        "the output of plant 1 since 2016.",
        "In 2019, it had 100 tons.",
    ]
    assert len(asked) == 7
    assert all("utput of plant 1" in text or "201" in text for text in asked[3:])
    (pew,) = charts.charts_of(checkout, "pew", 9)
    assert charts.questions(pew, random.Random(1)) == [
        "Half of adults (52%) say they read books.",
        "Few say they do not.",
    ]


def test_what_is_kept_for_judging_is_left_out(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged = tmp_path / "judged"
    (judged / "images").mkdir(parents=True)
    # The first as another picture of another size, the second drawn in another way with the same numbers.
    draw([400, 300, 200, 100]).resize((600, 420)).save(judged / "images" / "a.jpg", quality=70)
    draw([5, 5, 5, 5], "a line chart").save(judged / "images" / "b.jpg")
    numbers = ["10", "002", "42,002", "9002", "40.002"]
    words = [{"_id": "b", "words": [[number, 0, 0, 1, 1, 90] for number in numbers]}]
    (tmp_path / "ocr.jsonl").write_text("\n".join(map(json.dumps, words)))
    (checkout / "pew_dataset" / "dataset" / "imgs" / "8.png").write_bytes(b"\x89PNG cut off")
    options = [str(checkout), str(tmp_path / "out"), "--clear", str(judged), "--words", str(tmp_path / "ocr.jsonl")]
    monkeypatch.setattr(sys, "argv", ["chart_pages.py", *options])
    script("chart_pages").main()
    pages = [json.loads(line)["_id"] for line in (tmp_path / "out" / "corpus.jsonl").read_text().splitlines()]
    assert sorted(pages) == ["pew_7", "statista_3"]
    with Image.open(tmp_path / "out" / "images" / "statista_3.jpg") as image:
        assert image.size == (640, 448)
        assert image.getpixel((5, 5)) == (255, 255, 255)
    lines = (tmp_path / "out" / "qrels" / "test.tsv").read_text().splitlines()
    assert len(lines) == 1 + len((tmp_path / "out" / "queries.jsonl").read_text().splitlines())


@pytest.mark.skipif(shutil.which("tesseract") is None, reason="tesseract is not installed")
def test_titles_of_axes_and_rising_labels_are_read_where_they_run() -> None:
    """On a drawn chart, whose words say themselves where they are."""
    ocr_words = script("ocr_words")
    canvas = Canvas(640, 440)
    style = Style(inspect(None), 15)
    canvas.turned(40, 330, "Production in million tons", style, "axis", 90)
    for i, name in enumerate(("Germany", "Portugal", "Norway")):
        canvas.turned(180 + 110 * i, 420, name, style, "label", 45)
    canvas.text(200, 40, "Additional information", style, "note")
    found = {word[0]: word for word in ocr_words.read_page(canvas.image, 11, (90, 45))}
    assert len(found["Additional"]) == 6
    plain = {word[0] for word in ocr_words.read_page(canvas.image, 11)}
    assert not plain & {"Production", "million", "Germany", "Portugal", "Norway"}
    for word in canvas.words:
        if word.role != "note" and len(word.text) > 2:
            read = found[word.text]
            assert np.array(read[1:5]) * [640, 440, 640, 440] == pytest.approx(word.box, abs=6)
            assert np.array(read[6:]) * [640, 440, 640, 440] == pytest.approx(word.run, abs=6)


@pytest.mark.skipif(shutil.which("tesseract") is None, reason="tesseract is not installed")
def test_charts_are_read_side_by_side_and_once(tmp_path: Path) -> None:
    ocr_words = script("ocr_words")
    (tmp_path / "images").mkdir()
    names = ["Harvest", "Turbine", "Emission"]
    for name in names:
        draw([100, 200], f"{name} of the year").save(tmp_path / "images" / f"{name}.png")
    lines = [json.dumps({"_id": name, "image": f"images/{name}.png"}) for name in names]
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines))
    read = ocr_words.read_all(tmp_path, tmp_path, 11, workers=2)
    assert list(read) == names
    for name in names:
        assert name in [word[0] for word in read[name]]
        (tmp_path / "images" / f"{name}.png").unlink()
    assert (
        ocr_words.read_all(tmp_path, tmp_path, 11, workers=2) == read == ocr_words.read_all(tmp_path, tmp_path, 11, 0)
    )


def test_titles_of_axes_are_corrected_and_nothing_else() -> None:
    """An upright line is nearly a known title; a level line and a rising one of the same words stay."""
    known_titles = script("known_titles")
    known = known_titles.KnownTitles(["Number of licensed vehicles", "Number of employees", "Year", "2019"])
    assert known.titles == ["Number of employees", "Number of licensed vehicles"]
    parts = [
        ("Nurn", 0.9, 0.8),
        ("ber", 0.79, 0.75),
        ("of", 0.73, 0.7),
        ("licensed", 0.68, 0.5),
        ("vehicies", 0.48, 0.3),
    ]
    upright = [[text, 0.06, b, 0.08, a, 88, 0.07, a, 0.07, b] for text, a, b in parts]
    rising = [["Nurnber", 0.3, 0.8, 0.4, 0.9, 90, 0.3, 0.9, 0.4, 0.8]]
    level = [[text, 0.5 + i / 10, 0.1, 0.58 + i / 10, 0.12, 91] for i, text in enumerate(("Nurnber", "of", "licensed"))]
    found = known.correct([*level, *upright, *rising])
    assert found[:3] == level
    assert found[-1:] == rising
    title = found[3:-1]
    assert [row[0] for row in title] == ["Number", "of", "licensed", "vehicles"]
    assert (title[0][7], title[-1][9]) == (0.9, 0.3), "from its beginning to its end"
    assert all(row[2] < row[4] and row[1] == 0.06 and row[5] > 90 for row in title)
    assert all(before[9] > after[7] for before, after in itertools.pairwise(title))
    others = known_titles.KnownTitles(["Age of respondents", "Sales in U.S. dollars", "Number of Employees"])
    for read in ("of respondents", "Sales price in US. dollars", "Average sales in US dollars"):
        assert others.nearest(read) is None, "a word more or less is another title"
    both = known_titles.KnownTitles(["Number of Employees", "Number of employees", "(Number of) employees"])
    assert both.nearest("Number of employees") == "Number of employees"
    unlike = [[text, *row[1:]] for text, row in zip(["Prod", "uct", "ion", "volume", "tons"], upright, strict=True)]
    assert known.correct(unlike) == unlike
