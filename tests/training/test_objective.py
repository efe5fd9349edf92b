"""The step's loss: false negatives, terms, and grad_cache against one large batch."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from training.tiny import draw_page, question, tensors, tiny_model
from varsdoc.model import Encoded, LoraSettings, VarsDoc
from varsdoc.training.config import LossConfig
from varsdoc.training.data import Batch, Collate, Example, text_id
from varsdoc.training.embed import embed
from varsdoc.training.objective import PairIds, StepLoss, step_loss

LOSSES = [
    LossConfig(kind="pairwise"),
    LossConfig(kind="infonce", balance=3.0, diversity=2.0, gamma=5.0),
    LossConfig(
        kind="infonce",
        score="mean",
        temperature=0.05,
        hardness="normalised",
        balance_temperature=0.1,
        gamma_score="mean",
    ),
]


def batches(model: VarsDoc, count: int, micro_batch: int | None) -> tuple[Batch, ...]:
    examples = [Example(str(i), model.processor.page(draw_page(i)), f"page {i}", question(i)) for i in range(count)]
    return Collate(model.processor, micro_batch)(examples)


def run(model: VarsDoc, config: LossConfig, parts: tuple[Batch, ...]) -> tuple[StepLoss, dict[str, Tensor]]:
    model.zero_grad()
    model.train()
    embedded = embed(model, parts)
    ids = PairIds(torch.cat([b.ids.page for b in parts]), torch.cat([b.ids.text for b in parts]))
    loss = step_loss(*embedded.joined(), ids, config)
    loss.total.backward()
    embedded.backward()
    return loss, {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def same_gradients(ours: dict[str, Tensor], theirs: dict[str, Tensor], bound: float = 1e-4) -> None:
    assert set(ours) == set(theirs)
    largest = max(grad.abs().max().item() for grad in theirs.values())
    for name, grad in theirs.items():
        assert (ours[name] - grad).abs().max().item() <= bound * max(largest, 1e-3), name


@pytest.mark.parametrize("config", LOSSES, ids=["pairwise", "paper", "normalised"])
@pytest.mark.parametrize("micro_batch", [1, 2, 4])
def test_grad_cache_equals_one_large_batch(config: LossConfig, micro_batch: int) -> None:
    model = tiny_model(variants=3, branch_layers=2, heads="separate")
    model.set_trainable(None, vision=True)
    whole, expected = run(model, config, batches(model, 6, None))
    cached, grads = run(model, config, batches(model, 6, micro_batch))
    assert cached.value.item() == pytest.approx(whole.value.item(), abs=1e-4)
    same_gradients(grads, expected)


def test_grad_cache_draws_the_same_dropout_twice() -> None:
    """With dropout the second pass must be the first one again: its embeddings are those that the loss has seen."""
    model = tiny_model(variants=2, branch_layers=2, heads="separate")
    torch.manual_seed(0)
    model.set_trainable(LoraSettings(r=4, alpha=64, dropout=0.5, init=False))
    model.train()
    seen: list[Tensor] = []
    handle = model.register_forward_hook(lambda _, __, output: seen.append(output[0].vectors.detach().clone()))
    embedded = embed(model, batches(model, 4, 2))
    step_loss(*embedded.joined(), PairIds(torch.arange(4), torch.arange(4)), LOSSES[1]).total.backward()
    before = torch.get_rng_state()
    embedded.backward()
    handle.remove()
    assert torch.equal(before, torch.get_rng_state())
    torch.testing.assert_close(seen[0], seen[2], rtol=0, atol=0)
    torch.testing.assert_close(seen[1], seen[3], rtol=0, atol=0)
    assert not torch.equal(seen[0], model(*tensors(model, range(2)), path="training")[0].vectors)


def test_gradient_checkpointing_changes_nothing() -> None:
    model = tiny_model(variants=3, branch_layers=2, heads="separate")
    model.set_trainable(None)
    _, expected = run(model, LOSSES[1], batches(model, 4, None))
    model.backbone.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    _, grads = run(model, LOSSES[1], batches(model, 4, None))
    same_gradients(grads, expected, 1e-6)


def test_gradients_of_the_training_path_are_the_references() -> None:
    model = tiny_model(variants=3, branch_layers=2, heads="separate")
    model.set_trainable(None)
    pages, queries = tensors(model, range(4))
    ids = PairIds(torch.arange(4), torch.arange(4))
    grads = []
    for path in ("reference", "training"):
        model.zero_grad()
        encoded = model(pages, queries, path=path)
        step_loss(*encoded, ids, LOSSES[1]).total.backward()
        grads.append({name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None})
    for part in ("probes", "heads.0", "heads.2", "query_head", "q_proj", "k_proj", "v_proj"):
        names = [name for name in grads[0] if part in name and name.endswith(("probes", "weight"))]
        assert names
        assert any(grads[0][name].abs().max() > 1e-3 for name in names)
    same_gradients(grads[1], grads[0])


def test_a_page_and_a_question_are_no_negatives_of_themselves() -> None:
    """Four pairs of which two share the page and two the words: a copy of the positive must not count against it."""
    model = tiny_model()
    rows = [(0, "what is red"), (0, "how red"), (1, "What  is red"), (2, "what is blue")]
    examples = [Example(str(i), model.processor.page(draw_page(p)), f"p{p}", text) for i, (p, text) in enumerate(rows)]
    (batch,) = Collate(model.processor)(examples)
    assert batch.ids.text[0] == batch.ids.text[2]
    with torch.no_grad():
        pages, queries = model(batch.pages, batch.queries, path="training")
    loss = step_loss(pages, queries, batch.ids, LossConfig(kind="infonce", hardness="none", balance=0, diversity=0))
    sums = torch.stack([(q @ p[0].T)[:, m].amax(1).sum() for q, p, m in _pairs(queries, pages)]).view(4, 4)
    negatives = {0: [3], 1: [2, 3], 2: [1, 3], 3: [0, 1, 2]}
    expected = [
        torch.log(1 + sum((sums[i, j] - sums[i, i]).exp() for j in wrong)).item() for i, wrong in negatives.items()
    ]
    assert loss.retrieval.item() == pytest.approx(sum(expected) / 4, abs=1e-5)


def _pairs(queries, pages):  # type: ignore[no-untyped-def]
    for query, tokens in zip(queries.vectors, queries.mask, strict=True):
        for page, mask in zip(pages.vectors, pages.mask, strict=True):
            yield query[tokens], page, mask


def test_usage_and_ties_are_counted_on_gold_pairs() -> None:
    vectors = torch.zeros(2, 3, 1, 2)
    vectors[0, :, 0] = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])  # variant 0 wins for query (1, 0)
    vectors[1, :, 0] = torch.tensor([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0]])  # variants 0 and 1 tie for query (0, 1)
    pages = Encoded(vectors, torch.ones(2, 1, dtype=torch.bool))
    queries = Encoded(torch.eye(2)[:, None], torch.ones(2, 1, dtype=torch.bool))
    loss = step_loss(pages, queries, PairIds(torch.arange(2), torch.arange(2)), LossConfig())
    assert loss.wins.tolist() == [1.0, 0.0, 0.0]
    assert loss.tie_rate.item() == 0.5
    assert loss.tie_rate_mean.item() == 0.5


def test_ids_are_the_same_in_every_process() -> None:
    assert text_id("page 1") == 2807186217229959362
