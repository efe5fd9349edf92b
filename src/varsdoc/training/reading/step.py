"""One step of reading: a batch of one shape through the model, all losses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from varsdoc.model import PageBatch, QueryBatch, VarsDoc
from varsdoc.training import losses as variant_losses
from varsdoc.training.reading.assignment import assignment
from varsdoc.training.reading.bank import Bank, Ranked, score_parts
from varsdoc.training.reading.config import ReadConfig
from varsdoc.training.reading.losses import alignment, best_similarity, found
from varsdoc.training.reading.pages import SHAPES
from varsdoc.training.reading.pool import Drawn
from varsdoc.training.reading.printed import Spelling, transcripts, word_cells
from varsdoc.training.reading.tell import Telling, tell
from varsdoc.training.reading.words import prints


@dataclass(frozen=True)
class Losses:
    total: Tensor
    align: Tensor
    transcribe: Tensor
    spell: Tensor
    tell: Tensor
    contrast: Tensor
    told: Tensor  # share of printed words that rank their own page first
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
    model: VarsDoc,
    spelling: Spelling,
    shapes: Shapes,
    drawn: Drawn,
    config: ReadConfig,
    generator: torch.Generator,
    bank: Bank | None = None,
    fair: bool = False,
) -> Losses:
    """The losses of a batch. With a bank its pages are wrong answers too, and the batch's pages join it.

    fair  queries are dealt out to variants at random instead of going to the one that fits best
    """
    n = drawn.ids.shape[1]
    rows, cols = SHAPES[drawn.shape]
    start, cells = model.processor.image_start, rows * cols
    batch = shapes.batch(drawn.shape, drawn.pixels)
    embedded = model.embed_pages(batch)
    pages = model.forward_pages(batch, "training", embedded)
    copied, copied_keys = transcripts(drawn.printed, shapes.prefix, config.transcripts, generator)
    ids = torch.cat([drawn.ids.long(), copied.long()], 1)  # (B, N + transcripts, T)
    keys = torch.cat([drawn.keys, copied_keys], 1)
    by_page = query_vectors(model, ids.flatten(0, 1)).unflatten(0, ids.shape[:2])
    shown = word_cells(keys.flatten(1), drawn.places, cells).unflatten(1, keys.shape[1:])  # (B, queries, T, cells)
    fused = config.aggregation != "max" and not fair
    own, shown = _own_cells(pages.vectors[:, :, start : start + cells], shown, fused)
    given = _dealt(ids.shape[:2], pages.vectors.shape[1], generator, ids.device) if fair else None
    similarity, _ = best_similarity(by_page, own, ids >= 0, given)
    align = alignment(similarity[:, :n], shown[:, :n], config.scale)
    transcribe = alignment(similarity[:, n:], shown[:, n:], config.scale)
    spell = spelling(
        embedded[:, start : start + cells],
        drawn.printed,
        model.backbone.language_model.embed_tokens.weight,
        generator,
    )
    texts = text_numbers(drawn.ids.flatten(0, 1)).view(len(drawn.page), -1)
    ranked = [Ranked(narrow(pages.vectors), pages.mask, drawn.page, drawn.present, texts), *(bank or ())]
    each: Telling = "each" if fair else config.tell_variants
    telling, told = _tell(narrow(by_page[:, n:]), copied_keys, ranked, config, each)
    contrast, facts = _contrast(narrow(by_page[:, :n]), drawn, ranked, config, given)
    if bank is not None:
        bank.add(ranked[0])
    with torch.no_grad():
        share = found(similarity[:, :n], shown[:, :n])
    total = config.align * align + config.transcribe * transcribe + config.spell * spell + contrast
    total = total + config.tell * telling
    return Losses(
        total,
        align.detach(),
        transcribe.detach(),
        spell.detach(),
        telling.detach(),
        contrast.detach(),
        told,
        share,
        *facts,
    )


def _own_cells(cells: Tensor, shown: Tensor, fused: bool) -> tuple[Tensor, Tensor]:
    """The cells among which a token looks for its word, (B, K, C, d), with those that show it, (B, N, T, C).

    Fused variants are one long page: a word may be found in any of them, whatever the others of its query do.
    """
    if fused:
        return cells.flatten(1, 2)[:, None], shown.repeat(1, 1, 1, cells.shape[1])
    return cells, shown


def _dealt(size: torch.Size, variants: int, generator: torch.Generator, device: torch.device) -> Tensor:
    return torch.randint(variants, tuple(size), generator=generator, device=device)


def _tell(
    copied: Tensor, keys: Tensor, ranked: list[Ranked], config: ReadConfig, variants: Telling
) -> tuple[Tensor, Tensor]:
    """copied (B, transcripts, T, d), keys (B, transcripts, T): the words of the step against all pages."""
    if not config.tell:
        nothing = copied.new_zeros(())
        return nothing, nothing
    keys = keys.flatten(1)
    # Another view of the same page may be worn beyond reading: it is neither right nor wrong.
    known = prints(_all(part.present for part in ranked), keys)  # (B, N, P)
    known = known | (ranked[0].page[:, None, None] == _all(part.page for part in ranked))
    parts = [part.each for part in ranked]
    return tell(copied.flatten(1, 2), keys, known, parts, config.tell_temperature, variants)


def _contrast(
    by_page: Tensor, drawn: Drawn, ranked: list[Ranked], config: ReadConfig, given: Tensor | None = None
) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
    """InfoNCE over all pages on mean scores, balance and diversity. by_page (B, N, T, d); ranked[0] has B pages.

    given (B, N): every query is ranked in this variant alone, and there is neither balance nor diversity.
    """
    kept = min(config.contrast, by_page.shape[1])
    ids, keys = drawn.ids[:, :kept].flatten(0, 1), drawn.keys[:, :kept].flatten(0, 1)
    mask = ids >= 0
    tokens = mask.sum(1)
    vectors = by_page[:, :kept].flatten(0, 1)
    sums = score_parts(vectors, mask, [part.each for part in ranked])  # (Q, P, K)
    totals = [sums.amax(-1)]
    if given is not None:
        mine = given[:, :kept].flatten()[:, None, None].expand(-1, sums.shape[1], 1)
        totals = [sums.gather(2, mine)[..., 0]]
    elif config.aggregation != "max" and sums.shape[2] > 1:
        fused = score_parts(vectors, mask, [part.fused for part in ranked])[..., 0]
        totals = [fused] if config.aggregation == "fused" else [*totals, fused]
    positive = torch.arange(len(drawn.page), device=ids.device).repeat_interleave(kept)
    own = sums[torch.arange(len(positive), device=ids.device), positive]  # (Q, K)
    negatives = wrong_pages(keys, kept, ranked)
    means = [total / tokens[:, None] / config.temperature for total in totals]
    each = [variant_losses.infonce(scores, positive, negatives, config.hardness).mean() for scores in means]
    loss = torch.stack(each).mean()
    if own.shape[1] > 1 and given is None:
        own_means = own / tokens[:, None]
        used = variant_losses.usage(own_means / config.balance_temperature).mean(0)
        loss = loss + config.balance * variant_losses.balance(used)
        loss = loss + config.diversity * variant_losses.diversity(own_means, config.gamma).mean()
        if config.assign:
            loss = loss + config.assign * assignment(own_means, config.balance_temperature)
    with torch.no_grad():
        wins = torch.bincount(own.argmax(1), minlength=own.shape[1]).float() / len(own)
        mine = means[0].gather(1, positive[:, None])
        first = 1 - (negatives & (means[0] >= mine)).any(1).float().mean()
        return loss, (first, wins.amax(), variant_losses.tied(own).float().mean())


def wrong_pages(keys: Tensor, kept: int, ranked: list[Ranked]) -> Tensor:
    """(Q, P) bool: pages that are a wrong answer to a query: the first `kept` of each page of ranked[0], keys (Q, T).

    Not wrong: its own page in any view, a page that was asked the same, and a page that prints every word that the
    query names: who asks for "net sales" may mean either of two pages with net sales.
    """
    page = _all(part.page for part in ranked)
    own = ranked[0].page.repeat_interleave(kept)
    text = ranked[0].texts[:, :kept].flatten()
    same_text = torch.cat([(text[:, None, None] == part.texts).any(-1) for part in ranked], 1)
    same_page = own[:, None] == page
    named = keys >= 0
    has_all = (prints(_all(part.present for part in ranked), keys) | ~named[..., None]).all(1) & named.any(1)[:, None]
    return ~(same_text | same_page | has_all)


def narrow(vectors: Tensor) -> Tensor:
    """For ranking on a GPU: products in bfloat16 and sums in float32 (training.scoring), a fifth of the time."""
    return vectors.bfloat16() if vectors.is_cuda else vectors


def _all(parts: Iterable[Tensor]) -> Tensor:
    return torch.cat(list(parts))


def text_numbers(ids: Tensor) -> Tensor:
    """A number per row of token ids; equal rows have equal numbers."""
    weights = torch.arange(1, ids.shape[1] + 1, device=ids.device, dtype=torch.int64) * 2654435761 + 97
    return (ids.long() * weights * weights).sum(1)
