"""Scores on packed codes equal the reference on the unpacked vectors, whatever the lengths, blocks and threads."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from varsdoc.errors import ConfigError, InputError
from varsdoc.index.codecs import get_codec
from varsdoc.scoring import Scores, kernels, score_pages
from varsdoc.scoring.packed import PackedPages, score_packed

CODECS = ["float16", "int8", "int4", "binary"]
# Per query token: the query's own quantisation.
TOLERANCE = {"float16": 1e-5, "int8": 1e-4, "int4": 1e-4, "binary": 1e-4}


def unit(*shape: int, seed: int) -> np.ndarray:
    x = np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def some_pages(lengths: list[int], dim: int, k: int = 3, seed: int = 0) -> list[np.ndarray]:
    pages = [unit(k, m, dim, seed=seed + i) for i, m in enumerate(lengths)]
    for page in pages:
        page[:, ::3] = page[0, 0]  # blank cells
        page[1:, 1::4] = page[0, 1::4]  # agreement
    return pages


def reference(queries: list[np.ndarray], blobs: list[bytes], name: str, aggregation: str = "max") -> Scores:
    pages = [torch.from_numpy(get_codec(name).unpack(blob)) for blob in blobs]
    return score_pages([torch.from_numpy(q) for q in queries], pages, aggregation=aggregation)  # type: ignore[arg-type]


@settings(max_examples=40, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 30), min_size=1, max_size=8),
    tokens=st.lists(st.integers(1, 9), min_size=1, max_size=3),
    dim=st.integers(1, 140),
    name=st.sampled_from(CODECS),
    share=st.booleans(),
    pool=st.integers(1, 3),
    aggregation=st.sampled_from(["max", "mean", "fused"]),
    seed=st.integers(0, 1000),
)
def test_equals_the_reference(
    lengths: list[int], tokens: list[int], dim: int, name: str, share: bool, pool: int, aggregation: str, seed: int
) -> None:
    codec = get_codec(name, share=share, pool=pool)
    blobs = [codec.pack(page) for page in some_pages(lengths, dim, seed=seed)]
    queries = [unit(t, dim, seed=seed + 50 + i) for i, t in enumerate(tokens)]
    found = score_packed(queries, PackedPages.from_blobs(blobs), aggregation=aggregation)
    expected = reference(queries, blobs, name, aggregation)
    torch.testing.assert_close(found.total, expected.total, atol=TOLERANCE[name] * max(tokens), rtol=0)
    torch.testing.assert_close(found.variants, expected.variants, atol=TOLERANCE[name] * max(tokens), rtol=0)
    assert found.query_tokens.tolist() == tokens


@pytest.mark.parametrize("name", CODECS)
def test_the_residual_error_on_real_sizes_is_under_a_ten_thousandth_a_query(name: str) -> None:
    blobs = [get_codec(name).pack(page) for page in some_pages([256, 256, 190], 128, k=5)]
    queries = [unit(20, 128, seed=9)]
    found, expected = score_packed(queries, PackedPages.from_blobs(blobs)), reference(queries, blobs, name)
    assert (found.total - expected.total).abs().max() < 1e-4
    assert found.winner.tolist() == expected.winner.tolist()


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("share", [False, True])
def test_blocks_threads_rows_and_neighbours_change_nothing(
    name: str, share: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    codec = get_codec(name, share=share)
    pages = PackedPages.from_blobs([codec.pack(page) for page in some_pages([20, 7, 20, 33, 20, 7, 20], 128)])
    queries = [unit(t, 128, seed=t) for t in (5, 12)]
    whole = score_packed(queries, pages, threads=1)
    for block, tokens in ((1, 1), (130, 12), (10**6, 10**6)):
        monkeypatch.setattr(kernels, "BLOCK", block)
        monkeypatch.setattr(kernels, "TOKENS", tokens)
        for threads in (1, 3):
            again = score_packed(queries, pages, threads=threads)
            assert torch.equal(again.variants, whole.variants)
    rows = np.array([6, 0, 3, 3])
    part = score_packed(queries[1:], pages, rows)
    assert torch.equal(part.variants, whole.variants[1:, rows])
    mask = np.zeros(7, bool)
    mask[[1, 4]] = True
    assert torch.equal(score_packed(queries, pages, mask).total, whole.total[:, [1, 4]])


@pytest.mark.parametrize("name", CODECS)
def test_a_long_query_is_scored_in_parts_and_takes_no_more_memory(name: str) -> None:
    pages = [unit(3, m, 128, seed=m) for m in (40, 9, 200)]
    blobs = [get_codec(name).pack(page) for page in pages]
    query = unit(3 * kernels.TOKENS + 5, 128, seed=1)
    found = score_packed([query], PackedPages.from_blobs(blobs), threads=1)
    expected = reference([query], blobs, name)
    torch.testing.assert_close(found.variants, expected.variants, atol=TOLERANCE[name] * len(query), rtol=0)
    held = {key: len(buffer) for key, buffer in vars(kernels._workspace).items()}
    assert max(held.get("both", 0), held.get("whole", 0)) <= 2 * kernels.TOKENS * kernels.BLOCK


def test_an_all_negative_page_keeps_its_negative_score() -> None:
    query = unit(1, 128, seed=1)
    pages = PackedPages.from_blobs(
        [get_codec("int8").pack(-query[None]), get_codec("int8").pack(unit(1, 9, 128, seed=2))]
    )
    assert score_packed([query], pages).total[0, 0].item() == pytest.approx(-1, abs=0.01)


@pytest.mark.parametrize("name", CODECS)
def test_pages_can_be_added_and_chosen(name: str) -> None:
    blobs = [get_codec(name, share=i % 2 == 0).pack(page) for i, page in enumerate(some_pages([4, 9, 4, 30], 16))]
    queries = [unit(3, 16, seed=1)]
    pages = PackedPages()
    assert len(pages) == 0
    for i, blob in enumerate(blobs):
        assert pages.append(blob) == i
    assert len(pages) == 4
    whole = score_packed(queries, PackedPages.from_blobs(blobs))
    assert torch.equal(score_packed(queries, pages).variants, whole.variants)
    chosen = pages.select([2, 0])
    assert chosen.nbytes < pages.nbytes
    assert torch.equal(score_packed(queries, chosen).variants, whole.variants[:, [2, 0]])
    chosen.extend(blobs[3:])
    assert torch.equal(score_packed(queries, chosen).variants, whole.variants[:, [2, 0, 3]])


def test_codes_are_held_as_compactly_as_they_are_stored() -> None:
    blobs = [get_codec("binary").pack(unit(5, 256, 128, seed=i)) for i in range(20)]
    assert PackedPages.from_blobs(blobs).nbytes < 1.01 * sum(len(blob) for blob in blobs)


def test_collections_that_mix_are_refused_and_left_as_they_were() -> None:
    pages = PackedPages.from_blobs([get_codec("int8").pack(unit(2, 3, 8, seed=0))])
    for blob in (get_codec("binary").pack(unit(2, 3, 8, seed=0)), get_codec("int8").pack(unit(3, 3, 8, seed=0))):
        with pytest.raises(InputError, match="reindex"):
            pages.extend([get_codec("int8").pack(unit(2, 3, 8, seed=1)), blob])
        assert len(pages) == 1


def test_nothing_to_score_is_an_empty_answer() -> None:
    pages = PackedPages.from_blobs([get_codec("binary").pack(unit(2, 3, 8, seed=0))])
    assert score_packed([], pages).total.shape == (0, 1)
    assert score_packed([unit(2, 8, seed=1)], pages, np.zeros(0, int)).variants.shape == (1, 0, 2)
    assert score_packed([unit(2, 8, seed=1)], PackedPages()).total.shape == (1, 0)


def test_wrong_queries_rows_and_settings_are_one_sentence() -> None:
    pages = PackedPages.from_blobs([get_codec("binary").pack(unit(2, 3, 8, seed=0))])
    query = unit(2, 8, seed=1)
    for wrong, message in ((unit(2, 9, seed=0), "query 0"), (query[:0], "query 0"), (query * np.nan, "not finite")):
        with pytest.raises(InputError, match=message):
            score_packed([wrong], pages)
    for rows in ([1], [-1], [[0]]):
        with pytest.raises(InputError, match="Rows"):
            score_packed([query], pages, np.array(rows))
    with pytest.raises(ConfigError, match="aggregation"):
        score_packed([query], pages, aggregation="sum")
    with pytest.raises(ConfigError, match="threads"):
        score_packed([query], pages, threads=0)
