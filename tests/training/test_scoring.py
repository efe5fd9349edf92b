"""Bounded all-pairs MaxSim: the reference's values, plain autograd's gradients, no similarity kept."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from varsdoc.scoring import score_pages
from varsdoc.training.scoring import _by_indices, _by_products, score_all


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


@pytest.mark.parametrize("chunk_bytes", [1, 10**9])
@pytest.mark.parametrize("wanted", [True, False])
def test_gradients_by_products_are_those_by_indices(wanted: bool, chunk_bytes: int) -> None:
    generator = torch.Generator().manual_seed(3)
    tokens, pages = torch.randn(20, 8, generator=generator), torch.randn(6, 3, 7, 8, generator=generator)
    winners = torch.randint(0, 7, (6, 3, 20), generator=generator, dtype=torch.int32)
    weight = torch.randn(6, 3, 20, generator=generator)
    ours = _by_products(tokens, pages, winners, weight, wanted, chunk_bytes)
    plain = _by_indices(tokens, pages, winners, weight, wanted, chunk_bytes)
    assert (ours[1] is not None) is wanted
    for a, b in zip(ours, plain, strict=True):
        torch.testing.assert_close(a, b)


def test_the_kernel_finds_the_winners() -> None:
    """On a GPU, else in Triton's interpreter."""
    pytest.importorskip("triton", reason="triton is not installed")
    from varsdoc.training.winners import winners

    device = "cuda" if torch.cuda.is_available() else "cpu"
    generator = torch.Generator().manual_seed(4)
    tokens = torch.randn(150, 32, generator=generator).half().to(device)
    pages = torch.randn(3, 2, 100, 32, generator=generator).half().to(device)
    mask = (torch.rand(3, 100, generator=generator) < 0.8).to(device)
    mask[2] = False
    best, index = winners(tokens, pages, mask)
    similarity = torch.einsum("nd,pkmd->pknm", tokens.float(), pages.float())
    wanted = similarity.masked_fill(~mask[:, None, None], -torch.inf).max(-1)
    torch.testing.assert_close(best, wanted.values, atol=1e-3, rtol=0)
    assert (index.long() == wanted.indices)[:2].all()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no CUDA device")
def test_a_gpu_scores_and_teaches_as_the_reference_does() -> None:
    generator = torch.Generator().manual_seed(5)
    queries = torch.nn.functional.normalize(torch.randn(9, 20, 128, generator=generator), dim=-1)
    pages = torch.nn.functional.normalize(torch.randn(5, 3, 150, 128, generator=generator), dim=-1)
    query_mask = torch.rand(9, 20, generator=generator) < 0.8
    page_mask = torch.rand(5, 150, generator=generator) < 0.8
    inputs = [x.bfloat16().cuda().requires_grad_() for x in (queries, pages)]
    plain = [x.detach().float().cpu().requires_grad_() for x in inputs]
    weight = torch.randn(9, 5, 3, generator=generator)
    scores = score_all(inputs[0], query_mask.cuda(), inputs[1], page_mask.cuda())
    expected = score_all(plain[0], query_mask, plain[1], page_mask)
    torch.testing.assert_close(scores.cpu(), expected, atol=1e-3, rtol=0)
    ours = torch.autograd.grad((scores * weight.cuda()).sum(), inputs)
    theirs = torch.autograd.grad((expected * weight).sum(), plain)
    for a, b in zip(ours, theirs, strict=True):
        assert (a.float().cpu() - b).norm() / b.norm() < 0.01
