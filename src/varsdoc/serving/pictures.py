"""Page pictures and heatmaps as bytes: thumbnails are kept up to a budget, heatmaps are small and made anew."""

from __future__ import annotations

import io
import math
import threading
from collections import OrderedDict

from PIL import Image

from varsdoc.index import Hit
from varsdoc.index.heatmap import scaled, tinted

_OVERLAY = 480  # pixels of a heatmap's long side: cells are a few dozen, the browser smooths the rest
_QUALITY = 82


class Kept:
    """Bytes by key, the least used dropped first beyond a budget."""

    def __init__(self, most: int) -> None:
        self._most, self._size = most, 0
        self._kept: OrderedDict[tuple[object, ...], bytes] = OrderedDict()
        self._guard = threading.Lock()

    def get(self, key: tuple[object, ...]) -> bytes | None:
        with self._guard:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
            return found

    def put(self, key: tuple[object, ...], data: bytes) -> None:
        with self._guard:
            self._size += len(data) - len(self._kept.pop(key, b""))
            self._kept[key] = data
            while self._size > self._most:
                self._size -= len(self._kept.popitem(last=False)[1])


def thumbnail(jpeg: bytes, width: int) -> bytes:
    """So many pixels wide, never enlarged; the decoder itself shrinks what it can."""
    with Image.open(io.BytesIO(jpeg)) as image:
        if width >= image.width:
            return jpeg
        height = max(1, round(image.height * width / image.width))
        image.draft("RGB", (width, height))
        small = image.convert("RGB").resize((width, height), Image.Resampling.LANCZOS, reducing_gap=2.0)
    out = io.BytesIO()
    small.save(out, "JPEG", quality=_QUALITY)
    return out.getvalue()


def heatmap_png(hit: Hit, variant: int | None, tokens: tuple[int, ...] | None, on_page: bool) -> bytes:
    """Over the page, or alone and transparent, to be laid over it."""
    if on_page:
        picture = hit.heatmap(variant, tokens)
    else:
        ratio = _OVERLAY / max(hit.width, hit.height, 1)
        size = (max(1, math.ceil(hit.width * ratio)), max(1, math.ceil(hit.height * ratio)))
        picture = tinted(scaled(hit.similarity(variant, tokens)), size)
    out = io.BytesIO()
    picture.save(out, "PNG", compress_level=4)
    return out.getvalue()
