"""Variant-aware MaxSim, plainly: s_k = sum_u max_v <q_u, d_v^(k)>, S = max_k s_k.

This is the reference that every faster kernel is held to. Its choices:
- Real masks: padding is -inf before the maximum, never 0. A page whose every product is negative scores negative.
- The result carries the score of every variant. Which reading won is part of the answer.
- Scores are the paper's sums; `normalised` (sum / query tokens, at most 1 for unit vectors) stands beside them.
- A memory budget covers the padded pages and the similarity tensor, so any number of pages can be scored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from varsdoc.errors import ConfigError, InputError

Aggregation = Literal["max", "mean", "fused"]
MEMORY_BUDGET = 512 * 1024**2


@dataclass(frozen=True)
class Scores:
    """Every query against every page."""

    total: Tensor  # (Q, P)
    variants: Tensor  # (Q, P, K), one score per reading
    query_tokens: Tensor  # (Q,)

    @property
    def normalised(self) -> Tensor:
        """total / query tokens: comparable between questions of different length."""
        return self.total / self.query_tokens[:, None]

    @property
    def winner(self) -> Tensor:
        """(Q, P) which variant fits best."""
        return self.variants.argmax(-1)


def score_pages(
    queries: Sequence[Tensor],
    pages: Sequence[Tensor],
    *,
    aggregation: Aggregation = "max",
    memory_budget: int = MEMORY_BUDGET,
) -> Scores:
    """Score queries (T, d) against pages (K, M, d), any mix of lengths, in float32.

    aggregation  "max": the best variant's score; "mean" over variants; "fused": every query token takes the best
                 token of all variants together
    memory_budget  bytes for one step's padded pages and similarities; one query token against one page always goes

    Two query tokens, one page with two readings of two tokens each:

    >>> query = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> page = torch.tensor([[[1.0, 0.0], [1.0, 0.0]], [[0.0, 0.5], [0.8, 0.0]]])
    >>> scores = score_pages([query], [page])
    >>> scores.variants  # reading 0: 1 + 0; reading 1: 0.8 + 0.5
    tensor([[[1.0000, 1.3000]]])
    >>> scores.total, scores.winner, scores.normalised
    (tensor([[1.3000]]), tensor([[1]]), tensor([[0.6500]]))
    >>> score_pages([query], [page], aggregation="mean").total
    tensor([[1.1500]])
    >>> score_pages([query], [page], aggregation="fused").total  # 1 from reading 0, 0.5 from reading 1
    tensor([[1.5000]])

    Padding never wins: a shorter page whose products are all negative keeps its negative score.

    >>> score_pages([query], [-page[:, :1], page]).total
    tensor([[-0.5000,  1.3000]])
    """
    queries, pages = list(queries), list(pages)
    _check(queries, pages, aggregation, memory_budget)
    tokens = torch.tensor([len(query) for query in queries])
    if not queries or not pages:
        empty = torch.zeros(len(queries), len(pages), pages[0].shape[0] if pages else 1)
        return Scores(empty.sum(-1), empty, tokens)
    flat = torch.cat([query.float() for query in queries])  # (all tokens, d)
    owner = torch.repeat_interleave(torch.arange(len(queries)), tokens).to(flat.device)
    device = flat.device
    variants = torch.zeros(len(queries), len(pages), pages[0].shape[0], device=device)
    fused = torch.zeros(len(queries), len(pages), device=device)
    for group in _page_groups(pages, memory_budget):
        padded, mask = _pad([pages[i] for i in group], device)
        where = torch.tensor(group, device=device)
        for rows in _token_slices(len(flat), padded, memory_budget):
            best = _best_tokens(flat[rows], padded, mask)  # (tokens, pages of the group, K)
            # In-place sums over the tokens of each query, restricted to this group's pages.
            part = best.new_zeros(len(queries), *best.shape[1:]).index_add_(0, owner[rows], best)
            variants[:, where] += part
            fused[:, where] += best.new_zeros(len(queries), best.shape[1]).index_add_(0, owner[rows], best.amax(-1))
    total = {"max": variants.amax(-1), "mean": variants.mean(-1), "fused": fused}[aggregation]
    return Scores(total, variants, tokens.to(device))


def _best_tokens(queries: Tensor, pages: Tensor, mask: Tensor) -> Tensor:
    """Largest product of each query token with each variant: (tokens, pages, K)."""
    p, k, m, d = pages.shape
    similarity = (queries @ pages.reshape(p * k * m, d).T).view(len(queries), p, k, m)
    return similarity.masked_fill(~mask[None, :, None, :], float("-inf")).amax(-1)


def _pad(pages: list[Tensor], device: torch.device) -> tuple[Tensor, Tensor]:
    longest = max(page.shape[1] for page in pages)
    padded = torch.zeros(len(pages), pages[0].shape[0], longest, pages[0].shape[2], device=device)
    mask = torch.zeros(len(pages), longest, dtype=torch.bool, device=device)
    for i, page in enumerate(pages):
        padded[i, :, : page.shape[1]] = page
        mask[i, : page.shape[1]] = True
    return padded, mask


def _page_groups(pages: Sequence[Tensor], budget: int) -> list[list[int]]:
    """Pages of like length together; half the budget for them padded in float32, the other half for similarities."""
    groups: list[list[int]] = []
    for i in sorted(range(len(pages)), key=lambda i: pages[i].shape[1]):
        each = pages[i].numel() * 4
        if groups and each * (len(groups[-1]) + 1) <= budget // 2:
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups


def _token_slices(count: int, padded: Tensor, budget: int) -> list[slice]:
    """Query tokens at a time: two copies of the similarities (masking makes the second) within half the budget."""
    p, k, m, _ = padded.shape
    step = max(1, budget // 2 // (2 * 4 * p * k * m))
    return [slice(start, start + step) for start in range(0, count, step)]


def _check(queries: Sequence[Tensor], pages: Sequence[Tensor], aggregation: str, budget: int) -> None:
    if aggregation not in get_args(Aggregation):
        raise ConfigError(f"There is no aggregation {aggregation!r}; use max, mean or fused.")
    if not isinstance(budget, int) or budget < 1:
        raise ConfigError(f"memory_budget must be a positive number of bytes, not {budget!r}.")
    for kind, items, ndim, form in (
        ("query", queries, 2, "(tokens, dim)"),
        ("page", pages, 3, "(variants, tokens, dim)"),
    ):
        for i, item in enumerate(items):
            if not isinstance(item, Tensor):
                raise InputError(f"{kind} {i} is a {type(item).__name__}; give a torch tensor {form}.")
            if item.ndim != ndim or 0 in item.shape:
                raise InputError(f"{kind} {i} has shape {tuple(item.shape)}; give {form} with at least one token.")
    for i, page in enumerate(pages):
        if page.shape[0] != pages[0].shape[0]:
            raise InputError(
                f"page {i} has {page.shape[0]} variants, page 0 has {pages[0].shape[0]}; encode all with one model."
            )
    widths = {item.shape[-1] for item in (*queries, *pages)}
    if len(widths) > 1:
        raise InputError(f"Queries and pages have vectors of {sorted(widths)} numbers; encode all with one model.")
