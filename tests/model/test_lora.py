"""LoRA touches the language blocks only; counted at the size of Qwen2.5-VL-3B, on the meta device."""

from __future__ import annotations

import pytest
import torch

import tiny
from varsdoc.errors import ConfigError
from varsdoc.model import LoraSettings, VarsConfig, VarsDoc, trainable_parameters
from varsdoc.model.lora import add_lora
from varsdoc.model.qwen25vl import qwen_3b

LAYERS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def test_at_3b_size_lora_touches_only_language_blocks() -> None:
    with torch.device("meta"):
        model = VarsDoc(VarsConfig(qwen_3b(), variants=5, branch_layers=4), tiny.tokenizer())
        model.set_trainable(LoraSettings())
    names = [name for name, p in model.named_parameters() if p.requires_grad]
    own = [name for name in names if not name.startswith("backbone.")]
    assert {name.split(".")[0] for name in own} == {"probes", "heads", "query_head"}
    touched = [name for name in names if name.startswith("backbone.")]
    assert all(name.startswith("backbone.language_model.layers.") and "lora_" in name for name in touched)
    assert len(touched) == 36 * len(LAYERS) * 2
    attention = 32 * ((2048 + 2048) * 2 + (2048 + 256) * 2)
    feed_forward = 32 * 3 * (2048 + 11008)
    probes_and_heads = 5 * 2048 + 6 * (2048 * 128 + 128)
    trained, total = trainable_parameters(model)
    print(f"trainable at 3B: {trained:,} of {total:,}")
    assert trained == 36 * (attention + feed_forward) + probes_and_heads == 61_451_008
    assert 3.7e9 < total < 3.9e9


def test_without_lora_everything_is_trained_and_vision_on_request() -> None:
    model = tiny.model().set_trainable(None)
    assert all(p.requires_grad == (".visual." not in name) for name, p in model.named_parameters())
    model.set_trainable(None, vision=True)
    assert all(p.requires_grad for p in model.parameters())


def test_lora_with_the_tower_and_another_rank_on_top_are_refused() -> None:
    """An adapter does not hold the tower: it would be trained and lost."""
    with pytest.raises(ConfigError, match="does not hold the vision tower"):
        tiny.model().set_trainable(LoraSettings(r=2), vision=True)
    model = tiny.model().set_trainable(LoraSettings(r=2))
    model.set_trainable(LoraSettings(r=2))
    with pytest.raises(ConfigError, match="has an adapter with r=2"):
        model.set_trainable(LoraSettings(r=16))


def test_a_fresh_adapter_changes_nothing_and_a_moved_one_does() -> None:
    """Through every path: also the first branched block of the inference path runs LoRA's layers."""
    model = tiny.model(3, 2)
    batch = tiny.batch(model)
    with torch.no_grad():
        before = model.forward_pages(batch).vectors
        model.set_trainable(LoraSettings(r=2, alpha=4, init=True))
        torch.testing.assert_close(model.forward_pages(batch).vectors, before, atol=1e-6, rtol=0)
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)))
        expected = model.forward_pages(batch, "reference").vectors
        assert (expected - before).abs().max() > 1e-2
        for path in ("inference", "training"):
            torch.testing.assert_close(model.forward_pages(batch, path).vectors, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("probes", [1, 2])
def test_gradients_with_lora_and_several_probes_equal_the_reference(probes: int) -> None:
    # PEFT's gaussian start (spread 1 / r) is too wild at r = 2: gradients of 1e4 drown the comparison in rounding.
    model = tiny.model(2, 2, probes_per_variant=probes).set_trainable(LoraSettings(r=2, dropout=0.0, init=True))
    batch = tiny.batch(model)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.add_(0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)))
    gradients = []
    for path in ("reference", "training"):
        model.zero_grad()
        model.forward_pages(batch, path).vectors.cumsum(-1).square().sum().backward()  # type: ignore[arg-type]
        gradients.append({n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None})
    assert {"probes", "heads.0.weight"} < gradients[0].keys() == gradients[1].keys()
    for name, expected in gradients[0].items():
        scale = expected.abs().max().clamp(min=1e-3)
        torch.testing.assert_close(gradients[1][name] / scale, expected / scale, atol=1e-4, rtol=0, msg=name)


def test_gradients_reach_lora_probes_and_heads_and_nothing_else() -> None:
    model = tiny.model(3, 2).set_trainable(LoraSettings(r=2))
    pages, queries = model(tiny.batch(model), model.processor.queries([model.processor.query_ids("hello")]))
    (pages.vectors.cumsum(-1).square().sum() + queries.vectors.cumsum(-1).square().sum()).backward()
    with_gradient = {name for name, p in model.named_parameters() if p.grad is not None}
    assert with_gradient == {name for name, p in model.named_parameters() if p.requires_grad}
    assert model.probes.grad is not None
    assert (model.probes.grad.abs().sum(-1) > 0).all()


def test_wrong_lora_settings_are_refused() -> None:
    model = tiny.model()
    with pytest.raises(ConfigError, match="r=0"):
        add_lora(model.backbone, LoraSettings(r=0))
    add_lora(model.backbone, LoraSettings(r=2))
    with pytest.raises(ConfigError, match="already"):
        add_lora(model.backbone, LoraSettings(r=2))
