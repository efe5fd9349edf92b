"""encode_pages, encode_queries, score: what a user calls."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import tiny
from varsdoc.errors import ConfigError, InputError
from varsdoc.model import Processor, VarsDoc
from varsdoc.model.embeddings import group_by_size


@pytest.fixture(scope="module")
def model() -> VarsDoc:
    return tiny.model(3, 2)


def test_pages_come_back_in_order_with_their_grid_whatever_the_batches(model: VarsDoc) -> None:
    images = [tiny.page(h, w, i) for i, (h, w) in enumerate(((280, 140), (84, 84), (140, 224), (84, 112), (140, 224)))]
    whole = model.encode_pages(images)
    assert [page.grid for page in whole] == [(10, 5), (3, 3), (5, 8), (3, 4), (5, 8)]
    assert all(page.cells.shape == (3, page.grid[0] * page.grid[1], 16) for page in whole)
    prompt = model.processor.prompt_ids
    assert all(page.variants.shape[1] == page.cells.shape[1] + len(prompt) for page in whole)
    one_by_one = model.encode_pages(iter(images), batch_tokens=1)
    for a, b in zip(whole, one_by_one, strict=True):
        torch.testing.assert_close(a.variants, b.variants, atol=1e-5, rtol=0)


def test_cells_are_the_image_tokens(model: VarsDoc) -> None:
    image = tiny.page(112, 112)
    batch = model.processor.pages([model.processor.page(image)])
    ids = batch.input_ids[0]
    page = model.encode_pages([image])[0]
    assert (ids[page.image_start : page.image_start + 16] == model.config.backbone.image_token_id).all()
    assert ids[page.image_start - 1] != model.config.backbone.image_token_id
    assert ids[page.image_start + 16] != model.config.backbone.image_token_id


def test_paths_bytes_arrays_and_images_are_the_same_page(model: VarsDoc, tmp_path: Path) -> None:
    array = tiny.page(84, 112)
    path = tmp_path / "page.png"
    Image.fromarray(array).save(path)
    pages = model.encode_pages([array, Image.fromarray(array), path, str(path), path.read_bytes()])
    for page in pages[1:]:
        torch.testing.assert_close(page.variants, pages[0].variants, atol=1e-6, rtol=0)


def test_nothing_in_nothing_out(model: VarsDoc) -> None:
    assert model.encode_pages([]) == []
    assert model.encode_queries([]) == []
    assert model.score([], []).total.shape == (0, 0)


def test_a_progress_bar_is_shown_on_request(model: VarsDoc, capsys: pytest.CaptureFixture[str]) -> None:
    model.encode_pages([tiny.page(84, 84)] * 3, progress=True)
    captured = capsys.readouterr()
    assert "encoding pages" in captured.err
    assert "3/3" in captured.err
    assert captured.out == ""
    model.encode_pages([tiny.page(84, 84)])
    assert capsys.readouterr().err == ""


def test_queries_are_prefix_text_and_augmentation(model: VarsDoc) -> None:
    text = "What was the operating income of Europe in 2019?"
    ids = model.processor.query_ids(text)
    raw = tiny.tokenizer().encode("Query: " + text + "<|endoftext|>" * 10, add_special_tokens=False).ids
    assert ids == raw
    assert model.encode_queries([text])[0].shape == (len(raw), 16)


def test_the_prefix_is_a_setting_that_changes_embeddings(model: VarsDoc) -> None:
    bare = tiny.model(3, 2, query_prefix="", query_augmentation=0)
    assert bare.processor.query_ids("hello") == tiny.tokenizer().encode("hello").ids
    prefixed, plain = (m.encode_queries(["hello"])[0] for m in (model, bare))
    assert (prefixed[-11] - plain[-1]).abs().max() > 1e-2


def test_queries_of_any_batch_equal_the_reference(model: VarsDoc) -> None:
    texts = ["one", "two words", "a question that has several more words than the others", "x" * 300]
    together = model.encode_queries(texts)
    for text, vectors in zip(texts, together, strict=True):
        alone = model.encode_queries([text], batch_tokens=1)[0]
        torch.testing.assert_close(vectors, alone, atol=1e-5, rtol=0)
        batch = model.processor.queries([model.processor.query_ids(text)])
        with torch.no_grad():
            reference = model.forward_queries(batch, "reference").vectors[0]
        torch.testing.assert_close(vectors, reference, atol=1e-5, rtol=0)


def test_control_tokens_in_a_question_stay_text(model: VarsDoc) -> None:
    ids = model.processor.query_ids("what is <|image_pad|> and <|im_end|>?")
    text = ids[: -model.config.query_augmentation]
    assert model.config.backbone.image_token_id not in text
    assert max(text) < 8178, "no special token among them"


def test_control_tokens_stay_text_in_a_copy_and_in_a_worker(model: VarsDoc) -> None:
    for processor in (copy.deepcopy(model).processor, pickle.loads(pickle.dumps(model.processor))):
        assert processor.query_ids("<|image_pad|>") == model.processor.query_ids("<|image_pad|>")


def test_truncation_and_padding_of_a_tokenizer_file_are_switched_off() -> None:
    odd = tiny.tokenizer()
    odd.enable_truncation(4)
    odd.enable_padding(length=64)
    processor = Processor(tiny.model().config, odd)
    assert len(processor.prompt_ids) == 14
    assert processor.query_ids("hello") == tiny.model().processor.query_ids("hello")


@pytest.mark.parametrize("text", ["", "   ", "\n\t"])
def test_an_empty_query_is_refused(model: VarsDoc, text: str) -> None:
    with pytest.raises(InputError, match="query 1 is empty"):
        model.encode_queries(["fine", text])


def test_a_query_of_ten_thousand_words_is_cut_to_the_limit(model: VarsDoc) -> None:
    vectors = model.encode_queries(["word " * 10_000])[0]
    assert vectors.shape[0] == model.config.max_query_tokens
    assert torch.isfinite(vectors).all()


@pytest.mark.parametrize("text", ["\x00", "日本語のページ", "🙂" * 50, "a\u0301" * 20, "\ud800"])
def test_odd_text_has_a_defined_result(model: VarsDoc, text: str) -> None:
    try:
        vectors = model.encode_queries([text])[0]
    except InputError as error:
        assert "query 0" in str(error)  # noqa: PT017 - either outcome is right, silence is not
    else:
        assert torch.isfinite(vectors).all()


def test_a_single_page_or_question_is_not_taken_for_a_list(model: VarsDoc) -> None:
    with pytest.raises(InputError, match="takes a list of questions"):
        model.encode_queries("hello")
    with pytest.raises(InputError, match="takes a list of pages"):
        model.encode_pages(tiny.page(84, 84))
    with pytest.raises(InputError, match="query 0 is a int"):
        model.encode_queries([3])  # type: ignore[list-item]


def test_what_is_no_list_is_one_sentence(model: VarsDoc) -> None:
    with pytest.raises(InputError, match="takes a list of pages, not None"):
        model.encode_pages(None)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="takes a list of questions, not 3"):
        model.encode_queries(3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="pages that encode_pages made"):
        model.score(model.encode_queries(["a"]), [torch.zeros(3, 2, 16)])  # type: ignore[list-item]
    with pytest.raises(ConfigError, match="no path 'fast'"):
        model.forward_queries(model.processor.queries([[1, 2]]), "fast")  # type: ignore[arg-type]


def test_a_stack_of_pages_is_a_list(model: VarsDoc) -> None:
    assert len(model.encode_pages(np.stack([tiny.page(84, 84, i) for i in range(2)]))) == 2


def test_batch_tokens_must_be_positive(model: VarsDoc) -> None:
    for wrong in (-1, 0, "many"):
        with pytest.raises(ConfigError, match=f"batch_tokens must be 1 or more, not {wrong!r}"):
            model.encode_pages([tiny.page(84, 84)], batch_tokens=wrong)


def test_scores_carry_every_variant(model: VarsDoc) -> None:
    pages = model.encode_pages([tiny.page(84, 84, i) for i in range(4)])
    queries = model.encode_queries(["one", "two"])
    scores = model.score(queries, pages)
    assert scores.total.shape == (2, 4)
    assert scores.variants.shape == (2, 4, 3)
    assert torch.equal(scores.total, scores.variants.amax(-1))


def test_groups_cover_every_item_once_within_the_budget() -> None:
    sizes = [5, 3, 8, 1, 8, 20, 2]
    groups = list(group_by_size(sizes, 16))
    assert sorted(i for group in groups for i in group) == list(range(len(sizes)))
    assert all(len(g) == 1 or len(g) * max(sizes[i] for i in g) <= 16 for g in groups)


@pytest.mark.parametrize(("name", "dtype"), [("bfloat16", torch.bfloat16), ("float16", torch.float16)])
def test_half_precision_stays_near_float32(name: str, dtype: torch.dtype) -> None:
    model, half = tiny.model(3, 2), tiny.model(3, 2).to_device("cpu", name)
    assert half.dtype == dtype
    a = model.encode_pages([tiny.page(140, 140)])[0].variants
    b = half.encode_pages([tiny.page(140, 140)])[0].variants
    assert b.dtype == dtype
    assert torch.nn.functional.cosine_similarity(a, b.float(), dim=-1).min() > 0.97
    with torch.no_grad():
        paths = [half.forward_pages(tiny.batch(half), path).vectors for path in ("reference", "inference", "training")]
    for fast in paths[1:]:
        assert torch.nn.functional.cosine_similarity(fast, paths[0], dim=-1)[paths[0].norm(dim=-1) > 0].min() > 0.97
