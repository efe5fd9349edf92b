"""Bounded all-pairs MaxSim: the reference's values, plain autograd's gradients, no similarity kept."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from varsdoc.scoring import score_pages
from varsdoc.training.scoring import score_all


def case(seed: int = 0, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    queries = torch.randn(4, 5, 8, generator=generator, dtype=dtype)
    pages = torch.randn(6, 3, 7, 8, generator=generator, dtype=dtype)
    query_mask = torch.arange(5) >= torch.tensor([0, 2, 1, 4])[:, None]
    page_mask = torch.arange(7) >= torch.tensor([0, 3, 6, 1, 2, 0])[:, None]
    queries, pages = queries * query_mask[..., None], pages * page_mask[:, None, :, None]
    return queries.requires_grad_(), query_mask, pages.requires_grad_(), page_mask


def naive(queries: Tensor, query_mask: Tensor, pages: Tensor, page_mask: Tensor) -> Tensor:
    similarity = torch.einsum("qtd,pkmd->qpktm", queries, pages)
    best = similarity.masked_fill(~page_mask[None, :, None, None, :], -torch.inf).amax(-1)
    return (best * query_mask[:, None, None, :]).sum(-1)


@pytest.mark.parametrize("chunk_bytes", [1, 4000, 10**9])
def test_values_are_the_reference_scores(chunk_bytes: int) -> None:
    queries, query_mask, pages, page_mask = case()
    ours = score_all(queries, query_mask, pages, page_mask, chunk_bytes)
    reference = score_pages(
        [q[mask].detach() for q, mask in zip(queries, query_mask, strict=True)],
        [p[:, mask].detach() for p, mask in zip(pages, page_mask, strict=True)],
    )
    torch.testing.assert_close(ours, reference.variants)


@pytest.mark.parametrize("chunk_bytes", [1, 4000, 10**9])
def test_gradients_are_those_of_plain_autograd(chunk_bytes: int) -> None:
    inputs = case(1, torch.float64)
    weight = torch.randn(4, 6, 3, dtype=torch.float64)
    ours = torch.autograd.grad((score_all(*inputs, chunk_bytes) * weight).sum(), (inputs[0], inputs[2]))
    plain = torch.autograd.grad((naive(*inputs) * weight).sum(), (inputs[0], inputs[2]))
    for a, b in zip(ours, plain, strict=True):
        torch.testing.assert_close(a, b)


def test_no_similarity_survives_the_forward_pass() -> None:
    inputs = case(2)
    saved: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: saved.append(x.numel()) or x, lambda x: x):
        score_all(*inputs)
    assert max(saved) < 4 * 5 * 6 * 3 * 7  # queries x tokens x pages x variants x page tokens


def test_sums_of_bfloat16_vectors_are_not_rounded_to_eighths() -> None:
    """Thirty tokens that fit one page by a hundredth more than the other: in bfloat16 both sums would be 27."""
    queries = torch.ones(1, 30, 1, dtype=torch.bfloat16).requires_grad_()
    pages = torch.tensor([0.8984375, 0.90234375], dtype=torch.bfloat16).view(2, 1, 1, 1).requires_grad_()
    every = torch.ones(2, 1, dtype=torch.bool)
    scores = score_all(queries, torch.ones(1, 30, dtype=torch.bool), pages, every)
    assert scores.dtype == torch.float32
    assert scores.flatten().tolist() == [30 * 0.8984375, 30 * 0.90234375]
    to_queries, to_pages = torch.autograd.grad(scores.sum(), (queries, pages))
    assert (to_queries.dtype, to_pages.dtype) == (torch.bfloat16, torch.bfloat16)
    assert to_pages.flatten().tolist() == [30.0, 30.0]
