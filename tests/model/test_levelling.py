"""Turned print is found, set level below its page, and the page above is as it was."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageFont
from scipy import ndimage

import tiny
from varsdoc.errors import ConfigError
from varsdoc.model import VarsConfig, VarsDoc
from varsdoc.model.levelling import MOST_ROWS, NOTHING, cut_levelled
from varsdoc.model.patches import Patches, cut, scaled
from varsdoc.model.printed_lines import Print, pieces

CONFIG = VarsConfig(tiny.backbone_config(), min_visual_tokens=1400, max_visual_tokens=1536, level_print=(90, 45))
SIZE = (1296, 896)  # a page of 1,481 cells when it is scaled
CELL = 28
INK = (60, 60, 60)


def strip(text: str, size: int = 18) -> Image.Image:
    """A level line with white around."""
    font = ImageFont.load_default(size)
    x0, y0, x1, y1 = font.getbbox(text)
    image = Image.new("RGB", (int(x1 - x0) + 12, int(y1 - y0) + 12), "white")
    ImageDraw.Draw(image).text((6 - x0, 6 - y0), text, INK, font)
    return image


def put(page: Image.Image, text: str, middle: tuple[int, int], angle: int, size: int = 18) -> None:
    line = strip(text, size).rotate(angle, Image.Resampling.BICUBIC, expand=True, fillcolor="white")
    place = (middle[0] - line.width // 2, middle[1] - line.height // 2)
    page.paste(line, place)


def blank() -> Image.Image:
    return Image.new("RGB", SIZE, "white")


def prose(page: Image.Image, lines: int = 24) -> None:
    text = "The committee met again in March and asked for a report on the cost of repairs to both bridges. " * 2
    for i in range(lines):
        line = text[5 * (i % 17) :][:60]
        put(page, line, (700, 60 + 30 * i), 0)


def picture(patches: Patches) -> np.ndarray:
    """The page and what is below it, (height, width, 3)."""
    rows, cols = patches.rows // 2, patches.cols // 2
    pixels = patches.pixels.reshape(rows, cols, 2, 2, 3, 14, 14).transpose(0, 2, 5, 1, 3, 6, 4)
    return pixels.reshape(rows * CELL, cols * CELL, 3)


@given(st.integers(0, 10_000), st.integers(1, 6), st.sampled_from([0.1, 0.3, 0.6]))
def test_pieces_are_what_an_image_library_labels(seed: int, gap: int, share: float) -> None:
    ink = np.random.default_rng(seed).random((23, 31)) < share
    closed = ink.copy()
    for row in closed:
        at = np.flatnonzero(row)
        for a, b in pairwise(at):
            row[a:b] |= b - a - 1 < gap
    wanted = [(x.start, y.start, x.stop, y.stop) for y, x in ndimage.find_objects(ndimage.label(closed)[0])]
    assert sorted(map(tuple, pieces(ink, gap).tolist())) == sorted(wanted)


def test_titles_and_slanted_labels_are_found_where_they_run() -> None:
    page = blank()
    put(page, "Wholesale price index", (60, 400), 90)
    put(page, "September", (500, 700), 45)
    upright, rising = Print(page).lines(90, 45)
    assert upright.begin[0] == pytest.approx(60, abs=4)
    assert upright.end[0] == pytest.approx(upright.begin[0], abs=1)
    assert (upright.begin[1] + upright.end[1]) / 2 == pytest.approx(400, abs=5)
    assert upright.begin[1] > upright.end[1]  # it runs upwards
    assert upright.length == pytest.approx(strip("Wholesale price index").width - 12, abs=6)
    assert rising.begin[0] < rising.end[0]
    assert rising.begin[1] > rising.end[1]
    assert np.add(rising.begin, rising.end) / 2 == pytest.approx([500, 700], abs=6)


def test_slanted_years_are_found_where_they_stand_side_by_side() -> None:
    page = blank()
    put(page, "2015", (300, 700), 45, 16)
    assert Print(page).lines(45) == []
    for i in range(1, 5):
        put(page, str(2015 + i), (300 + 80 * i, 700), 45, 16)
    assert len(Print(page).lines(45)) == 5


@pytest.mark.parametrize("angles", [(90,), (45,), (90, 45, 270)])
def test_level_print_rules_and_blocks_are_no_turned_lines(angles: tuple[int, ...]) -> None:
    page = blank()
    prose(page)
    draw = ImageDraw.Draw(page)
    draw.line((30, 30, 30, 860), INK, 3)
    draw.rectangle((100, 780, 130, 880), INK)
    draw.line((300, 880, 700, 780), INK, 4)
    assert Print(page).lines(*angles) == []
    assert Print(Image.new("RGB", (60, 60), "white")).lines(*angles) == []


def test_a_page_without_turned_print_is_cut_as_ever() -> None:
    page = blank()
    prose(page)
    found, plain = cut_levelled(page, CONFIG), cut(page, CONFIG)
    assert found.levelled == ()
    assert (found.rows, found.cols) == (plain.rows, plain.cols)
    assert (found.pixels == plain.pixels).all()


def test_a_turned_line_stands_level_below_the_page_and_the_page_is_as_it_was() -> None:
    page = Image.new("RGB", (640, 446), "white")  # enlarged to 1,426 cells, so that a row has room
    put(page, "Return on equity ratio", (30, 200), 90, 11)
    found, plain = cut_levelled(page, CONFIG), cut(page, CONFIG)
    cols = plain.cols // 2
    assert found.grid(2) == plain.grid(2) == (plain.rows // 2, cols)
    assert len(found.levelled) == cols
    assert (found.pixels[: len(plain.pixels)] == plain.pixels).all()
    below = picture(found)[-CELL:].astype(int)
    laid = [i for i, cell in enumerate(found.levelled) if cell != NOTHING]
    assert laid == list(range(len(laid)))
    assert below[:, len(laid) * CELL :].min() > 230  # no ink where nothing is repeated
    wanted = strip("Return on equity ratio", 11)
    ink = Image.fromarray((below[:, : len(laid) * CELL]).astype(np.uint8)).convert("L")
    box = Image.fromarray(np.asarray(ink) < 200).getbbox()
    text = Image.fromarray(np.asarray(wanted.convert("L")) < 200).getbbox()
    assert box is not None
    assert text is not None
    seen = np.asarray(ink.crop(box).resize((400, 24)), float).ravel()
    drawn = np.asarray(wanted.convert("L").crop(text).resize((400, 24)), float).ravel()
    assert np.corrcoef(seen, drawn)[0, 1] > 0.85


def test_cells_below_know_which_cells_they_repeat() -> None:
    page = blank()
    put(page, "Life expectancy at birth", (100, 300), 90)
    found = cut_levelled(page, CONFIG)
    rows, cols = found.grid(2)
    places = [divmod(cell, cols) for cell in found.levelled if cell != NOTHING]
    assert {col for _, col in places} == {int(100 / SIZE[0] * cols)}
    half = strip("Life expectancy at birth").width / 2 / SIZE[1] * rows
    middle = 300 / SIZE[1] * rows
    assert places == sorted(places, reverse=True)  # from its foot upwards
    assert places[0][0] == pytest.approx(middle + half, abs=1.5)
    assert places[-1][0] == pytest.approx(middle - half, abs=1.5)


def test_labels_keep_their_order_and_more_than_fit_lose_the_shortest() -> None:
    page = blank()
    put(page, "March", (400, 300), 45)
    put(page, "September", (700, 300), 45)
    put(page, "December", (200, 300), 45)
    found = cut_levelled(page, CONFIG)
    cols = found.grid(2)[1]
    shown = [cell % cols for cell in found.levelled if cell != NOTHING]
    assert sorted(shown) == shown
    crowded = blank()
    for i in range(40):
        put(crowded, "Net income of affiliates" if i % 2 else "Net income", (40 + 31 * i, 300), 90)
    many = cut_levelled(crowded, CONFIG)
    assert len(many.levelled) <= MOST_ROWS * many.grid(2)[1]
    assert many.rows * many.cols // 4 <= CONFIG.max_visual_tokens


def test_a_line_longer_than_the_page_is_wide_goes_on_below_itself() -> None:
    page = Image.new("RGB", (500, 1800), "white")
    put(page, "The annual report of the commission on inland waterways " * 3, (60, 900), 90, 20)
    found = cut_levelled(page, CONFIG)
    cols = found.grid(2)[1]
    cells = np.array(found.levelled).reshape(-1, cols)
    assert len(cells) > 1
    first, second = cells[0, :cols] // cols, cells[1] // cols
    assert second[0] > first[-1]  # what ended one row begins the next, whole
    assert found.rows * found.cols // 4 <= CONFIG.max_visual_tokens


def test_page_and_rows_below_stay_within_the_cap() -> None:
    for size in ((1000, 1300), (640, 446), (300, 2000), (2400, 1700), (5000, 3500), (90, 70)):
        page = Image.new("RGB", size, "white")
        for x in (0.1, 0.5, 0.9):
            put(page, "Share of respondents", (int(x * size[0]), size[1] // 2), 90, max(8, min(size) // 50))
        found = cut_levelled(page, CONFIG)
        assert found.rows * found.cols // 4 <= CONFIG.max_visual_tokens
        assert len(found.pixels) == found.rows * found.cols
        assert max(found.levelled, default=0) < np.prod(found.grid(2))


@pytest.mark.parametrize("size", [(28, 84), (56, 112), (84, 112), (1400, 112), (14336, 84), (60, 4000)])
@pytest.mark.parametrize("cap", [1, 3, 8, 20, 200, 1536])
def test_no_shape_and_no_cap_is_too_small(size: tuple[int, int], cap: int) -> None:
    """Where nothing of the page would be left, it has no rows below."""
    config = CONFIG.with_(min_visual_tokens=1, max_visual_tokens=cap)
    page = Image.new("RGB", size, "white")
    for x in range(20, size[0], 30):
        put(page, "Net inc", (x, size[1] // 2), 90, 14)
    found, plain = cut_levelled(page, config), cut(page, config)
    rows, cols = found.grid(2)
    assert rows * cols >= 1
    assert len(found.levelled) % cols == 0
    if plain.rows * plain.cols // 4 <= cap:  # extreme strips exceed small caps by Qwen's own rule
        assert found.rows * found.cols // 4 <= cap


def test_a_page_keeps_all_the_room_that_its_rows_leave() -> None:
    page = Image.new("RGB", (1400, 112), "white")
    for x in range(40, 1400, 30):
        put(page, "Net income", (x, 56), 90, 14)
    config = CONFIG.with_(min_visual_tokens=1, max_visual_tokens=200)
    found = cut_levelled(page, config)
    assert found.levelled
    assert 160 <= found.rows * found.cols // 4 <= 200


def test_large_pictures_give_the_line_as_they_came_not_as_scaled() -> None:
    page = Image.new("RGB", (3 * SIZE[0], 3 * SIZE[1]), "white")
    put(page, "Wholesale price index", (180, 1300), 90, 45)
    found = cut_levelled(page, CONFIG)
    assert found.levelled
    below = picture(found)[-CELL:]
    blurred = Print(scaled(page, (SIZE[1], SIZE[0]))).lines(90)
    assert len(blurred) == 1
    assert np.ptp(below) > 150  # strokes keep their contrast


def test_embeddings_have_the_rows_below_behind_the_cells_in_any_batch() -> None:
    model = tiny.model(3, 2, min_visual_tokens=1400, max_visual_tokens=1536, level_print=(90,))
    page = blank()
    prose(page, 3)
    put(page, "Number of students", (60, 400), 90)
    other = blank()
    prose(other, 3)
    with torch.inference_mode():
        both = model.encode_pages([page, other], batch_tokens=4096)
        alone = model.encode_pages([page])[0]
    prompt = len(model.processor.prompt_ids)
    for found in both:
        rows, cols = found.grid
        assert found.variants.shape[1] == prompt + rows * cols + len(found.levelled)
        assert found.cells.shape[1] == rows * cols
    assert both[0].levelled
    assert not both[1].levelled
    torch.testing.assert_close(both[0].variants, alone.variants, atol=1e-5, rtol=0)


@pytest.mark.parametrize("value", [(0,), (360,), (45.5,), "90", (True,), 90, (90, 90)])
def test_wrong_angles_are_refused(value: Any) -> None:
    with pytest.raises(ConfigError, match="level_print must be whole degrees between 1 and 359"):
        CONFIG.with_(level_print=value)


def test_the_setting_is_saved_and_changes_the_hash_and_its_absence_leaves_the_hash_of_before(tmp_path: Path) -> None:
    plain = tiny.model(2, 2)
    assert "level_print" not in plain.config.settings()
    levelling = tiny.model(2, 2, level_print=(90, 45))
    levelling.save_pretrained(tmp_path / "one")
    loaded = VarsDoc.from_pretrained(tmp_path / "one", device="cpu")
    assert loaded.config.level_print == (90, 45)
    assert loaded.checkpoint_hash == levelling.checkpoint_hash != plain.checkpoint_hash
