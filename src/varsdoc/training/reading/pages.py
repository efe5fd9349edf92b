"""Generated and real pages as fixed-shape tensors, made by worker processes.

Every page is scaled to one of a few shapes, so that a batch has no padding and compiled code sees few shapes. The
shapes are those to which the model's own preprocessing brings such pages anyway, within a cell or two.
"""

from __future__ import annotations

import math
import multiprocessing as mp
import queue
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image
from tokenizers import Tokenizer

from varsdoc.image import read_image
from varsdoc.model.config import VarsConfig
from varsdoc.model.patches import cut
from varsdoc.training.generator import PageStream
from varsdoc.training.reading.targets import CELLS, TOKENS, Grid, token_targets, tokenise
from varsdoc.training.sources import DataError

# Rows and columns of cells: portrait page, slide or landscape page, chart. Each one more is compiled once more.
SHAPES = ((36, 28), (21, 32), (16, 23))
QUERIES = 8
CHUNK = 8


@dataclass(frozen=True)
class Chunk:
    """Some pages of one shape. Grey pages travel with one channel."""

    shape: int
    pixels: np.ndarray  # (n, patches, channels * patch * patch) uint8
    ids: np.ndarray  # (n, QUERIES, TOKENS) int16, -1 for padding
    targets: np.ndarray  # (n, QUERIES, TOKENS, CELLS) int16
    page: np.ndarray  # (n,) int64: equal numbers are the same page


def nearest_shape(height: int, width: int, cell: int = 28, cap: int = 1024) -> int:
    """The shape that distorts a page least, in proportion and in area.

    >>> [SHAPES[nearest_shape(*size)] for size in ((1000, 773), (450, 640), (765, 995), (562, 1000))]
    [(36, 28), (16, 23), (21, 32), (21, 32)]
    """
    shrink = min(1.0, math.sqrt(cap * cell * cell / (height * width)))
    rows, cols = height * shrink / cell, width * shrink / cell
    distance = [math.hypot(math.log(r / rows), math.log(c / cols)) for r, c in SHAPES]
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
class Maker:
    """Everything a worker needs, picklable."""

    stream: PageStream
    config: VarsConfig
    tokenizer: str  # its JSON

    def chunks(self, worker: int, workers: int, start: int) -> Iterator[Chunk]:
        tokenizer = Tokenizer.from_str(self.tokenizer)
        tokenizer.encode_special_tokens = True
        waiting: dict[int, list[tuple[Any, ...]]] = {}
        for sample in self.stream.part(worker, workers, start):
            if not sample.queries:
                continue
            shape = nearest_shape(*sample.image.shape[:2])
            pixels = cut_to_shape(sample.image, shape, self.config)
            grid = Grid(*SHAPES[shape], *sample.image.shape[:2])
            ids, targets = self._queries(sample, grid, tokenizer)
            key = shape * 2 + (pixels.shape[1] > 196)
            waiting.setdefault(key, []).append((pixels, ids, targets, sample.index))
            if len(waiting[key]) == CHUNK:
                parts = [np.stack(part) for part in zip(*waiting.pop(key), strict=True)]
                yield Chunk(shape, parts[0], parts[1], parts[2], parts[3].astype(np.int64))

    def _queries(self, sample: Any, grid: Grid, tokenizer: Tokenizer) -> tuple[np.ndarray, np.ndarray]:
        ids = np.full((QUERIES, TOKENS), -1, dtype=np.int16)
        targets = np.full((QUERIES, TOKENS, CELLS), -1, dtype=np.int16)
        for q in range(QUERIES):
            query = sample.queries[q % len(sample.queries)]
            ids[q], offsets = tokenise(tokenizer, query.text, self.config)
            targets[q, : len(offsets)] = token_targets(sample, query, grid, offsets, len(self.config.query_prefix))
        return ids, targets


def _work(maker: Maker, worker: int, workers: int, start: int, out: Any, done: Any) -> None:
    for chunk in maker.chunks(worker, workers, start):
        while not done.is_set():
            try:
                out.put(chunk, timeout=1)
                break
            except queue.Full:
                continue
        if done.is_set():
            out.cancel_join_thread()
            return


class Workers:
    """Worker processes that make chunks ahead of the trainer; they end with it.

    Forked, so that fifteen of them do not import torch fifteen times: start them before the GPU is first used.
    """

    def __init__(self, maker: Maker, count: int, start: int = 0, ahead: int = 64) -> None:
        context = mp.get_context("fork")
        self.done = context.Event()
        self.queue: Any = context.Queue(maxsize=ahead)
        self.processes = [
            context.Process(target=_work, args=(maker, i, count, start, self.queue, self.done), daemon=True)
            for i in range(count)
        ]
        for process in self.processes:
            process.start()

    def get(self, wait: bool) -> Chunk | None:
        """The next chunk; without waiting, None where none is ready."""
        while True:
            try:
                return self.queue.get(timeout=5) if wait else self.queue.get_nowait()
            except queue.Empty:
                if not wait:
                    return None
                if not any(process.is_alive() for process in self.processes):
                    raise DataError("All page workers have died; their messages stand above.") from None

    def close(self) -> None:
        self.done.set()
        for process in self.processes:
            process.join(timeout=5)
            if process.is_alive():
                process.terminate()
