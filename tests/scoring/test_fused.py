"""The fused Triton kernels and their PyTorch fallback equal the reference: on a GPU, else in Triton's interpreter."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch

from varsdoc.errors import ConfigError, InputError
from varsdoc.index.codecs import get_codec
from varsdoc.scoring import score_pages
from varsdoc.scoring.device import DevicePages, Segment
from varsdoc.scoring.packed import PackedPages, score_packed
from varsdoc.scoring.query_tiles import place, tile_queries

pytest.importorskip("triton", reason="triton is not installed")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CODECS = ["float16", "int8", "int4", "binary"]
NEAR = 3e-5  # per query token: the query's own quantisation


def unit(*shape: int, seed: int) -> np.ndarray:
    x = np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def packed(codec: str, lengths: list[int], k: int = 3, dim: int = 128, seed: int = 0, **options: object) -> PackedPages:
    made = get_codec(codec, **options)  # type: ignore[arg-type]
    pages = [unit(k, m, dim, seed=seed + i) for i, m in enumerate(lengths)]
    for page in pages:
        page[:, ::3] = page[0, 0]  # blank cells, so that sharing has something to share
    return PackedPages.from_blobs([made.pack(page) for page in pages])


def check(found: torch.Tensor, expected: torch.Tensor, tokens: int) -> None:
    torch.testing.assert_close(found.cpu(), expected, atol=NEAR * tokens, rtol=0)


CASES = [  # lengths of pages, tokens of queries: one, several in a tile, several tiles, one cut into tiles
    ([5], [1]),
    ([1, 130, 64, 7], [20]),
    ([40, 3], [9, 1, 30, 17]),
    ([9, 20], [60, 50, 90, 128, 2]),
    ([6, 2, 11], [150, 3]),
    ([4], [300, 1]),
]


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("codec", CODECS)
def test_equals_scores_on_packed_codes_for_any_mix_of_lengths(codec: str, fused: bool) -> None:
    for seed, (lengths, tokens) in enumerate(CASES):
        pages = packed(codec, lengths, seed=10 * seed)
        queries = [unit(t, 128, seed=100 * seed + i) for i, t in enumerate(tokens)]
        expected = score_packed(queries, pages)
        found = DevicePages.of(pages, DEVICE, fused=fused).score(queries)
        check(found.variants, expected.variants, max(tokens))
        check(found.total, expected.total, max(tokens))
        assert found.query_tokens.tolist() == tokens


@pytest.mark.parametrize("codec", CODECS)
def test_random_cases_equal_the_fallback(codec: str) -> None:
    rng = np.random.default_rng(7)
    for seed in range(3):
        k, dim = int(rng.integers(1, 5)), int(rng.choice([128, 256]))
        pages = packed(codec, rng.integers(1, 90, rng.integers(1, 4)).tolist(), k, dim, seed=seed)
        queries = [unit(int(t), dim, seed=seed + i) for i, t in enumerate(rng.integers(1, 40, rng.integers(1, 6)))]
        for aggregation in ("max", "mean", "fused"):
            plain, fused = (
                DevicePages.of(pages, DEVICE, fused=f).score(queries, aggregation=aggregation) for f in (False, True)
            )
            check(fused.total, plain.total.cpu(), 40)
            check(fused.variants, plain.variants.cpu(), 40)


@pytest.mark.parametrize("fused", [True, False])
def test_shared_codes_rows_and_segments_change_nothing(fused: bool) -> None:
    lengths = [12, 5, 30, 12]
    queries = [unit(t, 128, seed=t) for t in (5, 7)]
    for codec in CODECS:
        plain = packed(codec, lengths)
        whole = DevicePages.of(plain, DEVICE, fused=fused).score(queries)
        shared = DevicePages.of(packed(codec, lengths, share=True), DEVICE, fused=fused)
        assert torch.equal(shared.score(queries).variants, whole.variants)
        small = DevicePages.of(plain, DEVICE, fused=fused, segment_bytes=1)  # a segment for each page
        assert len(small.segments) == len(small) == 4
        torch.testing.assert_close(small.score(queries).variants, whole.variants, atol=1e-5, rtol=0)
        rows = np.array([3, 0, 2])
        for pages in (small, shared):
            some = pages.score(queries, rows).variants
            torch.testing.assert_close(some, whole.variants[:, rows.tolist()], atol=1e-5, rtol=0)


def test_bfloat16_pages_take_queries_of_their_own_dtype_and_of_float32() -> None:
    vectors = [torch.from_numpy(unit(2, m, 128, seed=m)).bfloat16() for m in (33, 7)]
    query = torch.from_numpy(unit(11, 128, seed=1))
    # Triton's interpreter multiplies bfloat16 wrongly; the kernel is the one that float16 goes through.
    pages = DevicePages("bfloat16", 2, 128, DEVICE, fused=DEVICE == "cuda")
    pages.add_vectors(vectors)
    for asked in (query, query.bfloat16()):
        expected = score_pages([asked.float()], [page.float() for page in vectors]).variants
        torch.testing.assert_close(pages.score([asked]).variants.cpu(), expected, atol=2e-4, rtol=0)
    assert len(tile_queries([query], "bfloat16").planes) == 2
    assert len(tile_queries([query.bfloat16()], "bfloat16").planes) == 1


@pytest.mark.parametrize("codec", ["float16", "int8", "binary"])
def test_one_kernel_makes_the_tiles_of_the_plain_form(codec: str) -> None:
    """To the last bit: planes, sums and worth of every row and slot that is read."""
    fused = pytest.importorskip("varsdoc.scoring.fused")
    for seed, (_, lengths) in enumerate(CASES):
        queries = [torch.from_numpy(unit(t, 128, seed=seed + i)).to(DEVICE) for i, t in enumerate(lengths)]
        queries[0][0, 0] *= 3  # steps differ between queries
        for asked in (queries, [query.half() for query in queries]):
            plain, found = tile_queries(asked, codec), fused.make_tiles(asked, codec)
            row_there, used = plain.placing.slot >= 0, plain.placing.used
            assert torch.equal(found.planes[:, row_there], plain.planes[:, row_there])
            assert torch.equal(found.worth[used], plain.worth[used])
            assert (plain.sums is None) == (found.sums is None)
            if plain.sums is not None:
                assert torch.equal(found.sums[row_there], plain.sums[row_there])


def test_a_page_whose_products_are_all_negative_keeps_its_negative_score() -> None:
    """Neither padding rows of a tile nor the last block of a page may win a maximum."""
    page = np.full((1, 3, 128), -1 / np.sqrt(128), np.float32)
    query = np.full((2, 128), 1 / np.sqrt(128), np.float32)
    for codec in CODECS:
        pages = PackedPages.from_blobs([get_codec(codec).pack(page)])
        found = DevicePages.of(pages, DEVICE, fused=True).score([query])
        assert found.total.item() == pytest.approx(-2, abs=1e-2)


def test_search_gives_the_best_rows_first_with_every_variant() -> None:
    pages = packed("int8", [20, 4, 9, 17, 30])
    query = unit(6, 128, seed=3)
    expected = score_packed([query], pages)
    rows, scores, variants = DevicePages.of(pages, DEVICE).search(query, 3)
    order = expected.total[0].argsort(descending=True)[:3]
    assert rows.tolist() == order.tolist()
    torch.testing.assert_close(scores, expected.total[0, order], atol=1e-3, rtol=0)
    torch.testing.assert_close(variants, expected.variants[0, order], atol=1e-3, rtol=0)
    assert len(DevicePages.of(pages, DEVICE).search(query, 99)[0]) == 5


def test_search_among_some_rows_and_the_best_of_them() -> None:
    pages = DevicePages.of(packed("int8", [20, 4, 9, 17, 30]), DEVICE)
    query = unit(6, 128, seed=3)
    every = pages.search(query, 5)[0].tolist()
    some = np.array(sorted(every[1:4]))
    rows, scores, variants = pages.search(query, 2, some)
    assert rows.tolist() == every[1:3]
    assert torch.equal(scores, pages.score([query]).total[0, rows].cpu())
    assert torch.equal(variants.amax(1), scores)
    assert sorted(pages.best(query, 3).tolist()) == sorted(every[:3])
    assert sorted(pages.best(query, 2, some).tolist()) == sorted(every[1:3])
    assert sorted(pages.best(query, 9, some).tolist()) == some.tolist()
    assert pages.search(query, 3, [])[0].tolist() == []


@pytest.mark.parametrize("segment_bytes", [1 << 20, 1])
def test_search_in_two_stages(segment_bytes: int) -> None:
    """One segment without waiting for the candidates, several with; graphs are a GPU's (tests/model/test_gpu.py)."""
    lengths = [20, 4, 9, 17, 30, 11, 8]
    pages = DevicePages.of(packed("binary", lengths), DEVICE, segment_bytes=segment_bytes)
    summaries = DevicePages("int8", 1, 128, DEVICE)
    rng = np.random.default_rng(8)
    for length in lengths:
        vectors = torch.from_numpy(rng.integers(-127, 128, (length, 128), dtype=np.int8))
        summaries.add_codes(vectors, torch.full((length,), 1 / 127, dtype=torch.float16), length)
    query = unit(6, 128, seed=3)
    rows, scores, variants = pages.search_in_two(query, 3, summaries, 4)
    expected = pages.search(query, 3, np.sort(summaries.best(query, 4)))
    assert rows.tolist() == expected[0].tolist()
    assert torch.equal(scores, expected[1])
    assert torch.equal(variants, expected[2])
    assert len(pages.search_in_two(query, 9, summaries, 99)[0]) == len(lengths)
    with pytest.raises(InputError, match="same pages"):
        pages.search_in_two(query, 3, DevicePages("int8", 1, 128, DEVICE), 4)
    with pytest.raises(InputError, match="n must be at least 1, not 0"):
        pages.search_in_two(query, 3, summaries, 0)
    with pytest.raises(InputError, match="k must be at least 1, not -1"):
        pages.search(query, -1)


def test_a_copy_has_pages_of_its_own() -> None:
    pages = DevicePages.of(packed("int8", [20, 7]), DEVICE)
    query = torch.from_numpy(unit(5, 128, seed=3))
    for twin in (copy.deepcopy(pages), pickle.loads(pickle.dumps(pages))):
        assert torch.equal(twin.score([query]).variants, pages.score([query]).variants)
        twin.extend(packed("int8", [9], seed=5))
        assert (len(twin), len(pages)) == (3, 2)


@pytest.mark.parametrize("lengths", [[300, 140, 260], [9, 400, 3], [2, 5, 3]])
def test_the_fallback_is_exact_for_long_and_for_short_runs(lengths: list[int]) -> None:
    vectors = [torch.from_numpy(unit(3, m, 32, seed=m)) for m in lengths]
    queries = [torch.from_numpy(unit(t, 32, seed=t)) for t in (4, 600)]
    pages = DevicePages("bfloat16", 3, 32, "cpu", fused=False)
    pages.add_vectors(vectors)
    exact = score_pages(queries, [page.to(torch.bfloat16).float() for page in vectors])
    torch.testing.assert_close(pages.score(queries).variants, exact.variants, atol=1e-3, rtol=0)


def test_pages_are_added_without_moving_what_is_there() -> None:
    pages = DevicePages.of(packed("binary", [4, 6]), DEVICE)
    before = pages.segments[0].codes.data_ptr()
    query = unit(5, 128, seed=0)
    first = pages.score([query]).variants
    pages.extend(packed("binary", [9], seed=5))
    assert pages.segments[0].codes.data_ptr() == before
    assert len(pages) == 3
    assert torch.equal(pages.score([query]).variants[:, :2], first)


def test_codes_made_on_the_device_are_scored_where_they_lie() -> None:
    codes = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (4 * 2 * 10, 16), dtype=np.uint8)).to(DEVICE)
    pages = DevicePages.of_segment(Segment.of_equal(codes, None, 4, 2), "binary", 2, 128)
    signs = 2.0 * np.unpackbits(codes.cpu().numpy(), axis=1) - 1
    vectors = torch.from_numpy((signs / np.sqrt(128)).astype(np.float32)).view(4, 2, 10, 128)
    query = torch.from_numpy(unit(7, 128, seed=2))
    check(pages.score([query]).variants, score_pages([query], list(vectors)).variants, 7)


def test_queries_stay_in_one_tile_where_they_fit() -> None:
    placing = place((100, 20, 30, 300), torch.device("cpu"), 128)
    assert (placing.tiles, placing.rows, placing.cut) == (5, 128, True)
    assert placing.owner.tolist() == [0, 1, 2, 3, 3, 3]
    assert sorted(placing.take[placing.slot >= 0].tolist()) == list(range(450))
    one = place((20,), torch.device("cpu"))
    assert (one.tiles, one.rows, one.slots, one.cut) == (1, 32, 1, False)


def test_wrong_input_is_said_in_one_sentence() -> None:
    pages = DevicePages.of(packed("int8", [4]), DEVICE)
    with pytest.raises(InputError, match=r"query 0 has shape \(3, 64\)"):
        pages.score([unit(3, 64, seed=0)])
    with pytest.raises(ConfigError, match="no aggregation 'sum'"):
        pages.score([unit(3, 128, seed=0)], aggregation="sum")
    with pytest.raises(ConfigError, match="no codec 'int5'"):
        DevicePages("int5", 1, 128, DEVICE)
    with pytest.raises(InputError, match="Rows must be numbers from 0 to 0"):
        pages.score([unit(3, 128, seed=0)], rows=[1])
    with pytest.raises(InputError, match="reindex with one model and codec"):
        pages.extend(packed("binary", [4]))
