"""Products through oneDNN are torch's own within rounding, and only where no gradient is wanted."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import tiny
from varsdoc.model import onednn
from varsdoc.model.onednn import FEED_FORWARD_ROWS, LONG, OneDnnLinear
from varsdoc.model.qwen25vl import TextFeedForward, VisionFeedForward


def test_it_is_used_where_there_is_avx_512() -> None:
    """Otherwise every test below would be skipped, or compare torch with itself, and nobody would see it."""
    if torch.backends.cpu.get_cpu_capability() == "AVX512":
        assert onednn.available()


needs_onednn = pytest.mark.skipif(not onednn.available(), reason="this processor or torch has no AVX-512 oneDNN")


@pytest.fixture
def torch_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onednn, "available", lambda: False)


def test_every_layer_of_a_backbone_asks_onednn_first() -> None:
    model = tiny.model().backbone
    assert not [name for name, child in model.named_modules() if type(child) is nn.Linear]
    assert isinstance(model.visual.blocks[0].mlp, VisionFeedForward)
    assert isinstance(model.language_model.layers[0].mlp, TextFeedForward)
    assert isinstance(model.visual.blocks[0].attn.qkv, OneDnnLinear)


@needs_onednn
@pytest.mark.parametrize("shape", [(0, 24), (1, 24), (700, 24), (2, 3, 24)])
def test_a_layer_is_torchs_own(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    layer = OneDnnLinear(24, 40)
    x = torch.randn(shape)
    with torch.no_grad():
        torch.testing.assert_close(layer(x), F.linear(x, layer.weight, layer.bias), atol=1e-5, rtol=1e-5)
        strided = torch.randn(24, 50).t()
        torch.testing.assert_close(layer(strided), F.linear(strided, layer.weight, layer.bias), atol=1e-5, rtol=1e-5)


@needs_onednn
@pytest.mark.parametrize("rows", [FEED_FORWARD_ROWS, 2 * FEED_FORWARD_ROWS + 7])
def test_a_feed_forward_is_the_stock_one(rows: int) -> None:
    model = tiny.model().backbone
    torch.manual_seed(0)
    for ours in (model.visual.blocks[0].mlp, model.language_model.layers[0].mlp):
        stock = type(ours).__mro__[2]
        x = torch.randn(2, rows // 2 + 1, ours.gate_proj.in_features)
        with torch.no_grad():
            torch.testing.assert_close(ours(x), stock.forward(ours, x), atol=1e-5, rtol=1e-5)


@needs_onednn
def test_long_attention_is_torchs_own() -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, LONG + 45, 2, 16).transpose(1, 2) for _ in range(3))
    with torch.no_grad():
        for scale in (None, 0.3):
            expected = F.scaled_dot_product_attention(q, k, v, scale=scale)
            torch.testing.assert_close(onednn.full_attention(q, k, v, scale), expected, atol=1e-5, rtol=1e-5)


@needs_onednn
def test_a_whole_page_is_the_same_with_and_without(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny.model(variants=3, max_visual_tokens=768)
    page = tiny.page(640, 896)  # enough patches for long attention
    calls: list[str] = []
    for name in ("linear", "_feed_forward"):
        function = getattr(onednn, name)
        monkeypatch.setattr(onednn, name, lambda *a, n=name, f=function, **k: (calls.append(n), f(*a, **k))[1])
    ours = model.encode_pages([page])[0].variants
    assert set(calls) == {"linear", "_feed_forward"}
    question = model.encode_queries(["operating income"])[0]
    monkeypatch.setattr(onednn, "available", lambda: False)
    torch.testing.assert_close(ours, model.encode_pages([page])[0].variants, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(question, model.encode_queries(["operating income"])[0], atol=1e-5, rtol=1e-5)


@needs_onednn
def test_hooks_of_its_layers_are_called() -> None:
    feed_forward = tiny.model().backbone.language_model.layers[0].mlp
    seen: list[int] = []
    feed_forward.gate_proj.register_forward_hook(lambda layer, inputs, output: seen.append(len(output)))
    with torch.no_grad():
        feed_forward(torch.randn(FEED_FORWARD_ROWS, 64))
    assert seen == [FEED_FORWARD_ROWS]


@needs_onednn
def test_a_bias_with_strides_is_read_as_it_is() -> None:
    x, weight, bias = torch.randn(5, 24), torch.randn(40, 24), torch.randn(80)[::2]
    with torch.no_grad():
        torch.testing.assert_close(onednn.linear(x, weight, bias), F.linear(x, weight, bias), atol=1e-5, rtol=1e-5)


@needs_onednn
def test_many_shapes_do_not_fill_the_memory() -> None:
    """In a process of its own, for whoever used oneDNN before has set the size of its caches."""
    code = """
import resource, torch
from varsdoc.model import onednn
weight = torch.randn(512, 384)
def run(lengths):
    with torch.no_grad():
        for n in lengths:
            onednn.linear(torch.randn(n, 384), weight)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
before = run(range(1600, 1700))
print(run(range(1000, 1600)) - before)
"""
    grown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(grown.stdout) < 60, "MiB"


@torch.no_grad()
@pytest.mark.parametrize("path", ["inference", "training"])
def test_autocast_computes_in_its_own_dtype_on_every_path(path: Any) -> None:
    model = tiny.model()
    batch = model.processor.pages([model.processor.page(tiny.page(140, 112))])
    exact = model.forward_pages(batch, "reference").vectors
    with torch.autocast("cpu", torch.bfloat16):
        assert model.backbone.visual.blocks[0].mlp(torch.randn(600, 32)).dtype == torch.bfloat16
        near = model.forward_pages(batch, path).vectors
    assert 0.98 < torch.nn.functional.cosine_similarity(near, exact, dim=-1).min() < 0.999999


def test_gradients_are_torchs_own() -> None:
    torch.manual_seed(0)
    layer = OneDnnLinear(24, 40)
    x = torch.randn(5, 24, requires_grad=True)
    layer(x).pow(2).sum().backward()
    weight = layer.weight.detach().clone().requires_grad_()
    F.linear(x, weight, layer.bias).pow(2).sum().backward()
    assert weight.grad is not None
    torch.testing.assert_close(layer.weight.grad, weight.grad)


def test_other_dtypes_go_the_plain_way() -> None:
    layer = OneDnnLinear(24, 40).to(torch.bfloat16)
    x = torch.randn(5, 24, dtype=torch.bfloat16)
    with torch.no_grad():
        assert torch.equal(layer(x), F.linear(x, layer.weight, layer.bias))


@pytest.mark.usefixtures("torch_only")
def test_a_processor_without_it_computes_as_before() -> None:
    layer = OneDnnLinear(24, 40)
    x = torch.randn(5, 24)
    q = torch.randn(1, 2, LONG, 16)
    with torch.no_grad():
        assert torch.equal(layer(x), F.linear(x, layer.weight, layer.bias))
        assert torch.equal(onednn.full_attention(q, q, q, None), F.scaled_dot_product_attention(q, q, q))


def test_a_backbone_is_copied_and_pickled_as_any_other() -> None:
    model = tiny.model().backbone.visual
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert [type(child) for child in twin.modules()] == [type(child) for child in model.modules()]
        assert all(torch.equal(a, b) for a, b in zip(twin.parameters(), model.parameters(), strict=True))
