"""What scanners, fax machines, copiers and JPEG do to pages. Geometry moves the boxes; everything else leaves them
alone.

`Wear` says which of it happens to a page; it is drawn once per page and can be set by hand in tests and evaluations.
"""

from __future__ import annotations

import io
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from PIL import Image, ImageFilter

from .geometry import move_words, scan_map, stretch, turn_page, warp
from .page import Word


@dataclass(frozen=True)
class Wear:
    """Amounts; zero means: not at all."""

    turn: int = 0  # 90 or 270 degrees anticlockwise: a page that was scanned or printed sideways
    skew: float = 0.0  # degrees
    lean: float = 0.0  # perspective
    edge: int = -1  # grey value around the skewed page; -1: its own paper
    scale: float = 1.0  # final size
    coarse: float = 1.0  # resolution lost: reduced to this share and enlarged again
    fade: float = 0.0  # uneven ink
    light: float = 0.0  # uneven light
    blur: float = 0.0  # px
    noise: float = 0.0  # grey levels
    specks: int = 0
    marks: int = 0  # stains, holes, hairs
    fax: float = 0.0  # threshold between paper (near 0: heavy strokes) and ink (1: thin ones); 0: grey stays
    jpeg: int = 0  # quality
    contrast: float = 1.0
    paper: int = 255  # grey level of white paper
    invert: bool = False


def draw_wear(rng: random.Random, scan: bool) -> Wear:
    """How worn a page is: scans a lot, screen images little, one in six not at all."""
    if rng.random() < 0.16:
        return Wear()

    def some(share: float, low: float, high: float, otherwise: float = 0.0) -> float:
        return rng.uniform(low, high) if rng.random() < share else otherwise

    if not scan:
        return Wear(
            turn=rng.choice((90, 270)) if rng.random() < 0.03 else 0,
            scale=some(0.3, 0.7, 1.15, 1.0),
            coarse=some(0.2, 0.6, 0.95, 1.0),
            blur=some(0.15, 0.3, 0.8),
            noise=some(0.15, 1, 8),
            jpeg=int(some(0.6, 25, 95)),
            contrast=some(0.15, 0.75, 1.2, 1.0),
            skew=some(0.05, 0.2, 2),
            invert=rng.random() < 0.02,
        )
    # Thresholding, fading and lost resolution each cost strokes: together they would leave nothing to read.
    fax = some(0.2, 0.25, 0.9)
    coarse = some(0.25, 0.55, 0.95, 1.0)
    fade = 0.0 if fax or coarse < 0.75 else some(0.25, 0.2, 0.65)
    weak = 0.5 if fade or coarse < 0.75 else 1.0
    return Wear(
        turn=rng.choice((90, 90, 270)) if rng.random() < 0.06 else 0,
        skew=some(0.45, 0.3, 3.0),
        lean=some(0.1, 0.005, 0.04),
        edge=int(some(0.35, 0, 90, -1)),
        scale=some(0.2, 0.75, 1.1, 1.0),
        coarse=coarse,
        fade=fade,
        light=some(0.3, 0.1, 0.45) * weak,
        blur=some(0.3, 0.3, 1.1) * weak,
        noise=some(0.5, 2, 22) * weak,
        specks=int(some(0.25, 20, 900)),
        marks=int(some(0.3, 1, 6)),
        fax=fax,
        jpeg=int(some(0.5, 20, 90)),
        contrast=1.0 if fax else some(0.3, 0.65, 1.3, 1.0),
        paper=255 if fax else int(some(0.5, 190, 250, 255)),
        invert=rng.random() < 0.01,
    )


@lru_cache(maxsize=1)
def noise_tile() -> np.ndarray:
    """Gaussian noise, made once: pages take pieces of it, which is ten times cheaper than fresh noise."""
    return np.random.default_rng(7).normal(0, 32, (1400, 1400)).clip(-127, 127).astype(np.int8)


def piece(rng: random.Random, height: int, width: int) -> np.ndarray:
    tile = noise_tile()
    if height > tile.shape[0] - 64 or width > tile.shape[1] - 64:
        tile = np.tile(tile, (height // 1300 + 2, width // 1300 + 2))
    y, x = rng.randrange(tile.shape[0] - height), rng.randrange(tile.shape[1] - width)
    return tile[y : y + height, x : x + width]


def field(rng: random.Random, size: tuple[int, int], low: float, cells: int = 4) -> np.ndarray:
    """A smooth field between `low` and 1, as uint8 (255 = 1): shade, uneven ink."""
    values = bytes(round(255 * rng.uniform(low, 1)) for _ in range(cells * cells))
    return np.asarray(Image.frombytes("L", (cells, cells), values).resize(size, Image.Resampling.BICUBIC))


def channels(array: np.ndarray, plane: np.ndarray) -> np.ndarray:
    return plane[:, :, None] if array.ndim == 3 else plane


def fade_ink(array: np.ndarray, rng: random.Random, amount: float) -> np.ndarray:
    """Ink moves towards white where the field is weak."""
    ink = channels(array, field(rng, (array.shape[1], array.shape[0]), 1 - amount, rng.choice((4, 9, 24))))
    return 255 - ((255 - array).astype(np.uint16) * ink // 255).astype(np.uint8)


def shade(array: np.ndarray, rng: random.Random, amount: float) -> np.ndarray:
    plane = channels(array, field(rng, (array.shape[1], array.shape[0]), 1 - amount, rng.choice((2, 3, 5))))
    return (array.astype(np.uint16) * plane // 255).astype(np.uint8)


def add_noise(array: np.ndarray, rng: random.Random, amount: float) -> np.ndarray:
    grain = piece(rng, *array.shape[:2])
    # amount / 32 in sixteenths keeps the product in 16 bits.
    plane = (grain.astype(np.int16) * max(1, round(amount / 2))) >> 4
    return np.clip(array.astype(np.int16) + channels(array, plane), 0, 255).astype(np.uint8)


def add_specks(array: np.ndarray, rng: random.Random, count: int) -> np.ndarray:
    draw = np.random.default_rng(rng.getrandbits(32))
    y, x = draw.integers(0, array.shape[0] - 1, count), draw.integers(0, array.shape[1] - 1, count)
    array = array.copy()
    for dy, dx in ((0, 0), (0, 1), (1, 0)):
        some = slice(0, count if (dy, dx) == (0, 0) else count // 3)
        array[y[some] + dy, x[some] + dx] = 0 if rng.random() < 0.8 else 255
    return array


def add_marks(image: Image.Image, rng: random.Random, count: int, words: Sequence[Word]) -> None:
    """Punch holes and hairs near the edge, pale stains anywhere: none of them hides a word."""
    from PIL import ImageDraw

    draw = ImageDraw.Draw(image)
    width, height = image.size
    grey = image.mode == "L"

    def ink(value: int) -> int | tuple[int, int, int]:
        return value if grey else (value, value, value)

    for _ in range(count):
        kind = rng.random()
        if kind < 0.35:
            radius, x, y = rng.uniform(6, 11), rng.uniform(8, 30), rng.uniform(0.05, 0.95) * height
            box = (x - radius, y - radius, x + radius, y + radius)
            if not any(
                w.box[0] < box[2] and w.box[2] > box[0] and w.box[1] < box[3] and w.box[3] > box[1] for w in words
            ):
                draw.ellipse(box, fill=ink(rng.choice((0, 20, 60))))
        elif kind < 0.7:
            x, y = rng.uniform(0, width), rng.uniform(0, height)
            points = [(x + i * rng.uniform(-4, 6), y + i * rng.uniform(-3, 7)) for i in range(rng.randint(3, 12))]
            draw.line(points, fill=ink(rng.randint(60, 170)), width=1)
        elif kind < 0.85:
            x = rng.uniform(0, width)
            draw.line((x, 0, x + rng.uniform(-3, 3), height), fill=ink(rng.randint(120, 220)), width=1)
        else:
            x, y, radius = rng.uniform(0, width), rng.uniform(0, height), rng.uniform(15, 70)
            draw.ellipse(
                (x - radius, y - radius, x + radius, y + radius),
                outline=ink(rng.randint(190, 230)),
                width=rng.randint(1, 4),
            )


def squeeze(image: Image.Image, quality: int) -> Image.Image:
    packed = io.BytesIO()
    image.save(packed, "JPEG", quality=quality)
    packed.seek(0)
    return Image.open(packed)


def degrade(image: Image.Image, words: list[Word], wear: Wear, rng: random.Random) -> tuple[np.ndarray, list[Word]]:
    """The worn page and its words where they are now."""
    if wear.turn:
        image, words = turn_page(image, words, wear.turn)
    if wear.fade:
        image = Image.fromarray(fade_ink(np.asarray(image), rng, wear.fade))
    if wear.marks:
        image = image.copy()
        add_marks(image, rng, wear.marks, words)
    if wear.paper < 255 or wear.contrast != 1.0:
        image = tone(image, wear)
    if wear.skew or wear.lean:
        matrix, size = scan_map(rng, image.size, wear.skew, wear.lean)
        paper = image.getpixel((1, 1))
        assert isinstance(paper, int | tuple)
        edge = paper if wear.edge < 0 else wear.edge if image.mode == "L" else (wear.edge,) * 3
        image, words = warp(image, matrix, size, edge), move_words(words, matrix)  # type: ignore[arg-type]
    if wear.scale != 1.0:
        size = (max(16, round(image.width * wear.scale)), max(16, round(image.height * wear.scale)))
        words = move_words(words, stretch(size[0] / image.width, size[1] / image.height))
        image = image.resize(size, Image.Resampling.BILINEAR, reducing_gap=2.0)
    if wear.coarse != 1.0:
        small = (max(8, round(image.width * wear.coarse)), max(8, round(image.height * wear.coarse)))
        image = image.resize(small, Image.Resampling.BILINEAR).resize(image.size, Image.Resampling.BILINEAR)
    return soil(image, wear, rng), words


def tone(image: Image.Image, wear: Wear) -> Image.Image:
    """Grey paper and weak or strong contrast, as one table."""
    middle = 128
    table = [round(min(255, max(0, (v - middle) * wear.contrast + middle)) * wear.paper / 255) for v in range(256)]
    return image.point(table * len(image.getbands()))


def fax_level(array: np.ndarray, share: float) -> float:
    """Where black begins: measured from this page's paper and ink, or thin print on grey paper would vanish."""
    some = array[::4, ::4]
    paper = float(np.median(some))
    ink = some[some < paper - 40]
    return min(paper - 30, paper - share * (paper - float(ink.mean()))) if ink.size else paper - 60


def soil(image: Image.Image, wear: Wear, rng: random.Random) -> np.ndarray:
    """Everything that happens to pixels where they are."""
    if wear.blur:
        image = image.filter(ImageFilter.GaussianBlur(wear.blur))
    array = np.asarray(image)
    if wear.light:
        array = shade(array, rng, wear.light)
    if wear.noise:
        array = add_noise(array, rng, wear.noise)
    if wear.specks:
        array = add_specks(array, rng, wear.specks)
    if wear.fax:
        array = np.where(array > fax_level(array, wear.fax), np.uint8(255), np.uint8(0))
    if wear.jpeg:
        array = np.asarray(squeeze(Image.fromarray(array), wear.jpeg))
    if wear.invert:
        array = 255 - array
    return np.ascontiguousarray(array)
