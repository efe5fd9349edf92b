"""Words beside looks: BM25 over text layers (LanceDB's full-text index), fused with MaxSim by reciprocal rank.

Off unless asked for: a search without it is the model's own. The index is made and extended by writers; pages that came
after its last extension are searched plainly by LanceDB, so nothing is missed.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from varsdoc.index.snapshot import Snapshot

RANK_CONSTANT = 60.0  # of the original paper on reciprocal rank fusion; nothing here was tuned
_COLUMN = "text"


def has_text_index(table: Any) -> bool:
    return any(_COLUMN in index.columns for index in table.list_indices())


def ensure_text_index(table: Any) -> None:
    """For writers: make the index once there is text."""
    if not has_text_index(table) and table.count_rows(f"{_COLUMN} <> ''"):
        from lancedb.index import FTS

        table.create_index(_COLUMN, config=FTS(with_position=False, remove_stop_words=False, stem=True))


def text_ranking(snapshot: Snapshot, question: str, allowed: np.ndarray, n: int) -> np.ndarray:
    """Rows by BM25, best first. Rows that are staged or replaced lie in the index too and are passed over."""
    table = snapshot.text_table()
    if not has_text_index(table):
        warnings.warn("No page of this collection has a text layer: hybrid search is the model's own.", stacklevel=3)
        return np.zeros(0, np.int64)
    limit = max(64, 2 * n)
    while True:
        found = _match(table, question, limit)
        pairs = zip(found["version"].to_pylist(), found["page"].to_pylist(), strict=True)
        rows = [snapshot.row(version, page) for version, page in pairs]
        kept = [row for row in dict.fromkeys(rows) if row is not None and allowed[row]]
        if len(kept) >= n or found.num_rows < limit:
            return np.array(kept[:n], np.int64)
        limit *= 4


def _match(table: Any, question: str, limit: int) -> Any:
    from lancedb.query import MatchQuery

    query = table.search(MatchQuery(question, _COLUMN), query_type="fts")
    return query.select(["version", "page", "_score"]).limit(limit).to_arrow()


def fuse(first: np.ndarray, second: np.ndarray) -> dict[int, float]:
    """Reciprocal rank fusion of two rankings of rows.

    >>> {row: round(score, 4) for row, score in fuse(np.array([7, 3]), np.array([3])).items()}
    {7: 0.0164, 3: 0.0325}
    """
    scores: dict[int, float] = {}
    for ranking in (first, second):
        for rank, row in enumerate(ranking.tolist(), 1):
            scores[row] = scores.get(row, 0.0) + 1 / (RANK_CONSTANT + rank)
    return scores
