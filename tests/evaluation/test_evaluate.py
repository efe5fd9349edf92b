"""From images to figures: the same scores as the reference, nothing encoded twice, and it resumes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import tiny
from evaluation_tools import RandomRetriever
from varsdoc.errors import ConfigError, InputError
from varsdoc.evaluation.cache import Cache
from varsdoc.evaluation.compare import Other, compare, comparison_json, read_results
from varsdoc.evaluation.evaluate import How, evaluate
from varsdoc.evaluation.judged import read_folder
from varsdoc.evaluation.metrics import measure
from varsdoc.evaluation.results import SetReport, document, write_json
from varsdoc.evaluation.retrievers.ours import VarsDocRetriever
from varsdoc.evaluation.scorer import score_floats
from varsdoc.evaluation.sweep import default_counts, sweep
from varsdoc.scoring import score_pages

QUIET = How(shown=False)


def reference_scores(retriever, judged, aggregation: str, variants: int | None = None):
    """The plain MaxSim on vectors rounded to float16, as the cache rounds them."""
    images = [page.image() for page in judged.pages]
    pages = [
        torch.from_numpy(p.astype(np.float16).astype(np.float32))[:variants] for p in retriever.encode_pages(images)
    ]
    texts = [query.text for query in judged.queries]
    queries = [torch.from_numpy(q.astype(np.float16).astype(np.float32)) for q in retriever.encode_queries(texts)]
    return score_pages(queries, pages, aggregation=aggregation)


@pytest.mark.parametrize("aggregation", ["max", "mean", "fused"])
def test_scores_are_the_reference_maxsims(folder: Path, tmp_path: Path, retriever, aggregation: str) -> None:
    judged = read_folder(folder)
    result = evaluate(retriever, judged, Cache(tmp_path / "c"), How(aggregation=aggregation, shown=False))
    expected = reference_scores(retriever, judged, aggregation)
    np.testing.assert_allclose(result.scored.total(aggregation), expected.total.numpy(), atol=2e-3)
    np.testing.assert_allclose(result.scored.variants, expected.variants.numpy(), atol=2e-3)
    assert result.mean["ndcg@10"] == pytest.approx(measure(expected.total.numpy(), judged).mean()["ndcg@10"], abs=1e-9)


def test_a_real_model_goes_from_images_to_figures(folder: Path, tmp_path: Path) -> None:
    retriever = VarsDocRetriever(model=tiny.model(variants=3))
    judged = read_folder(folder)
    result = evaluate(retriever, judged, Cache(tmp_path / "c"), QUIET)
    found = result.to_json()
    contract = {"ndcg@5", "ndcg@10", "recall@10", "queries", "pages", "usage", "max_usage", "tie_rate", "tie_rate_mean"}
    assert contract <= found.keys()
    assert len(found["usage"]) == 3
    assert sum(found["usage"]) == pytest.approx(1)
    assert (found["queries"], found["pages"]) == (8, 6)
    expected = reference_scores(retriever, judged, "max")
    np.testing.assert_allclose(result.scored.total(), expected.total.numpy(), atol=5e-3)
    rows, pages = zip(*judged.gold, strict=True)
    winners = expected.variants[list(rows), list(pages)].argmax(-1).tolist()
    assert result.usage is not None
    assert result.usage.winners.tolist() == winners
    low, high = found["interval_95"]["ndcg@10"]
    assert low <= found["ndcg@10"] <= high


def test_figures_are_those_of_the_judge_that_training_carries(folder: Path, tmp_path: Path) -> None:
    """Another implementation, from other hands: its own reader, encoder path, NDCG and counts."""
    from contextlib import nullcontext

    from varsdoc.training.judge import judge, read_judged

    model = tiny.model(variants=3)
    theirs = judge(model, read_judged(str(folder)), batch=2, precision=nullcontext())
    ours = evaluate(VarsDocRetriever(model=model), read_folder(folder), Cache(tmp_path / "c"), QUIET).to_json()
    assert ours["ndcg@10"] == pytest.approx(theirs.ndcg, abs=1e-6)
    assert ours["usage"] == pytest.approx(theirs.wins, abs=1e-6)
    assert ours["tie_rate"] == pytest.approx(theirs.tie_rate, abs=1e-6)


def test_a_second_run_encodes_nothing_and_says_the_same(folder: Path, tmp_path: Path) -> None:
    judged, cache = read_folder(folder), Cache(tmp_path / "c")
    first = RandomRetriever()
    one = evaluate(first, judged, cache, QUIET)
    second = RandomRetriever()
    two = evaluate(second, judged, cache, QUIET)
    assert (first.pages_encoded, second.pages_encoded, second.queries_encoded) == (6, 0, 0)
    assert one.to_json() == two.to_json()
    assert one.per_query() == two.per_query()


def test_an_interrupted_run_goes_on_where_it_stopped(folder: Path, tmp_path: Path) -> None:
    judged, cache = read_folder(folder), Cache(tmp_path / "c")
    broken = RandomRetriever()
    broken.fail_after = 4
    with pytest.raises(KeyboardInterrupt):
        evaluate(broken, judged, cache, QUIET)
    rest = RandomRetriever()
    result = evaluate(rest, judged, cache, QUIET)
    assert rest.pages_encoded == 6 - 4
    assert result.to_json() == evaluate(RandomRetriever(), judged, Cache(tmp_path / "other"), QUIET).to_json()


def test_a_changed_page_or_model_is_encoded_anew(folder: Path, tmp_path: Path) -> None:
    judged, cache = read_folder(folder), Cache(tmp_path / "c")
    evaluate(RandomRetriever(), judged, cache, QUIET)
    from evaluation_tools import picture

    picture("something new").save(folder / "images" / "p2.png")
    again = RandomRetriever()
    evaluate(again, judged, cache, QUIET)
    assert again.pages_encoded == 1
    other = RandomRetriever(variants=2)
    evaluate(other, judged, cache, QUIET)
    assert other.pages_encoded == 6


def test_every_choice_of_the_sweep_equals_its_own_run(folder: Path, tmp_path: Path, retriever) -> None:
    judged, cache = read_folder(folder), Cache(tmp_path / "c")
    result = evaluate(retriever, judged, cache, QUIET)
    encoded = retriever.pages_encoded
    rows = sweep(retriever, result, cache, ["float16", "binary"])
    assert retriever.pages_encoded == encoded
    assert {(row.codec, row.variants) for row in rows} == {(c, k) for c in ("float16", "binary") for k in (1, 3)}
    for row in rows:
        if row.codec == "float16":
            expected = reference_scores(retriever, judged, row.aggregation, row.variants)
            assert row.ndcg10 == pytest.approx(measure(expected.total.numpy(), judged).mean()["ndcg@10"], abs=1e-9)
    whole = {(row.codec, row.variants): row.bytes_per_page for row in rows}
    assert whole["float16", 3] > 2.5 * whole["float16", 1] > whole["binary", 3]
    own = next(r for r in rows if (r.codec, r.variants, r.aggregation) == ("float16", 3, "max"))
    assert own.difference == 0
    assert default_counts(5) == [1, 3, 5]


def test_codecs_are_scored_from_their_codes(folder: Path, tmp_path: Path, retriever) -> None:
    from varsdoc.index.codecs import get_codec

    judged, cache = read_folder(folder), Cache(tmp_path / "c")
    result = evaluate(retriever, judged, cache, How(codec="binary", shown=False))
    codec = get_codec("binary")
    images = [page.image() for page in judged.pages]
    pages = [torch.from_numpy(codec.unpack(codec.pack(page))) for page in retriever.encode_pages(images)]
    queries = [torch.from_numpy(q) for q in retriever.encode_queries([query.text for query in judged.queries])]
    np.testing.assert_allclose(result.scored.total(), score_pages(queries, pages).total.numpy(), atol=5e-3)
    assert result.scored.mean_bytes == pytest.approx(
        np.mean([len(codec.pack(p)) for p in retriever.encode_pages(images)])
    )


def test_an_unknown_codec_or_aggregation_is_refused(folder: Path, tmp_path: Path, retriever) -> None:
    judged = read_folder(folder)
    with pytest.raises(ConfigError, match="no codec 'zip'"):
        evaluate(retriever, judged, Cache(tmp_path / "c"), How(codec="zip", shown=False))
    with pytest.raises(ConfigError, match="no aggregation 'median'"):
        evaluate(retriever, judged, Cache(tmp_path / "c"), How(aggregation="median", shown=False))


def test_two_models_are_compared_on_the_same_queries(folder: Path, tmp_path: Path) -> None:
    judged, cache = read_folder(folder), Cache(tmp_path / "c")
    one = evaluate(RandomRetriever(), judged, cache, QUIET)
    two = evaluate(RandomRetriever(variants=1, name="other"), judged, cache, QUIET)
    test, missing = compare(one, Other.of(two))
    assert missing == 0
    assert test.difference == pytest.approx(one.mean["ndcg@10"] - two.mean["ndcg@10"])
    write_json(tmp_path / "r" / "results.json", document({judged.name: SetReport(two)}, two.identity, True, "test"))
    for path in (tmp_path / "r", tmp_path / "r" / "results.json"):
        assert comparison_json(one, read_results(str(path))[judged.name]) == comparison_json(one, Other.of(two))
    some = Other("part", "0", {"q1": 0.5})
    assert compare(one, some)[1] == 7
    with pytest.raises(InputError, match="none of the queries"):
        compare(one, Other("none", "0", {"zz": 1.0}))
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(InputError, match=r"not the results\.json"):
        read_results(str(tmp_path / "bad.json"))


def test_float_scores_equal_the_reference() -> None:
    generator = np.random.default_rng(0)
    queries = [generator.normal(size=(n, 16)).astype(np.float32) for n in (1, 7, 3)]
    pages = [generator.normal(size=(3, m, 16)).astype(np.float32) for m in (5, 1, 9)]
    fused, variants = score_floats(queries, pages)
    asked, held = [torch.from_numpy(q) for q in queries], [torch.from_numpy(p) for p in pages]
    assert np.allclose(variants, score_pages(asked, held).variants, atol=1e-5)
    assert np.allclose(fused, score_pages(asked, held, aggregation="fused").total, atol=1e-5)
