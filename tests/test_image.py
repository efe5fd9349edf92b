"""Bad pages: one sentence that helps, never a traceback from deep inside, never NaN."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import tiny
from varsdoc.errors import InputError
from varsdoc.image import read_image


def png(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def bomb() -> bytes:
    """A PNG that says it is 100,000 x 100,000 and holds a few bytes."""
    header = struct.pack(">IIBBBBB", 100_000, 100_000, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(b"\0" * 1000)), (b"IEND", b""))
    body = b"".join(struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in chunks)
    return b"\x89PNG\r\n\x1a\n" + body


NOISE = png(Image.fromarray(tiny.page(200, 160)))
BAD = {
    "zero bytes": (b"", "empty"),
    "no image": (b"%PDF-1.7 and more", "not an image"),
    "truncated": (NOISE[: len(NOISE) // 2], "damaged"),
    "broken header": (NOISE[:20] + b"\xff" * 40, "damaged|not an image"),
    "bomb": (bomb(), "178,956,970 pixels"),
    "strip": (Image.new("RGB", (20000, 10)), "20000 x 10 pixels: one side is over 200 times"),
    "floats": (np.zeros((4, 4)), "dtype float64"),
    "five channels": (np.zeros((4, 4, 5), np.uint8), r"shape \(4, 4, 5\)"),
    "no pixels": (np.zeros((0, 4), np.uint8), r"shape \(0, 4\)"),
    "a number": (7, "is a int"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_page_is_one_sentence(name: str) -> None:
    source, message = BAD[name]
    with pytest.raises(InputError, match=message) as caught:
        read_image(source, "page 3")  # type: ignore[arg-type]
    assert str(caught.value).startswith("page 3 ")
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.png cannot be read: No such file"):
        read_image(tmp_path / "nowhere.png")


def test_every_truncation_and_many_flips_are_read_or_refused() -> None:
    """Whatever the damage, the answer is an image or an InputError."""
    rng = np.random.default_rng(0)
    for form in ("PNG", "JPEG", "TIFF", "WEBP", "GIF"):
        buffer = io.BytesIO()
        Image.fromarray(tiny.page(40, 30)).save(buffer, form)
        data = buffer.getvalue()
        damaged = [data[:n] for n in range(1, len(data), max(1, len(data) // 40))]
        for _ in range(40):
            flipped = bytearray(data)
            for position in rng.integers(0, len(data), 5):
                flipped[position] ^= int(rng.integers(1, 256))
            damaged.append(bytes(flipped))
        for content in damaged:
            try:
                image = read_image(content)
            except InputError:
                continue
            assert image.mode == "RGB"


def test_a_page_of_one_pixel_and_a_blank_page_have_finite_unit_vectors() -> None:
    model = tiny.model()
    pages = model.encode_pages(
        [Image.new("RGB", (1, 1)), Image.new("RGB", (300, 400), "white"), np.zeros((90, 60), np.uint8)]
    )
    assert pages[0].grid == (2, 2)
    for page in pages:
        assert torch.isfinite(page.variants).all()
        torch.testing.assert_close(page.variants.norm(dim=-1), torch.ones(page.variants.shape[:2]))


def test_a_longest_admitted_strip_is_encoded() -> None:
    page = tiny.model().encode_pages([Image.new("L", (2000, 10), 255)])[0]
    assert page.grid[0] == 1
    assert torch.isfinite(page.variants).all()


def test_the_bad_page_of_a_list_is_named_by_its_place() -> None:
    with pytest.raises(InputError, match="page 1 is empty"):
        tiny.model().encode_pages([Image.new("RGB", (56, 56)), b""])
