"""Where each query token is printed: the supervision that makes a model read.

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

# A word wider than this many cells, counting its repetitions, is taught on its first ones.
CELLS = 16
TOKENS = 48  # of a query, prefix and augmentation included


@dataclass(frozen=True)
class Grid:
    """Cells of a scaled page, and how a pixel of the drawn page maps into them."""

    rows: int
    cols: int
    height: int  # of the page as drawn
    width: int

    def cells(self, word: Word) -> list[int]:
        """The cells that hold a word's ink: those which its box covers by a fifth of a cell or more in both directions.

        >>> Grid(2, 3, 56, 84).cells(Word("wide", (20.0, 2.0, 60.0, 20.0), "body", 0, 0))
        [0, 1]
        """
        x0, x1 = (x * self.cols / self.width for x in (word.box[0], word.box[2]))
        y0, y1 = (y * self.rows / self.height for y in (word.box[1], word.box[3]))
        return [r * self.cols + c for r in _covered(y0, y1, self.rows) for c in _covered(x0, x1, self.cols)]


def _covered(low: float, high: float, count: int) -> range:
    """Cells along one axis: nearly untouched ones at the ends are left out, the middle one never."""
    first, last = int(np.floor(low + 0.2)), int(np.ceil(high - 0.2))
    if last <= first:
        first = int((low + high) / 2)
        last = first + 1
    return range(max(0, min(first, count - 1)), max(1, min(last, count)))


def occurrences(words: Sequence[Word]) -> dict[str, list[int]]:
    """Word indices by what they say, case and punctuation aside."""
    found: dict[str, list[int]] = {}
    for i, word in enumerate(words):
        found.setdefault(plain(word.text), []).append(i)
    return found


def plain(text: str) -> str:
    """
    >>> plain("(Income,"), plain("12.5%")
    ('income', '12.5%')
    """
    return text.strip(".,;:!?()[]{}'\"").lower()


def token_targets(
    words: Sequence[Word],
    links: Sequence[tuple[int, int, int]],
    grid: Grid,
    offsets: Sequence[tuple[int, int]],
    shift: int,
) -> np.ndarray:
    """For each token of the tokenised prefix + text the cells of its word, (tokens, CELLS), -1 where there is none.

    links    (start, end, word): these characters of the text name that word of the page
    offsets  character range of each token in prefix + text; shift: length of the prefix
    """
    targets = np.full((len(offsets), CELLS), -1, dtype=np.int16)
    same = occurrences(words)
    for start, end, word in links:
        places = [word, *(i for i in same[plain(words[word].text)] if i != word)]
        cells: list[int] = []
        for place in places:
            cells += [cell for cell in grid.cells(words[place]) if cell not in cells]
        cells = cells[:CELLS]
        for token, (low, high) in enumerate(offsets):
            if low < end + shift and high > start + shift:
                targets[token, : len(cells)] = cells
    return targets


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
