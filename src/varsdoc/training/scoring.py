"""All-pairs variant-aware MaxSim with a gradient, in bounded memory.

The similarity of 32 queries with 128 pages of 5 x 790 tokens is 2.6 GB in float32, and autograd would keep it.
Only one number per (query token, page, variant) matters: which page token won. So the forward pass goes page by page,
keeps the winners' indices alone, and the backward pass needs no similarity at all: the gradient of a maximum is the
gradient of one product. On a GPU a kernel finds the winners (training.winners). Equal to `varsdoc.scoring.score_pages`,
and in its gradients to plain autograd. Sums are float32 where the vectors are narrower.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from varsdoc.scoring.device import can_fuse

CHUNK_BYTES = 256 * 1024**2


def score_all(
    queries: Tensor, query_mask: Tensor, pages: Tensor, page_mask: Tensor, chunk_bytes: int = CHUNK_BYTES
) -> Tensor:
    """Sums over query tokens of the best product: (Q, T, d) x (P, K, M, d) -> (Q, P, K).

    query_mask (Q, T) and page_mask (P, M) are true on real tokens; padding neither adds nor wins.
    chunk_bytes bounds the similarities that exist at one time; one page against all queries always goes.

    >>> query = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    >>> page = torch.tensor([[[[1.0, 0.0], [1.0, 0.0]], [[0.0, 0.5], [0.8, 0.0]]]])
    >>> score_all(query, torch.ones(1, 2, dtype=torch.bool), page, torch.ones(1, 2, dtype=torch.bool))
    tensor([[[1.0000, 1.3000]]])
    """
    return _MaxSim.apply(queries, query_mask, pages, page_mask, chunk_bytes)


class _MaxSim(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, queries: Tensor, query_mask: Tensor, pages: Tensor, page_mask: Tensor, chunk_bytes: int
    ) -> Tensor:
        (q, t, d), (p, k, m, _) = queries.shape, pages.shape
        tokens = queries.reshape(q * t, d)
        if _fast(pages):
            from varsdoc.training.winners import winners as fused

            best, winners = fused(tokens, pages, page_mask)
            scores = _sums(best, query_mask)
        else:
            scores = torch.empty(q, p, k, dtype=_wide(queries.dtype), device=queries.device)
            winners = torch.empty(p, k, q * t, dtype=torch.int32, device=queries.device)
            for rows in _chunks(p, 2 * q * t * k * m * queries.element_size(), chunk_bytes):
                similarity = pages[rows] @ tokens.T  # (pages, K, M, Q * T)
                similarity.masked_fill_(~page_mask[rows, None, :, None], -torch.inf)
                best, index = similarity.max(2)
                winners[rows] = index.int()
                scores[:, rows] = _sums(best.to(scores.dtype), query_mask)
        ctx.save_for_backward(queries, query_mask, pages, winners)
        ctx.chunk_bytes = chunk_bytes
        return scores

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, Tensor | None, None, None]:
        queries, query_mask, pages, winners = ctx.saved_tensors
        # (P, K, Q * T): what a token's best product on a page is worth; the same for all tokens of a query
        weight = (grads[0].permute(1, 2, 0)[..., None] * query_mask).flatten(2)
        gradients = _by_products if _fast(pages) else _by_indices
        to_queries, to_pages = gradients(
            queries.flatten(0, 1), pages, winners, weight, ctx.needs_input_grad[2], ctx.chunk_bytes
        )
        return to_queries.view_as(queries).to(queries.dtype), None, to_pages, None, None


def _sums(best: Tensor, query_mask: Tensor) -> Tensor:
    """(P, K, Q * T) to (Q, P, K); padding adds nothing."""
    return best.unflatten(2, query_mask.shape).masked_fill(~query_mask, 0.0).sum(-1).permute(2, 0, 1)


def _by_indices(
    tokens: Tensor, pages: Tensor, winners: Tensor, weight: Tensor, wanted: bool, chunk_bytes: int
) -> tuple[Tensor, Tensor | None]:
    """Gradients of tokens (N, d) and, where wanted, of pages (P, K, M, d), by gathering and scattering rows."""
    (n, d), (p, k, _, _) = tokens.shape, pages.shape
    wide = _wide(tokens.dtype)
    tokens, weight = tokens.to(wide), weight.to(wide)
    to_tokens = torch.zeros_like(tokens)
    to_pages = torch.empty_like(pages) if wanted else None
    for rows in _chunks(p, 2 * k * n * d * tokens.element_size(), chunk_bytes):
        index = winners[rows].long()[..., None].expand(-1, -1, -1, d)  # (pages, K, N, d)
        to_tokens += (pages[rows].gather(2, index) * weight[rows, ..., None]).sum((0, 1))
        if to_pages is not None:
            empty = torch.zeros(pages[rows].shape, dtype=wide, device=pages.device)
            to_pages[rows] = empty.scatter_add_(2, index, weight[rows, ..., None] * tokens).to(pages.dtype)
    return to_tokens, to_pages


def _by_products(
    tokens: Tensor, pages: Tensor, winners: Tensor, weight: Tensor, wanted: bool, chunk_bytes: int
) -> tuple[Tensor, Tensor | None]:
    """The same by products with matrices that are zero but for the winners: what a GPU does at full speed.

    Weights are rounded to the dtype of the vectors, sums are not: for bfloat16, which keeps the range of float32.
    """
    (n, _), (p, k, m, _) = tokens.shape, pages.shape
    to_tokens = torch.zeros(tokens.shape, dtype=torch.float32, device=tokens.device)
    to_pages = torch.empty_like(pages) if wanted else None
    for rows in _chunks(p, k * m * n * tokens.element_size(), chunk_bytes):
        chosen = torch.zeros(*pages[rows].shape[:3], n, dtype=tokens.dtype, device=tokens.device)
        chosen.scatter_(2, winners[rows, :, None].long(), weight[rows, :, None].to(tokens.dtype))
        to_tokens += chosen.flatten(0, 2).T @ pages[rows].flatten(0, 2)
        if to_pages is not None:
            to_pages[rows] = chosen @ tokens
    return to_tokens, to_pages


def _fast(pages: Tensor) -> bool:
    """Whether vectors are such that the GPU's own forms take them."""
    return pages.dtype == torch.bfloat16 and can_fuse(pages.device, "bfloat16", pages.shape[3])


def _wide(dtype: torch.dtype) -> torch.dtype:
    """In what sums are kept: a sum of twenty in bfloat16 is one of 18.0, 18.125, 18.25 ..., and pages would tie."""
    return torch.float32 if dtype in (torch.bfloat16, torch.float16) else dtype


def _chunks(count: int, bytes_each: int, limit: int) -> list[slice]:
    step = max(1, limit // max(1, bytes_each))
    return [slice(start, min(start + step, count)) for start in range(0, count, step)]
