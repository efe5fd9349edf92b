"""Word bitmaps, cached: drawing a word through FreeType costs 100 us, pasting a cached one 2 us.

A `Setter` sets words in one face at one size. Words are composed of cached glyphs (no kerning: it would double the
work for a difference of a fraction of a pixel) and kept themselves, because running text repeats. The caches are
memory only: they never change what is drawn.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from PIL import Image

from .fonts import Face

WORDS_KEPT = 3000
SETTERS_KEPT = 400


class Bitmap(NamedTuple):
    """Coverage of a piece of text; (left, top) is where its ink begins relative to the pen on the baseline."""

    mask: Image.Image | None
    left: int
    top: int
    advance: float


def paste(image: Image.Image, ink: int | tuple[int, int, int], x: int, y: int, mask: Image.Image) -> None:
    """Image.paste without its argument handling, which costs four times the pasting of a word."""
    image.im.paste(ink, (x, y, x + mask.width, y + mask.height), mask.im)


class Setter:
    def __init__(self, face: Face, size: int, tracking: float = 0.0) -> None:
        self.face, self.size, self.tracking = face, size, tracking
        self.font = face.load(size)
        self.glyphs: dict[str, Bitmap] = {}
        self.words: dict[str, Bitmap] = {}
        ascent, descent = self.font.getmetrics()
        # Some fonts claim twice their size: lines set by that would fly apart.
        self.ascent = min(ascent, round(1.1 * size))
        self.descent = min(descent, round(0.35 * size))
        self.space = self.width_of_glyph(" ") or size * 0.28

    def width_of_glyph(self, letter: str) -> float:
        return self._glyph(letter).advance

    def _glyph(self, letter: str) -> Bitmap:
        found = self.glyphs.get(letter)
        if found is None:
            core, (left, top) = self.font.getmask2(letter, mode="L", anchor="ls")
            mask = None
            if core.size[0] and core.size[1]:
                mask = Image.Image()._new(core)
                box = mask.getbbox()
                if box is None:
                    mask = None
                else:
                    mask, left, top = mask.crop(box), left + box[0], top + box[1]
            found = Bitmap(mask, int(left), int(top), self.font.getlength(letter) + self.tracking)
            self.glyphs[letter] = found
        return found

    def width(self, text: str) -> float:
        return sum(self._glyph(letter).advance for letter in text)

    def word(self, text: str) -> Bitmap:
        """The bitmap of a word; its mask is exactly its ink box."""
        found = self.words.get(text)
        if found is None:
            if len(self.words) >= WORDS_KEPT:
                self.words.clear()
            found = self.words[text] = self._compose(text)
        return found

    def _compose(self, text: str) -> Bitmap:
        pen = 0.0
        placed = []
        for letter in text:
            glyph = self._glyph(letter)
            if glyph.mask is not None:
                placed.append((round(pen) + glyph.left, glyph.top, glyph.mask))
            pen += glyph.advance
        if not placed:
            return Bitmap(None, 0, 0, pen)
        left = min(x for x, _, _ in placed)
        top = min(y for _, y, _ in placed)
        right = max(x + mask.width for x, _, mask in placed)
        bottom = max(y + mask.height for _, y, mask in placed)
        image = Image.new("L", (right - left, bottom - top), 0)
        for x, y, mask in placed:
            # Pasting through itself keeps the overlap of slanted neighbours.
            paste(image, 255, x - left, y - top, mask)
        return Bitmap(image, left, top, pen)


@lru_cache(maxsize=SETTERS_KEPT)
def setter(face: Face, size: int, tracking: float = 0.0) -> Setter:
    """The one setter of a face and size in this process."""
    return Setter(face, max(6, size), tracking)
