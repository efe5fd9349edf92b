"""Page pictures for those who pay by the byte: scaled to a long side and a number of bytes."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL import Image

SMALLEST_SIDE, LARGEST_SIDE = 256, 1600  # pixels; collections store pages with a long side of 1600
_QUALITY = 80


def bounded_jpeg(image: Image.Image, side: int, budget: int | None = None) -> bytes:
    """A JPEG within a long side and, down to the smallest, a number of bytes: smaller rather than smeared.

    >>> from PIL import Image
    >>> Image.open(io.BytesIO(bounded_jpeg(Image.new("RGB", (1600, 800)), 400))).size
    (400, 200)
    """
    side = min(side, max(image.size))
    while True:
        out = io.BytesIO()
        _within(image, side).save(out, "JPEG", quality=_QUALITY, optimize=True)
        if budget is None or out.tell() <= budget or side <= SMALLEST_SIDE:
            return out.getvalue()
        side = max(SMALLEST_SIDE, round(side * 0.8))


def _within(image: Image.Image, side: int) -> Image.Image:
    scale = side / max(image.size)
    width, height = (max(1, round(x * scale)) for x in image.size)
    return image if (width, height) == image.size else image.resize((width, height))
