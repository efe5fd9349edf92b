"""The int8 option: near float32, and the same whatever stands beside a page in its batch."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch

import tiny
from varsdoc.errors import ConfigError
from varsdoc.model import UntrainedWarning, VarsDoc
from varsdoc.model.int8 import Int8Linear


def nano(dtype: str, tokens: int | None = None) -> VarsDoc:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrainedWarning)
        return VarsDoc.from_pretrained(device="cpu", dtype=dtype, max_visual_tokens=tokens)


def test_the_nano_model_stays_within_the_bound() -> None:
    """Its weights are stored in int8, so nothing is lost; 0.999 is promised for any checkpoint."""
    images = [tiny.page(280, 196), tiny.page(84, 140)]
    exact, quick = nano("float32"), nano("int8")
    assert quick.compute_dtype == "int8"
    assert quick.dtype == torch.float32
    for a, b in zip(exact.encode_pages(images), quick.encode_pages(images), strict=True):
        assert torch.nn.functional.cosine_similarity(a.variants, b.variants, dim=-1).min() >= 0.99999
    text = ["What was the operating income of Europe in 2019?"]
    a, b = exact.encode_queries(text)[0], quick.encode_queries(text)[0]
    assert torch.nn.functional.cosine_similarity(a, b, dim=-1).min() >= 0.99999


def test_loud_pages_in_a_batch_change_nothing() -> None:
    model = nano("int8", tokens=200)
    page, loud = tiny.page(140, 140), (tiny.page(140, 140, 9) > 127).astype("uint8") * 255
    alone = model.encode_pages([page], batch_tokens=1)[0].variants
    beside = model.encode_pages([loud, page, loud], batch_tokens=10_000)[1].variants
    assert (alone * beside).sum(-1).min() > 0.99999


@pytest.mark.parametrize("rows", [0, 1, 700])
@pytest.mark.parametrize("gradients", [True, False])
def test_a_layer_is_the_float_product_of_its_rounded_matrix(rows: int, gradients: bool) -> None:
    torch.manual_seed(0)
    linear = torch.nn.Linear(48, 40)
    quick = Int8Linear(linear)
    x = torch.randn(2, rows, 48)
    matrix = quick.weight.float() * quick.scale
    assert quick.weight.dtype == torch.int8
    assert (matrix - linear.weight).abs().max() <= linear.weight.abs().max() / 254 * 1.001
    with torch.set_grad_enabled(gradients):  # with gradients on, torch's own product
        torch.testing.assert_close(quick(x), x @ matrix.T + linear.bias, atol=1e-5, rtol=1e-5)


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

    with pytest.raises(ConfigError, match="int8 is for the CPU, not cuda; use bfloat16"):
        choose_dtype("int8", torch.device("cuda"))
    with pytest.raises(ConfigError, match="int8 is for the CPU, not mps; use float32"):
        choose_dtype("int8", torch.device("mps"))


def test_half_precision_is_not_for_mps() -> None:
    from varsdoc.model.device import choose_dtype

    with pytest.raises(ConfigError, match="bfloat16 is not for mps"):
        choose_dtype("bfloat16", torch.device("mps"))
    assert choose_dtype(None, torch.device("mps")) == "float32"
