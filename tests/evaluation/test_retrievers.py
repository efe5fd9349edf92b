"""Every adapter on a tiny checkpoint in the release's layout, against the stock model of transformers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModel,
    AutoTokenizer,
    CLIPImageProcessorPil,
    ColPaliForRetrieval,
    ColPaliProcessor,
    ColQwen2ForRetrieval,
    ColQwen2Processor,
    Qwen2VLImageProcessorPil,
    SiglipImageProcessorPil,
)

import tiny_checkpoints as checkpoints
from evaluation_tools import picture
from varsdoc.errors import CheckpointError, ConfigError
from varsdoc.evaluation.retrievers import KINDS, open_retriever
from varsdoc.evaluation.retrievers.opening import kind_of
from varsdoc.model import VarsDoc

IMAGES = [picture("alpha pump"), picture("beta valve", (84, 168)), picture("gamma", (168, 84))]
TEXTS = ["alpha pump", "where is the beta valve on this long and winding page", "x"]
MAKERS = {
    "clip": checkpoints.clip,
    "siglip": checkpoints.siglip,
    "colpali": checkpoints.colpali,
    "colqwen2": checkpoints.colqwen2,
    "colqwen2.5": checkpoints.colqwen25,
    "colqwen3": lambda folder: checkpoints.qwen3(folder, head=True),
    "eager-embed": lambda folder: checkpoints.qwen3(folder, head=False),
}


def opened(kind: str, tmp_path: Path):
    named = kind if kind == "eager-embed" else None
    return open_retriever(str(MAKERS[kind](tmp_path / kind)), named, device="cpu")


@pytest.mark.parametrize("kind", MAKERS)
def test_vectors_have_unit_length_and_batching_changes_nothing(kind: str, tmp_path: Path) -> None:
    retriever = opened(kind, tmp_path)
    assert retriever.identity.kind == kind
    pages, queries = retriever.encode_pages(IMAGES), retriever.encode_queries(TEXTS)
    single = kind in ("clip", "siglip", "eager-embed")
    for page, image in zip(pages, IMAGES, strict=True):
        assert page.ndim == 3
        assert page.shape[0] == 1
        assert (page.shape[1] == 1) is single
        np.testing.assert_allclose(np.linalg.norm(page, axis=-1), 1, atol=1e-4)
        np.testing.assert_allclose(retriever.encode_pages([image])[0], page, atol=2e-4)
    for query, text in zip(queries, TEXTS, strict=True):
        assert query.shape[1] == pages[0].shape[2]
        np.testing.assert_allclose(retriever.encode_queries([text])[0], query, atol=2e-4)
    assert np.abs(pages[0][0, 0] - pages[1][0, 0]).max() > 1e-3 or not single


def test_clip_gives_the_stock_similarities(tmp_path: Path) -> None:
    folder = checkpoints.clip(tmp_path / "m")
    retriever = open_retriever(str(folder), device="cpu")
    ours = (
        np.stack([p[0, 0] for p in retriever.encode_pages(IMAGES)])
        @ np.stack([q[0] for q in retriever.encode_queries(TEXTS)]).T
    )
    model = AutoModel.from_pretrained(folder).eval()
    tokens = AutoTokenizer.from_pretrained(folder)(
        TEXTS, padding=True, truncation=True, max_length=24, return_tensors="pt"
    )
    pixels = CLIPImageProcessorPil.from_pretrained(folder)(IMAGES, return_tensors="pt")["pixel_values"]
    with torch.no_grad():
        stock = model(
            input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"], pixel_values=pixels
        ).logits_per_image
    np.testing.assert_allclose(ours, stock.numpy() / model.logit_scale.exp().item(), atol=1e-5)


def test_siglip_gives_the_stock_similarities(tmp_path: Path) -> None:
    folder = checkpoints.siglip(tmp_path / "m")
    retriever = open_retriever(str(folder), device="cpu")
    ours = (
        np.stack([p[0, 0] for p in retriever.encode_pages(IMAGES)])
        @ np.stack([q[0] for q in retriever.encode_queries(TEXTS)]).T
    )
    model = AutoModel.from_pretrained(folder).eval()
    tokens = AutoTokenizer.from_pretrained(folder)(
        TEXTS, padding="max_length", truncation=True, max_length=24, return_tensors="pt"
    )
    pixels = SiglipImageProcessorPil.from_pretrained(folder)(IMAGES, return_tensors="pt")["pixel_values"]
    with torch.no_grad():
        stock = model(input_ids=tokens["input_ids"], pixel_values=pixels).logits_per_image
    np.testing.assert_allclose(
        ours, (stock.numpy() - model.logit_bias.item()) / model.logit_scale.exp().item(), atol=1e-5
    )


def test_colpali_gives_the_stock_embeddings(tmp_path: Path) -> None:
    folder = checkpoints.colpali(tmp_path / "m")
    retriever = open_retriever(str(folder), device="cpu")
    model = ColPaliForRetrieval.from_pretrained(folder).eval()
    processor = ColPaliProcessor(SiglipImageProcessorPil.from_pretrained(folder), AutoTokenizer.from_pretrained(folder))
    for image, page in zip(IMAGES, retriever.encode_pages(IMAGES), strict=True):
        inputs = processor.process_images(images=[image], return_tensors="pt")
        inputs.pop("labels", None)
        with torch.no_grad():
            np.testing.assert_allclose(page[0], model(**inputs).embeddings[0].numpy(), atol=1e-4)
    for text, query in zip(TEXTS, retriever.encode_queries(TEXTS), strict=True):
        with torch.no_grad():
            stock = model(**processor.process_queries(text=[text], return_tensors="pt")).embeddings[0]
        np.testing.assert_allclose(query, stock.numpy(), atol=1e-4)


def test_colqwen2_has_the_processors_inputs_and_three_axes_of_positions(tmp_path: Path) -> None:
    folder = checkpoints.colqwen2(tmp_path / "m")
    retriever = open_retriever(str(folder), device="cpu")
    model = ColQwen2ForRetrieval.from_pretrained(folder).eval()
    processor = ColQwen2Processor(
        Qwen2VLImageProcessorPil.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    )
    stock = processor.process_images(images=[IMAGES[1]], return_tensors="pt")
    ours = retriever.inputs.pages([IMAGES[1]])
    assert torch.equal(ours["input_ids"], stock["input_ids"])
    torch.testing.assert_close(ours["pixel_values"], stock["pixel_values"][0])
    asked = processor.process_queries(text=[TEXTS[0]], return_tensors="pt")
    assert torch.equal(retriever.inputs.queries([TEXTS[0]])["input_ids"], asked["input_ids"])
    with torch.no_grad():
        flat = model(
            **{k: stock[k] for k in ("input_ids", "attention_mask", "pixel_values", "image_grid_thw")}
        ).embeddings
        positions, _ = model.vlm.get_rope_index(
            stock["input_ids"],
            mm_token_type_ids=ours["mm_token_type_ids"],
            image_grid_thw=stock["image_grid_thw"],
            attention_mask=stock["attention_mask"],
        )
        assert not torch.equal(positions[1], positions[2])
        right = model(
            **{k: stock[k] for k in ("input_ids", "attention_mask", "pixel_values", "image_grid_thw")},
            position_ids=positions,
        ).embeddings
    page = retriever.encode_pages([IMAGES[1]])[0][0]
    np.testing.assert_allclose(page, right[0].numpy(), atol=1e-5)
    assert np.abs(page - flat[0].numpy()).max() > 1e-3  # what transformers does by itself


def test_colqwen25_and_colnomic_are_plain_single_variants(tmp_path: Path) -> None:
    base = checkpoints.colqwen25(tmp_path / "release")
    plain = open_retriever(str(base), device="cpu")
    adapter = checkpoints.colnomic(tmp_path / "colnomic-embed-multimodal-3b", base)
    nomic = open_retriever(str(adapter), device="cpu")
    assert (plain.identity.kind, nomic.identity.kind) == ("colqwen2.5", "colnomic")
    assert plain.identity.note == nomic.identity.note == "K=1, plain (no probe)"
    assert plain.identity.hash != nomic.identity.hash
    direct = VarsDoc.from_pretrained(adapter, device="cpu").encode_pages(IMAGES)
    for page, expected in zip(nomic.encode_pages(IMAGES), direct, strict=True):
        np.testing.assert_array_equal(page, expected.variants.numpy())


def test_another_token_cap_is_another_model(tmp_path: Path) -> None:
    folder = str(checkpoints.colqwen2(tmp_path / "m"))
    wide, narrow = (open_retriever(folder, device="cpu", max_visual_tokens=cap) for cap in (None, 8))
    assert (wide.identity.token_cap, narrow.identity.token_cap) == (30, 8)
    assert wide.identity.space != narrow.identity.space
    assert narrow.encode_pages(IMAGES[:1])[0].shape[1] < wide.encode_pages(IMAGES[:1])[0].shape[1]


def test_the_kind_is_read_from_the_files(tmp_path: Path) -> None:
    assert kind_of(None) == "varsdoc"
    bare = checkpoints.qwen3(tmp_path / "q3", head=False)
    with pytest.raises(ConfigError, match="colqwen3 \\(many vectors\\) or eager-embed"):
        kind_of(str(bare))
    with pytest.raises(CheckpointError, match="no custom_text_proj"):
        open_retriever(str(bare), "colqwen3", device="cpu")
    (bare / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(CheckpointError, match="'bert'; name its retriever"):
        kind_of(str(bare))
    with pytest.raises(ConfigError, match="no retriever 'fancy'"):
        open_retriever(None, "fancy")
    with pytest.raises(ConfigError, match="needs --model"):
        open_retriever(None, "clip", device="cpu")
    assert {"clip", "siglip", "colpali", "colqwen2", "colqwen2.5", "colnomic"} <= set(KINDS)


def test_a_checkpoint_of_another_kind_is_refused_in_a_sentence(tmp_path: Path) -> None:
    folder = str(checkpoints.clip(tmp_path / "m"))
    with pytest.raises(CheckpointError, match="type 'clip', which is no colpali"):
        open_retriever(folder, "colpali", device="cpu")
    weights = load_file(tmp_path / "m" / "model.safetensors")
    del weights["text_projection.weight"]
    save_file(weights, tmp_path / "m" / "model.safetensors")
    with pytest.raises(CheckpointError, match="lacks 1 tensors of its model, like text_projection"):
        open_retriever(folder, device="cpu")
    with pytest.raises(ConfigError, match="not int8"):
        open_retriever(folder, device="cpu", dtype="int8")


def test_colqwen3_asks_as_colqwen25_does(tmp_path: Path) -> None:
    """Prefix, text, ten augmentation tokens; the head on the stock model's last states."""
    folder = checkpoints.qwen3(tmp_path / "m", head=True)
    retriever = open_retriever(str(folder), device="cpu")
    tokens = AutoTokenizer.from_pretrained(folder)
    ids = tokens("Query: alpha pump" + "<|endoftext|>" * 10, return_tensors="pt", add_special_tokens=False)["input_ids"]
    assert torch.equal(retriever.inputs.queries(["alpha pump"])["input_ids"], ids)
    head = load_file(folder / "model.safetensors")
    with torch.no_grad():
        states = retriever.model(input_ids=ids).last_hidden_state[0]
        expected = states @ head["custom_text_proj.weight"].T + head["custom_text_proj.bias"]
    expected = torch.nn.functional.normalize(expected, dim=-1).numpy()
    np.testing.assert_allclose(retriever.encode_queries(["alpha pump"])[0], expected, atol=1e-5)
