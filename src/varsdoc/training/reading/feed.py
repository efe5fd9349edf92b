"""What pieces of reading are fed with: worker processes, pools of pages on the device, and sets to be judged on.

It outlives a piece: several pieces in one process share the workers, the pages and what was compiled. Workers are
forked before the device is first used, so a feed is made before any model is moved there.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from varsdoc.model import VarsDoc
from varsdoc.training.generator import PageStream
from varsdoc.training.reading.config import ReadConfig
from varsdoc.training.reading.held import Held
from varsdoc.training.reading.pages import CHUNK, Maker
from varsdoc.training.reading.pool import Pool, pinned, pool_sizes
from varsdoc.training.reading.real import RealStream, find_pages, open_pages
from varsdoc.training.reading.workers import Workers

# Chunks taken in per step: half a batch is new, so a page is seen about twice. Taking in all that a dozen renderers
# make held the GPU up (290 pages/s instead of 340) when it was unpacked between steps.
INTAKE = 4


class Feed:
    """Running workers, and the pools that they fill once `place` has said where."""

    def __init__(self, config: ReadConfig, model: VarsDoc, judged: Sequence[str] | None = None) -> None:
        self.held = [Held.load(folder, model, config.workers) for folder in (judged or config.judged)]
        real = RealStream(find_pages(config.pairs), config.seed, config.often) if config.pairs else None
        for folder in real.folders if real is not None else ():
            open_pages(folder)  # here and once: forked workers share what was read
        stream = PageStream(seed=config.seed + 1, fonts=config.fonts, texts=config.texts)
        share = config.real_made if real is not None else 0.0
        chunk = max(1, min(CHUNK, config.pool // 8))
        maker = Maker(stream, model.config, model.processor.tokenizer.to_str(), real, share, chunk)
        self.workers = Workers(maker, config.workers, start=config.seed * 10_000_000)
        self.sizes = pool_sizes(config.pool), pool_sizes(config.real_pool) if real is not None else {}
        self.seed = config.seed
        self.generated: Pool | None = None
        self.real: Pool | None = None

    def place(self, device: torch.device) -> Feed:
        """Make the pools, unless another piece has."""
        if self.generated is None:
            self.generated, self.real = (Pool(sizes, device, self.seed) for sizes in self.sizes)
            if device.type == "cuda":
                self.workers.copy = pinned
        return self

    def take(self, wait: bool = False) -> int:
        """Put waiting pages into their pool, a few chunks at most; returns how many pages."""
        taken = 0
        for _ in range(INTAKE):
            chunk = self.workers.get(wait and not taken)
            if chunk is None:
                break
            pool = self.real if chunk.real else self.generated
            assert pool is not None
            pool.add(chunk)
            taken += len(chunk.page)
        return taken

    @property
    def made(self) -> int:
        return sum(pool.made for pool in (self.generated, self.real) if pool is not None)

    def close(self) -> None:
        self.workers.close()
