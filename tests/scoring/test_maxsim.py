"""Variant-aware MaxSim against its definition, one number at a time."""

from __future__ import annotations

import pytest
import torch

from varsdoc.errors import ConfigError, InputError
from varsdoc.scoring import score_pages


def unit(*shape: int, seed: int) -> torch.Tensor:
    return torch.nn.functional.normalize(torch.randn(*shape, generator=torch.Generator().manual_seed(seed)), dim=-1)


QUERIES = [unit(t, 8, seed=t) for t in (3, 7, 1)]
PAGES = [unit(4, m, 8, seed=100 + m) for m in (5, 2, 9, 5, 1)]


def by_definition(query: torch.Tensor, page: torch.Tensor, aggregation: str) -> tuple[float, list[float]]:
    each = [sum(max(float(q @ d) for d in variant) for q in query) for variant in page]
    if aggregation == "fused":
        return sum(max(float(q @ d) for variant in page for d in variant) for q in query), each
    return (max(each) if aggregation == "max" else sum(each) / len(each)), each


@pytest.mark.parametrize("aggregation", ["max", "mean", "fused"])
@pytest.mark.parametrize("budget", [1, 5_000, 2**29])
def test_equals_the_definition_under_any_budget(aggregation: str, budget: int) -> None:
    scores = score_pages(QUERIES, PAGES, aggregation=aggregation, memory_budget=budget)  # type: ignore[arg-type]
    for q, query in enumerate(QUERIES):
        for p, page in enumerate(PAGES):
            total, each = by_definition(query, page, aggregation)
            assert scores.total[q, p].item() == pytest.approx(total, abs=1e-5)
            assert scores.variants[q, p].tolist() == pytest.approx(each, abs=1e-5)
            assert scores.winner[q, p].item() == max(range(4), key=each.__getitem__)
            assert scores.normalised[q, p].item() == pytest.approx(total / len(query), abs=1e-5)


def test_padding_never_wins_a_maximum() -> None:
    query = unit(2, 8, seed=0)
    opposite = -query[None, :1].repeat(2, 1, 1)
    alone = score_pages([query[:1]], [opposite]).total
    beside_a_longer_page = score_pages([query[:1]], [opposite, unit(2, 30, 8, seed=1)]).total
    assert alone[0, 0].item() == pytest.approx(-1, abs=1e-6)
    assert beside_a_longer_page[0, 0].item() == pytest.approx(-1, abs=1e-6)


def test_half_precision_input_is_scored_in_float32() -> None:
    scores = score_pages([q.half() for q in QUERIES], [p.bfloat16() for p in PAGES])
    assert scores.total.dtype == torch.float32
    torch.testing.assert_close(scores.total, score_pages(QUERIES, PAGES).total, atol=0.1, rtol=0)


def test_the_memory_budget_is_kept() -> None:
    """The largest tensors of a step, padding included, stay within the budget."""
    pages = [unit(5, 64 + i, 16, seed=i) for i in range(40)]
    queries = [unit(30, 16, seed=i) for i in range(10)]
    budget = 2**20
    seen: list[int] = []
    original = torch.Tensor.masked_fill

    def spy(self: torch.Tensor, *args: object) -> torch.Tensor:
        out = original(self, *args)  # type: ignore[arg-type]
        seen.append(self.nbytes + out.nbytes)
        return out

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.Tensor, "masked_fill", spy)
        small = score_pages(queries, pages, memory_budget=budget)
    assert len(seen) > 4
    assert max(seen) <= budget // 2
    torch.testing.assert_close(small.total, score_pages(queries, pages).total, atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("queries", "pages", "message"),
    [
        ([torch.zeros(0, 8)], PAGES, r"query 0 has shape \(0, 8\)"),
        (QUERIES, [torch.zeros(4, 8)], r"page 0 has shape \(4, 8\)"),
        (QUERIES, [PAGES[0], PAGES[1][:2]], "page 1 has 2 variants, page 0 has 4"),
        ([torch.zeros(2, 7)], PAGES, r"vectors of \[7, 8\] numbers"),
    ],
)
def test_wrong_shapes_are_one_sentence(queries: list[torch.Tensor], pages: list[torch.Tensor], message: str) -> None:
    with pytest.raises(InputError, match=message):
        score_pages(queries, pages)


def test_unknown_aggregations_and_budgets_are_refused() -> None:
    with pytest.raises(ConfigError, match="no aggregation 'sum'"):
        score_pages(QUERIES, PAGES, aggregation="sum")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="memory_budget"):
        score_pages(QUERIES, PAGES, memory_budget=0)
