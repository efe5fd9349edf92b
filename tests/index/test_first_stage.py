"""The first stage finds what exact search would, exhaustively or through lists, and forgets what was removed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from varsdoc.errors import InputError
from varsdoc.index import first_stage
from varsdoc.index.codecs import get_codec
from varsdoc.index.first_stage import FirstStage, default_candidates, summarise, summary_bytes, summary_from_bytes
from varsdoc.scoring.packed import PackedPages, score_packed

DIM = 64
TOPICS = np.random.default_rng(0).standard_normal((60, DIM))


def unit(x: np.ndarray) -> np.ndarray:
    return (x / np.linalg.norm(x, axis=-1, keepdims=True)).astype(np.float32)


def page(number: int, k: int = 3, m: int = 40) -> np.ndarray:
    """Cells about a few topics; neighbours alike; variants alike."""
    rng = np.random.default_rng(number)
    base = TOPICS[np.repeat(rng.integers(0, 60, m // 8), 8)] + 0.5 * rng.standard_normal((m, DIM))
    return unit(base + 0.4 * rng.standard_normal((k, m, DIM)))


def question(number: int, target: int) -> np.ndarray:
    rng = np.random.default_rng([7, number])
    cells = page(target)[rng.integers(0, 3)][rng.choice(40, 8)]
    return unit(cells + 0.06 * rng.standard_normal(cells.shape))


PAGES = [page(i) for i in range(300)]
SUMMARIES = [summarise(each) for each in PAGES]
QUESTIONS = [question(i, 7 * i) for i in range(30)]


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few enough pages per candidate that lists choose among three hundred."""
    monkeypatch.setattr(first_stage, "WIDEST", 1)


def stage(clustered_from: int = 10**6, pages: int = 300) -> FirstStage:
    made = FirstStage(DIM, clustered_from=clustered_from)
    made.add(SUMMARIES[:pages])
    return made


def by_definition(query: np.ndarray, summaries: Sequence[np.ndarray] = SUMMARIES) -> np.ndarray:
    step = np.abs(query).max() / 127
    small = np.rint(query / step).astype(np.int64)
    return np.array([(each.astype(np.int64) @ small.T).max(0).sum() for each in summaries])


def recall(made: FirstStage, n: int) -> float:
    packed = PackedPages.from_blobs([get_codec("binary").pack(each) for each in PAGES])
    exact = score_packed(QUESTIONS, packed).total.topk(10).indices.numpy()
    found = [made.search(query, n) for query in QUESTIONS]
    return float(np.mean([np.isin(a, b).mean() for a, b in zip(exact, found, strict=True)]))


def test_small_collections_are_ranked_by_maxsim_with_their_summaries() -> None:
    made = stage()
    for query in QUESTIONS[:5]:
        scores = by_definition(query)
        assert made.search(query, 20).tolist() == np.lexsort((np.arange(300), -scores))[:20].tolist()


def test_the_page_a_question_was_made_from_comes_out() -> None:
    for made in (stage(), stage(clustered_from=100)):
        assert all(7 * i in made.search(query, 20) for i, query in enumerate(QUESTIONS))


def test_recall_of_exact_search_is_high_and_grows_with_n() -> None:
    made = stage()
    assert recall(made, 30) <= recall(made, 100) <= recall(made, 300) == 1
    assert recall(made, 100) >= 0.9


def test_lists_lose_little_beside_exhaustive_scoring() -> None:
    made = stage(clustered_from=100)
    assert made._clusters is not None
    assert recall(made, 40) >= recall(stage(), 40) - 0.03


def test_pages_added_after_the_lists_were_built_are_found() -> None:
    made = FirstStage(DIM, clustered_from=100)
    made.add(SUMMARIES[:250])
    lists = made._clusters
    rows = made.add(SUMMARIES[250:])
    assert made._clusters is lists
    assert rows.tolist() == list(range(250, 300))
    late = question(99, 280)
    assert 280 in made.search(late, 5)
    made.add([SUMMARIES[280]] * 200)  # more than a quarter in no list: built anew
    assert made._clusters is not lists
    assert set(made.search(late, 201).tolist()) == {280, *range(300, 500)}


@pytest.mark.parametrize("clustered_from", [10**6, 100])
def test_removed_and_forbidden_rows_never_come_out(clustered_from: int) -> None:
    made = stage(clustered_from)
    best = made.search(QUESTIONS[0], 10)
    made.remove(best[:3])
    again = made.search(QUESTIONS[0], 10)
    assert not np.isin(best[:3], again).any()
    allowed = np.ones(300, bool)
    allowed[again[:2]] = False
    masked = made.search(QUESTIONS[0], 10, allowed)
    assert not np.isin(again[:2], masked).any()
    assert len(masked) == 10
    few = np.zeros(300, bool)
    few[[5, 9]] = True
    assert sorted(made.search(QUESTIONS[0], 10, few).tolist()) == sorted({5, 9} - set(best[:3].tolist()))
    assert made.search(QUESTIONS[0], 10, np.zeros(300, bool)).tolist() == []


def test_the_default_number_of_candidates_grows_slower_than_the_collection() -> None:
    assert len(stage().search(QUESTIONS[0])) == default_candidates(300) == 150
    assert default_candidates(40_000) == 2 * default_candidates(10_000)


def test_threads_change_nothing() -> None:
    made = stage()
    for query in QUESTIONS[:5]:
        assert made.search(query, 50, threads=1).tolist() == made.search(query, 50, threads=3).tolist()


@pytest.mark.parametrize("clustered_from", [10**6, 100])
def test_summaries_of_any_lengths_are_ranked_together(clustered_from: int) -> None:
    """Long pages beside short ones, and collections of earlier versions, which kept forty vectors of every page."""
    lengths = [40, 16, 120, 7, 63]
    mixed = [summarise(each, lengths[i % 5]) for i, each in enumerate(PAGES)]
    made = FirstStage(DIM, clustered_from=clustered_from)
    for start in range(0, 300, 60):
        made.add(mixed[start : start + 60])
    made.remove([3])
    allowed = np.arange(300) % 7 != 0
    for query in QUESTIONS[:5]:
        scores = by_definition(query, mixed).astype(float)
        found = made.search(query, 300)
        assert len(found) == 299
        np.testing.assert_array_equal(scores[found], np.sort(np.delete(scores, 3))[::-1])
        part = made.search(query, 300, allowed)
        assert part.tolist() == [row for row in found.tolist() if allowed[row]]


@pytest.mark.parametrize(("k", "m"), [(1, 1), (5, 3), (1, 200), (5, 304)])
def test_summaries_of_any_page_are_small_and_repeatable(k: int, m: int) -> None:
    variants = page(1, k, max(m, 8))[:, :m]
    for codec in ("binary", "int8"):
        summary = summarise(variants, codec=codec)
        assert summary.shape == (min(k * m, max(40, -(-k * m // 16))), DIM)
        assert summary.dtype == np.int8
        np.testing.assert_array_equal(summary, summarise(variants, codec=codec))
        stored = summary_bytes(summary)
        assert len(stored) == 4 + len(summary) * (DIM // 2 + 2)
        back = summary_from_bytes(stored, DIM)
        there, here = back.astype(float), summary.astype(float)
        cosine = (there * here).sum(1) / np.linalg.norm(there, axis=1) / np.linalg.norm(here, axis=1)
        assert cosine.min() > 0.98
        np.testing.assert_array_equal(summary_from_bytes(summary.tobytes(), DIM), summary)  # of an earlier version
        made = FirstStage(DIM)
        made.add([summary])
        assert made.search(variants[0], 5).tolist() == [0]


def test_a_summary_does_not_depend_on_torchs_threads() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = summarise(PAGES[0])
    finally:
        torch.set_num_threads(before)
    np.testing.assert_array_equal(one, SUMMARIES[0])


def test_wrong_inputs_are_one_sentence() -> None:
    made = stage(pages=3)
    with pytest.raises(InputError, match="query"):
        made.search(np.zeros((2, 3), np.float32))
    with pytest.raises(InputError, match="mask"):
        made.search(QUESTIONS[0], 5, np.ones(4, bool))
    with pytest.raises(InputError, match="summary 0"):
        made.add([np.zeros((41, DIM + 1), np.int8)])
    with pytest.raises(InputError, match="remove"):
        made.remove([3])
    with pytest.raises(InputError, match="multiple"):
        summary_from_bytes(b"123", DIM)
    nan = np.full(2, np.nan, np.float16).tobytes()
    with pytest.raises(InputError, match="damaged"):
        summary_from_bytes(b"VDS2" + bytes(DIM) + nan, DIM)
    with pytest.raises(InputError, match="summarise"):
        summarise(np.zeros((0, 3, 4), np.float32))
