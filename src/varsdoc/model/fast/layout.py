"""Where everything of a batch of pages is, computed once for a list of page sizes and kept on the device.

A batch is packed: the document tokens of all pages one after the other, then the probes of all pages. There is no
padding. Pages of one length lie side by side, so their attention is one call on a view.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from varsdoc.model.attention import PatchGroups
from varsdoc.model.processor import Processor
from varsdoc.model.vision import patch_layout, vision_rotary

Grids = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Run:
    """Pages of one length: `count` pages of `length` tokens from row `start`; the first is page `page`."""

    start: int
    count: int
    length: int
    page: int


@dataclass(frozen=True)
class PageLayout:
    """A packed batch of pages."""

    lengths: tuple[int, ...]  # document tokens of each page
    runs: tuple[Run, ...]
    patches: Tensor  # (cells,) order of the cells in the vision tower
    windows: PatchGroups
    pages: PatchGroups
    pages_back: Tensor | None  # (patches,) what the gathered page groups go back to
    turns: tuple[Tensor, Tensor]  # of the tower: cos and sin (patches, 1, d) float32
    rows: Tensor  # (tokens,) of each token its row in [cells in tower order; prompt]
    positions: Tensor  # (3, tokens + probes)

    @property
    def tokens(self) -> int:
        return sum(self.lengths)


def runs_of(lengths: Sequence[int]) -> tuple[Run, ...]:
    """Neighbours of one length together.

    >>> runs_of([3, 3, 5])
    (Run(start=0, count=2, length=3, page=0), Run(start=6, count=1, length=5, page=2))
    """
    runs, start, page = [], 0, 0
    for length, same in groupby(lengths):
        count = len(list(same))
        runs.append(Run(start, count, length, page))
        start, page = start + count * length, page + count
    return tuple(runs)


def page_layout(grids: Grids, processor: Processor, vision: Any, probes: int, device: torch.device) -> PageLayout:
    """`grids` in patches; `vision` the tower's config; `probes` of each page."""
    merge = vision.spatial_merge_size
    window = vision.window_size // merge // vision.patch_size
    tower = patch_layout(grids, merge, window)
    cells = [(rows // merge) * (cols // merge) for rows, cols in grids]
    before, prompt = processor.image_start, len(processor.prompt_ids)
    rows, positions, after, first = [], [], [], 0
    for (height, width), count in zip(grids, cells, strict=True):
        _, _, frame = processor.page_frame(height // merge, width // merge)
        positions.append(frame[:, 0])  # (3, M)
        after.append(int(frame.max()) + torch.arange(1, probes + 1).expand(3, -1))
        text = torch.arange(prompt) + sum(cells)
        rows.append(torch.cat([text[:before], tower.back[first : first + count], text[before:]]))
        first += count
    turns = tuple(x[:, None].to(device) for x in vision_rotary(vision, tower.coordinates))
    groups = tuple((s, c, n, None if i is None else i.to(device)) for s, c, n, i in tower.pages.groups)
    indices = [index for _, _, _, index in tower.pages.groups if index is not None]
    lengths = tuple(count + prompt for count in cells)
    return PageLayout(
        lengths,
        runs_of(lengths),
        tower.order.to(device),
        tower.windows,
        PatchGroups(groups),
        torch.argsort(torch.cat(indices)).to(device) if indices else None,
        (turns[0], turns[1]),
        torch.cat(rows).to(device),
        torch.cat([*positions, *after], 1).to(device),
    )
