"""Ever new views of a real page: a piece of it or all of it, somewhere on the sheet, worn anew.

A few thousand real pages are seen a hundred times each in half an hour of training; drawn alike, they are learnt by
heart. A view changes what reading must not depend on: size, place, proportions, ink, paper, resolution.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from PIL import Image

from varsdoc.training.generator import Word
from varsdoc.training.generator.degrade import Wear, degrade, draw_wear
from varsdoc.training.generator.geometry import move_words, shift, stretch

FEWEST = 6  # words that a piece of a page must keep
SEEN = 0.9  # of a word's box must lie inside, or it counts as cut


@dataclass(frozen=True)
class View:
    """The picture, the words on it in pixels, and those of which only a part is seen."""

    image: np.ndarray
    words: list[Word]
    cut: list[Word]


def new_view(page: Image.Image, words: Sequence[Word], rng: random.Random, size: int = 1000) -> View:
    """A view of a page whose words are in its pixels. `size`: about the longer side of the view, in pixels."""
    window = choose_window(page.size, words, rng)
    sheet, matrix = look(page, window, size)
    moved = move_words(words, matrix)
    whole = [word for word in moved if _seen(word, sheet.size) >= SEEN]
    cut = [word for word in moved if 0 < _seen(word, sheet.size) < SEEN]
    # Wear moves words, in their order; nothing else about them changes.
    image, worn = degrade(sheet, [*whole, *cut], choose_wear(rng, sheet.mode == "L"), rng)
    return View(image, worn[: len(whole)], worn[len(whole) :])


def choose_window(
    size: tuple[int, int], words: Sequence[Word], rng: random.Random
) -> tuple[float, float, float, float]:
    """What the sheet shows, in pixels of the page: half of the time all of it with some margin, else a piece."""
    width, height = size
    if rng.random() < 0.5:
        for _ in range(4):
            w, h = width * rng.uniform(0.6, 1.0), height * rng.uniform(0.6, 1.0)
            x, y = rng.uniform(0, width - w), rng.uniform(0, height - h)
            box = (x, y, x + w, y + h)
            inside = sum(
                box[0] <= b[0] and b[2] <= box[2] and box[1] <= b[1] and b[3] <= box[3] for b in (o.box for o in words)
            )
            if inside >= max(FEWEST, len(words) // 4):
                return box
    w, h = width / rng.uniform(0.88, 1.0), height / rng.uniform(0.88, 1.0)
    x, y = -rng.uniform(0, w - width), -rng.uniform(0, h - height)
    return (x, y, x + w, y + h)


def look(page: Image.Image, window: tuple[float, float, float, float], size: int) -> tuple[Image.Image, np.ndarray]:
    """The window as a sheet of its own, and the map from page pixels to the sheet's; beyond the page is its paper."""
    x0, y0, x1, y1 = window
    factor = size / max(x1 - x0, y1 - y0)
    width, height = max(16, round((x1 - x0) * factor)), max(16, round((y1 - y0) * factor))
    fx, fy = width / (x1 - x0), height / (y1 - y0)
    inner = (max(x0, 0.0), max(y0, 0.0), min(x1, page.width), min(y1, page.height))
    left, top = round((inner[0] - x0) * fx), round((inner[1] - y0) * fy)
    right, bottom = round((inner[2] - x0) * fx), round((inner[3] - y0) * fy)
    part = page.resize((right - left, bottom - top), Image.Resampling.BICUBIC, box=inner)
    sheet = Image.new(page.mode, (width, height), page.getpixel((1, 1)))
    sheet.paste(part, (left, top))
    return sheet, stretch(fx, fy) @ shift(-x0, -y0)


def choose_wear(rng: random.Random, grey: bool) -> Wear:
    """Real pages bring their own wear: half of them get no more, and none is made smaller."""
    if rng.random() < 0.5:
        return Wear(invert=rng.random() < 0.03)
    return replace(draw_wear(rng, grey), scale=1.0, marks=0)


def _seen(word: Word, size: tuple[int, int]) -> float:
    x0, y0, x1, y1 = word.box
    inside = max(0.0, min(x1, size[0]) - max(x0, 0)) * max(0.0, min(y1, size[1]) - max(y0, 0))
    area = (x1 - x0) * (y1 - y0)
    return inside / area if area > 0 else 0.0
