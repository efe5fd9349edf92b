"""The int8 option: near float32, and the same whatever stands beside a page in its batch."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch

import tiny
from varsdoc.errors import ConfigError
from varsdoc.model import UntrainedWarning, VarsDoc
from varsdoc.model.int8 import FEW, REST, Int8Linear


def nano(dtype: str, tokens: int | None = None) -> VarsDoc:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrainedWarning)
        return VarsDoc.from_pretrained(device="cpu", dtype=dtype, max_visual_tokens=tokens)


def test_the_nano_model_stays_within_the_bound() -> None:
    """Cosine at least 0.9995 to float32, for every token of every variant and every query token (0.999 is promised)."""
    images = [tiny.page(280, 196), tiny.page(84, 140)]
    exact, quick = nano("float32"), nano("int8")
    assert quick.compute_dtype == "int8"
    assert quick.dtype == torch.float32
    for a, b in zip(exact.encode_pages(images), quick.encode_pages(images), strict=True):
        assert torch.nn.functional.cosine_similarity(a.variants, b.variants, dim=-1).min() >= 0.9995
    text = ["What was the operating income of Europe in 2019?"]
    a, b = exact.encode_queries(text)[0], quick.encode_queries(text)[0]
    assert torch.nn.functional.cosine_similarity(a, b, dim=-1).min() >= 0.9995


def test_a_token_has_its_own_scale_so_neighbours_change_no_bit_of_it() -> None:
    torch.manual_seed(0)
    quick = Int8Linear(torch.nn.Linear(48, 40))
    x = torch.randn(FEW, 48)
    loud = x.clone()
    loud[::2] *= 1000
    assert torch.equal(quick(loud)[1::2], quick(x)[1::2])
    assert torch.equal(quick(x)[7:8], quick(x[7:8]))


def test_loud_pages_in_a_batch_change_nothing_beyond_rounding() -> None:
    """float32 noise between batch shapes can tip a rounding; a scale per tensor would move every token by percents."""
    model = nano("int8", tokens=200)
    page, loud = tiny.page(140, 140), (tiny.page(140, 140, 9) > 127).astype("uint8") * 255
    alone = model.encode_pages([page], batch_tokens=1)[0].variants
    beside = model.encode_pages([loud, page, loud], batch_tokens=10_000)[1].variants
    assert (alone * beside).sum(-1).min() > 0.9995


@pytest.mark.parametrize("rows", [1, 5, FEW])
def test_few_rows_equal_their_quantised_arithmetic_written_out(rows: int) -> None:
    torch.manual_seed(0)
    linear = torch.nn.Linear(48, 40)
    quick = Int8Linear(linear)
    x = torch.randn(rows, 48) * torch.rand(rows, 1) * 10
    scale = x.abs().amax(-1, keepdim=True) / 127
    weight = quick.weight.float() * quick.scale
    first = (x / scale).round()
    second = ((x / scale - first) * REST).round() / REST
    expected = (first + second) * scale @ weight.T + linear.bias
    torch.testing.assert_close(quick(x), expected, atol=1e-4, rtol=1e-4)
    exact = x @ weight.T + linear.bias
    assert (quick(x) - exact).abs().max() < 1e-4 * exact.abs().max(), "two digits are fifteen bits"
    assert (quick(x) - linear(x)).abs().max() < 0.05 * linear(x).abs().max()
    assert torch.isfinite(quick(torch.zeros(2, 48))).all()


@pytest.mark.parametrize("rows", [FEW + 1, 700])
@pytest.mark.parametrize("gradients", [True, False])
def test_many_rows_are_the_float_product_of_the_int8_matrix(rows: int, gradients: bool) -> None:
    torch.manual_seed(0)
    quick = Int8Linear(torch.nn.Linear(48, 40))
    x = torch.randn(rows, 48)
    with torch.set_grad_enabled(gradients):  # with gradients on, torch's own product
        torch.testing.assert_close(quick(x), x @ (quick.weight.float() * quick.scale).T + quick.bias)


def test_heads_and_embeddings_stay_float_and_saving_is_refused(tmp_path: Path) -> None:
    model = tiny.model().to_device("cpu", "int8")
    assert isinstance(model.head(0), torch.nn.Linear)
    assert isinstance(model.backbone.language_model.layers[0].self_attn.q_proj, Int8Linear)
    assert isinstance(model.backbone.visual.blocks[0].attn.qkv, Int8Linear)
    assert isinstance(model.backbone.language_model.embed_tokens, torch.nn.Embedding)
    with pytest.raises(ConfigError, match="computes in int8"):
        model.save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match="computes in int8 for good"):
        model.to_device("cpu", "float32")
    assert model.to_device("cpu", "int8").compute_dtype == "int8"


def test_int8_is_for_the_cpu() -> None:
    from varsdoc.model.device import choose_dtype

    with pytest.raises(ConfigError, match="int8 is for the CPU, not cuda"):
        choose_dtype("int8", torch.device("cuda"))
