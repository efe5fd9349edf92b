"""NDCG@k, recall@k, MAP, MRR per query, equal to trec_eval's (pytrec_eval) to the last digit.

trec_eval's conventions, which decide figures when scores tie or grades are graded:
- scores are compared as float32; equal scores are ordered by page id, descending as text
- gain is the grade itself, discount log2(rank + 1); the ideal order is over all judged pages, retrieved or not
- an unjudged page counts as not relevant; grades below 0 count as 0 in NDCG; relevant means a grade of 1 or more
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from varsdoc.errors import InputError
from varsdoc.evaluation.judged import JudgedSet

Floats = NDArray[np.float64]
NDCG_AT = (1, 3, 5, 10, 20)
RECALL_AT = (1, 5, 10, 20, 100)


def ranking(scores: NDArray[np.float32], ids: Sequence[str]) -> NDArray[np.int64]:
    """Rows of pages from best to worst, ties by id descending.

    >>> ranking(np.float32([0.5, 0.9, 0.5]), ["a", "b", "c"]).tolist()
    [1, 2, 0]
    """
    by_id = np.array(sorted(range(len(ids)), key=ids.__getitem__, reverse=True))
    return np.asarray(by_id[np.argsort(-np.asarray(scores, np.float32)[by_id], kind="stable")])


def ndcg(gains: Floats, judged: Floats, k: int) -> float:
    """Discounted gain of the k best over that of the best possible order.

    gains   grades in the order of the ranking
    judged  the grades of all judged pages of the query

    The only relevant page comes second: 1 / log2(3).

    >>> round(ndcg(np.array([0.0, 1.0]), np.array([1.0]), 10), 4)
    0.6309
    """
    ideal = _discounted(np.sort(judged)[::-1], k)
    return _discounted(gains, k) / ideal if ideal > 0 else 0.0


def _discounted(gains: Floats, k: int) -> float:
    kept = np.maximum(gains[:k], 0)
    return float((kept / np.log2(np.arange(2, len(kept) + 2))).sum())


def recall(relevant: NDArray[np.bool_], total: int, k: int) -> float:
    """Share of the relevant pages among the k best."""
    return float(relevant[:k].sum()) / total if total else 0.0


def average_precision(relevant: NDArray[np.bool_], total: int) -> float:
    """Mean over the relevant pages of the precision at their rank.

    >>> round(average_precision(np.array([True, False, True]), 2), 4)  # (1/1 + 2/3) / 2
    0.8333
    """
    ranks = np.flatnonzero(relevant) + 1
    return float((np.arange(1, len(ranks) + 1) / ranks).sum()) / total if total else 0.0


def reciprocal_rank(relevant: NDArray[np.bool_]) -> float:
    ranks = np.flatnonzero(relevant)
    return 1.0 / (int(ranks[0]) + 1) if len(ranks) else 0.0


def query_metrics(
    scores: NDArray[np.float32], ids: Sequence[str], grades: Mapping[str, int], order: NDArray[np.int64] | None = None
) -> dict[str, float]:
    """All metrics of one query over all pages that were scored."""
    order = ranking(scores, ids) if order is None else order
    gains = np.array([float(grades.get(ids[row], 0)) for row in order])
    judged = np.array([float(grade) for grade in grades.values()])
    relevant = gains >= 1
    total = int((judged >= 1).sum())
    return {
        **{f"ndcg@{k}": ndcg(gains, judged, k) for k in NDCG_AT},
        **{f"recall@{k}": recall(relevant, total, k) for k in RECALL_AT},
        "mrr": reciprocal_rank(relevant),
        "map": average_precision(relevant, total),
    }


@dataclass(frozen=True)
class Measured:
    """Metrics of every query, in the order of the set's queries."""

    per_query: dict[str, Floats]

    def mean(self, rows: Sequence[int] | None = None) -> dict[str, float]:
        return {
            name: float(values.mean() if rows is None else values[list(rows)].mean())
            for name, values in self.per_query.items()
        }


def measure(total: NDArray[np.float32], judged: JudgedSet) -> Measured:
    """Metrics of a whole run; total is (queries, pages)."""
    if not np.isfinite(total).all():
        raise InputError(f"Some scores on {judged.name} are not numbers; the model or its precision is broken.")
    ids = [page.id for page in judged.pages]
    rows = [
        query_metrics(scores, ids, judged.grades[query.id]) for scores, query in zip(total, judged.queries, strict=True)
    ]
    return Measured({name: np.array([row[name] for row in rows]) for name in rows[0]})


def by_language(measured: Measured, judged: JudgedSet) -> dict[str, dict[str, float]]:
    """Means per language of the query; empty where the set names none."""
    rows: dict[str, list[int]] = {}
    for i, query in enumerate(judged.queries):
        if query.language:
            rows.setdefault(query.language, []).append(i)
    return {language: measured.mean(own) | {"queries": float(len(own))} for language, own in sorted(rows.items())}
