"""Where on a page print runs at some angle: level lines, titles of upright axes, numbers on margins, slanted labels.

The page is turned so that such print would lie level, and what looks like one level line of small print is kept:
1. ink is what differs from the paper, which is the page's median grey; gaps narrower than `GAP` along a row are closed;
2. pieces of it that touch are boxes; a line is `LOW` to `HIGH` pixels high and much longer than high;
3. a line has letters: they stand close together and have two strokes or so each. What is level on the page looks, from
   the side, like single letters one line apart;
4. a line stands alone: there is hardly any ink right above and below, where what is level has its next letters.
Sizes are pixels of a page of about 1.1 million, as the packaged checkpoint sees it. The limits are from what Tesseract
read, and did not, on 400 pages of docvqa-train and chartqa-train (docs/log.md).

Small letters reach above their line more often than below it, so a line also says whether it stands or hangs
(`Line.standing`), three times out of four rightly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from PIL import Image

FAINTEST = 32  # of 255: a grey nearer to the paper's is no ink
GAP = 15
LOW, HIGH = 10, 36
LONG, SHORTEST = 3.0, 44  # times as long as high, and pixels, at least
# Slanted labels stand side by side, often years: where there are so many, they may be as short as this.
LABELS, LABEL_LONG, SHORTEST_LABEL = 3, 2.6, 34
INK = (0.28, 0.75)  # shares of a line's box that are ink
FILLED = 0.68  # share of its columns that have ink, at least
STROKES = 1.1  # that a row through its middle meets on a length of its height, at least
MOST_LONG = 20  # times as long as wide: a longer strip is not turned by odd angles, which takes a square of its length
AROUND, CROWDED = 4, 0.1  # pixels above and below, and the share of them that may be ink
# From top to bottom in sixteenths, how much more ink, and how many more strokes, lie in the upper half than in its
# mirror: weights of a logistic regression over lines of 1,741 upright pages of docvqa-train and chartqa-train
# (scripts/fit_standing.py).
INK_ABOVE = (-4.1, -2.7, -4.8, -11.5, -17.3, 0.3, 26.1, 16.5)
STROKES_ABOVE = (5.1, 12.4, 9.1, -1.0, -7.1, -9.1, -13.3, -9.5)


@dataclass(frozen=True)
class Line:
    """A line of print: where it runs, from begin to end along its middle, and how high it stands, in pixels."""

    begin: tuple[float, float]  # x, y
    end: tuple[float, float]
    height: float
    standing: float = 0.0  # log-odds that its letters stand rather than hang upside down

    @property
    def length(self) -> float:
        return math.dist(self.begin, self.end)


class Print:
    """The print of a scaled page, line by line."""

    def __init__(self, page: Image.Image) -> None:
        self.page = page
        self._grey = page.convert("L")
        self._paper = int(np.median(np.asarray(self._grey)))
        self._found: dict[int, list[Line]] = {}

    def lines(self, *angles: int) -> list[Line]:
        """Lines that run at one of these angles: degrees, anticlockwise from level."""
        return [line for angle in angles for line in self._at(angle)]

    def _at(self, angle: int) -> list[Line]:
        half = angle % 180
        if half not in self._found:
            strip = max(self._grey.size) > MOST_LONG * min(self._grey.size)
            self._found[half] = [] if strip and half % 90 else _lines(self._grey, self._paper, half)
        if angle % 360 == half:
            return self._found[half]
        # What runs the other way looks the same to all that is asked here, upside down.
        return [Line(line.end, line.begin, line.height, -line.standing) for line in self._found[half]]


def _lines(grey: Image.Image, paper: int, angle: int) -> list[Line]:
    seen = grey.rotate(-angle, Image.Resampling.BILINEAR, expand=True, fillcolor=paper)
    ink = np.abs(np.asarray(seen, dtype=np.int16) - paper) > FAINTEST
    cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))

    def back(u: float, v: float) -> tuple[float, float]:
        u, v = u - seen.width / 2, v - seen.height / 2
        return grey.width / 2 + u * cos + v * sin, grey.height / 2 - u * sin + v * cos

    slanted = bool(angle % 90)
    long, shortest = (LABEL_LONG, SHORTEST_LABEL) if slanted else (LONG, SHORTEST)
    found = []
    for x0, y0, x1, y1 in pieces(ink, GAP).tolist():
        if LOW <= y1 - y0 <= HIGH and x1 - x0 >= max(shortest, long * (y1 - y0)) and _is_print(ink, x0, y0, x1, y1):
            middle = (y0 + y1) / 2
            found.append(Line(back(x0, middle), back(x1, middle), y1 - y0, standing(ink[y0:y1, x0:x1])))
    if slanted and len(found) < LABELS:
        return [line for line in found if line.length >= max(SHORTEST, LONG * line.height)]
    return found


def standing(line: np.ndarray) -> float:
    """Log-odds that the letters of a level line stand, from its ink.

    >>> letter = np.zeros((16, 9), bool)
    >>> letter[:, 2] = letter[5, 2:7] = letter[5:, 6] = True  # an h
    >>> standing(letter) > 1 > -1 > standing(letter[::-1])
    True
    """
    return float(leanings(line) @ (*INK_ABOVE, *STROKES_ABOVE))


def leanings(line: np.ndarray) -> np.ndarray:
    """(16,) of a line's ink: what its upper half has more than the lower one mirrored, by sixteenths of the height."""
    strokes = line[:, 1:] & ~line[:, :-1]
    found = []
    for rows in (line.sum(1), strokes.sum(1)):
        total = np.r_[0.0, np.cumsum(rows)]
        shares = np.diff(np.interp(np.linspace(0, len(rows), 17), np.arange(len(rows) + 1), total / max(total[-1], 1)))
        found.append((shares - shares[::-1])[:8])
    return np.concatenate(found)


def _is_print(ink: np.ndarray, x0: int, y0: int, x1: int, y1: int) -> bool:
    box, height = ink[y0:y1, x0:x1], y1 - y0
    if not (INK[0] <= box.mean() <= INK[1] and box.any(0).mean() >= FILLED):
        return False
    middle = box[height // 4 : height - height // 4]
    strokes = np.count_nonzero(middle[:, 1:] > middle[:, :-1]) / len(middle)
    around = np.concatenate([ink[max(0, y0 - AROUND) : y0, x0:x1], ink[y1 : y1 + AROUND, x0:x1]])
    return bool(strokes >= STROKES * (x1 - x0) / height and (not len(around) or around.mean() <= CROWDED))


def pieces(ink: np.ndarray, gap: int) -> np.ndarray:
    """(N, 4) boxes x0, y0, x1, y1 of what touches once gaps of less than `gap` pixels along rows are closed.

    >>> pieces(np.array([[1, 0, 1, 0, 0, 1], [0, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0]], bool), 2).tolist()
    [[0, 0, 3, 1], [5, 0, 6, 1], [1, 2, 2, 3]]
    """
    framed = np.pad(ink, ((0, 0), (1, 1)))
    here, before = framed[:, 1:], framed[:, :-1]
    rows, begins = np.divmod(np.flatnonzero(here & ~before), here.shape[1])
    ends = np.flatnonzero(before & ~here) % here.shape[1]
    if not len(rows):
        return np.empty((0, 4), np.int64)
    apart = (rows[1:] != rows[:-1]) | (begins[1:] - ends[:-1] >= gap)
    rows, begins = rows[np.r_[True, apart]], begins[np.r_[True, apart]]
    ends = ends[np.r_[apart, True]]
    label = _joined(rows, begins, ends, ink.shape[1] + 1)
    names, label = np.unique(label, return_inverse=True)
    boxes = np.empty((len(names), 4), np.int64)
    boxes[:, :2], boxes[:, 2:] = np.iinfo(np.int64).max, 0
    for side, values in ((0, begins), (1, rows)):
        np.minimum.at(boxes[:, side], label, values)
    for side, values in ((2, ends), (3, rows + 1)):
        np.maximum.at(boxes[:, side], label, values)
    return boxes


def _joined(rows: np.ndarray, begins: np.ndarray, ends: np.ndarray, width: int) -> np.ndarray:
    """The same number for runs of ink that touch across rows. Runs come row by row, from left to right."""
    below = (rows + 1) * width
    first = np.searchsorted(rows * width + ends, below + begins, "right")
    last = np.searchsorted(rows * width + begins, below + ends, "left")
    count = np.maximum(last - first, 0)  # runs of the next row that each one touches
    upper = np.repeat(np.arange(len(rows)), count)
    lower = np.arange(len(upper)) - np.repeat(np.cumsum(count) - count, count) + first[upper]
    label = np.arange(len(rows))
    while True:
        least = np.minimum(label[upper], label[lower])
        if (label[upper] == least).all() and (label[lower] == least).all():
            return label
        np.minimum.at(label, label[upper], least)
        np.minimum.at(label, label[lower], least)
        while (label[label] != label).any():
            label = label[label]
