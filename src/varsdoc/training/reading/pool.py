"""Pages held on the device and drawn at random, while workers replace the oldest.

Drawing is decoupled from making: the GPU never waits for the renderer after the first fill, and a page is seen a few
times with different queries. Real pages, once loaded, stay.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from varsdoc.training.reading.pages import QUERIES, SHAPES, Chunk
from varsdoc.training.reading.printed import PRINTED
from varsdoc.training.reading.targets import CELLS, TOKENS


@dataclass(frozen=True)
class Drawn:
    """A batch of one shape: B pages with N queries each."""

    shape: int
    pixels: Tensor  # (B, patches, 588) uint8
    ids: Tensor  # (B, N, TOKENS), -1 for padding
    targets: Tensor  # (B, N, TOKENS, CELLS)
    page: Tensor  # (B,)
    printed: Tensor  # (B, PRINTED, 3)


SHARES = (0.6, 0.3, 0.1)  # of steps and of the pool, by shape


def pool_sizes(pages: int) -> dict[int, int]:
    """Pages held per shape, where `pages` counts portrait pages; smaller shapes hold more of them.

    >>> pool_sizes(1000)
    {0: 600, 1: 302, 2: 101}
    """
    return {i: max(8, int(pages * SHARES[i] * 1008 / (rows * cols))) for i, (rows, cols) in enumerate(SHAPES)}


class Pool:
    """One ring of pages per shape."""

    def __init__(self, sizes: dict[int, int], device: torch.device, seed: int = 0) -> None:
        self.device = device
        self.rings = {shape: _Ring(shape, size, device) for shape, size in sizes.items()}
        self.generator = torch.Generator(device=device).manual_seed(seed)
        self.made = 0

    def add(self, chunk: Chunk) -> None:
        if chunk.shape in self.rings:
            self.rings[chunk.shape].add(chunk)
            self.made += len(chunk.page)

    def filled(self, shape: int) -> int:
        return self.rings[shape].filled

    def draw(self, shape: int, pages: int, queries: int) -> Drawn:
        """`pages` different pages at random, each with `queries` of its queries."""
        ring = self.rings[shape]
        rows = torch.randperm(ring.filled, generator=self.generator, device=self.device)[:pages]
        picks = torch.rand(len(rows), QUERIES, generator=self.generator, device=self.device).argsort(1)[:, :queries]
        ids = ring.ids[rows].gather(1, picks[..., None].expand(-1, -1, TOKENS))
        targets = ring.targets[rows].gather(1, picks[..., None, None].expand(-1, -1, TOKENS, CELLS))
        return Drawn(shape, ring.pixels[rows], ids, targets, ring.page[rows], ring.printed[rows])


class _Ring:
    def __init__(self, shape: int, size: int, device: torch.device) -> None:
        rows, cols = SHAPES[shape]
        self.pixels = torch.zeros(size, rows * cols * 4, 588, dtype=torch.uint8, device=device)
        self.ids = torch.full((size, QUERIES, TOKENS), -1, dtype=torch.int16, device=device)
        self.targets = torch.full((size, QUERIES, TOKENS, CELLS), -1, dtype=torch.int16, device=device)
        self.printed = torch.full((size, PRINTED, 3), -1, dtype=torch.int32, device=device)
        self.page = torch.full((size,), -1, dtype=torch.int64, device=device)
        self.next = self.filled = 0

    def add(self, chunk: Chunk) -> None:
        size = len(self.page)
        where = (torch.arange(len(chunk.page)) + self.next) % size
        pixels = torch.from_numpy(chunk.pixels).to(self.page.device)
        if pixels.shape[2] == 196:
            pixels = pixels.repeat(1, 1, 3)
        where = where.to(self.page.device)
        self.pixels[where] = pixels
        for held, new in (
            (self.ids, chunk.ids),
            (self.targets, chunk.targets),
            (self.page, chunk.page),
            (self.printed, chunk.printed),
        ):
            held[where] = torch.from_numpy(new).to(self.page.device)
        self.next = (self.next + len(chunk.page)) % size
        self.filled = min(size, self.filled + len(chunk.page))
