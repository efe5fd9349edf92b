"""Which variant should answer which query: an even split of the step's queries, and a loss that asks for it.

Balance asks that variants answer equally often on the whole, and is content when every one answers everything a little.
Here each query is given to variants so that all get the same number of queries, as near to the present scores as that
allows (Sinkhorn), and the softmax over variants must say so: whoever fits a query a little better is made to fit it
more, the others less. That can part near-identical copies, which a margin between the best two cannot do alone.
"""

from __future__ import annotations

import torch
from torch import Tensor

ROUNDS = 3
SHARPNESS = 4.0  # the split is this much more decided than the scores


@torch.no_grad()
def even_split(scores: Tensor, rounds: int = ROUNDS) -> Tensor:
    """(Q, K) rows that sum to one and whose columns sum to nearly Q / K.

    Both queries prefer the first variant, the first query more so: it gets it.

    >>> even_split(torch.tensor([[4.0, 0.0], [2.0, 0.0]]), rounds=50).round(decimals=2)
    tensor([[0.7300, 0.2700],
            [0.2700, 0.7300]])
    """
    split = (scores - scores.amax()).double().exp()
    count, kinds = split.shape
    for _ in range(rounds):
        split = split / split.sum(0, keepdim=True).clamp(min=1e-30) * (count / kinds)
        split = split / split.sum(1, keepdim=True).clamp(min=1e-30)
    return split.to(scores.dtype)


def assignment(own: Tensor, temperature: float) -> Tensor:
    """Mean cross-entropy between the even split and the softmax of a query's scores on its page, own (Q, K).

    A split of one half each and a softmax that says the same: log 2.

    >>> assignment(torch.zeros(4, 2), temperature=0.02)
    tensor(0.6931)
    """
    scores = own.float() / temperature
    split = even_split(SHARPNESS * scores)
    return -(split * scores.log_softmax(1)).sum(1).mean()
