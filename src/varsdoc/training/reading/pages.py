"""Generated and real pages as fixed-shape arrays, a chunk of them at a time.

Every page is scaled to one of a few shapes, so that a batch has no padding and compiled code sees few shapes. The
shapes are those to which the model's own preprocessing brings such pages anyway, within a cell or two.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from PIL import Image
from tokenizers import Tokenizer

from varsdoc.image import read_image
from varsdoc.model.config import VarsConfig
from varsdoc.model.patches import cut
from varsdoc.training.generator import PageStream, Word
from varsdoc.training.reading.printed import Speller, printed_tokens
from varsdoc.training.reading.targets import TOKENS, Grid, places, token_keys, tokenise
from varsdoc.training.reading.words import NONE, presence, word_key

# Rows and columns of cells: portrait page, landscape page or chart, tall chart. Each one more is compiled once more.
# About 1,500 cells: print of 8 to 11 px is read far better when it is enlarged (docs/log.md, seventh session).
SHAPES = ((44, 34), (33, 45), (55, 27))
QUERIES = 8
CHUNK = 8
CASED = 0.35  # of the pages are transcribed with their capitals; a tenth to a fifth of real questions' words have them


@dataclass(frozen=True)
class Chunk:
    """Some pages of one shape. Grey pages travel with one channel."""

    shape: int
    real: bool
    pixels: np.ndarray  # (n, patches, channels * patch * patch) uint8
    ids: np.ndarray  # (n, QUERIES, TOKENS) int16, -1 for padding
    keys: np.ndarray  # (n, QUERIES, TOKENS) int32: the printed word that a token means
    page: np.ndarray  # (n,) int64: equal numbers are the same page
    printed: np.ndarray  # (n, PRINTED, 3) int32: every token of the page, see printed.py
    places: np.ndarray  # (n, PLACES, 2) int32: every word and the cells that show it
    present: np.ndarray  # (n, BITS / 8) uint8: which words the page prints


def nearest_shape(height: int, width: int) -> int:
    """The shape that distorts a page least: all hold about 1,500 cells, to which small pages are enlarged.

    >>> [SHAPES[nearest_shape(*size)] for size in ((1000, 773), (450, 640), (765, 995), (640, 310))]
    [(44, 34), (33, 45), (33, 45), (55, 27)]
    """
    distance = [abs(math.log((rows * width) / (cols * height))) for rows, cols in SHAPES]
    return distance.index(min(distance))


def cut_to_shape(image: np.ndarray | Image.Image, shape: int, config: VarsConfig) -> np.ndarray:
    """Patches of a page brought to a shape: (patches, 588), or (patches, 196) where it is grey."""
    rows, cols = SHAPES[shape]
    page = read_image(image).resize((cols * config.cell_size, rows * config.cell_size), Image.Resampling.BICUBIC)
    pixels = cut(page, config.with_(max_visual_tokens=max(config.max_visual_tokens, rows * cols))).pixels
    each = pixels.reshape(len(pixels), 3, -1)
    grey = (each[:, 0] == each[:, 1]).all() and (each[:, 0] == each[:, 2]).all()
    return np.ascontiguousarray(each[:, 0]) if grey else pixels


@dataclass(frozen=True)
class Page:
    """A page to be taught, however it came: its image, its words in pixels of it, and what can be asked about it.

    also   keys of words that can be seen but are not taught: cut off, or read with doubt
    start  where the run of taught tokens begins on a page with too many, as a share
    """

    image: np.ndarray | Image.Image
    words: Sequence[Word]
    queries: Sequence[tuple[str, Sequence[tuple[int, int, int]]]]  # text, and which characters name which word
    number: int
    also: frozenset[int] = frozenset()
    start: float = 0.0


class Source(Protocol):
    """An endless stream of real pages, the same for the same seed and worker."""

    def part(self, worker: int, workers: int, start: int) -> Iterator[Page]: ...


@dataclass(frozen=True)
class Maker:
    """Everything a worker needs. `real_share` of the pages it makes are views of real ones, where there are some."""

    stream: PageStream
    config: VarsConfig
    tokenizer: str  # its JSON
    real: Source | None = None
    real_share: float = 0.0
    chunk: int = CHUNK

    @property
    def chunk_bytes(self) -> int:
        """Pixels of the largest chunk."""
        patches = max(rows * cols for rows, cols in SHAPES) * self.config.merge_size**2
        return self.chunk * patches * 3 * self.config.patch_size**2

    def chunks(self, worker: int, workers: int, start: int) -> Iterator[Chunk]:
        tokenizer = Tokenizer.from_str(self.tokenizer)
        tokenizer.encode_special_tokens = True
        speller = Speller(tokenizer)
        waiting: dict[tuple[int, bool, bool], list[tuple[Any, ...]]] = {}
        for page, real in self._pages(worker, workers, start):
            if not page.queries:
                continue
            shape, row = self._row(page, tokenizer, speller)
            kind = (shape, row[0].shape[1] > 196, real)
            waiting.setdefault(kind, []).append(row)
            if len(waiting[kind]) == self.chunk:
                yield Chunk(shape, real, *(np.stack(part) for part in zip(*waiting.pop(kind), strict=True)))

    def _pages(self, worker: int, workers: int, start: int) -> Iterator[tuple[Page, bool]]:
        generated = self.stream.part(worker, workers, start)
        real = None if self.real is None else self.real.part(worker, workers, start)
        rng = random.Random(f"varsdoc turns {start} {worker}")
        while True:
            if real is not None and rng.random() < self.real_share:
                yield next(real), True
            else:
                sample = next(generated)
                queries = [(query.text, query.links) for query in sample.queries]
                yield Page(sample.image, sample.words, queries, sample.index, start=sample.index * 0.618 % 1), False

    def _row(self, page: Page, tokenizer: Tokenizer, speller: Speller) -> tuple[int, tuple[Any, ...]]:
        """The page as one row of a chunk: pixels, ids, keys, number, printed tokens, places, presence."""
        picture = read_image(page.image)
        shape = nearest_shape(picture.height, picture.width)
        grid = Grid(*SHAPES[shape], picture.height, picture.width)
        names = [word_key(word.text) for word in page.words]
        ids, keys = self._queries(page, tokenizer)
        cased = page.start * 97 % 1 < CASED  # by another digit of the same draw
        printed = printed_tokens(page.words, grid, speller, page.start, cased)
        present = presence([*names, *page.also])
        pixels = cut_to_shape(picture, shape, self.config)
        return shape, (pixels, ids, keys, np.int64(page.number), printed, places(page.words, names, grid), present)

    def _queries(self, page: Page, tokenizer: Tokenizer) -> tuple[np.ndarray, np.ndarray]:
        ids = np.full((QUERIES, TOKENS), NONE, dtype=np.int16)
        keys = np.full((QUERIES, TOKENS), NONE, dtype=np.int32)
        for q in range(QUERIES):
            text, links = page.queries[q % len(page.queries)]
            ids[q], offsets = tokenise(tokenizer, text, self.config)
            keys[q, : len(offsets)] = token_keys(page.words, links, offsets, len(self.config.query_prefix))
        return ids, keys
