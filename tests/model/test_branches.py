"""The paper's masks, and the fast paths that must equal them."""

from __future__ import annotations

import pytest
import torch

import tiny
from varsdoc.errors import ConfigError
from varsdoc.model import VarsDoc
from varsdoc.model.attention import causal_with_lse, causal_with_lse_reference, merge_keys
from varsdoc.model.branches import Plan, _shared
from varsdoc.model.qwen25vl import Qwen25VL
from varsdoc.model.varsdoc import _gather, _to_right

FAST = ("inference", "training")
PLANS = [(k, n) for k in (1, 3, 5) for n in range(tiny.BLOCKS + 1)]


@pytest.mark.parametrize(("variants", "branch_layers"), PLANS)
@torch.no_grad()
def test_fast_paths_equal_the_reference(variants: int, branch_layers: int) -> None:
    model = tiny.model(variants, branch_layers)
    batch = tiny.batch(model)
    assert not batch.mask.all(), "the batch must have padding, or padding is not tested"
    assert not batch.mask[:, 0].all()
    assert batch.mask[:, -1].all(), "padding is left"
    expected = model.forward_pages(batch, "reference")
    assert expected.vectors.shape == (4, variants, batch.mask.shape[1], 16)
    for path in FAST:
        actual = model.forward_pages(batch, path)
        assert torch.equal(actual.mask, expected.mask)
        torch.testing.assert_close(actual.vectors, expected.vectors, atol=1e-5, rtol=0)


@pytest.mark.parametrize("branch_layers", [1, 2, 4])
@torch.no_grad()
def test_several_probes_in_one_stream_equal_the_reference(branch_layers: int) -> None:
    """The ablation "probing": one variant that sees five probes; and the general case of two probes a variant."""
    for variants, each in ((1, 5), (2, 2)):
        model = tiny.model(variants, branch_layers, probes_per_variant=each)
        assert model.probes.shape[0] == variants * each
        batch = tiny.batch(model)
        expected = model.forward_pages(batch, "reference").vectors
        for path in FAST:
            torch.testing.assert_close(model.forward_pages(batch, path).vectors, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize(("variants", "branch_layers"), PLANS)
def test_gradients_of_the_training_path_equal_the_reference(variants: int, branch_layers: int) -> None:
    """Every trainable tensor: probes, q/k/v, feed-forward, heads, vision. The loss weighs each variant differently."""
    model = tiny.model(variants, branch_layers).set_trainable(None, vision=True)
    batch = tiny.batch(model)
    weights = torch.randn(4, variants, batch.mask.shape[1], 16, generator=torch.Generator().manual_seed(1))

    def gradients(path: str) -> dict[str, torch.Tensor]:
        model.zero_grad()
        (model.forward_pages(batch, path).vectors * weights).sum().backward()  # type: ignore[arg-type]
        return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}

    expected, actual = gradients("reference"), gradients("training")
    assert expected.keys() == actual.keys()
    if branch_layers:
        assert expected["probes"].abs().sum() > 0
    for name, gradient in expected.items():
        scale = max(1.0, gradient.abs().max().item())
        torch.testing.assert_close(actual[name] / scale, gradient / scale, atol=1e-4, rtol=0, msg=name)


def test_queries_take_gradients_like_the_reference() -> None:
    model = tiny.model().set_trainable(None)
    batch = model.processor.queries(
        [model.processor.query_ids(t) for t in ("a short one", "a question that is longer")]
    )
    gradients = []
    for path in ("reference", "training"):
        model.zero_grad()
        model.forward_queries(batch, path).vectors.square().cumsum(-1).sum().backward()  # type: ignore[arg-type]
        assert model.query_head is not None
        gradients.append(
            (model.query_head.weight.grad, model.backbone.language_model.layers[0].self_attn.q_proj.weight.grad)
        )
    for expected, actual in zip(*gradients, strict=True):
        torch.testing.assert_close(actual, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("branch_layers", range(1, tiny.BLOCKS + 1))
@torch.no_grad()
def test_a_hidden_probe_leaves_the_page_as_the_plain_backbone_has_it(branch_layers: int) -> None:
    """Before the branch, at every depth, document states are those of transformers without any probe."""
    model = tiny.model(3, branch_layers)
    batch = tiny.batch(model)
    backbone = Qwen25VL(model.backbone)
    hidden = backbone.embed_pages(batch, model.config.image_mean, model.config.image_std)
    right = _to_right(batch.mask)
    arguments = (
        _gather(hidden, right),
        batch.positions.gather(2, right.expand(3, -1, -1)),
        batch.mask.gather(1, right),
    )
    rows, _, _ = _shared(backbone, *arguments, model.probes, Plan(3, branch_layers, 1))
    stock = tiny.stock_copy(model).language_model(
        inputs_embeds=hidden, position_ids=batch.positions, attention_mask=batch.mask.long(), output_hidden_states=True
    )
    depth = tiny.BLOCKS - branch_layers
    documents = _gather(rows[:, : hidden.shape[1]], torch.argsort(right, dim=1))
    torch.testing.assert_close(documents[batch.mask], stock.hidden_states[depth][batch.mask], atol=1e-5, rtol=0)


@pytest.mark.parametrize("variants", [1, 3])
@torch.no_grad()
def test_no_probe_appended_is_the_plain_backbone_exactly(variants: int) -> None:
    """branch_layers = 0 is plain ColQwen2.5 (K = 1), or K projections of the same states."""
    model = tiny.model(variants, 0)
    assert model.probes.numel() == 0
    batch = tiny.batch(model)
    hidden = Qwen25VL(model.backbone).embed_pages(batch, model.config.image_mean, model.config.image_std)
    stock = tiny.stock_copy(model).language_model(
        inputs_embeds=hidden, position_ids=batch.positions, attention_mask=batch.mask.long()
    )
    states = model.page_states(batch, "reference")
    for k in range(variants):
        assert torch.equal(states[k][batch.mask], stock.last_hidden_state[batch.mask])
    for path in FAST:
        fast = model.page_states(batch, path)  # type: ignore[arg-type]
        torch.testing.assert_close(fast[0][batch.mask], stock.last_hidden_state[batch.mask], atol=1e-5, rtol=0)


@torch.no_grad()
def states_before_branch(model: VarsDoc, path: str) -> torch.Tensor:
    """What leaves block L-n, documents only, in each path's own layout."""
    seen: list[torch.Tensor] = []
    layer = model.backbone.language_model.layers[model.config.blocks - model.config.branch_layers - 1]
    handle = layer.register_forward_hook(lambda module, args, output: seen.append(output.clone()))
    batch = tiny.batch(model)
    model.forward_pages(batch, path)  # type: ignore[arg-type]
    handle.remove()
    assert len(seen) == 1, "shared blocks run once for all branches"
    return seen[0][:, : batch.mask.shape[1]]


@pytest.mark.parametrize("path", ["reference", *FAST])
def test_moving_a_probe_never_moves_the_page_before_the_branch(path: str) -> None:
    model = tiny.model(3, 2)
    before = states_before_branch(model, path)
    with torch.no_grad():
        model.probes.add_(5.0)
    assert torch.equal(states_before_branch(model, path), before)


@pytest.mark.parametrize("path", ["reference", *FAST])
@pytest.mark.parametrize("branch_layers", [1, 2, 4])
@torch.no_grad()
def test_branch_k_sees_its_probe_and_no_later_one(path: str, branch_layers: int) -> None:
    """Probe j moves branch j, may move later branches (their probes read it), and never an earlier one."""
    model = tiny.model(3, branch_layers)
    batch = tiny.batch(model)
    before = model.forward_pages(batch, path).vectors  # type: ignore[arg-type]
    for j in range(3):
        probes = model.probes.clone()
        model.probes[j] += torch.randn(64, generator=torch.Generator().manual_seed(j))
        moved = (model.forward_pages(batch, path).vectors - before).abs().amax(dim=(0, 2, 3))  # type: ignore[arg-type]
        model.probes.copy_(probes)
        assert (moved[:j] < 1e-6).all(), f"probe {j} moved an earlier branch: {moved}"
        assert moved[j] > 1e-2, f"probe {j} did not move its own branch: {moved}"


@torch.no_grad()
def test_every_document_token_sees_the_probe() -> None:
    """Also the first: the branch mask is not causal for the probe."""
    model = tiny.model(1, 1)
    batch = tiny.batch(model)
    before = model.forward_pages(batch).vectors
    model.probes.add_(torch.randn(64, generator=torch.Generator().manual_seed(0)))
    moved = (model.forward_pages(batch).vectors - before).abs().amax(-1)[:, 0]
    assert (moved[batch.mask] > 1e-6).all()


@pytest.mark.parametrize("path", ["reference", *FAST])
@torch.no_grad()
def test_batch_size_padding_and_order_change_nothing(path: str) -> None:
    model = tiny.model(3, 2)
    pages = [model.processor.page(tiny.page(h, w, i)) for i, (h, w) in enumerate(tiny.PAGE_SIZES)]

    def encode(order: list[int]) -> dict[int, torch.Tensor]:
        out = model.forward_pages(model.processor.pages([pages[i] for i in order]), path)  # type: ignore[arg-type]
        return {i: v[:, m] for i, v, m in zip(order, out.vectors, out.mask, strict=True)}

    alone = {i: encode([i])[i] for i in range(4)}
    for order in ([0, 1, 2, 3], [3, 1, 0, 2], [2, 1]):
        for i, vectors in encode(order).items():
            torch.testing.assert_close(vectors, alone[i], atol=1e-5, rtol=0)


def test_the_inference_path_refuses_gradients() -> None:
    """The fused log-sum-exp would back-propagate without an error, and wrong."""
    model = tiny.model().set_trainable(None)
    with pytest.raises(RuntimeError, match="no gradient"):
        model.forward_pages(tiny.batch(model), "inference")


def test_attention_that_was_switched_off_is_noticed() -> None:
    model = tiny.model()
    tiny.stock_copy(model, "eager")
    model.encode_queries(["another model with the same config changes nothing"])
    model.backbone.set_attn_implementation("eager")
    with pytest.raises(ConfigError, match="switched to 'eager'"):
        model.encode_queries(["the mask would be ignored"])


def test_the_path_is_chosen_by_whether_a_gradient_is_wanted() -> None:
    model = tiny.model().set_trainable(None)
    assert model.forward_pages(tiny.batch(model)).vectors.requires_grad
    with torch.no_grad():
        assert not model.forward_pages(tiny.batch(model)).vectors.requires_grad


def test_gradient_checkpointing_changes_no_gradient() -> None:
    model = tiny.model(3, 2).set_trainable(None).train()
    batch = tiny.batch(model)

    def probe_gradient() -> torch.Tensor:
        model.zero_grad()
        model.forward_pages(batch).vectors.cumsum(-1).square().sum().backward()
        assert model.probes.grad is not None
        return model.probes.grad.clone()

    plain = probe_gradient()
    model.backbone.gradient_checkpointing_enable()
    torch.testing.assert_close(probe_gradient(), plain, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("probes", [1, 3])
def test_merging_keys_equals_attention_over_all_of_them(probes: int) -> None:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 4, 37, 16, generator=generator) for _ in range(3))
    extra_k, extra_v = (torch.randn(2, 4, probes, 16, generator=generator) for _ in range(2))
    out, lse = causal_with_lse(q, k, v, 0.25)
    logits = q @ extra_k.transpose(2, 3) * 0.25
    merged = merge_keys(out, lse, logits, extra_v)
    future = torch.ones(37, 37, dtype=torch.bool).triu(1)
    dense = torch.cat([(q @ k.transpose(2, 3) * 0.25).masked_fill(future, float("-inf")), logits], 3).softmax(-1)
    torch.testing.assert_close(merged, dense @ torch.cat([v, extra_v], 2), atol=1e-5, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_fused_log_sum_exp_equals_the_one_written_out(dtype: torch.dtype) -> None:
    q, k, v = (torch.randn(2, 3, 70, 16, generator=torch.Generator().manual_seed(i)).to(dtype) for i in range(3))
    out, lse = causal_with_lse(q, k, v, 0.25)
    expected_out, expected_lse = causal_with_lse_reference(q, k, v, 0.25)
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(lse, expected_lse, atol=tolerance, rtol=0)
    torch.testing.assert_close(out, expected_out, atol=tolerance, rtol=0)
