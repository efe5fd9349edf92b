"""Pages held on the device and drawn at random, while workers replace the oldest.

Drawing is decoupled from making: the GPU never waits for the renderer after the first fill, and a page is seen a few
times with different queries. Views of real pages come and go in a pool of their own, in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from varsdoc.training.reading.pages import QUERIES, SHAPES, Chunk
from varsdoc.training.reading.printed import PRINTED
from varsdoc.training.reading.targets import PLACES, TOKENS
from varsdoc.training.reading.words import BITS, NONE


@dataclass(frozen=True)
class Drawn:
    """A batch of one shape: B pages with N queries each. Fields as in a chunk."""

    shape: int
    pixels: Tensor  # (B, patches, 588) uint8
    ids: Tensor  # (B, N, TOKENS), -1 for padding
    keys: Tensor  # (B, N, TOKENS)
    page: Tensor  # (B,)
    printed: Tensor  # (B, PRINTED, 3)
    places: Tensor  # (B, PLACES, 2)
    present: Tensor  # (B, BITS / 8)


SHARES = (0.6, 0.3, 0.1)  # of steps and of the pool, by shape


def pool_sizes(pages: int) -> dict[int, int]:
    """Pages held per shape, where `pages` counts portrait pages; smaller shapes hold more of them.

    >>> pool_sizes(1000)
    {0: 600, 1: 302, 2: 100}
    """
    portrait = SHAPES[0][0] * SHAPES[0][1]
    return {i: max(8, int(pages * SHARES[i] * portrait / (rows * cols))) for i, (rows, cols) in enumerate(SHAPES)}


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
        picks = picks[..., None].expand(-1, -1, TOKENS)
        asked = (ring.held[name][rows].gather(1, picks) for name in ("ids", "keys"))
        rest = (ring.held[name][rows] for name in ("page", "printed", "places", "present"))
        return Drawn(shape, ring.pixels[rows], *asked, *rest)


class _Ring:
    def __init__(self, shape: int, size: int, device: torch.device) -> None:
        rows, cols = SHAPES[shape]
        self.pixels = torch.zeros(size, rows * cols * 4, 588, dtype=torch.uint8, device=device)
        self.held = {
            "ids": torch.full((size, QUERIES, TOKENS), NONE, dtype=torch.int16, device=device),
            "keys": torch.full((size, QUERIES, TOKENS), NONE, dtype=torch.int32, device=device),
            "page": torch.full((size,), NONE, dtype=torch.int64, device=device),
            "printed": torch.full((size, PRINTED, 3), NONE, dtype=torch.int32, device=device),
            "places": torch.full((size, PLACES, 2), NONE, dtype=torch.int32, device=device),
            "present": torch.zeros((size, BITS // 8), dtype=torch.uint8, device=device),
        }
        self.size, self.next, self.filled, self.came = size, 0, 0, 0

    def add(self, chunk: Chunk) -> None:
        device = self.pixels.device
        where = _moved((np.arange(len(chunk.page)) + self.next) % self.size, device)
        pixels = _moved(chunk.pixels, device)
        self.pixels[where] = pixels.repeat(1, 1, 3) if pixels.shape[2] == 196 else pixels
        for name, held in self.held.items():
            held[where] = _moved(getattr(chunk, name), device)
        self.next = (self.next + len(chunk.page)) % self.size
        self.filled = min(self.size, self.filled + len(chunk.page))
        self.came += len(chunk.page)


def pinned(pixels: np.ndarray) -> np.ndarray:
    """A copy in memory from which a GPU copies by itself."""
    return torch.from_numpy(pixels).pin_memory().numpy()


def _moved(array: np.ndarray, device: torch.device) -> Tensor:
    """On the device, without waiting for what it is doing: a copy from pageable memory would."""
    tensor = torch.from_numpy(array)
    if device.type != "cuda":
        return tensor
    return (tensor if tensor.is_pinned() else tensor.pin_memory()).to(device, non_blocking=True)
