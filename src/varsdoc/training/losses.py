"""The losses of the paper, each a pure function of scores.

What is unusual:
- They return one number per query, not the mean: a rank holds only its own queries, and the mean is over all ranks.
- Everything is in log space. The weighted negative w_ij * exp(S_ij) is the logit S_ij + stopgrad(S_ij), so sums of 500
  do not overflow.
- `negatives` says which pages count against a query. Its own page, other copies of that page and the pages of equal
  questions do not; a query without a single negative costs nothing.
- A score may enter as the paper's sum or divided by the query's length, over a temperature. The paper does not say on
  which scale its losses live, and it decides whether they work: each loss has its own `Scale`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

Unit = Literal["sum", "mean"]
Hardness = Literal["none", "paper", "normalised"]
TIE = 0.01


@dataclass(frozen=True)
class Scale:
    """On what a loss sees a score: the sum over query tokens or their mean, divided by a temperature."""

    score: Unit = "sum"
    temperature: float = 1.0

    def __call__(self, sums: Tensor, query_tokens: Tensor) -> Tensor:
        """sums (Q, ...) of queries with `query_tokens` (Q,) tokens.

        >>> Scale("mean", 0.5)(torch.tensor([[4.0, 2.0]]), torch.tensor([4]))
        tensor([[2., 1.]])
        """
        if self.score == "mean":
            sums = sums / query_tokens.view(-1, *[1] * (sums.ndim - 1))
        return sums / self.temperature


def true_negatives(query_text: Tensor, query_page: Tensor, page_text: Tensor, page: Tensor, positive: Tensor) -> Tensor:
    """(Q, P) bool: pages that really are wrong answers. Texts and pages are given as ids.

    query_text, query_page (Q,)  the question and its gold page
    page_text, page (P,)         each page of the batch and the question that it came with
    positive (Q,)                index of a query's own page

    Query 0 asks about page 7, and so does query 1 in other words; query 2 repeats the words of query 0 about page 8:

    >>> text, page = torch.tensor([1, 2, 1, 3]), torch.tensor([7, 7, 8, 9])
    >>> true_negatives(text, page, text, page, torch.arange(4)).int()
    tensor([[0, 0, 0, 1],
            [0, 0, 1, 1],
            [0, 1, 0, 1],
            [1, 1, 1, 0]], dtype=torch.int32)
    """
    same = (query_text[:, None] == page_text) | (query_page[:, None] == page)
    same[torch.arange(len(positive), device=same.device), positive] = True
    return ~same


def pairwise(scores: Tensor, positive: Tensor, negatives: Tensor) -> Tensor:
    """Warm-up: softplus(hardest negative - positive), (Q,). scores (Q, P), positive (Q,), negatives (Q, P) bool.

    Query 0 has its page two above the best other; query 1 has no negative at all:

    >>> scores = torch.tensor([[3.0, 1.0], [5.0, 2.0]])
    >>> pairwise(scores, torch.tensor([0, 1]), torch.tensor([[False, True], [False, False]]))  # log(1 + e^-2), 0
    tensor([0.1269, 0.0000])
    """
    hardest = scores.masked_fill(~negatives, -torch.inf).amax(1)
    margin = hardest - _own(scores, positive)
    return _where_any(negatives, F.softplus(margin.masked_fill(~negatives.any(1), 0.0)))


def infonce(scores: Tensor, positive: Tensor, negatives: Tensor, hardness: Hardness = "paper") -> Tensor:
    """-log(e^S_ii / (e^S_ii + sum_j w_ij e^S_ij)), (Q,), with w_ij = stopgrad(e^S_ij) in the paper.

    hardness  "none": w = 1, plain InfoNCE; "normalised": w divided by its mean over the row, so that a row of equal
              negatives weighs as in plain InfoNCE on every scale

    One positive of 2, negatives of 1 and 1: plain log(1 + 2 e^(1-2)); the paper's weights make it log(1 + 2 e^(2-2)).

    >>> scores, positive = torch.tensor([[2.0, 1.0, 1.0]]), torch.tensor([0])
    >>> negatives = torch.tensor([[False, True, True]])
    >>> [round(infonce(scores, positive, negatives, kind).item(), 4) for kind in ("none", "paper", "normalised")]
    [0.5514, 1.0986, 0.5514]
    """
    logits = scores
    if hardness != "none":
        weight = scores.detach()
        if hardness == "normalised":
            total = weight.masked_fill(~negatives, -torch.inf).logsumexp(1, keepdim=True)
            mean = total - negatives.sum(1, keepdim=True).clamp(min=1).to(weight.dtype).log()
            weight = weight - mean.masked_fill(~negatives.any(1, keepdim=True), 0.0)
        logits = scores + weight
    own = _own(scores, positive)
    # A row without negatives would be logsumexp of nothing, whose gradient is NaN: give it a harmless finite one.
    kept = negatives | ~negatives.any(1, keepdim=True)
    wrong = logits.masked_fill(~kept, -torch.inf).logsumexp(1)
    return _where_any(negatives, F.softplus(wrong - own))


def usage(variants: Tensor) -> Tensor:
    """How much each variant answers for a positive pair: softmax over the variants' scores, (Q, K) -> (Q, K).

    >>> usage(torch.tensor([[0.0, 0.0], [1.0, 0.0]]))
    tensor([[0.5000, 0.5000],
            [0.7311, 0.2689]])
    """
    return variants.softmax(-1)


def balance(mean_usage: Tensor) -> Tensor:
    """Squared distance of the batch's mean usage (K,) from uniform. One variant is always balanced.

    >>> balance(torch.tensor([1.0, 0.0])), balance(torch.tensor([1.0]))
    (tensor(0.5000), tensor(0.))
    """
    return (mean_usage - 1 / len(mean_usage)).square().sum()


def diversity(variants: Tensor, gamma: float) -> Tensor:
    """What the winner lacks of a margin gamma over the second-best variant, (Q, K) -> (Q,). Zero for one variant.

    >>> diversity(torch.tensor([[1.0, 0.98, 0.2], [1.0, 0.5, 0.2]]), gamma=0.05)
    tensor([0.0300, 0.0000])
    """
    if variants.shape[1] < 2:
        return variants.sum(1) * 0
    best = variants.topk(2, dim=1).values
    return (gamma - (best[:, 0] - best[:, 1])).clamp(min=0)


def tied(variants: Tensor) -> Tensor:
    """Whether the top two variants lie within 0.01, (Q, K) -> (Q,) bool.

    >>> tied(torch.tensor([[1.0, 0.995], [1.0, 0.5]]))
    tensor([ True, False])
    """
    if variants.shape[1] < 2:
        return torch.zeros(len(variants), dtype=torch.bool, device=variants.device)
    best = variants.topk(2, dim=1).values
    return best[:, 0] - best[:, 1] <= TIE


def _own(scores: Tensor, positive: Tensor) -> Tensor:
    return scores.gather(1, positive[:, None])[:, 0]


def _where_any(negatives: Tensor, losses: Tensor) -> Tensor:
    """Zero, with a zero gradient, where there is nothing to be confused with."""
    return losses * negatives.any(1)
