"""Degradations: geometry moves boxes with the ink, everything else leaves them where they are."""

import random

import numpy as np
import pytest
from PIL import Image

from varsdoc.training.generator.canvas import Canvas, Style
from varsdoc.training.generator.degrade import Wear, degrade, draw_wear
from varsdoc.training.generator.fonts import inspect

GEOMETRY = [
    Wear(skew=4),
    Wear(lean=0.05),
    Wear(scale=0.7),
    Wear(scale=1.3),
    Wear(skew=3, lean=0.03, scale=0.8),
    Wear(turn=90),
    Wear(turn=270, skew=2),
    Wear(coarse=0.6),
    Wear(blur=0.8),
]
PIXELS = [
    Wear(noise=20),
    Wear(jpeg=20),
    Wear(light=0.4),
    Wear(fade=0.5),
    Wear(fax=0.6),
    Wear(specks=300),
    Wear(marks=5),
    Wear(contrast=0.7, paper=200),
]


@pytest.fixture(scope="module")
def page():
    """Words far apart on white, and nothing else: every dark pixel belongs to a word."""
    canvas = Canvas(500, 640)
    style = Style(inspect(None), 20)
    rng = random.Random(1)
    for y in range(60, 620, 70):
        for x in range(20, 420, 130):
            canvas.text(x, y, rng.choice(("Income", "pages", "1987", "Boiler,")), style, "body")
    return canvas


@pytest.mark.parametrize("grey", [True, False], ids=["grey", "rgb"])
@pytest.mark.parametrize("wear", GEOMETRY, ids=str)
def test_boxes_follow_the_ink(page, wear, grey):
    image = page.image if grey else page.image.convert("RGB")
    for seed in range(3):
        array, words = degrade(image, page.words, wear, random.Random(seed))
        dark = (array if grey else array.min(axis=2)) < 150
        covered = np.zeros_like(dark)
        for word in words:
            x0, y0, x1, y1 = (int(v) for v in np.round(word.box))
            patch = dark[max(0, y0) : y1 + 1, max(0, x0) : x1 + 1]
            assert patch.mean() > 0.05, word
            # The box is tight: ink comes near all four sides (a skewed box has empty corners, not empty sides).
            rows, columns = np.flatnonzero(patch.any(1)), np.flatnonzero(patch.any(0))
            slack = 3 + 0.08 * max(patch.shape)
            assert rows[0] <= slack
            assert columns[0] <= slack
            assert patch.shape[0] - 1 - rows[-1] <= slack
            assert patch.shape[1] - 1 - columns[-1] <= slack
            covered[max(0, y0 - 2) : y1 + 3, max(0, x0 - 2) : x1 + 3] = True
        assert (dark & ~covered).sum() <= 2


@pytest.mark.parametrize(("turn", "towards"), [(90, (0, -1)), (270, (0, 1))])
def test_words_of_a_page_turned_sideways_are_read_upwards_or_downwards(page, turn, towards):
    before = [word for word in page.words if word.text == "Boiler,"]
    for word in degrade(page.image, before, Wear(turn=turn), random.Random(0))[1]:
        x0, y0, x1, y1 = word.run
        run = np.array([x1 - x0, y1 - y0])
        assert (run / np.linalg.norm(run)).round(3).tolist() == list(towards)
        assert y0 == pytest.approx(word.box[3 if turn == 90 else 1])
        assert x0 == pytest.approx((word.box[0] + word.box[2]) / 2)


@pytest.mark.parametrize("wear", PIXELS, ids=str)
def test_pixel_wear_keeps_boxes_and_contrast(page, wear):
    array, words = degrade(page.image, page.words, wear, random.Random(2))
    assert words == page.words
    assert array.shape == (640, 500)
    assert array.dtype == np.uint8
    assert not np.array_equal(array, np.asarray(page.image))
    for word in words:
        x0, y0, x1, y1 = map(int, word.box)
        around = array[max(0, y0 - 12) : y0 - 4, x0:x1]
        assert array[y0:y1, x0:x1].mean() < around.mean() - 8, word


def test_inversion_and_edges(page):
    array, _ = degrade(page.image, page.words, Wear(invert=True), random.Random(0))
    assert np.array_equal(array, 255 - np.asarray(page.image))
    framed, _ = degrade(page.image, page.words, Wear(skew=4, edge=10), random.Random(0))
    assert (framed[:4, :4] < 40).any() or (framed[-4:, -4:] < 40).any()


def test_fax_is_one_bit_and_never_all_black():
    grey = Image.new("L", (200, 200), 120)
    array, _ = degrade(grey, [], Wear(fax=0.9), random.Random(0))
    assert set(np.unique(array)) <= {0, 255}
    assert array.mean() > 200


def test_clean_pages_stay_among_the_worn():
    rng = random.Random(0)
    drawn = [draw_wear(rng, scan=True) for _ in range(400)]
    assert 0.08 < sum(wear == Wear() for wear in drawn) / 400 < 0.3
    assert any(wear.fax for wear in drawn)
    assert any(wear.skew for wear in drawn)
    assert any(wear.jpeg for wear in drawn)
