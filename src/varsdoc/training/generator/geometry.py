"""Moving the page: skew, scale, offset and a trace of perspective as one 3 x 3 map, applied to image and boxes
alike.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from PIL import Image

from .page import Box, Word


def shift(x: float, y: float) -> np.ndarray:
    return np.array([[1, 0, x], [0, 1, y], [0, 0, 1]], dtype=float)


def stretch(x: float, y: float) -> np.ndarray:
    return np.diag([x, y, 1.0])


def turn(degrees: float) -> np.ndarray:
    a = math.radians(degrees)
    return np.array([[math.cos(a), -math.sin(a), 0], [math.sin(a), math.cos(a), 0], [0, 0, 1]])


def corners(width: float, height: float) -> np.ndarray:
    return np.array([[0, 0, 1], [width, 0, 1], [width, height, 1], [0, height, 1]], dtype=float).T  # (3, 4)


def scan_map(
    rng: random.Random, size: tuple[int, int], skew: float, lean: float = 0.0
) -> tuple[np.ndarray, tuple[int, int]]:
    """A map that turns the page by up to `skew` degrees and fits it, whole, into a frame of about its old size."""
    width, height = size
    matrix = turn(rng.gauss(0, skew / 2)) @ shift(-width / 2, -height / 2)
    if lean:
        matrix = (
            np.array([[1, 0, 0], [0, 1, 0], [rng.uniform(-lean, lean) / width, rng.uniform(-lean, lean) / height, 1]])
            @ matrix
        )
    points = matrix @ corners(width, height)
    points = points[:2] / points[2]
    low, high = points.min(axis=1), points.max(axis=1)
    factor = rng.uniform(0.97, 1.0) * min(width / (high[0] - low[0]), height / (high[1] - low[1]))
    spare = np.array([width, height]) - factor * (high - low)
    offset = np.array([rng.random(), rng.random()]) * spare
    matrix = shift(*offset) @ stretch(factor, factor) @ shift(-low[0], -low[1]) @ matrix
    return matrix, (width, height)


def warp(
    image: Image.Image, matrix: np.ndarray, size: tuple[int, int], fill: int | tuple[int, int, int]
) -> Image.Image:
    # Pillow asks for the way back: which page point a frame pixel shows.
    back = np.linalg.inv(matrix)
    back = back / back[2, 2]
    if abs(back[2, 0]) + abs(back[2, 1]) < 1e-12:
        return image.transform(
            size, Image.Transform.AFFINE, tuple(back[:2].ravel()), Image.Resampling.BILINEAR, fillcolor=fill
        )
    return image.transform(
        size, Image.Transform.PERSPECTIVE, tuple(back.ravel()[:8]), Image.Resampling.BILINEAR, fillcolor=fill
    )


def reading_line(word: Word) -> Box:
    """From where to where a word is read: its run; where nobody knows that, rightwards, or upwards in a box that is far
    too high.

    >>> [reading_line(Word("Share", box, "", 0, 0)) for box in ((0, 0, 30, 10), (0, 0, 10, 30))]
    [(0, 5.0, 30, 5.0), (5.0, 30, 5.0, 0)]
    """
    if word.run is not None:
        return word.run
    x0, y0, x1, y1 = word.box
    if (y1 - y0) > 1.5 * (x1 - x0) and len(word.text) > 2:  # the title of an axis in a PDF
        return (x0 + x1) / 2, y1, (x0 + x1) / 2, y0
    return x0, (y0 + y1) / 2, x1, (y0 + y1) / 2


def turn_page(image: Image.Image, words: Sequence[Word], degrees: int) -> tuple[Image.Image, list[Word]]:
    """The page turned anticlockwise by 90 or 270 degrees; now all of its words have a run.

    >>> page, (word,) = turn_page(Image.new("L", (100, 50)), [Word("a", (10.0, 20.0, 30.0, 26.0), "body", 0, 0)], 90)
    >>> page.size, word.box, word.run
    ((50, 100), (20.0, 70.0, 26.0, 90.0), (23.0, 90.0, 23.0, 70.0))
    """
    if degrees == 90:
        turned, matrix = image.transpose(Image.Transpose.ROTATE_90), [[0, 1, 0], [-1, 0, image.width], [0, 0, 1]]
    else:
        turned, matrix = image.transpose(Image.Transpose.ROTATE_270), [[0, -1, image.height], [1, 0, 0], [0, 0, 1]]
    placed = [replace(word, run=reading_line(word)) for word in words]
    return turned, move_words(placed, np.array(matrix, dtype=float))


def move_words(words: Sequence[Word], matrix: np.ndarray) -> list[Word]:
    """Words with the upright boxes around their moved corners; those that have a run, with it.

    >>> move_words([Word("a", (0.0, 0.0, 10.0, 4.0), "body", 0, 0)], stretch(2, 3))[0].box
    (0.0, 0.0, 20.0, 12.0)
    >>> move_words([Word("a", (0.0, 0.0, 4.0, 9.0), "axis", 0, 0, (2.0, 9.0, 2.0, 0.0))], stretch(2, 3))[0].run
    (4.0, 27.0, 4.0, 0.0)
    """
    if not words:
        return []
    boxes = np.array([word.box for word in words])  # (n, 4)
    x, y = boxes[:, [0, 2, 2, 0]], boxes[:, [1, 1, 3, 3]]  # (n, 4 corners)
    points = np.einsum("ij,jnc->inc", matrix, np.stack([x, y, np.ones_like(x)]))
    px, py = points[0] / points[2], points[1] / points[2]
    moved = np.stack([px.min(1), py.min(1), px.max(1), py.max(1)], axis=1).round(2).tolist()
    placed = (replace(word, box=tuple(box)) for word, box in zip(words, moved, strict=True))
    return [word if word.run is None else replace(word, run=_moved(word.run, matrix)) for word in placed]


def _moved(run: Box, matrix: np.ndarray) -> Box:
    points = matrix @ np.array([[run[0], run[2]], [run[1], run[3]], [1.0, 1.0]])
    x, y = (points[:2] / points[2]).round(2).tolist()
    return x[0], y[0], x[1], y[1]
