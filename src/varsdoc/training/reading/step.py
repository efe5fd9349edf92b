"""One step of reading: a batch of one shape through the model, both losses."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from varsdoc.model import PageBatch, QueryBatch, VarsDoc
from varsdoc.training.losses import infonce
from varsdoc.training.reading.config import ReadConfig
from varsdoc.training.reading.losses import alignment, found
from varsdoc.training.reading.pages import SHAPES
from varsdoc.training.reading.pool import Drawn
from varsdoc.training.scoring import score_all


@dataclass(frozen=True)
class Losses:
    total: Tensor
    align: Tensor
    contrast: Tensor
    found: Tensor  # share of taught tokens that find their word
    first: Tensor  # share of ranked queries whose page comes first


class Shapes:
    """The parts of a page batch that depend on its shape alone, made once."""

    def __init__(self, model: VarsDoc) -> None:
        self.model = model
        self.made: dict[tuple[int, int], tuple[Tensor, Tensor, Tensor]] = {}

    def batch(self, drawn: Drawn) -> PageBatch:
        rows, cols = SHAPES[drawn.shape]
        count = len(drawn.page)
        if (drawn.shape, count) not in self.made:
            processor = self.model.processor
            ids, mask, positions = processor.page_frame(rows, cols)
            device = self.model.device
            self.made[drawn.shape, count] = (
                ids.expand(count, -1).to(device),
                mask.expand(count, -1).to(device),
                positions.expand(3, count, -1).to(device),
            )
        ids, mask, positions = self.made[drawn.shape, count]
        grids = ((rows * 2, cols * 2),) * count
        return PageBatch(ids, mask, positions, drawn.pixels.flatten(0, 1), grids, self.model.processor.image_start)


def query_batch(ids: Tensor) -> QueryBatch:
    """Right-padded ids (Q, T) with -1 as a left-padded batch."""
    mask = ids >= 0
    width = ids.shape[1]
    shift = width - mask.sum(1, keepdim=True)
    order = (torch.arange(width, device=ids.device) - shift) % width
    ids, mask = ids.gather(1, order), mask.gather(1, order)
    positions = (torch.arange(width, device=ids.device) - shift).clamp(min=0)
    return QueryBatch(ids.clamp(min=0).long(), mask, positions.expand(3, -1, -1))


def step(model: VarsDoc, shapes: Shapes, drawn: Drawn, config: ReadConfig) -> Losses:
    b, n, t = drawn.ids.shape
    pages = model.forward_pages(shapes.batch(drawn), "training")
    batch = query_batch(drawn.ids.flatten(0, 1))
    queries = model.forward_queries(batch, "training")
    # Left-padded vectors back to the right-padded places of the targets.
    shift = (t - batch.mask.sum(1, keepdim=True)) % t
    order = (torch.arange(t, device=shift.device) + shift) % t
    vectors = queries.vectors.gather(1, order[..., None].expand(-1, -1, queries.vectors.shape[2]))
    rows, cols = SHAPES[drawn.shape]
    start = model.processor.image_start
    cells = pages.vectors[:, 0, start : start + rows * cols]
    by_page = vectors.unflatten(0, (b, n))
    align = alignment(by_page, cells, drawn.targets, config.scale)
    contrast, first = _contrast(by_page, drawn, pages.vectors, pages.mask, config)
    with torch.no_grad():
        share = found(by_page, cells, drawn.targets)
    return Losses(config.align * align + contrast, align.detach(), contrast.detach(), share, first)


def _contrast(
    by_page: Tensor, drawn: Drawn, pages: Tensor, page_mask: Tensor, config: ReadConfig
) -> tuple[Tensor, Tensor]:
    """InfoNCE over the step's pages for some queries of each page, on mean scores."""
    kept = min(config.contrast, by_page.shape[1])
    queries, ids = by_page[:, :kept].flatten(0, 1), drawn.ids[:, :kept].flatten(0, 1)
    mask = ids >= 0
    sums = score_all(queries, mask, pages, page_mask)[..., 0]  # (Q, P)
    scores = sums / mask.sum(1, keepdim=True) / config.temperature
    positive = torch.arange(len(pages), device=ids.device).repeat_interleave(kept)
    text = _text_numbers(ids)
    same_text = (text[:, None, None] == text.view(-1, kept)[None]).any(-1)  # (Q, P): the page was asked the same
    negatives = ~(same_text | (drawn.page[positive][:, None] == drawn.page[None]))
    with torch.no_grad():
        first = (scores.argmax(1) == positive).float().mean()
    return infonce(scores, positive, negatives, "none").mean(), first


def _text_numbers(ids: Tensor) -> Tensor:
    """A number per row of token ids; equal rows have equal numbers."""
    weights = torch.arange(1, ids.shape[1] + 1, device=ids.device, dtype=torch.int64) * 2654435761 + 97
    return (ids.long() * weights * weights).sum(1)
