"""One step's loss from embeddings: all ranks' pages against this rank's queries, all terms, all scales.

The value is scaled so that its mean over ranks, which is what DDP makes of gradients, is the mean over the global
batch, also where ranks hold batches of different size. Padding is on the left, so vectors of different width are
aligned by their masks and never by position.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from varsdoc.model import Encoded
from varsdoc.training import losses
from varsdoc.training.config import LossConfig
from varsdoc.training.ranks import gather_rows, rows_before, sum_over_ranks, world_size
from varsdoc.training.scoring import score_all


@dataclass(frozen=True)
class PairIds:
    """Which page and which question each pair of a batch is, as 64-bit hashes: equal ones are no negatives."""

    page: Tensor  # (B,)
    text: Tensor  # (B,)


@dataclass(frozen=True)
class StepLoss:
    """A step's loss and what it was made of. All but `total` are means over the global batch, without gradient."""

    total: Tensor  # with gradient; its mean over ranks is the global loss
    retrieval: Tensor
    balance: Tensor
    diversity: Tensor
    wins: Tensor  # (K,) share of positive pairs that each variant wins, by argmax
    tie_rate: Tensor  # top two within 0.01 on sums
    tie_rate_mean: Tensor  # the same on sum / query tokens

    @property
    def value(self) -> Tensor:
        """The global loss."""
        return self.retrieval + self.balance + self.diversity


def step_loss(pages: Encoded, queries: Encoded, ids: PairIds, config: LossConfig) -> StepLoss:
    """pages (B, K, M, d) and queries (B, T, d) of this rank, in pairs. Weighted terms of balance and diversity."""
    all_pages = gather_rows(pages.vectors)  # (P, K, M, d), P over all ranks
    mask = gather_rows(pages.mask.to(torch.uint8)).bool()
    page, text = gather_rows(ids.page), gather_rows(ids.text)
    count = len(queries.mask)
    positive = rows_before(ids.page) + torch.arange(count, device=mask.device)
    tokens = queries.mask.sum(1)
    variants = score_all(queries.vectors, queries.mask, all_pages, mask)  # (B, P, K), sums
    own = variants[torch.arange(count, device=mask.device), positive]  # (B, K)
    negatives = losses.true_negatives(ids.text, ids.page, text, page, positive)
    share = world_size() / len(page)  # of one pair in the mean that DDP takes over ranks
    retrieval = _retrieval(variants.amax(-1), tokens, positive, negatives, config).sum() * share
    used = losses.usage(config.balance_scale(own, tokens)).sum(0) / len(page)
    balance = config.balance * losses.balance(sum_over_ranks(used))
    diversity = config.diversity * losses.diversity(config.margin_scale(own, tokens), config.gamma).sum() * share
    with torch.no_grad():
        facts = torch.cat(
            [
                torch.stack([retrieval, diversity]) / world_size(),
                losses.tied(own).sum(0, keepdim=True) / len(page),
                losses.tied(losses.Scale("mean")(own, tokens)).sum(0, keepdim=True) / len(page),
                torch.bincount(own.argmax(1), minlength=own.shape[1]) / len(page),
            ]
        )
        facts = sum_over_ranks(facts)
    return StepLoss(
        total=retrieval + balance + diversity,
        retrieval=facts[0],
        balance=balance.detach(),
        diversity=facts[1],
        tie_rate=facts[2],
        tie_rate_mean=facts[3],
        wins=facts[4:],
    )


def _retrieval(sums: Tensor, tokens: Tensor, positive: Tensor, negatives: Tensor, config: LossConfig) -> Tensor:
    scores = config.scale(sums, tokens)
    if config.kind == "pairwise":
        return losses.pairwise(scores, positive, negatives)
    return losses.infonce(scores, positive, negatives, config.hardness)
