"""Each loss against the paper's formula, written out with loops in float64."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from varsdoc.training import losses

Q, P, K = 6, 9, 4


def random_scores(scale: float = 1.0, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    scores = scale * torch.randn(Q, P, generator=generator, dtype=torch.float64)
    positive = torch.arange(Q)
    negatives = torch.rand(Q, P, generator=generator) < 0.8
    negatives[torch.arange(Q), positive] = False
    negatives[:, -1] = True
    return scores.requires_grad_(), positive, negatives


def naive_pairwise(scores: Tensor, positive: Tensor, negatives: Tensor) -> Tensor:
    rows = []
    for i in range(Q):
        hardest = max((scores[i, j] for j in range(P) if negatives[i, j]), key=lambda x: x.item())
        rows.append(torch.log(1 + torch.exp(hardest - scores[i, positive[i]])))
    return torch.stack(rows)


def naive_infonce(scores: Tensor, positive: Tensor, negatives: Tensor, hardness: str) -> Tensor:
    rows = []
    for i in range(Q):
        wrong = [j for j in range(P) if negatives[i, j]]
        weight = {j: torch.exp(scores[i, j]).detach() if hardness != "none" else 1.0 for j in wrong}
        if hardness == "normalised":
            mean = sum(weight.values()) / len(wrong)
            weight = {j: value / mean for j, value in weight.items()}
        own = torch.exp(scores[i, positive[i]])
        rows.append(-torch.log(own / (own + sum(weight[j] * torch.exp(scores[i, j]) for j in wrong))))
    return torch.stack(rows)


def same_with_gradients(ours: Tensor, naive: Tensor, inputs: Tensor) -> None:
    torch.testing.assert_close(ours, naive, rtol=1e-10, atol=1e-12)
    (first,) = torch.autograd.grad(ours.sum(), inputs, retain_graph=True)
    (second,) = torch.autograd.grad(naive.sum(), inputs)
    torch.testing.assert_close(first, second, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_pairwise_is_the_papers_formula(seed: int) -> None:
    case = random_scores(2.0, seed)
    same_with_gradients(losses.pairwise(*case), naive_pairwise(*case), case[0])


@pytest.mark.parametrize("hardness", ["none", "paper", "normalised"])
@pytest.mark.parametrize("seed", range(3))
def test_infonce_is_the_papers_formula(hardness: losses.Hardness, seed: int) -> None:
    case = random_scores(2.0, seed)
    same_with_gradients(losses.infonce(*case, hardness), naive_infonce(*case, hardness), case[0])


def test_hardness_weights_carry_no_gradient() -> None:
    scores, positive, negatives = random_scores()
    through = torch.autograd.grad(losses.infonce(scores, positive, negatives, "paper").sum(), scores)[0]
    weighted = scores + scores * negatives  # as if the weight were trained too
    wrong = weighted.masked_fill(~negatives, -torch.inf).logsumexp(1)
    own = scores.gather(1, positive[:, None])[:, 0]
    other = torch.autograd.grad(torch.nn.functional.softplus(wrong - own).sum(), scores)[0]
    torch.testing.assert_close(through[negatives] * 2, other[negatives])


def test_balance_and_diversity_are_the_papers_formulas() -> None:
    generator = torch.Generator().manual_seed(1)
    variants = torch.randn(Q, K, generator=generator, dtype=torch.float64).requires_grad_()
    shares = [sum(variants[i, k].exp() / variants[i].exp().sum() for i in range(Q)) / Q for k in range(K)]
    naive = sum((share - 1 / K) ** 2 for share in shares)
    assert isinstance(naive, Tensor)
    same_with_gradients(losses.balance(losses.usage(variants).mean(0)), naive, variants)
    rows = []
    for i in range(Q):
        first, second = sorted(variants[i], key=lambda x: x.item(), reverse=True)[:2]
        rows.append(torch.clamp(0.7 - (first - second), min=0))
    same_with_gradients(losses.diversity(variants, 0.7), torch.stack(rows), variants)


def test_one_variant_is_balanced_and_diverse() -> None:
    variants = torch.randn(Q, 1, requires_grad=True)
    total = losses.balance(losses.usage(variants).mean(0)) + losses.diversity(variants, 0.05).sum()
    total.backward()
    assert total.item() == 0
    assert variants.grad is not None
    assert not variants.grad.any()
    assert not losses.tied(variants).any()


@pytest.mark.parametrize("sign", [1, -1])
def test_scores_of_500_do_not_overflow(sign: int) -> None:
    scores = torch.full((2, 3), 500.0 * sign)
    scores[:, 0] -= 400 * sign
    scores.requires_grad_()
    positive, negatives = torch.zeros(2, dtype=torch.long), torch.tensor([[False, True, True]] * 2)
    values = [
        losses.pairwise(scores, positive, negatives),
        *(losses.infonce(scores, positive, negatives, kind) for kind in ("none", "paper", "normalised")),
        losses.usage(scores).sum(1),
        losses.diversity(scores, 0.05),
    ]
    for value in values:
        assert value.isfinite().all()
        assert torch.autograd.grad(value.sum(), scores)[0].isfinite().all()
    if sign == 1:
        assert values[2][0].item() == pytest.approx(1000 - 100 + math.log(2))


def test_a_query_without_negatives_costs_nothing_and_moves_nothing() -> None:
    scores = torch.randn(2, 2, requires_grad=True)
    positive = torch.tensor([0, 1])
    negatives = torch.tensor([[False, True], [False, False]])
    for value in (
        losses.pairwise(scores, positive, negatives),
        *(losses.infonce(scores, positive, negatives, kind) for kind in ("none", "paper", "normalised")),
    ):
        assert value[0] > 0
        assert value[1] == 0
        grad = torch.autograd.grad(value.sum(), scores)[0]
        assert grad.isfinite().all()
        assert not grad[1].any()


def test_the_scale_decides_whether_balance_sees_a_small_lead() -> None:
    lead = torch.tensor([[10.01, 10.0, 10.0, 10.0, 10.0]])
    plain = losses.usage(losses.Scale("mean", 1.0)(lead * 20, torch.tensor([20])))
    assert plain[0, 0].item() == pytest.approx(0.2016, abs=1e-4)
    sharp = losses.usage(losses.Scale("mean", 0.01)(lead * 20, torch.tensor([20])))
    assert sharp[0, 0] > 0.4
