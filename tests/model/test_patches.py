"""Our preprocessing equals transformers' `Qwen2VLImageProcessorPil` once a page is upright 8-bit RGB."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from PIL import Image
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

import tiny
from varsdoc.model import VarsConfig, read_image
from varsdoc.model.patches import cut, pixel_values, target_size

CONFIG = VarsConfig(tiny.backbone_config(), max_visual_tokens=64)


def photo(height: int, width: int) -> Image.Image:
    """Smooth enough that a wrong resampling filter shows, noisy enough that a shifted pixel does."""
    y, x = np.mgrid[0:height, 0:width]
    waves = np.stack([127 + 90 * np.sin(x / 9 + c) * np.cos(y / 7) for c in range(3)], -1)
    noise = np.random.default_rng(0).normal(0, 20, waves.shape)
    return Image.fromarray(np.clip(waves + noise, 0, 255).astype(np.uint8))


def sixteen_bit() -> Image.Image:
    grey = np.asarray(photo(300, 200).convert("L")).astype(np.uint16) * 257
    return Image.fromarray(grey)


def rotated_by_exif() -> Image.Image:
    exif = Image.Exif()
    exif[0x0112] = 6
    buffer = io.BytesIO()
    photo(180, 320).save(buffer, "PNG", exif=exif)
    return Image.open(buffer)


def translucent() -> Image.Image:
    image = photo(260, 210).convert("RGBA")
    image.putalpha(Image.linear_gradient("L").resize(image.size))
    return image


PAGES: dict[str, Callable[[], Image.Image]] = {
    "tall": lambda: photo(900, 150),
    "wide": lambda: photo(120, 800),
    "tiny": lambda: photo(9, 13),
    "grey": lambda: photo(300, 200).convert("L"),
    "RGBA": translucent,
    "palette": lambda: photo(240, 240).convert("P"),
    "16-bit": sixteen_bit,
    "EXIF-rotated": rotated_by_exif,
    "CMYK": lambda: photo(310, 222).convert("CMYK"),
    "1-bit": lambda: photo(333, 222).convert("1"),
    "exact cells": lambda: photo(112, 140),
}


@pytest.mark.parametrize("name", PAGES)
def test_pixels_equal_the_stock_processor(name: str) -> None:
    upright = read_image(PAGES[name]())
    assert upright.mode == "RGB"
    area = CONFIG.cell_size**2
    stock = Qwen2VLImageProcessorPil(
        min_pixels=CONFIG.min_visual_tokens * area, max_pixels=CONFIG.max_visual_tokens * area
    )(images=[upright], return_tensors="np")
    ours = cut(upright, CONFIG)
    assert [1, ours.rows, ours.cols] == stock["image_grid_thw"][0].tolist()
    np.testing.assert_array_equal(pixel_values(ours, CONFIG), stock["pixel_values"])


def test_exif_rotation_is_applied() -> None:
    assert read_image(rotated_by_exif()).size == (180, 320)


def test_transparency_is_laid_over_white() -> None:
    clear = Image.new("RGBA", (40, 40), (0, 0, 0, 0))
    assert read_image(clear).getpixel((5, 5)) == (255, 255, 255)
    keyed = Image.new("RGB", (40, 40))
    keyed.info["transparency"] = (0, 0, 0)
    assert read_image(keyed).getpixel((5, 5)) == (255, 255, 255)
    assert read_image(clear.convert("RGBa")).getpixel((5, 5)) == (255, 255, 255)
    palette = Image.new("P", (40, 40), 0)
    palette.info["transparency"] = 0
    assert read_image(palette).getpixel((5, 5)) == (255, 255, 255)


def test_sixteen_bit_greys_are_scaled_not_clipped() -> None:
    values = np.array([[0, 257 * 100, 65535]], dtype=np.uint16)
    assert np.asarray(read_image(values))[0, :, 0].tolist() == [0, 100, 255]
    assert np.asarray(read_image(Image.fromarray(np.array([[0, 200]], np.int32))))[0, :, 0].tolist() == [0, 200]
    assert np.asarray(read_image(Image.fromarray(values.astype(np.int32))))[0, :, 0].tolist() == [0, 100, 255]
    assert np.asarray(read_image(Image.fromarray(np.array([[0, 0.5, 1]], np.float32))))[0, :, 0].tolist() == [
        0,
        128,
        255,
    ]


@given(st.integers(1, 20000), st.floats(1 / 200, 200), st.integers(200, 4096))
def test_a_page_never_has_more_cells_than_the_cap(height: int, shape: float, cap: int) -> None:
    """True of every admitted shape from a cap of 200 on; below that Qwen's rule lets extreme strips exceed it."""
    width = max(1, round(height * shape))
    assume(max(height, width) <= 200 * min(height, width))
    rows, cols = target_size(height, width, 28, 4 * 784, cap * 784)
    assert rows % 28 == cols % 28 == 0
    assert 4 <= rows * cols // 784 <= cap
