"""What the reading stage minimises: find the word's cell on its page, and the page among pages."""

from __future__ import annotations

import torch
from torch import Tensor


def alignment(queries: Tensor, cells: Tensor, targets: Tensor, scale: float) -> Tensor:
    """-log of the softmax mass that a token puts on the cells of its word, mean over taught tokens.

    queries (B, N, T, d): N queries for each page; cells (B, C, d); targets (B, N, T, W) cell indices, -1 for none.
    Any of the word's cells will do, as in MaxSim: the loss asks for their sum, not for an even spread.

    Two cells, the token looks at neither: half of the mass is on its cell, log 2.

    >>> query, cells = torch.zeros(1, 1, 1, 2), torch.eye(2)[None]
    >>> alignment(query, cells, torch.tensor([[[[1, -1]]]]), scale=20.0)
    tensor(0.6931)
    """
    b, n, t, d = queries.shape
    logits = scale * (queries.reshape(b, n * t, d) @ cells.transpose(1, 2)).float()  # (B, N * T, C)
    wanted = targets.reshape(b, n * t, -1).long()
    taught = wanted[..., 0] >= 0
    own = logits.gather(2, wanted.clamp(min=0)).masked_fill(wanted < 0, -torch.inf)
    own = own.masked_fill(~taught[..., None], 0.0).logsumexp(-1)
    lost = logits.logsumexp(-1) - own
    return (lost * taught).sum() / taught.sum().clamp(min=1)


def found(queries: Tensor, cells: Tensor, targets: Tensor) -> Tensor:
    """Share of taught tokens whose best cell is one of their word's: how well the model reads."""
    b, n, t, d = queries.shape
    best = (queries.reshape(b, n * t, d) @ cells.transpose(1, 2)).argmax(-1)
    wanted = targets.reshape(b, n * t, -1)
    taught = wanted[..., 0] >= 0
    hit = (wanted == best[..., None]).any(-1) & taught
    return hit.sum() / taught.sum().clamp(min=1)
