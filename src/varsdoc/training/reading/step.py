"""One step of reading: a batch of one shape through the model, all losses."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from varsdoc.model import PageBatch, QueryBatch, VarsDoc
from varsdoc.training import losses as variant_losses
from varsdoc.training.reading.config import ReadConfig
from varsdoc.training.reading.losses import alignment, best_similarity, found, shown_alignment
from varsdoc.training.reading.pages import SHAPES
from varsdoc.training.reading.pool import Drawn
from varsdoc.training.reading.printed import Spelling, transcripts, word_cells
from varsdoc.training.scoring import score_all


@dataclass(frozen=True)
class Losses:
    total: Tensor
    align: Tensor
    transcribe: Tensor
    spell: Tensor
    contrast: Tensor
    found: Tensor  # share of taught tokens that find their word
    first: Tensor  # share of ranked queries whose page comes first
    most: Tensor  # share of ranked queries that the most used variant wins
    tied: Tensor  # share of ranked queries whose two best variants lie within 0.01 on sums


class Shapes:
    """The parts of a page batch that depend on its shape alone, made once."""

    def __init__(self, model: VarsDoc) -> None:
        self.model = model
        self.made: dict[tuple[int, int], tuple[Tensor, Tensor, Tensor]] = {}
        prefix = model.processor.tokenizer.encode(model.config.query_prefix.rstrip(), add_special_tokens=False)
        self.prefix = torch.tensor(prefix.ids, device=model.device)

    def batch(self, shape: int, pixels: Tensor) -> PageBatch:
        """pixels (B, patches, 588) of pages brought to this shape."""
        rows, cols = SHAPES[shape]
        count = len(pixels)
        if (shape, count) not in self.made:
            processor = self.model.processor
            ids, mask, positions = processor.page_frame(rows, cols)
            device = self.model.device
            self.made[shape, count] = (
                ids.expand(count, -1).to(device),
                mask.expand(count, -1).to(device),
                positions.expand(3, count, -1).to(device),
            )
        ids, mask, positions = self.made[shape, count]
        grids = ((rows * 2, cols * 2),) * count
        return PageBatch(ids, mask, positions, pixels.flatten(0, 1), grids, self.model.processor.image_start)


def query_batch(ids: Tensor) -> QueryBatch:
    """Right-padded ids (Q, T) with -1 as a left-padded batch."""
    mask = ids >= 0
    width = ids.shape[1]
    shift = width - mask.sum(1, keepdim=True)
    order = (torch.arange(width, device=ids.device) - shift) % width
    ids, mask = ids.gather(1, order), mask.gather(1, order)
    positions = (torch.arange(width, device=ids.device) - shift).clamp(min=0)
    return QueryBatch(ids.clamp(min=0).long(), mask, positions.expand(3, -1, -1))


def query_vectors(model: VarsDoc, ids: Tensor) -> Tensor:
    """Vectors (Q, T, d) of right-padded ids (Q, T), at the places of their tokens."""
    batch = query_batch(ids)
    vectors = model.forward_queries(batch, "training").vectors
    width = ids.shape[1]
    shift = (width - batch.mask.sum(1, keepdim=True)) % width
    order = (torch.arange(width, device=ids.device) + shift) % width
    return vectors.gather(1, order[..., None].expand(-1, -1, vectors.shape[2]))


def step(
    model: VarsDoc, spelling: Spelling, shapes: Shapes, drawn: Drawn, config: ReadConfig, generator: torch.Generator
) -> Losses:
    n = drawn.ids.shape[1]
    rows, cols = SHAPES[drawn.shape]
    start, cells = model.processor.image_start, rows * cols
    batch = shapes.batch(drawn.shape, drawn.pixels)
    embedded = model.embed_pages(batch)
    pages = model.forward_pages(batch, "training", embedded)
    copied, keys = transcripts(drawn.printed, shapes.prefix, config.transcripts, generator)
    ids = torch.cat([drawn.ids.long(), copied.long()], 1)  # (B, N + transcripts, T)
    by_page = query_vectors(model, ids.flatten(0, 1)).unflatten(0, ids.shape[:2])
    similarity, _ = best_similarity(by_page, pages.vectors[:, :, start : start + cells], ids >= 0)
    align = alignment(similarity[:, :n], drawn.targets, config.scale)
    shown = word_cells(keys.flatten(1), drawn.printed, cells)
    transcribe = shown_alignment(similarity[:, n:].flatten(1, 2), shown, config.scale)
    spell = spelling(
        embedded[:, start : start + cells], drawn.printed, model.backbone.language_model.embed_tokens.weight
    )
    kept = min(config.contrast, n)
    contrast, facts = _contrast(by_page[:, :kept], drawn.ids[:, :kept], drawn.page, pages.vectors, pages.mask, config)
    with torch.no_grad():
        share = found(similarity[:, :n], drawn.targets)
    total = config.align * align + config.transcribe * transcribe + config.spell * spell + contrast
    return Losses(total, align.detach(), transcribe.detach(), spell.detach(), contrast.detach(), share, *facts)


def _contrast(
    by_page: Tensor, ids: Tensor, page: Tensor, pages: Tensor, page_mask: Tensor, config: ReadConfig
) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
    """InfoNCE over the step's pages on mean scores, balance and diversity. by_page (B, N, T, d), pages (B, K, M, d)."""
    kept = by_page.shape[1]
    ids = ids.flatten(0, 1)
    mask = ids >= 0
    tokens = mask.sum(1)
    sums = score_all(by_page.flatten(0, 1), mask, pages, page_mask)  # (Q, P, K)
    means = sums / tokens[:, None, None]
    positive = torch.arange(len(pages), device=ids.device).repeat_interleave(kept)
    own = sums[torch.arange(len(positive), device=ids.device), positive]  # (Q, K)
    text = _text_numbers(ids)
    same_text = (text[:, None, None] == text.view(-1, kept)[None]).any(-1)  # (Q, P): the page was asked the same
    negatives = ~(same_text | (page[positive][:, None] == page[None]))
    scores = means.amax(-1) / config.temperature
    loss = variant_losses.infonce(scores, positive, negatives, config.hardness).mean()
    if own.shape[1] > 1:
        own_means = own / tokens[:, None]
        used = variant_losses.usage(own_means / config.balance_temperature).mean(0)
        loss = loss + config.balance * variant_losses.balance(used)
        loss = loss + config.diversity * variant_losses.diversity(own_means, config.gamma).mean()
    with torch.no_grad():
        wins = torch.bincount(own.argmax(1), minlength=own.shape[1]).float() / len(own)
        first = (scores.argmax(1) == positive).float().mean()
        return loss, (first, wins.amax(), variant_losses.tied(own).float().mean())


def _text_numbers(ids: Tensor) -> Tensor:
    """A number per row of token ids; equal rows have equal numbers."""
    weights = torch.arange(1, ids.shape[1] + 1, device=ids.device, dtype=torch.int64) * 2654435761 + 97
    return (ids.long() * weights * weights).sum(1)
