"""Encoding many pages and questions: batches of like size, and a device that does not wait for the host.

Three things go on at once on a GPU: threads read and cut the pages that come next, the device computes a batch, and the
embeddings of the batch before are on their way back through pinned memory. On a CPU everything happens in turn: its
cores are busy with the model.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from varsdoc.errors import ConfigError, InputError
from varsdoc.image import ImageLike
from varsdoc.model.ahead import ahead
from varsdoc.model.embeddings import PageEmbedding, group_by_size, progress_bar
from varsdoc.model.orientation import Reader
from varsdoc.model.patches import Patches

if TYPE_CHECKING:
    from varsdoc.model.varsdoc import VarsDoc

# Document tokens per forward pass. On a CPU one large page fills the cores; more only costs memory.
BATCH_TOKENS = {"cpu": 2048, "cuda": 32 * 1024}
CHUNK = 64  # pages sorted by size together: a few batches' worth, bounded whatever the length of the iterable
MOST_CUTTERS = 8
IN_FLIGHT = 2  # batches whose embeddings are computed or on their way back


@dataclass
class _Batch:
    """A batch that the device was given."""

    pages: list[tuple[int, Patches]]  # their place in the order of asking
    image_start: int
    vectors: Tensor  # on the host, perhaps not arrived yet
    arrived: Any  # an event of the device, or None
    page: Callable[[Tensor, int], Tensor]  # cuts page i's (K, M, dim) out of the vectors


def encode_pages(
    model: VarsDoc,
    images: Iterable[ImageLike | Patches],
    batch_tokens: int | None = None,
    progress: bool | None = None,
    workers: int | None = None,
) -> list[PageEmbedding]:
    images = check_images(images)
    budget = budget_of(model, batch_tokens)
    total = len(images) if isinstance(images, Sequence) else None
    results: dict[int, PageEmbedding] = {}
    running: deque[_Batch] = deque()
    reader = Reader(model)
    with progress_bar(total, "page", progress) as bar:

        def finish() -> None:
            for i, patches, page in _finished(model, running.popleft()):
                chosen = reader.choose(i, patches, page)
                if chosen is not None:
                    results[i] = chosen
                    bar.update(1)

        for pages in _batches(model, images, budget, _cutters(model, workers)):
            running.append(_start(model, pages))
            if len(running) >= IN_FLIGHT:
                finish()
        while running:
            finish()
    return [results[i] for i in range(len(results))]


def encode_queries(
    model: VarsDoc, queries: Iterable[str], batch_tokens: int | None = None, progress: bool | None = None
) -> list[Tensor]:
    if isinstance(queries, str):
        raise InputError("encode_queries takes a list of questions; put the single one in brackets: [question].")
    if not isinstance(queries, Iterable):
        raise InputError(f"encode_queries takes a list of questions, not {queries!r}.")
    ids = [model.processor.query_ids(text, f"query {i}") for i, text in enumerate(queries)]
    budget = budget_of(model, batch_tokens)
    fast = model.prepared()
    results: dict[int, Tensor] = {}
    with progress_bar(len(ids), "query", progress) as bar:
        for group in group_by_size([len(row) for row in ids], budget):
            if fast is not None:
                found = fast.queries([ids[i] for i in group])
            else:
                encoded = model.forward_queries(
                    model.processor.queries([ids[i] for i in group]).to(model.device), "inference"
                )
                width = encoded.vectors.shape[1]
                found = [encoded.vectors[at, width - len(ids[i]) :] for at, i in enumerate(group)]
            results.update((i, vectors.to(model.dtype).cpu()) for i, vectors in zip(group, found, strict=True))
            bar.update(len(group))
    return [results[i] for i in range(len(ids))]


def check_images(images: Any) -> Iterable[ImageLike | Patches]:
    if isinstance(images, np.ndarray) and images.ndim == 4:
        return list(images)
    if isinstance(images, Image.Image | np.ndarray | str | Path | bytes):
        raise InputError("encode_pages takes a list of pages; put the single page in brackets: [page].")
    if not isinstance(images, Iterable):
        raise InputError(f"encode_pages takes a list of pages, not {images!r}.")
    return images


def budget_of(model: VarsDoc, batch_tokens: int | None) -> int:
    if batch_tokens is not None and (not isinstance(batch_tokens, int) or batch_tokens < 1):
        raise ConfigError(f"batch_tokens must be 1 or more, not {batch_tokens!r}.")
    return batch_tokens or BATCH_TOKENS.get(model.device.type, BATCH_TOKENS["cpu"])


def _cutters(model: VarsDoc, workers: int | None) -> int:
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 0):
        raise ConfigError(f"workers must be 0 or more, not {workers!r}.")
    if workers is not None:
        return workers
    return min(MOST_CUTTERS, os.cpu_count() or 1) if model.device.type == "cuda" else 0


def _batches(
    model: VarsDoc, images: Iterable[ImageLike | Patches], budget: int, workers: int
) -> Iterator[list[tuple[int, Patches]]]:
    """Cut pages, each in all ways in which it may have to be read, like sizes together."""

    def cut(named: tuple[int, ImageLike | Patches]) -> tuple[int, Patches]:
        page = model.processor.page(named[1], f"page {named[0]}")
        if page.turns:
            raise InputError(f"page {named[0]} is one way to turn a page; give the page that has it among its others.")
        return named[0], page

    pages = ahead(enumerate(images), cut, workers, 2 * CHUNK)
    while chunk := [(i, way) for i, page in islice(pages, CHUNK) for way in (page, *page.others)]:
        for group in group_by_size([model.processor.page_tokens(page) for _, page in chunk], budget):
            yield [chunk[i] for i in group]


def _start(model: VarsDoc, pages: list[tuple[int, Patches]]) -> _Batch:
    """Hand a batch to the device; on a GPU this does not wait for it."""
    patches = [page for _, page in pages]
    fast = model.prepared()
    page: Callable[[Tensor, int], Tensor]
    if fast is not None:
        pixels = _sent(torch.cat([torch.from_numpy(one.pixels) for one in patches]), model.device)
        grids = tuple((one.rows, one.cols) for one in patches)
        vectors = fast.pages(pixels, grids)  # (K, tokens of all pages, dim)
        ends = np.cumsum(fast.layout(grids).lengths).tolist()

        def page(found: Tensor, i: int) -> Tensor:
            return found[:, ends[i - 1] if i else 0 : ends[i]]
    else:
        batch = model.processor.pages(patches)
        lengths = batch.mask.sum(1).tolist()
        if model.device.type == "cuda":
            batch = batch.pinned()
        vectors = model.forward_pages(batch.to(model.device), "inference").vectors  # (B, K, M, dim), left-padded

        def page(found: Tensor, i: int) -> Tensor:
            return found[i][:, found.shape[2] - lengths[i] :]

    return _Batch(pages, model.processor.image_start, *_returned(vectors.to(model.dtype)), page)


def _sent(x: Tensor, device: torch.device) -> Tensor:
    return x.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else x.to(device)


def _returned(x: Tensor) -> tuple[Tensor, Any]:
    """A copy on the host, and the event after which it is there."""
    if x.device.type != "cuda":
        return x.cpu(), None
    host = torch.empty(x.shape, dtype=x.dtype, pin_memory=True)
    host.copy_(x, non_blocking=True)
    event = torch.cuda.Event()
    event.record(torch.cuda.current_stream(x.device))
    return host, event


def _finished(model: VarsDoc, batch: _Batch) -> Iterator[tuple[int, Patches, PageEmbedding]]:
    if batch.arrived is not None:
        batch.arrived.synchronize()
    merge = model.config.merge_size
    for at, (i, patches) in enumerate(batch.pages):
        variants = batch.page(batch.vectors, at).clone()  # of its own, so that a batch's memory is free again
        page = PageEmbedding(variants, patches.grid(merge), batch.image_start, patches.levelled)
        if patches.turns:
            page.cells[:] = page.cells[:, torch.from_numpy(patches.order(merge))]
        yield i, patches, page
