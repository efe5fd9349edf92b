"""What a search answers, as JSON."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from varsdoc.index import Hit
from varsdoc.index.asking import Query
from varsdoc.serving.library import Collection
from varsdoc.serving.schemas import SearchRequest


@dataclass(frozen=True)
class Found:
    """Hits with what it took, in milliseconds."""

    hits: list[dict[str, Any]]
    pages: int
    search_ms: float


def find(collection: Collection, query: Query, asked: SearchRequest, address: str) -> Found:
    """Search and describe; runs in a thread. `address` is what image addresses need to mean this collection."""
    started = time.perf_counter()
    where = asked.where if asked.where and asked.where.strip() else None
    hits = collection.index.search(query, asked.k, where, documents=asked.documents, hybrid=asked.hybrid)
    shown = [hit_json(hit, address, asked.explain) for hit in hits]
    return Found(shown, collection.index.pages_in_view, 1000 * (time.perf_counter() - started))


def hit_json(hit: Hit, address: str, explain: bool) -> dict[str, Any]:
    image = f"/pages/{hit.id}/image?version={hit.version}{address}"
    facts = hit.to_json() | {
        "document_id": hit.document_id,
        "pages": hit.pages,
        "version": hit.version,
        "width": hit.width,
        "height": hit.height,
        "image": image,
        "thumbnail": f"{image}&width=480",
    }
    return facts | {"explain": _explained(hit)} if explain else facts


def _explained(hit: Hit) -> dict[str, Any]:
    words = [
        {"word": i, "score": one.score, "scores": list(one.scores), "cell": None if one.cell is None else [*one.cell]}
        for i, one in enumerate(hit.explain())
    ]
    return {"words": words, "grid": list(hit.grid)}


def words_json(query: Query) -> list[dict[str, Any]]:
    return [{"word": i, "text": word.text, "tokens": list(word.tokens)} for i, word in enumerate(query.words)]


def percentile(values: Sequence[float], share: float) -> float | None:
    """
    >>> percentile([3.0, 1.0, 2.0], 0.5), percentile([], 0.5)
    (2.0, None)
    """
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 3) if ordered else None
