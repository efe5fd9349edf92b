"""Codecs: what goes in comes out, within what the code can hold, and nothing else is accepted."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from varsdoc.errors import ConfigError, InputError
from varsdoc.index.codecs import cell_map, get_codec, similarities
from varsdoc.index.similarity import variant_similarity
from varsdoc.scoring.blob import HEADER, Blob
from varsdoc.scoring.codes import decode, encode
from varsdoc.scoring.packed import PackedPages

CODECS = ["float16", "int8", "int4", "binary"]


def unit(*shape: int, seed: int) -> np.ndarray:
    x = np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def page_with_repeats(k: int, m: int, d: int, seed: int) -> np.ndarray:
    """Blank cells alike, and variants that agree here and there."""
    page = unit(k, m, d, seed=seed)
    rng = np.random.default_rng(seed)
    page[:, rng.random(m) < 0.3] = page[0, 0]
    agree = rng.random(m) < 0.3
    page[:, agree] = page[0, agree]
    return page


SHAPES = st.tuples(st.integers(1, 6), st.integers(1, 40), st.integers(1, 40), st.integers(0, 2**16))


@settings(max_examples=60, deadline=None)
@given(SHAPES, st.sampled_from(CODECS), st.booleans())
def test_a_round_trip_keeps_what_the_code_can_hold(shape: tuple[int, ...], name: str, share: bool) -> None:
    page = page_with_repeats(*shape)
    codec = get_codec(name, share=share)
    back = codec.unpack(codec.pack(page))
    assert back.shape == page.shape
    assert back.dtype == np.float32
    if name == "binary":
        np.testing.assert_array_equal(back > 0, page > 0)
        np.testing.assert_allclose(np.linalg.norm(back, axis=-1), 1, rtol=1e-5)
    else:
        largest = np.abs(page).max(-1, keepdims=True)
        step = {"float16": 2**-10, "int8": 0.51 / 127, "int4": 0.35}[name]  # int4 may cut the largest number
        assert (np.abs(back - page) <= step * largest + 1e-7).all()
    codes, scales = encode(name, page.reshape(-1, shape[2]))
    again, same = encode(name, decode(name, codes, scales, shape[2]))  # what was read packs to what it was read from
    np.testing.assert_array_equal(again, codes)
    assert (scales is None) == (same is None)
    if scales is not None and same is not None:
        np.testing.assert_array_equal(same, scales)


@settings(max_examples=60, deadline=None)
@given(SHAPES, st.sampled_from(CODECS), st.integers(1, 5))
def test_storing_once_loses_nothing(shape: tuple[int, ...], name: str, pool: int) -> None:
    page = page_with_repeats(*shape)
    plain, shared = get_codec(name, pool=pool), get_codec(name, pool=pool, share=True)
    np.testing.assert_array_equal(plain.unpack(plain.pack(page)), shared.unpack(shared.pack(page)))


@pytest.mark.parametrize("name", CODECS)
def test_storing_once_saves_what_repeats(name: str) -> None:
    page = unit(5, 100, 128, seed=1)
    page[:, :50] = page[0, 0]  # half the cells blank in all variants
    plain, shared = get_codec(name).pack(page), get_codec(name, share=True).pack(page)
    vector = (len(plain) - HEADER.size) / 500
    assert len(shared) < HEADER.size + 251 * vector + 700
    alike = np.concatenate([page[:1]] * 5)  # K equal variants cost one, and two bits a cell
    assert len(get_codec(name, share=True).pack(alike)) < HEADER.size + 51 * vector + 300


def test_a_cosine_makes_near_agreement_shareable_and_moves_no_vector_further() -> None:
    page = np.repeat(unit(1, 60, 128, seed=2), 4, axis=0) + 0.02 * unit(4, 60, 128, seed=3)
    page /= np.linalg.norm(page, axis=-1, keepdims=True)
    exact, near = get_codec("float16", share=True), get_codec("float16", share=0.95)
    assert len(near.pack(page)) < 0.35 * len(exact.pack(page))
    assert (near.unpack(near.pack(page)) * page).sum(-1).min() > 0.9


@settings(max_examples=40, deadline=None)
@given(SHAPES, st.sampled_from(CODECS), st.integers(1, 7))
def test_pooling_keeps_a_share_of_the_vectors_and_says_which_stands_for_a_cell(
    shape: tuple[int, ...], name: str, pool: int
) -> None:
    page = page_with_repeats(*shape)
    k, m, _ = page.shape
    blob = get_codec(name, pool=pool).pack(page)
    kept = get_codec(name).unpack(blob)
    assert kept.shape[:2] == (k, -(-m // pool))
    where = cell_map(blob)
    assert where.shape == (k, m)
    for variant in where:
        assert set(variant.tolist()) == set(range(kept.shape[1]))


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("options", [{}, {"share": True}, {"pool": 3}, {"share": True, "pool": 2}])
def test_similarities_are_those_of_the_unpacked_cells(name: str, options: dict) -> None:
    page, query = page_with_repeats(3, 20, 24, seed=5), unit(4, 24, seed=6)
    codec = get_codec(name, **options)
    blob = codec.pack(page)
    vectors = np.take_along_axis(codec.unpack(blob), cell_map(blob)[..., None], 1)  # (K, cells, D)
    found = similarities(query, blob)
    assert found.shape == (3, 4, 20)
    np.testing.assert_allclose(found, query @ vectors.transpose(0, 2, 1), atol=1e-5)


def test_int8_is_close_and_a_fixed_scale_would_be_worse() -> None:
    page, codec = unit(1, 500, 128, seed=7), get_codec("int8")
    error = np.abs(codec.unpack(codec.pack(page)) - page).mean()
    fixed = np.abs(np.rint(page * 127) / 127 - page).mean()
    assert error < 0.4 * fixed


def test_four_bits_lose_as_little_as_sixteen_levels_can() -> None:
    """Odd multiples of a fitted scale; whole numbers from -7 to 7 would leave one code unused."""
    page, codec = unit(1, 500, 128, seed=7), get_codec("int4")
    page[0, :50, 0] = 1  # one number far above the others: a step that reached it would lose those
    page /= np.linalg.norm(page, axis=-1, keepdims=True)
    back = codec.unpack(codec.pack(page))
    largest = np.abs(page).max(-1, keepdims=True)
    seven, fifteen = largest / 7, largest / 15
    plain = (2 * np.clip(np.floor(page / (2 * fifteen)), -8, 7) + 1) * fifteen
    for other, share in ((np.rint(page / seven) * seven, 0.8), (plain, 0.95)):
        assert ((back - page) ** 2).sum() < share * ((other - page) ** 2).sum()
    assert (((back - page) ** 2).sum(-1) <= ((plain - page) ** 2).sum(-1) * 1.001 + 1e-6).all()
    assert len(codec.pack(page)) == HEADER.size + 500 * (64 + 2)


@pytest.mark.parametrize("name", CODECS)
def test_pages_whose_variants_were_pooled_apart_are_read(name: str) -> None:
    """As earlier versions did: a map for each variant."""
    page, query = unit(2, 3, 16, seed=8), unit(4, 16, seed=9)
    codes, scales = encode(name, page.reshape(6, 16))
    maps = np.array([[0, 0, 1, 2], [2, 1, 0, 0]], np.int32)
    blob = Blob(name, 2, 3, 16, codes, scales, None, maps).to_bytes()
    np.testing.assert_array_equal(cell_map(blob), maps)
    vectors = np.take_along_axis(get_codec(name).unpack(blob), maps[..., None], 1)
    np.testing.assert_allclose(similarities(query, blob), query @ vectors.transpose(0, 2, 1), atol=1e-5)
    pages = PackedPages.from_blobs([get_codec(name).pack(page), blob, get_codec(name, pool=2).pack(page)])
    for row, packed in enumerate([None, maps, 1]):
        kept = pages.select([row]).blob(0)
        assert kept.to_bytes() == pages.blob(row).to_bytes()
        if isinstance(packed, np.ndarray):
            np.testing.assert_array_equal(kept.pooling, packed)
            np.testing.assert_allclose(variant_similarity(query, kept, 1), query @ vectors[1].T, atol=1e-5)
        else:
            assert (kept.pooling is None) == (packed is None)


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("options", [{}, {"share": True, "pool": 2}])
def test_cut_or_foreign_bytes_are_one_clear_error(name: str, options: dict) -> None:
    codec = get_codec(name, **options)
    blob = codec.pack(page_with_repeats(3, 9, 16, seed=1))
    for size in range(len(blob)):
        with pytest.raises(InputError, match="packed page"):
            codec.unpack(blob[:size])
    with pytest.raises(InputError, match="too many"):
        codec.unpack(blob + b"x")
    with pytest.raises(InputError, match="no packed page"):
        codec.unpack(b"PK" + blob)
    with pytest.raises(InputError, match="format 9"):
        codec.unpack(blob[:4] + b"\x09" + blob[5:])


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damage_is_refused_or_read_but_never_crashes(data: st.DataObject) -> None:
    codec = get_codec(data.draw(st.sampled_from(["int8", "int4"])), share=True, pool=2)
    blob = bytearray(codec.pack(page_with_repeats(3, 9, 16, seed=1)))
    blob[data.draw(st.integers(0, len(blob) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(InputError):  # any other error fails the test
        assert codec.unpack(bytes(blob)).ndim == 3


def test_another_codecs_page_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="packed as int8, not binary"):
        get_codec("binary").unpack(get_codec("int8").pack(unit(1, 2, 8, seed=0)))


@pytest.mark.parametrize(
    ("page", "message"),
    [
        (np.zeros((2, 3), np.float32), r"shape \(2, 3\)"),
        (np.zeros((2, 0, 3), np.float32), r"shape \(2, 0, 3\)"),
        (np.full((1, 1, 4), np.nan, np.float32), "not finite"),
        (np.full((1, 1, 4), 3.0, np.float32), "length 6"),
    ],
)
def test_pages_that_are_none_are_refused(page: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        get_codec("int8").pack(page)


@pytest.mark.parametrize(
    ("name", "options"),
    [("float8", {}), ("int8", {"pool": 0}), ("int8", {"pool": 1.5}), ("int8", {"share": 2.0}), ("int8", {"share": 1})],
)
def test_options_that_cannot_be_are_refused(name: str, options: dict) -> None:
    with pytest.raises(ConfigError):
        get_codec(name, **options)
