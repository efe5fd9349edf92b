"""The canvas: draws on a Pillow image and writes down where every word went.

Three rules make the ground truth safe whatever a layout does: a word that would leave the page is not printed, a
word that would land on another is not printed (stamps excepted), and ink that would vanish on its ground becomes
black or white. A word that is printed is recorded with its ink box.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from PIL import Image, ImageDraw

from .fonts import Face
from .glyphs import Setter, paste, setter
from .page import Box, Content, Span, Word

Colour = tuple[int, int, int]
BLACK: Colour = (0, 0, 0)
WHITE: Colour = (255, 255, 255)
CONTRAST = 56  # grey levels between ink and ground that a reader needs
CELL = 4  # px: the grain of the map of what is already printed
CROSSED = 0.2  # share of a slanted word's cells that others may have: neighbours that rise side by side share some


@dataclass(frozen=True)
class Style:
    """How text is set. `case` is '', 'upper' or 'title'; `jitter` moves words off the baseline as hand and
    typewriter do.
    """

    face: Face
    size: int
    colour: Colour = BLACK
    case: str = ""
    underline: bool = False
    jitter: int = 0
    tracking: float = 0.0

    @property
    def setter(self) -> Setter:
        return setter(self.face, self.size, self.tracking)

    def sized(self, factor: float) -> Style:
        return replace(self, size=max(8, round(self.size * factor)))

    def shown(self, text: str) -> str:
        return text.upper() if self.case == "upper" else text.title() if self.case == "title" else text


class Canvas:
    """`grey` pages are drawn in one channel, three times faster than three."""

    def __init__(self, width: int, height: int, paper: Colour = WHITE, grey: bool = True) -> None:
        self.width, self.height, self.paper, self.grey = width, height, paper, grey
        self.image = Image.new("L" if grey else "RGB", (width, height), self.ink(paper))
        self.draw = ImageDraw.Draw(self.image)
        pixels = self.image.load()
        assert pixels is not None
        self.pixels = pixels
        self.words: list[Word] = []
        self.content = Content()
        self.block = -1
        self.line = -1
        self.taken = np.zeros((height // CELL + 2, width // CELL + 2), dtype=bool)

    def ink(self, colour: Colour) -> int | Colour:
        red, green, blue = colour
        return (red * 299 + green * 587 + blue * 114) // 1000 if self.grey else colour

    def readable(self, ink: int | Colour, x: int, y: int, mask: Image.Image) -> int | Colour:
        """The ink, or black or white where it would vanish on its ground (a label that falls on a bar, grey on a
        dark slide).
        """
        first, last = self.pixels[x, y], self.pixels[x + mask.width - 1, y + mask.height - 1]
        if isinstance(ink, int):
            ground = (first + last) // 2  # type: ignore[operator]
            return ink if abs(ground - ink) >= CONTRAST else 0 if ground > 110 else 255
        ground = (sum(first) + sum(last)) // 6  # type: ignore[arg-type]
        return ink if abs(ground - sum(ink) // 3) >= CONTRAST else BLACK if ground > 110 else WHITE

    def start_block(self) -> int:
        self.block += 1
        return self.block

    def start_line(self) -> int:
        self.line += 1
        return self.line

    def rect(
        self, box: Sequence[float], fill: Colour | None = None, outline: Colour | None = None, width: int = 1
    ) -> None:
        x0, y0, x1, y1 = (round(v) for v in box)
        if x1 <= x0 or y1 <= y0:
            return
        self.draw.rectangle(
            (x0, y0, x1, y1),
            None if fill is None else self.ink(fill),
            None if outline is None else self.ink(outline),
            width,
        )

    def rule(self, x0: float, y0: float, x1: float, y1: float, colour: Colour = BLACK, width: int = 1) -> None:
        self.draw.line((round(x0), round(y0), round(x1), round(y1)), fill=self.ink(colour), width=width)

    def dotted(self, x0: float, x1: float, y: float, colour: Colour = BLACK, step: int = 4) -> None:
        for x in range(round(x0), round(x1), step):
            self.draw.point((x, round(y)), fill=self.ink(colour))

    def free(self, box: Box) -> bool:
        x0, y0, x1, y1 = box
        if x0 < 0 or y0 < 0 or x1 > self.width or y1 > self.height:
            return False
        # Descenders may touch the line below and neighbours share a cell: only the middle of the box must be free.
        third, side = (y1 - y0) / 3, min(CELL, (x1 - x0) / 2)
        rows = slice(int(y0 + third) // CELL, int(y1 - third) // CELL + 1)
        return not self.taken[rows, int(x0 + side) // CELL : int(x1 - side) // CELL + 1].any()

    def _put(
        self,
        mask: Image.Image,
        x: int,
        y: int,
        colour: Colour,
        text: str,
        role: str,
        force: bool,
        run: Box | None = None,
    ) -> int | None:
        box = (float(x), float(y), float(x + mask.width), float(y + mask.height))
        inside = x >= 0 and y >= 0 and box[2] <= self.width and box[3] <= self.height
        if not inside:
            return None
        slanted = run is not None and min(abs(run[2] - run[0]), abs(run[3] - run[1])) > 1
        ink = inked(mask, x, y) if slanted else None
        if not (force or (self.free(box) if ink is None else self.taken[ink].mean() < CROSSED)):
            return None
        paste(self.image, self.readable(self.ink(colour), x, y, mask), x, y, mask)
        if ink is None:
            third = mask.height // 3
            rows = slice((y + third) // CELL, (y + mask.height - third) // CELL + 1)
            self.taken[rows, x // CELL : (x + mask.width - 1) // CELL + 1] = True
        else:
            self.taken[ink] = True
        self.words.append(Word(text, box, role, self.block, self.line, run))
        return len(self.words) - 1

    def print_words(
        self,
        words: Iterable[str],
        x: float,
        baseline: float,
        style: Style,
        role: str,
        space: float = 0.0,
        rng: random.Random | None = None,
        force: bool = False,
    ) -> list[int | None]:
        """Print words from x on one baseline; each one's index, or None where it did not fit."""
        face, gap = style.setter, space or style.setter.space
        indices: list[int | None] = []
        start = x
        for text in words:
            shown = style.shown(text)
            bitmap = face.word(shown)
            rise = rng.randint(-style.jitter, style.jitter) if style.jitter and rng else 0
            index = None
            if bitmap.mask is not None:
                left, top = round(x) + bitmap.left, round(baseline) + bitmap.top + rise
                index = self._put(bitmap.mask, left, top, style.colour, shown, role, force)
            indices.append(index)
            x += bitmap.advance + gap
        if style.underline and indices and any(i is not None for i in indices):
            y = round(baseline) + max(2, style.size // 8)
            self.rule(start, y, min(x - gap, self.width), y, style.colour, max(1, style.size // 16))
        return indices

    def text(
        self,
        x: float,
        baseline: float,
        text: str,
        style: Style,
        role: str,
        align: str = "left",
        width: float = 0.0,
        rng: random.Random | None = None,
        force: bool = False,
    ) -> Span:
        """One line of text: x is its left edge, or that of a column of `width` in which it is aligned."""
        self.start_line()
        words = text.split()
        if align != "left":
            slack = width - self.measure(text, style)
            x += slack if align == "right" else slack / 2
        return span(words, self.print_words(words, x, baseline, style, role, rng=rng, force=force))

    def measure(self, text: str, style: Style) -> float:
        face = style.setter
        words = style.shown(text).split()
        return sum(face.width(word) for word in words) + face.space * max(0, len(words) - 1)

    def turned(
        self, x: float, y: float, text: str, style: Style, role: str, angle: float = 90, force: bool = False
    ) -> Span:
        """Text turned anticlockwise by `angle` whose first word starts near (x, y); reads upwards at 90."""
        self.start_line()
        # Twice as large and then reduced, or slanted strokes have steps.
        face = setter(style.face, 2 * style.size, 2 * style.tracking)
        cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))

        def at(pen: float, rise: float) -> tuple[float, float]:
            """A point along and across the line of text, on the canvas."""
            return x + (pen * cos + rise * sin) / 2, y + (rise * cos - pen * sin) / 2

        pen = 0.0
        indices: list[int | None] = []
        words = text.split()
        for word in words:
            bitmap = face.word(style.shown(word))
            index = None
            if bitmap.mask is not None:
                turned = bitmap.mask.rotate(angle, expand=True, resample=Image.Resampling.BICUBIC).reduce(2)
                ink = turned.getbbox()
                if ink is not None:
                    begin, rise = pen + bitmap.left, bitmap.top + bitmap.mask.height / 2
                    cx, cy = at(begin + bitmap.mask.width / 2, rise)
                    left, top = round(cx - turned.width / 2) + ink[0], round(cy - turned.height / 2) + ink[1]
                    run = (*at(begin, rise), *at(begin + bitmap.mask.width, rise))
                    shown = style.shown(word)
                    index = self._put(turned.crop(ink), left, top, style.colour, shown, role, force, run)
            indices.append(index)
            pen += bitmap.advance + face.space
        return span(words, indices)


def inked(mask: Image.Image, x: int, y: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the map of what is printed on which a slanted word at (x, y) has ink."""
    array = np.asarray(mask)
    rows, cols = np.nonzero(array > min(96, int(array.max()) // 2))  # hairlines are nowhere darker
    cells = np.unique(np.stack([(rows + y) // CELL, (cols + x) // CELL]), axis=1)
    return cells[0], cells[1]


def span(words: Sequence[str], indices: Sequence[int | None]) -> Span:
    """The span of what was printed of `words`."""
    printed = tuple(i for i in indices if i is not None)
    shown = " ".join(word for word, i in zip(words, indices, strict=True) if i is not None)
    return Span(shown, printed, whole=len(printed) == len(indices))


def join(spans: Iterable[Span]) -> Span:
    """Lines of one text as one span."""
    parts = list(spans)
    words = tuple(i for part in parts for i in part.words)
    return Span(" ".join(part.text for part in parts), words, all(part.whole for part in parts))
