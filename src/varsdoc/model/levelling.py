"""Print that is turned, set level below its page, for models that read level print alone.

A chart's subject often stands in the title of its upright axis and in labels that rise below its bars, and nowhere
else. A small model that has hardly seen turned letters does not read them. So `level_print` of a checkpoint names
angles, and lines of print that run at one of them are also laid, level, into rows of cells below the page:

- the page itself stays as it is, and its cells are where they were; the rows below come after them;
- a line is cut out of the picture as it came, not of the scaled page, and fills one row of cells in height;
- lines keep their order from left to right; where they need more than `MOST_ROWS` rows, the shortest are left out;
- the page is scaled down by what the rows need where both together would pass `max_visual_tokens`; a page of which
  nothing would be left has no rows.

`Patches.levelled` says for each cell below which cell of the page it repeats, so that regions and heatmaps point at the
print where it stands.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from PIL import Image

from varsdoc.model.config import VarsConfig
from varsdoc.model.paper import paper_colour
from varsdoc.model.patches import Patches, in_cells, patches_of, scaled, target_size
from varsdoc.model.printed_lines import Line, Print

MOST_ROWS = 4
AIR = 3.0  # pixels of the scaled page around a line
MOST_ZOOM = 2.0
OVERLAP = 3  # cells that the parts of a line longer than the page share, so that a word is whole in one of them
NOTHING = -1  # what a cell between two lines, or behind the last one, repeats


@dataclass(frozen=True)
class _Part:
    """A line, or a part of one, in its place below the page; in cells but for `start`, pixels of the line laid."""

    line: Line
    zoom: float
    start: float
    row: int
    col: int
    cells: int


def cut_levelled(page: Image.Image, config: VarsConfig, seen: Print | None = None) -> Patches:
    """`cut`, and below the page what print is turned on it. `seen`: the page in cells, if it was looked at before."""
    seen = seen or Print(in_cells(page, config))
    lines = seen.lines(*config.level_print)
    if not lines:
        return patches_of(seen.page, config)
    cell = config.cell_size
    width, height = seen.page.size
    first = (height, width)
    rows = 0
    while True:
        now = _resized(lines, first, (height, width))
        parts = _placed(now, width // cell, cell)
        needed = max(part.row for part in parts) + 1
        if needed <= rows:
            break
        rows = needed
        size = _size(page, config, rows)
        if size is None:
            return patches_of(seen.page, config)
        height, width = size
    source = _Source(page, (height, width), cell)
    below = Image.new("RGB", (width, rows * cell), source.paper)
    levelled = np.full((rows, width // cell), NOTHING, np.int64)
    for part in parts:
        piece, repeats = source.laid(part)
        below.paste(piece, (part.col * cell, part.row * cell))
        levelled[part.row, part.col : part.col + part.cells] = repeats
    whole = Image.new("RGB", (width, height + below.height))
    whole.paste(seen.page if (height, width) == first else scaled(page, (height, width)), (0, 0))
    whole.paste(below, (0, height))
    return replace(patches_of(whole, config), levelled=tuple(levelled.reshape(-1).tolist()))


def _size(page: Image.Image, config: VarsConfig, rows: int) -> tuple[int, int] | None:
    """Height and width of the largest scaled page that leaves room for so many rows of cells below it, if any does."""
    cell = config.cell_size
    for most in range(config.max_visual_tokens, 0, -1):
        least = min(config.min_visual_tokens, most)
        height, width = target_size(page.height, page.width, cell, least * cell * cell, most * cell * cell)
        if (height // cell + rows) * (width // cell) <= config.max_visual_tokens:
            return height, width
    return None


def _resized(lines: list[Line], was: tuple[int, int], now: tuple[int, int]) -> list[Line]:
    y, x = now[0] / was[0], now[1] / was[1]
    return [
        Line((a.begin[0] * x, a.begin[1] * y), (a.end[0] * x, a.end[1] * y), a.height * math.sqrt(x * y)) for a in lines
    ]


def _placed(lines: list[Line], cols: int, cell: int) -> list[_Part]:
    """Every line in its place, from left to right; the shortest ones left out until the rest fit."""
    left = sorted(lines, key=lambda line: (min(line.begin[0], line.end[0]), line.begin[1]))
    while True:
        parts = _filled(left, cols, cell)
        if parts[-1].row < MOST_ROWS or len(left) == 1:
            return [part for part in parts if part.row < MOST_ROWS]
        left.remove(min(left, key=lambda line: line.length))


def _filled(lines: list[Line], cols: int, cell: int) -> list[_Part]:
    parts: list[_Part] = []
    row = col = 0
    for line in lines:
        zoom = min(MOST_ZOOM, cell / (line.height + 2 * AIR))
        cells = math.ceil((line.length + 2 * AIR) * zoom / cell)
        start = 0
        while True:
            some = min(cells - start, cols)
            if col + some > cols:
                row, col = row + 1, 0
            parts.append(_Part(line, zoom, start * cell, row, col, some))
            col += some + 1  # a blank cell between two lines
            if start + some >= cells:
                break
            start += max(1, some - OVERLAP)
    return parts


class _Source:
    """The picture as it came, from which lines are cut."""

    def __init__(self, page: Image.Image, size: tuple[int, int], cell: int) -> None:
        self.height, self.width = size  # of the scaled page
        self.cell = cell
        self.paper = paper_colour(page)
        self._reduced = {1: page}

    def laid(self, part: _Part) -> tuple[Image.Image, np.ndarray]:
        """A part of a line as a level picture, and the cells of the page under its cells' middles."""
        line, zoom, cell = part.line, part.zoom, self.cell
        (x0, y0), (x1, y1) = line.begin, line.end
        cos, sin = (x1 - x0) / line.length, (y1 - y0) / line.length
        # Pixel (i, j) of the picture is `along` the line and `across` it, on the scaled page.
        along, across = part.start / zoom - AIR, -cell / 2 / zoom
        x, y = x0 + along * cos - across * sin, y0 + along * sin + across * cos
        source = self._times_smaller(zoom)
        fx, fy = source.width / self.width, source.height / self.height
        affine = (fx * cos / zoom, -fx * sin / zoom, fx * x, fy * sin / zoom, fy * cos / zoom, fy * y)
        piece = source.transform(
            (part.cells * cell, cell), Image.Transform.AFFINE, affine, Image.Resampling.BICUBIC, fillcolor=self.paper
        )
        # The last cell's middle may lie past the line's end.
        steps = np.minimum((np.arange(part.cells) + 0.5) * cell / zoom + along, line.length)
        rows, cols = self.height // cell, self.width // cell
        row = np.clip((y0 + steps * sin) // cell, 0, rows - 1)
        col = np.clip((x0 + steps * cos) // cell, 0, cols - 1)
        return piece, (row * cols + col).astype(np.int64)

    def _times_smaller(self, zoom: float) -> Image.Image:
        """A transform looks at few pixels around each: what has many times more is first averaged."""
        page = self._reduced[1]
        times = max(1, int(min(page.width / self.width, page.height / self.height) / zoom))
        if times not in self._reduced:
            self._reduced[times] = page.reduce(times)
        return self._reduced[times]
