"""A page that lies on its side or upside down is read as the upright one, and answers for the page as it came."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw, ImageFont

import tiny
from varsdoc.errors import ConfigError, InputError
from varsdoc.model import PageEmbedding, VarsConfig, VarsDoc
from varsdoc.model.levelling import NOTHING
from varsdoc.model.orientation import cut_any_way, standing_of, turns_to_try
from varsdoc.model.patches import Patches, cut, in_cells
from varsdoc.model.printed_lines import Print

CONFIG = VarsConfig(tiny.backbone_config(), min_visual_tokens=400, max_visual_tokens=520, turn_pages=True)
TEXT = (
    "The committee met again in March and asked for a report on the cost of repairs to both bridges. It was agreed "
    "that the work should be put off until the autumn, as the river is at its lowest then, and that the mayor of the "
    "town would write to the owners of the mill. "
)


def prose() -> Image.Image:
    """560 x 700 pixels: 500 cells."""
    page = Image.new("RGB", (560, 700), "white")
    draw = ImageDraw.Draw(page)
    font = ImageFont.load_default(17)
    words = (TEXT * 3).split()
    y, line = 40, ""
    for word in words:
        if font.getlength(line + word) > 460:
            draw.text((40, y), line, "black", font)
            y, line = y + 30, ""
        line += word + " "
        if y > 640:
            break
    return page


def figures() -> Image.Image:
    """A table whose columns look like lines from the side, and hardly a line that looks like one from above."""
    page = Image.new("RGB", (560, 700), "white")
    draw = ImageDraw.Draw(page)
    font = ImageFont.load_default(14)
    for row in range(48):
        for col in range(8):
            draw.text(
                (30 + 66 * col, 12 + 14 * row), f"{(row * 7 + col * 3) % 10}.{(row + col) % 10}{row % 10}", 0, font
            )
    return page


def turned(page: Image.Image, turns: int) -> Image.Image:
    return Image.fromarray(np.rot90(np.asarray(page), turns))


@pytest.fixture(scope="module")
def reader() -> VarsDoc:
    """The packaged checkpoint with smaller pages."""
    return VarsDoc.from_pretrained(device="cpu", max_visual_tokens=500)


@pytest.fixture(scope="module")
def upright(reader: VarsDoc) -> PageEmbedding:
    return reader.encode_pages([prose()])[0]


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_a_turned_page_has_the_vectors_of_the_upright_one_where_it_shows_them(
    reader: VarsDoc, upright: PageEmbedding, turns: int
) -> None:
    lying = turned(prose(), turns)
    (found,) = reader.encode_pages([lying])
    rows, cols = upright.grid
    assert found.grid == ((cols, rows) if turns % 2 else (rows, cols))
    cells = np.rot90(upright.cells.numpy().reshape(-1, rows, cols, 128), turns, axes=(1, 2))
    np.testing.assert_allclose(found.cells.numpy(), cells.reshape(found.cells.shape), atol=1e-5)
    start = upright.image_start
    torch.testing.assert_close(found.variants[:, :start], upright.variants[:, :start], atol=1e-5, rtol=0)


def test_upright_pages_are_encoded_once_and_batches_change_nothing(reader: VarsDoc, upright: PageEmbedding) -> None:
    assert reader.config.turn_pages
    assert reader.processor.page(prose()).others == ()
    lying = turned(prose(), 3)
    both = reader.encode_pages([prose(), lying, prose()], batch_tokens=4096)
    torch.testing.assert_close(both[0].variants, upright.variants, atol=1e-5, rtol=0)
    assert both[1].grid == upright.grid[::-1]
    torch.testing.assert_close(both[2].variants, upright.variants, atol=1e-5, rtol=0)


def test_columns_of_figures_are_looked_at_twice_and_left_as_they_lie(reader: VarsDoc) -> None:
    page = reader.processor.page(figures())
    assert [way.turns for way in page.others] == [1, 3]
    (found,), (wanted,) = reader.encode_pages([page]), reader.encode_pages([replace(page, others=())])
    torch.testing.assert_close(found.variants, wanted.variants, atol=1e-5, rtol=0)


def test_lines_say_how_a_page_may_lie() -> None:
    looks = {turns: Print(in_cells(turned(prose(), turns), CONFIG)) for turns in range(4)}
    assert {turns: turns_to_try(seen) for turns, seen in looks.items()} == {0: [], 1: [1, 3], 2: [2], 3: [1, 3]}
    assert standing_of(looks[0].lines(0)) > 2
    assert standing_of(looks[2].lines(0)) < -2
    assert standing_of(looks[0].lines(180)) == -standing_of(looks[0].lines(0))
    assert turns_to_try(Print(Image.new("RGB", (560, 700), "white"))) == []


def test_cells_are_put_back_where_the_page_shows_them() -> None:
    """Turned by any number of quarters, cut, and put back: the patches of the page as it came, each turned."""
    page = Image.fromarray(np.random.default_rng(0).integers(0, 255, (56, 84, 3), np.uint8))  # 2 x 3 cells
    small = CONFIG.with_(min_visual_tokens=1, max_visual_tokens=100)
    plain = cut(page, small)
    for turns in range(4):
        upright = cut(turned(page, turns), small)
        way = Patches(upright.pixels, upright.rows, upright.cols, (), turns)
        assert way.grid(2) == (2, 3)
        means = upright.pixels.reshape(6, -1).astype(float).mean(1)[way.order(2)]
        np.testing.assert_allclose(means, plain.pixels.reshape(6, -1).mean(1))


def test_levelled_rows_of_a_turned_page_name_cells_of_the_page_as_it_came() -> None:
    page = prose()
    title = Image.new("RGB", (200, 24), "white")
    ImageDraw.Draw(title).text((2, 2), "Number of students", "black", ImageFont.load_default(17))
    page.paste(title.rotate(90, expand=True), (6, 200))
    config = CONFIG.with_(level_print=(90,))
    lying = cut_any_way(turned(page, 2), config)
    way = next(way for way in lying.others if way.turns == 2)
    rows, cols = way.grid(2)
    named = [divmod(cell, cols) for cell in way.levelled if cell != NOTHING]
    assert {col for _, col in named} == {cols - 1}  # the title stands at the left of the upright page
    middle = (rows - 1) - (200 + 100) / 700 * rows
    assert np.mean([row for row, _ in named]) == pytest.approx(middle, abs=2)


def test_the_setting_is_saved_and_its_absence_leaves_the_hash_of_before(tmp_path: Path) -> None:
    assert "turn_pages" not in tiny.model(2, 2).config.settings()
    turning = tiny.model(2, 2, turn_pages=True)
    turning.save_pretrained(tmp_path / "one")
    with pytest.warns(UserWarning, match="untrained"):
        assert VarsDoc.from_pretrained(tmp_path / "one", device="cpu").config.turn_pages
    with pytest.raises(ConfigError, match="turn_pages must be true or false"):
        CONFIG.with_(turn_pages="yes")


def test_one_way_alone_is_no_page(reader: VarsDoc) -> None:
    page = reader.processor.page(turned(prose(), 2))
    with pytest.raises(InputError, match="page 0 is one way to turn a page"):
        reader.encode_pages([page.others[0]])
