"""The report is one file that needs nothing else, and every table says what it was made from."""

from __future__ import annotations

import base64
import io
import json
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import tiny
from evaluation_tools import RandomRetriever
from varsdoc.evaluation.cache import Cache
from varsdoc.evaluation.compare import Other, comparison_json
from varsdoc.evaluation.evaluate import How, evaluate
from varsdoc.evaluation.judged import read_folder
from varsdoc.evaluation.report.examples import data_uri, examples, heatmap, pick
from varsdoc.evaluation.report.plots import Axis, Point, bars, differences, histogram, scatter
from varsdoc.evaluation.results import SetReport
from varsdoc.evaluation.retrievers.ours import VarsDocRetriever
from varsdoc.evaluation.run import Outcome, write_report
from varsdoc.evaluation.sweep import sweep

QUIET = How(shown=False)


class Page(HTMLParser):
    """Collects what a browser would ask for, captions, and whether tags close in order."""

    VOID = frozenset(("meta", "img", "br", "circle", "line", "rect"))

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.captions: list[str] = []
        self.open: list[str] = []
        self.tables = self.plots = 0

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.asked += [value or "" for name, value in attributes if name in ("src", "href", "srcset", "action")]
        self.tables += tag == "table"
        self.plots += tag == "svg"
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID and tag != "p":
            while self.open[-1] == "p":
                self.open.pop()
            assert self.open.pop() == tag
        elif tag == "p" and self.open[-1] == "p":
            self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "caption":
            self.captions.append(data)


@pytest.fixture
def outcome(folder: Path, tmp_path: Path) -> Outcome:
    retriever, cache = VarsDocRetriever(model=tiny.model(variants=3)), Cache(tmp_path / "c")
    judged = read_folder(folder)
    result = evaluate(retriever, judged, cache, QUIET)
    other = Other.of(evaluate(RandomRetriever(variants=1, name="<b>other</b>"), judged, cache, QUIET))
    report = SetReport(result, comparison=comparison_json(result, other))
    report.sweep = sweep(retriever, result, cache, ["float16", "binary"])
    return Outcome({judged.name: report}, retriever, {judged.name: other}, cache, "varsdoc eval tiny-dev")


def test_the_page_is_whole_and_asks_for_nothing(outcome: Outcome, tmp_path: Path) -> None:
    path = write_report(outcome, str(tmp_path / "report"))
    page = Page()
    text = path.read_text(encoding="utf-8")
    page.feed(text)
    assert page.open == []
    assert page.asked
    assert all(asked.startswith("data:image/jpeg;base64,") for asked in page.asked)
    assert "@import" not in text
    assert "url(" not in text
    assert page.plots >= 4
    assert page.tables >= 4
    assert "<b>other</b>" not in text  # names are data, not markup
    assert len(text) < 1_500_000


def test_every_table_says_data_hash_cap_codec_and_command(outcome: Outcome, tmp_path: Path) -> None:
    page = Page()
    page.feed(write_report(outcome, str(tmp_path / "report")).read_text(encoding="utf-8"))
    assert outcome.retriever is not None
    assert len(page.captions) == page.tables
    for caption in page.captions:
        for fact in ("tiny-dev", outcome.retriever.identity.hash, "token cap 768", "float16", "varsdoc eval tiny-dev"):
            assert fact in caption


def test_the_json_holds_what_the_page_shows(outcome: Outcome, tmp_path: Path) -> None:
    write_report(outcome, str(tmp_path / "report"))
    content = json.loads((tmp_path / "report" / "results.json").read_text())
    found = content["datasets"]["tiny-dev"]
    assert set(found["per_query"]) == {f"q{i}" for i in range(8)}
    assert len(found["sweep"]) == 8  # two codecs, K of 1 (one way) and 3 (three ways)
    assert found["comparison"]["queries"] == 8
    assert content["model"]["token_cap"] == 768
    assert content["command"] == "varsdoc eval tiny-dev"
    assert {row["page"] for row in found["documents"]} == {"p0", "p1", "p2", "p3"}


def test_wins_and_losses_are_the_largest_and_have_pictures(outcome: Outcome) -> None:
    found = outcome.sets["tiny-dev"].result
    shown = examples(found, outcome.others["tiny-dev"].values, outcome.retriever, outcome.cache)
    own = found.measured.per_query["ndcg@10"]
    values = outcome.others["tiny-dev"].values
    expected = [own[i] - values[query.id] for i, query in enumerate(found.judged.queries)]
    np.testing.assert_allclose(shown["differences"], expected)
    for kind, sign in (("wins", 1), ("losses", -1)):
        gaps = [sign * (row["ndcg@10"] - row["before"]) for row in shown[kind]]
        assert gaps == sorted(gaps, reverse=True)
        assert all(gap > 0 for gap in gaps)
    assert pick([0.0, 0.0]) == ([], [])


def test_the_heatmap_points_at_the_cell_that_matches(outcome: Outcome) -> None:
    """A question whose every token is one cell's vector: that cell is the hottest."""
    result, cache = outcome.sets["tiny-dev"].result, outcome.cache

    class Pointing:
        identity = result.identity
        layout = staticmethod(outcome.retriever.layout)  # type: ignore[union-attr]

        def encode_queries(self, texts: list[str]) -> list[np.ndarray]:
            vectors = cache.read_array(result.identity.space, result.page_keys[0])
            layout = outcome.retriever.layout(result.judged.pages[0].image(), vectors.shape[1])  # type: ignore[union-attr]
            return [np.repeat(vectors[1, layout.start + 7][None], 3, 0).astype(np.float32)]

    heat = heatmap(result, 0, "a question of its own", 1, Pointing(), cache, result.judged.pages[0])
    assert heat is not None
    assert heat.shape == (4, 5)  # 112 x 140 pixels in cells of 28
    assert heat.argmax() == 7
    assert heat.max() == pytest.approx(1)
    assert heat.min() == pytest.approx(0)


def test_pictures_are_small_jpegs() -> None:
    uri = data_uri(Image.new("RGB", (2000, 1000), "white"), np.eye(4, dtype=np.float32))
    picture = Image.open(io.BytesIO(base64.b64decode(uri.split(",")[1])))
    assert picture.format == "JPEG"
    assert max(picture.size) <= 680
    assert picture.getpixel((1, 1)) != (255, 255, 255)


def test_plots_have_titles_and_axes() -> None:
    plots = [
        bars([0.5, 0.5], ["V1", "V2"], "Usage", "variant", "share", 0.5),
        histogram([0.0, 0.1, 0.2], [3, 1], "Gaps", "gap", "pairs", 0.01),
        scatter([Point(1e4, 0.5, "binary", "K=1", 0.4, 0.6), Point(1e6, 0.6, "int8", "K=5")], "Bytes", "bytes", "NDCG"),
        differences([0.5, -0.2, 0.0], "Differences", "queries", "NDCG"),
    ]
    for plot, title, x, y in zip(
        plots,
        ("Usage", "Gaps", "Bytes", "Differences"),
        ("variant", "gap", "bytes", "queries"),
        ("share", "pairs", "NDCG", "NDCG"),
        strict=True,
    ):
        assert f">{title}</text>" in plot
        assert f">{x}</text>" in plot
        assert f">{y}</text>" in plot
        assert "nan" not in plot
    axis = Axis(0, 1, 0, 100)
    assert axis.at(0.25) == 25
    assert axis.ticks() == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1.0])
