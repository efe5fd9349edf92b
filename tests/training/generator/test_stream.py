"""Pages: the same for the same seed wherever they are made, right at every size, with words where the ink is."""

import operator
import pickle
from concurrent.futures import ProcessPoolExecutor
from itertools import combinations, islice, pairwise
from multiprocessing import get_context

import numpy as np
import pytest

from varsdoc.training.generator import PageStream, Wear
from varsdoc.training.generator.layouts import CHARTS, LAYOUTS, WEIGHTS

EVERY = sorted(LAYOUTS)
SIZES = [(780, 1000), (96, 96), (1700, 240), (220, 1500)]


def same(a, b):
    return np.array_equal(a.image, b.image) and a.words == b.words and a.queries == b.queries and a.layout == b.layout


def test_a_page_depends_on_seed_and_index_only():
    stream = PageStream(seed=3)
    backwards = {i: stream[i] for i in (5, 2, 0)}
    assert all(same(stream[i], page) for i, page in backwards.items())
    assert not same(stream[0], stream[2])
    assert not same(PageStream(seed=4)[0], stream[0])


def test_other_processes_make_the_same_pages():
    stream = PageStream(seed=8)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        theirs = list(pool.map(operator.getitem, [stream] * 3, range(3)))
    assert all(same(stream[i], page) for i, page in enumerate(theirs))


def test_workers_share_the_stream_without_gap_or_double():
    stream = PageStream(seed=1, layouts={"plot": 1})
    parts = [list(islice(stream.part(worker, 3, start=10), 2)) for worker in range(3)]
    assert sorted(sample.index for part in parts for sample in part) == list(range(10, 16))
    assert pickle.loads(pickle.dumps(stream)) == stream


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("layout", EVERY)
def test_every_layout_stands_any_size(layout, size):
    stream = PageStream(seed=2, layouts={layout: 1}, size=size, wear=Wear())
    for index in range(2):
        sample = stream[index]
        assert sample.image.shape[1::-1] == size
        assert sample.image.dtype == np.uint8
        for word in sample.words:
            x0, y0, x1, y1 = word.box
            assert 0 <= x0 < x1 <= size[0]
            assert 0 <= y0 < y1 <= size[1]


@pytest.mark.parametrize("layout", EVERY)
def test_every_box_of_a_clean_page_holds_ink(layout):
    stream = PageStream(seed=6, layouts={layout: 1}, wear=Wear())
    for index in range(3):
        sample = stream[index]
        assert len(sample.words) > 3
        grey = sample.image if sample.image.ndim == 2 else sample.image.mean(axis=2)
        for word in sample.words:
            x0, y0, x1, y1 = map(int, word.box)
            patch = grey[y0:y1, x0:x1]
            # A dot or a dash may be thinner than a pixel: it is only asked to be there.
            assert np.ptp(patch) > (40 if patch.size >= 40 else 0), (layout, index, word)


@pytest.mark.parametrize("layout", EVERY)
def test_words_do_not_cover_each_other(layout):
    stream = PageStream(seed=7, layouts={layout: 1}, wear=Wear())
    covered = total = 0
    for index in range(3):
        boxes = [word.box for word in stream[index].words if word.role != "stamp"]
        total += len(boxes)
        for a, b in combinations(boxes, 2):
            width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
            if width > 0 and height > 0:
                smaller = min((a[2] - a[0]) * (a[3] - a[1]), (b[2] - b[0]) * (b[3] - b[1]))
                covered += width * height > 0.4 * smaller
    assert covered <= 0.01 * total


@pytest.mark.parametrize("layout", EVERY)
def test_worn_pages_keep_their_words_inside(layout):
    stream = PageStream(seed=9, layouts={layout: 1})
    for index in range(4):
        sample = stream[index]
        height, width = sample.image.shape[:2]
        for word in sample.words:
            x0, y0, x1, y1 = word.box
            assert x0 > -1
            assert y0 > -1
            assert x1 < width + 1
            assert y1 < height + 1


def test_charts_are_coloured_and_scans_are_grey():
    assert all(PageStream(layouts={name: 1})[1].image.ndim == 3 for name in CHARTS)
    assert PageStream(layouts={"letter": 1})[1].image.ndim == 2


def test_content_is_what_was_printed():
    stream = PageStream(seed=5, layouts={"table": 1, "form": 1, "plot": 1, "running": 1}, wear=Wear())
    checked = 0
    for index in range(12):
        sample = stream[index]
        content = sample.content
        spans = [
            *content.titles,
            *content.sentences,
            *(f.value for f in content.fields),
            *(c for t in content.tables for r in t.rows for c in r),
        ]
        for span in filter(None, spans):
            assert " ".join(sample.words[i].text for i in span.words).lower() == span.text.lower()
            checked += 1
    assert checked > 100


def test_value_labels_show_the_values():
    stream = PageStream(seed=5, layouts={"plot": 1, "card": 1}, wear=Wear())
    checked = 0
    for index in range(15):
        for chart in stream[index].content.charts:
            for series in chart.series:
                for value, label in zip(series.values, series.labels, strict=True):
                    if label:
                        assert float(label.text.replace(",", "").rstrip("%")) == pytest.approx(value)
                        checked += 1
    assert checked > 50


def test_every_layout_has_a_weight_and_wrong_settings_are_refused():
    assert set(WEIGHTS) == set(LAYOUTS)
    with pytest.raises(ValueError, match="Unknown layouts \\['poster'\\]"):
        PageStream(layouts={"poster": 1})
    with pytest.raises(ValueError, match="does not exist"):
        PageStream(fonts="/nowhere/at/all")
    with pytest.raises(ValueError, match="Worker 3 of 3"):
        next(PageStream().part(3, 3))


def test_real_sentences_come_from_the_text_folder(tmp_path):
    (tmp_path / "a.txt").write_text("The quick zebra signed the lease in Quito. It was later sold for scrap.")
    samples = [PageStream(texts=str(tmp_path), layouts={"running": 1}, wear=Wear())[i] for i in range(2)]
    assert any("zebra" in word.text for sample in samples for word in sample.words)


@pytest.mark.parametrize("layout", ["running", "paper", "letter", "report"])
def test_words_of_a_block_are_in_reading_order(layout):
    stream = PageStream(seed=13, layouts={layout: 1}, wear=Wear())
    steps = 0
    for index in range(3):
        words = [word for word in stream[index].words if word.role == "body"]
        for before, after in pairwise(words):
            if before.block != after.block:
                continue
            steps += 1
            if before.line == after.line:
                assert after.box[0] > before.box[0]
            else:
                assert after.line > before.line
                assert after.box[3] > before.box[1]
    assert steps > 50
