"""Which printed word each query token means: the supervision that makes a model read.

A generated query knows which of its characters name which printed word. Its tokens, then, should find the cells in
which that word stands, wherever the same word is printed on the page. Contrast between pages alone does not get a
model from scratch to read; this does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from varsdoc.model.config import VarsConfig
from varsdoc.training.generator import Word
from varsdoc.training.generator.page import Box
from varsdoc.training.reading.words import NONE, word_key

TOKENS = 48  # of a query, prefix and augmentation included
SAMPLES = 24  # points at which a slanted word is asked for its cells; few words cross more than twelve of them
PLACES = 2048  # pairs of a word and a cell that shows it, of one page; a thousand words rarely have more


@dataclass(frozen=True)
class Grid:
    """Cells of a scaled page, and how a pixel of the drawn page maps into them."""

    rows: int
    cols: int
    height: int  # of the page as drawn
    width: int

    def cells(self, word: Word) -> list[int]:
        """The cells that hold a word's ink: those which its box covers by a fifth of a cell or more in both directions,
        or, of a slanted word, those through which it runs.

        >>> Grid(2, 3, 56, 84).cells(Word("wide", (20.0, 2.0, 60.0, 20.0), "body", 0, 0))
        [0, 1]
        >>> Grid(2, 2, 56, 56).cells(Word("rising", (4.0, 4.0, 52.0, 52.0), "label", 0, 0, (6.0, 50.0, 50.0, 6.0)))
        [1, 2]
        """
        if word.run is not None and min(abs(word.run[2] - word.run[0]), abs(word.run[3] - word.run[1])) > 4:
            return sorted({self.cell_at(*point) for point in along(word.run, SAMPLES)})
        x0, x1 = (x * self.cols / self.width for x in (word.box[0], word.box[2]))
        y0, y1 = (y * self.rows / self.height for y in (word.box[1], word.box[3]))
        return [r * self.cols + c for r in _covered(y0, y1, self.rows) for c in _covered(x0, x1, self.cols)]

    def cell_at(self, x: float, y: float) -> int:
        """The cell of a point of the page, or the nearest one of a point beyond it."""
        row = min(max(int(y * self.rows / self.height), 0), self.rows - 1)
        col = min(max(int(x * self.cols / self.width), 0), self.cols - 1)
        return row * self.cols + col


def along(run: Box, count: int) -> list[tuple[float, float]]:
    """Points in the middle of `count` equal parts of a run.

    >>> along((0.0, 8.0, 0.0, 0.0), 2)
    [(0.0, 6.0), (0.0, 2.0)]
    """
    shares = ((i + 0.5) / count for i in range(count))
    return [(run[0] + s * (run[2] - run[0]), run[1] + s * (run[3] - run[1])) for s in shares]


def _covered(low: float, high: float, count: int) -> range:
    """Cells along one axis: nearly untouched ones at the ends are left out, the middle one never."""
    first, last = int(np.floor(low + 0.2)), int(np.ceil(high - 0.2))
    if last <= first:
        first = int((low + high) / 2)
        last = first + 1
    first = max(0, min(first, count - 1))
    return range(first, max(first + 1, min(last, count)))


def places(words: Sequence[Word], keys: Sequence[int], grid: Grid) -> np.ndarray:
    """(PLACES, 2) int32: every word and every cell that shows it, -1 where there are no more."""
    pairs = [(key, cell) for word, key in zip(words, keys, strict=True) if key >= 0 for cell in grid.cells(word)]
    table = np.full((PLACES, 2), NONE, dtype=np.int32)
    if pairs:
        table[: len(pairs)] = pairs[:PLACES]
    return table


def token_keys(
    words: Sequence[Word], links: Sequence[tuple[int, int, int]], offsets: Sequence[tuple[int, int]], shift: int
) -> np.ndarray:
    """For each token of the tokenised prefix + text the word that it means, (tokens,) int32; -1 where there is none.

    links    (start, end, word): these characters of the text name that word of the page
    offsets  character range of each token in prefix + text; shift: length of the prefix
    """
    keys = np.full(len(offsets), NONE, dtype=np.int32)
    for start, end, word in links:
        for token, (low, high) in enumerate(offsets):
            if low < end + shift and high > start + shift:
                keys[token] = word_key(words[word].text)
    return keys


def tokenise(tokenizer: Tokenizer, text: str, config: VarsConfig) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """A query as the model reads it, (TOKENS,) with -1 for padding, and the character ranges of its prefix and text."""
    extra = config.query_augmentation
    encoded = tokenizer.encode(config.query_prefix + text, add_special_tokens=False)
    kept = encoded.ids[: TOKENS - extra]
    ids = np.full(TOKENS, -1, dtype=np.int16)
    ids[: len(kept)] = kept
    augment: Any = tokenizer.token_to_id(config.augmentation_token)
    ids[len(kept) : len(kept) + extra] = augment
    return ids, encoded.offsets[: len(kept)]
