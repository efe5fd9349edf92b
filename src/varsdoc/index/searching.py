"""Search: first stage, then exact variant-aware MaxSim on the candidates' codes, ties by document and page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from varsdoc.errors import ConfigError
from varsdoc.index.asking import Query
from varsdoc.index.facts import document_id
from varsdoc.index.first_stage import default_candidates
from varsdoc.index.hit import Hit, PageSource
from varsdoc.index.hybrid import fuse, text_ranking
from varsdoc.index.pinned import pinned
from varsdoc.index.snapshot import Snapshot
from varsdoc.scoring.maxsim import Scores
from varsdoc.scoring.packed import score_packed

# Codes of at most so many pages are read at a time where they are not resident.
_ON_DEMAND_PAGES = 512


@dataclass(frozen=True)
class Request:
    """One search, after the question was encoded."""

    query: Query
    k: int = 10
    allowed: np.ndarray | None = None  # (rows,) what a filter lets through; None: everything
    aggregation: str = "max"
    candidates: int | None = None
    exhaustive: bool = False
    words: str | None = None  # hybrid: the question as text


@dataclass(frozen=True)
class Ranked:
    """Rows in order, with their scores."""

    rows: np.ndarray  # (n,)
    total: np.ndarray  # (n,)
    variants: np.ndarray  # (n, K)
    fused: dict[int, float] | None = None


def check_k(k: int) -> None:
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise ConfigError(f"k must be 1 or more, not {k!r}.")


def rank(snapshot: Snapshot, request: Request) -> Ranked:
    """The k best rows."""
    check_k(request.k)
    allowed = snapshot.alive if request.allowed is None else snapshot.alive & request.allowed
    rows = candidates(snapshot, request, allowed)
    words = np.zeros(0, np.int64)
    if request.words is not None:
        words = text_ranking(snapshot, request.words, allowed, max(10 * request.k, 100))
        rows = np.unique(np.concatenate([rows, words]))
    scores = score_rows(snapshot, request.query.vectors, rows, request.aggregation)
    rows, scores = _leading(snapshot, request, rows, scores, words)
    order = _order(snapshot, rows, scores.total[0].numpy())
    fused = None
    if request.words is not None:
        fused = fuse(rows[order], words)
        order = np.array(sorted(order.tolist(), key=lambda i: -fused[int(rows[i])]), np.int64)
    order = order[: request.k]
    return Ranked(rows[order], scores.total[0].numpy()[order], scores.variants[0].numpy()[order], fused)


def look(snapshot: Snapshot, row: int, query: Query) -> Hit:
    """One page under a question, wherever it would rank."""
    scores = score_rows(snapshot, query.vectors, np.array([row]))
    return hits(snapshot, Ranked(np.array([row]), scores.total[0].numpy(), scores.variants[0].numpy()), query)[0]


def candidates(snapshot: Snapshot, request: Request, allowed: np.ndarray) -> np.ndarray:
    """Rows that are worth an exact score: all, where there are few or the caller says so."""
    if request.candidates is not None and request.candidates < 1:
        raise ConfigError(f"candidates must be 1 or more, not {request.candidates}.")
    rows = np.flatnonzero(allowed)
    wanted = request.candidates or max(default_candidates(len(rows)), 4 * request.k)
    everything = request.exhaustive or (snapshot.held is not None and request.candidates is None)
    if everything or len(rows) <= wanted:
        return rows
    return snapshot.candidates(request.query.vectors, wanted, allowed)


def score_rows(snapshot: Snapshot, query: np.ndarray, rows: np.ndarray, aggregation: str = "max") -> Scores:
    """Exact scores of some rows, resident or not."""
    import torch

    if snapshot.held is not None:
        found = snapshot.held.score([query], None if len(rows) == len(snapshot.held) else rows, aggregation)
        return Scores(found.total.cpu(), found.variants.cpu(), found.query_tokens)
    if snapshot.packed is not None or len(rows) <= _ON_DEMAND_PAGES:
        pages, numbers = snapshot.codes(rows)
        return score_packed([query], pages, numbers, aggregation)
    parts = []
    for start in range(0, len(rows), _ON_DEMAND_PAGES):
        pages, numbers = snapshot.codes(rows[start : start + _ON_DEMAND_PAGES])
        parts.append(score_packed([query], pages, numbers, aggregation))
    total, variants = (torch.cat(x, 1) for x in ([p.total for p in parts], [p.variants for p in parts]))
    return Scores(total, variants, parts[0].query_tokens)


def _leading(
    snapshot: Snapshot, request: Request, rows: np.ndarray, scores: Scores, words: np.ndarray
) -> tuple[np.ndarray, Scores]:
    """Only what can be among the answers: putting a million rows in order takes longer than scoring them did."""
    if request.words is None:
        wanted = request.k
    elif snapshot.held is not None:  # as many as a first stage would have let through to the fusion
        wanted = max(default_candidates(len(rows)), 4 * request.k)
    else:
        return rows, scores
    if len(rows) <= wanted:
        return rows, scores
    total = scores.total[0].numpy()
    least = np.partition(total, len(total) - wanted)[len(total) - wanted]
    kept = np.flatnonzero((total >= least) | np.isin(rows, words))  # every one of equal score: _order decides
    return rows[kept], Scores(scores.total[:, kept], scores.variants[:, kept], scores.query_tokens)


def _order(snapshot: Snapshot, rows: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Best first; equal scores by document and page, so that an answer does not depend on when a page was added."""
    pages = snapshot.pages
    keys = [
        (-float(s), pages[row].document.name, pages[row].page) for s, row in zip(scores, rows.tolist(), strict=True)
    ]
    return np.array(sorted(range(len(rows)), key=keys.__getitem__), np.int64)


def hits(snapshot: Snapshot, ranked: Ranked, query: Query) -> list[Hit]:
    source = pinned(snapshot, ranked.rows.tolist())
    return [_hit(snapshot, ranked, i, query, source) for i in range(len(ranked.rows))]


def _hit(snapshot: Snapshot, ranked: Ranked, i: int, query: Query, source: PageSource) -> Hit:
    row = int(ranked.rows[i])
    page = snapshot.pages[row]
    each: Sequence[float] = ranked.variants[i].tolist()
    return Hit(
        id=page.id,
        document=page.document.name,
        page=page.page + 1,
        score=float(ranked.total[i]),
        score_normalised=float(ranked.total[i]) / len(query.vectors),
        variant=int(np.argmax(ranked.variants[i])),
        variant_scores=tuple(each),
        metadata=dict(page.document.metadata),
        fused_score=None if ranked.fused is None else ranked.fused[row],
        document_id=document_id(page.document.source),
        pages=page.document.pages,
        version=page.document.version,
        width=page.width,
        height=page.height,
        _grid=page.grid,
        _image_start=page.image_start,
        _levelled=page.levelled,
        _query=query,
        _source=source,
    )
