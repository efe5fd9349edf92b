"""Telling which pages print a word: against a naive float64 definition, values and gradients; and its masks."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from varsdoc.training.reading.assignment import assignment, even_split
from varsdoc.training.reading.bank import Bank, Ranked, score_parts
from varsdoc.training.reading.step import text_numbers, wrong_pages
from varsdoc.training.reading.tell import tell
from varsdoc.training.reading.words import BITS, presence, prints, word_key


def naive(
    tokens: Tensor, keys: Tensor, known: Tensor, pages: Tensor, mask: Tensor, temperature: float, variants: str
) -> tuple[float, float, Tensor]:
    """The definition, word by word, in loops."""
    lost, first = [], []
    for b in range(len(tokens)):
        n = 0
        while n < keys.shape[1]:
            end = n
            while end < keys.shape[1] and keys[b, end] == keys[b, n]:
                end += 1
            wrong = [p for p in range(len(pages)) if not known[b, n, p] and p != b]
            if keys[b, n] >= 0 and wrong:
                scores = torch.stack(
                    [
                        torch.stack(
                            [(tokens[b, n:end] @ pages[p, k][mask[p]].T).amax(1).mean() for k in range(pages.shape[1])]
                        )
                        for p in range(len(pages))
                    ]
                )  # (P, K)
                each = [scores.amax(1)] if variants == "best" else list(scores.T)
                rows = [-(s[[b, *wrong]] / temperature).log_softmax(0)[0] for s in each]
                lost.append(torch.stack(rows).mean())
                best = scores.amax(1)
                first.append(float(all(best[b] > best[p] for p in wrong)))
            n = end
    loss = torch.stack(lost).mean()
    return loss.item(), sum(first) / len(first), loss


@pytest.mark.parametrize("variants", ["best", "each"])
@pytest.mark.parametrize("k", [1, 5])
def test_tell_is_its_definition_in_values_and_gradients(k: int, variants: str) -> None:
    generator = torch.Generator().manual_seed(k)
    b, n, m, d = 4, 9, 6, 8

    def unit(*size: int) -> Tensor:
        made = torch.randn(*size, d, generator=generator, dtype=torch.float64)
        return torch.nn.functional.normalize(made, dim=-1).requires_grad_()

    tokens, pages = unit(b, n), unit(b, k, m)
    keys = torch.tensor(
        [[-1, 5, 5, 6, 7, 7, 7, -1, -1], [8] * 9, [-1, 1, 2, 3, 1, 2, 3, 1, 2], [-1, 4, 4, 9, 9, -1, -1, -1, -1]]
    )
    mask = torch.ones(b, m, dtype=torch.bool)
    mask[1, 4:] = False
    by_word = torch.rand(10, b, generator=generator) < 0.3
    by_word[9] = True  # printed everywhere: costs nothing
    known = by_word[keys.clamp(min=0)] & (keys >= 0)[..., None]
    known |= torch.eye(b, dtype=torch.bool)[:, None]
    loss, share = tell(tokens, keys, known, [(pages, mask)], 0.1, variants)  # type: ignore[arg-type]
    wanted, first, graph = naive(tokens, keys, known, pages, mask, 0.1, variants)
    assert loss.item() == pytest.approx(wanted, abs=1e-5)  # scores are taken to float32
    assert share.item() == pytest.approx(first)
    ours = torch.autograd.grad(loss, (tokens, pages))
    theirs = torch.autograd.grad(graph, (tokens, pages))
    for a, c in zip(ours, theirs, strict=True):
        assert c.abs().max() > 1e-3
        torch.testing.assert_close(a, c, atol=1e-5, rtol=0)


@pytest.mark.parametrize("variants", ["best", "each"])
def test_pages_of_earlier_steps_are_wrong_answers_without_a_gradient(variants: str) -> None:
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randn(2, 6, 8, generator=generator, requires_grad=True)
    pages = torch.randn(5, 3, 7, 8, generator=generator, requires_grad=True)
    keys = torch.tensor([[1, 1, 2, 3, -1, 4], [5, 6, 6, 7, 8, 8]])
    known = torch.rand(2, 6, 5, generator=generator) < 0.2
    known[1, 2] = known[1, 1]  # tokens of one word agree
    known[0, 1], known[1, 5] = known[0, 0], known[1, 4]
    mask = torch.ones(5, 7, dtype=torch.bool)
    mask[3, 5:] = False
    wanted, first, graph = naive(tokens, keys, known, pages, mask, 0.1, variants)
    own, rest = pages[:2], pages[2:].detach()
    parts = [(own, mask[:2]), (rest[:1], mask[2:3]), (rest[1:], mask[3:])]
    loss, share = tell(tokens, keys, known, parts, 0.1, variants)  # type: ignore[arg-type]
    assert (loss.item(), share.item()) == (pytest.approx(wanted, abs=1e-5), pytest.approx(first))
    ours = torch.autograd.grad(loss, (tokens, pages))
    theirs = torch.autograd.grad(graph, (tokens, pages))
    torch.testing.assert_close(ours[0], theirs[0], atol=1e-5, rtol=0)
    torch.testing.assert_close(ours[1][:2], theirs[1][:2], atol=1e-5, rtol=0)
    assert not ours[1][2:].any()


def test_a_bank_keeps_the_last_steps_and_no_gradient() -> None:
    bank, nothing = Bank(2), torch.empty(0)
    parts = [Ranked(torch.randn(2, 3, 4, 8, requires_grad=True), torch.ones(2, 4).bool(), *[nothing] * 3)] * 3
    for part in parts:
        bank.add(part)
    assert len(list(bank)) == 2
    assert not any(part.vectors.requires_grad for part in bank)
    queries, mask = torch.randn(5, 6, 8), torch.ones(5, 6).bool()
    each = score_parts(queries, mask, [part.each for part in bank])
    assert each.shape == (5, 4, 3)
    token_best = torch.einsum("qtd,pkmd->qptkm", queries, parts[0].vectors).flatten(3).amax(-1)
    torch.testing.assert_close(score_parts(queries, mask, [parts[0].fused])[..., 0], token_best.sum(-1))
    empty = Bank(0)
    empty.add(parts[0])
    assert not list(empty)


def test_nothing_to_tell_costs_nothing() -> None:
    tokens, pages = torch.randn(2, 3, 4, requires_grad=True), torch.randn(2, 1, 5, 4, requires_grad=True)
    mask = torch.ones(2, 5, dtype=torch.bool)
    for keys, known in ((torch.full((2, 3), -1), False), (torch.full((2, 3), 7), True)):
        loss, share = tell(tokens, keys, torch.full((2, 3, 2), known), [(pages, mask)], 0.05)
        assert (loss.item(), share.item()) == (0, 0)
        for grad in torch.autograd.grad(loss, (tokens, pages)):
            assert torch.isfinite(grad).all()


def test_a_page_prints_its_words_and_hardly_any_others() -> None:
    words = [f"word{i}" for i in range(400)]
    present = torch.from_numpy(presence(word_key(word) for word in words))[None]
    assert present.shape == (1, BITS // 8)
    assert prints(present, torch.tensor([word_key(word) for word in words])).all()
    others = torch.tensor([word_key(f"other{i}") for i in range(4000)])
    assert prints(present, others).float().mean() < 0.02


def test_a_page_that_prints_all_a_query_names_is_no_wrong_answer() -> None:
    net, sales, europe = (word_key(word) for word in ("net", "sales", "europe"))
    pages = [[net, sales], [net, sales, europe], [net], [sales, net]]
    present = torch.stack([torch.from_numpy(presence(page)) for page in pages])
    ids = torch.tensor([[5, 6, -1], [5, 6, 7], [5, -1, -1], [9, 9, 9]])
    keys = torch.tensor([[net, sales, -1], [net, sales, europe], [net, -1, -1], [-1, -1, -1]])
    nothing = torch.empty(4, 0)
    number = torch.tensor([1, 2, 3, 1])  # page 3 is another view of page 0
    texts = text_numbers(ids)[:, None]
    step, earlier = Ranked(nothing, nothing, number, present, texts), Ranked(nothing, nothing, number, present, texts)
    wrong = [
        [0, 0, 1, 0],  # net sales: page 2 alone lacks sales
        [1, 0, 1, 1],
        [0, 0, 0, 0],  # every page prints net
        [0, 1, 1, 0],  # names nothing: its own page in both views
    ]
    assert wrong_pages(keys, 1, [step]).int().tolist() == wrong
    assert wrong_pages(keys, 1, [step, earlier]).int().tolist() == [row * 2 for row in wrong]


def test_an_even_split_is_even_and_follows_the_scores() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(200, 5, generator=generator) + torch.tensor([3.0, 0, 0, 0, 0])  # one variant wins nearly all
    split = even_split(scores, rounds=30)
    torch.testing.assert_close(split.sum(1), torch.ones(200), atol=1e-4, rtol=0)
    torch.testing.assert_close(split.sum(0), torch.full((5,), 40.0), atol=0.5, rtol=0)
    assert split[scores[:, 0].argmax(), 0] > split[scores[:, 0].argmin(), 0]
    own = torch.full((40, 3), 0.5)
    own += 0.001 * torch.randn(40, 3, generator=generator)
    own.requires_grad_()
    before = own.detach().argmax(1)
    (grad,) = torch.autograd.grad(assignment(own, 0.02), own)
    assert ((-grad).argmax(1) == before).float().mean() > 0.8, "whoever leads a little is pushed up"


def test_whoever_minimises_it_tells_which_pages_print_a_word() -> None:
    """Free vectors for words and cells: nothing but the loss says which of them belong together."""
    generator = torch.Generator().manual_seed(0)
    kinds, count, cells, d = 40, 8, 12, 16
    words = torch.stack([torch.randperm(kinds, generator=generator)[:cells] for _ in range(count)])  # (P, cells)
    known = (words[:, :, None, None] == words[None, None]).any(-1)  # (B, N, P)
    vectors = torch.randn(kinds, d, generator=generator).requires_grad_()
    pages = torch.randn(count, 1, cells, d, generator=generator).requires_grad_()
    optimiser = torch.optim.Adam([vectors, pages], lr=0.05)
    mask = torch.ones(count, cells, dtype=torch.bool)
    shares = []
    for _ in range(120):
        unit = torch.nn.functional.normalize
        loss, share = tell(unit(vectors[words], dim=-1), words, known, [(unit(pages, dim=-1), mask)], 0.05)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        shares.append(share.item())
    assert shares[0] < 0.4
    assert shares[-1] > 0.97
