"""Pages that lie on their side or upside down, for models that read upright pages alone.

Landscape tables in upright reports and sheets that were fed the wrong way come as they lie. Two things look alike and
are not: such a page, and one whose columns of figures look like lines from the side. So nothing is turned by its looks
alone. `turn_pages` of a checkpoint asks twice:

- what a page's lines look like says whether it may lie otherwise (most do not, and cost nothing more);
- where it may, it is encoded in each way, and the one that the model reads best is kept: common words, asked as a
  question, find themselves far better on print that is level.

A page turned this way has its vectors in the order of the page as it came, so regions and heatmaps need not know.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np
import torch
from PIL import Image

from varsdoc.model.config import VarsConfig
from varsdoc.model.levelling import NOTHING, cut_levelled
from varsdoc.model.patches import Patches, in_cells, patches_of
from varsdoc.model.printed_lines import Line, Print

if TYPE_CHECKING:
    from varsdoc.model.embeddings import PageEmbedding
    from varsdoc.model.varsdoc import VarsDoc

FEWEST = 5  # lines that run upwards or downwards on a page that may lie on its side
MOST_SURE = 2.0  # log-odds that one line may give
HANGING = -1.0  # of all lines, as a standard score: below it a page may be upside down
# Figures say nothing: columns of them are as good from the side, and as good upside down. On 19 pages of docvqa-train
# and chartqa-train these words were read best as the page lies, by .03 at least before any other way.
COMMON = "the of and to in a for is on that by with as at from this be it or are"
LEAD = 0.04

_TRANSPOSE = {
    1: Image.Transpose.ROTATE_90,  # anticlockwise, as all turns here
    2: Image.Transpose.ROTATE_180,
    3: Image.Transpose.ROTATE_270,
}


def cut_any_way(page: Image.Image, config: VarsConfig) -> Patches:
    """The page as it lies, and as `others` the ways in which it may have to be read instead."""
    seen = Print(in_cells(page, config))
    first = _cut(page, config, seen)
    ways = turns_to_try(seen) if config.turn_pages else []
    if not ways:
        return first
    return replace(first, others=tuple(_turned(page, config, turns) for turns in ways))


def turns_to_try(seen: Print) -> list[int]:
    """Quarter turns, anticlockwise, after which the page may be upright; none where nothing speaks for one."""
    level, sideways = seen.lines(0), seen.lines(90)
    if len(sideways) >= FEWEST and _length(sideways) > _length(level):
        return [1, 3]
    return [2] if standing_of(level) < HANGING else []


def standing_of(lines: list[Line]) -> float:
    """Whether the letters of many lines stand (above 0) or hang, as a standard score."""
    sure = sum(min(max(line.standing, -MOST_SURE), MOST_SURE) for line in lines)
    return sure / sqrt(max(1, len(lines)))


def _length(lines: Iterable[Line]) -> float:
    return sum(line.length for line in lines)


def _cut(page: Image.Image, config: VarsConfig, seen: Print) -> Patches:
    return cut_levelled(page, config, seen) if config.level_print else patches_of(seen.page, config)


def _turned(page: Image.Image, config: VarsConfig, turns: int) -> Patches:
    turned = page.transpose(_TRANSPOSE[turns])
    cut = replace(_cut(turned, config, Print(in_cells(turned, config))), turns=turns)
    place = np.argsort(cut.order(config.merge_size))  # of each cell, on the page as it came
    levelled = tuple(NOTHING if cell == NOTHING else int(place[cell]) for cell in cut.levelled)
    return replace(cut, levelled=levelled)


class Reader:
    """Keeps of each page the way in which a model reads it best."""

    def __init__(self, model: VarsDoc) -> None:
        self._model = model
        self._words: torch.Tensor | None = None
        self._waiting: dict[int, dict[int, PageEmbedding]] = {}
        self._wanted: dict[int, int] = {}

    def choose(self, name: int, cut: Patches, page: PageEmbedding) -> PageEmbedding | None:
        """The page to keep, once all of its ways have come; they come in any order."""
        if not (cut.turns or cut.others):
            return page
        ways = self._waiting.setdefault(name, {})
        ways[cut.turns] = page
        if not cut.turns:
            self._wanted[name] = 1 + len(cut.others)
        if len(ways) != self._wanted.get(name):
            return None
        del self._waiting[name], self._wanted[name]
        return self._best(ways)

    def _best(self, ways: dict[int, PageEmbedding]) -> PageEmbedding:
        """As the page lies, unless it is read far better otherwise than in any way else."""
        if self._words is None:
            (self._words,) = self._model.encode_queries([COMMON], progress=False)
        read = {turns: readability(self._words, page) for turns, page in ways.items()}
        best, second = sorted(read, key=lambda turns: -read[turns])[:2]
        return ways[best] if read[best] >= read[second] + LEAD else ways[0]


def readability(words: torch.Tensor, page: PageEmbedding) -> float:
    """How well common words find themselves among a page's own cells (turned print below it is level in any way)."""
    return float(torch.einsum("td,kcd->ktc", words.float(), page.cells.float()).amax(2).mean(1).max())
