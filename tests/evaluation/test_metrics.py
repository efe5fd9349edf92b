"""Metrics against trec_eval (pytrec_eval) and MTEB's own, on runs with ties, graded and missing judgements."""

from __future__ import annotations

import numpy as np
import pytest
import pytrec_eval

from evaluation_tools import write_folder
from varsdoc.errors import InputError
from varsdoc.evaluation.judged import JudgedSet, Query, read_folder
from varsdoc.evaluation.metrics import NDCG_AT, RECALL_AT, by_language, measure, query_metrics, ranking


def random_run(seed: int) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, float]]]:
    """Scores from few values, so that ties abound; grades 0..3, some pages unjudged, some below 0."""
    random = np.random.default_rng(seed)
    pages = [f"page{i:03d}" if i % 2 else f"P{i}" for i in range(60)]
    qrels, run = {}, {}
    for q in range(12):
        judged = random.choice(pages, random.integers(1, 25), replace=False)
        grades = {page: int(random.integers(-1, 4)) for page in judged}
        grades[judged[0]] = int(random.integers(1, 4))
        qrels[f"q{q}"] = grades
        run[f"q{q}"] = {page: float(np.float32(random.integers(0, 9) / 7)) for page in pages}
    return qrels, run


@pytest.mark.parametrize("seed", range(8))
def test_metrics_equal_trec_eval_on_ties_grades_and_missing_judgements(seed: int) -> None:
    qrels, run = random_run(seed)
    names = {f"ndcg_cut.{','.join(map(str, NDCG_AT))}", f"recall.{','.join(map(str, RECALL_AT))}", "map", "recip_rank"}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, names).evaluate(run)
    for query, scores in run.items():
        ids = list(scores)
        ours = query_metrics(np.array(list(scores.values()), np.float32), ids, qrels[query])
        for k in NDCG_AT:
            assert ours[f"ndcg@{k}"] == pytest.approx(theirs[query][f"ndcg_cut_{k}"], abs=1e-12)
        for k in RECALL_AT:
            assert ours[f"recall@{k}"] == pytest.approx(theirs[query][f"recall_{k}"], abs=1e-12)
        assert ours["map"] == pytest.approx(theirs[query]["map"], abs=1e-12)
        assert ours["mrr"] == pytest.approx(theirs[query]["recip_rank"], abs=1e-12)


def test_metrics_equal_mteb_means() -> None:
    mteb = pytest.importorskip("mteb._evaluators.retrieval_metrics")
    qrels, run = random_run(99)
    theirs = mteb.calculate_retrieval_scores(run, qrels, [1, 5, 10, 100])
    ours = [
        query_metrics(np.array(list(scores.values()), np.float32), list(scores), qrels[query])
        for query, scores in run.items()
    ]
    for k in (1, 5, 10):
        assert np.mean([row[f"ndcg@{k}"] for row in ours]) == pytest.approx(theirs.ndcg[f"NDCG@{k}"], abs=1e-5)
        assert np.mean([row[f"recall@{k}"] for row in ours]) == pytest.approx(theirs.recall[f"Recall@{k}"], abs=1e-5)
    assert np.mean([row["mrr"] for row in ours]) == pytest.approx(np.mean(theirs.mrr["MRR@100"]), abs=1e-5)


def test_order_of_the_corpus_does_not_change_a_metric(random: np.random.Generator) -> None:
    qrels, run = random_run(3)
    ids = list(run["q0"])
    scores = np.array(list(run["q0"].values()), np.float32)
    shuffled = random.permutation(len(ids))
    again = query_metrics(scores[shuffled], [ids[i] for i in shuffled], qrels["q0"])
    assert again == query_metrics(scores, ids, qrels["q0"])


def test_equal_scores_are_ordered_by_id_descending() -> None:
    assert ranking(np.float32([1, 1, 1, 2]), ["b", "c", "a", "0"]).tolist() == [3, 1, 0, 2]


def test_means_per_language_cover_their_own_queries(tmp_path, random: np.random.Generator) -> None:
    judged = read_folder(write_folder(tmp_path / "set"))
    measured = measure(random.random((8, 6)).astype(np.float32), judged)
    found = by_language(measured, judged)
    assert set(found) == {"english", "french"}
    assert found["english"]["ndcg@10"] == pytest.approx(measured.per_query["ndcg@10"][:4].mean())
    assert found["french"]["queries"] == 4
    without = JudgedSet("x", judged.pages, [Query(q.id, q.text) for q in judged.queries], judged.grades)
    assert by_language(measured, without) == {}


def test_scores_that_are_no_numbers_are_refused(tmp_path) -> None:
    judged = read_folder(write_folder(tmp_path / "set"))
    scores = np.zeros((8, 6), np.float32)
    scores[2, 3] = np.nan
    with pytest.raises(InputError, match="not numbers"):
        measure(scores, judged)
