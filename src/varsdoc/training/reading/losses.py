"""What the reading stage minimises: find the word's cell on its page, and the page among pages."""

from __future__ import annotations

import torch
from torch import Tensor


def best_similarity(queries: Tensor, cells: Tensor, mask: Tensor, given: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Products of each token with its own page's cells, in the variant that fits the query best.

    queries (B, N, T, d): N queries for each page; cells (B, K, C, d); mask (B, N, T) true on real tokens.
    Returns (B, N, T, C) and the winning variant (B, N). Only the winner is taught: that is what lets variants differ.
    given (B, N): these variants instead of the winners.
    """
    b, n, t, d = queries.shape
    every = queries.reshape(b, 1, n * t, d) @ cells.transpose(2, 3)  # (B, K, N * T, C)
    every = every.unflatten(2, (n, t))
    with torch.no_grad():
        # In float32: sums of twenty in bfloat16 tie at every eighth, and ties would all go to the first variant.
        sums = (every.amax(-1).float() * mask[:, None]).sum(-1)  # (B, K, N)
        winner = sums.argmax(1) if given is None else given
    if every.shape[1] == 1:
        return every[:, 0], winner
    index = winner[:, None, :, None, None].expand(-1, -1, -1, *every.shape[3:])
    return every.gather(1, index)[:, 0], winner


def alignment(similarity: Tensor, shown: Tensor, scale: float) -> Tensor:
    """-log of the softmax mass that a token puts on the cells of its word, mean over taught tokens.

    similarity (..., C); shown (..., C) bool: the cells of its word, none for a token that is not taught.
    Any of the word's cells will do, as in MaxSim: the loss asks for their sum, not for an even spread.

    Two cells, the token looks at neither: half of the mass is on its cell, log 2.

    >>> alignment(torch.zeros(1, 2), torch.tensor([[False, True]]), scale=20.0)
    tensor(0.6931)
    """
    logits = scale * similarity.float()
    taught = shown.any(-1)
    own = logits.masked_fill(~(shown | ~taught[..., None]), -torch.inf).logsumexp(-1)
    lost = logits.logsumexp(-1) - own
    return (lost * taught).sum() / taught.sum().clamp(min=1)


def found(similarity: Tensor, shown: Tensor) -> Tensor:
    """Share of taught tokens whose best cell is one of their word's: how well the model reads."""
    best = similarity.argmax(-1, keepdim=True)
    hit = shown.gather(-1, best)[..., 0]
    return hit.sum() / shown.any(-1).sum().clamp(min=1)
