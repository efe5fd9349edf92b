"""The largest wins and losses, to look at: the page that was wanted with a heatmap, and the page that came first."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from varsdoc.evaluation.cache import Cache
from varsdoc.evaluation.evaluate import Result, encode_queries
from varsdoc.evaluation.judged import Page
from varsdoc.evaluation.metrics import ranking
from varsdoc.evaluation.retrievers.protocol import Retriever

EACH = 4
THUMB = 340


def pick(differences: Sequence[float], each: int = EACH) -> tuple[list[int], list[int]]:
    """Rows of the largest wins and the largest losses; nothing that did not change.

    >>> pick([0.0, 0.5, -0.2, 0.9], each=1)
    ([3], [2])
    """
    order = sorted(range(len(differences)), key=lambda i: -differences[i])
    wins = [i for i in order if differences[i] > 0][:each]
    return wins, [i for i in reversed(order) if differences[i] < 0][:each]


def reference(result: Result, other: Mapping[str, float] | None) -> tuple[str, list[float]]:
    """What this run is held against query by query: the other system, else its own first variant, else its mean."""
    own = result.measured.per_query["ndcg@10"]
    if other is not None:
        return "the compared system", [float(other.get(q.id, own[i])) for i, q in enumerate(result.judged.queries)]
    scored = result.scored
    if scored.variants is not None and scored.variants.shape[2] > 1:
        from varsdoc.evaluation.metrics import measure

        return "its first variant alone", measure(scored.variants[:, :, 0], result.judged).per_query["ndcg@10"].tolist()
    return "its own mean", [float(own.mean())] * len(own)


def examples(
    result: Result, other: Mapping[str, float] | None, retriever: Retriever | None, cache: Cache
) -> dict[str, Any]:
    """Wins and losses with pictures, ready for the page; no picture is written to a file."""
    name, before = reference(result, other)
    own = result.measured.per_query["ndcg@10"]
    change = [float(a - b) for a, b in zip(own, before, strict=True)]
    wins, losses = pick(change)
    rows = {
        kind: [_example(result, i, before[i], retriever, cache) for i in chosen]
        for kind, chosen in (("wins", wins), ("losses", losses))
    }
    return {"against": name, "differences": change, **rows}


def _example(result: Result, i: int, before: float, retriever: Retriever | None, cache: Cache) -> dict[str, Any]:
    judged = result.judged
    query = judged.queries[i]
    gold = dict(judged.gold)[i]
    total = result.scored.total(result.how.aggregation)[i]
    order = ranking(total, [page.id for page in judged.pages]).tolist()
    winner = int(result.usage.winners[i]) if result.usage else None
    return {
        "query": query.text,
        "ndcg@10": float(result.measured.per_query["ndcg@10"][i]),
        "before": before,
        "rank": order.index(gold) + 1,
        "variant": winner,
        "gold": {
            "page": judged.pages[gold].id,
            "picture": _picture(result, gold, query.text, winner, retriever, cache),
        },
        "first": None
        if order[0] == gold
        else {
            "page": judged.pages[order[0]].id,
            "picture": _picture(result, order[0], query.text, None, retriever, cache),
        },
    }


def _picture(
    result: Result, row: int, text: str, variant: int | None, retriever: Retriever | None, cache: Cache
) -> str:
    page = result.judged.pages[row]
    heat = heatmap(result, row, text, variant, retriever, cache, page) if retriever is not None else None
    return data_uri(page.image(), heat)


def heatmap(
    result: Result, row: int, text: str, variant: int | None, retriever: Any, cache: Cache, page: Page
) -> NDArray[np.float32] | None:
    """(rows, cols) in 0..1: where the question's tokens find their likeness, averaged over them; None where the
    retriever does not know where its vectors lie on the page."""
    if not hasattr(retriever, "layout") or not result.page_keys:
        return None
    vectors = cache.read_array(result.identity.space, result.page_keys[row])
    if vectors is None:
        return None
    layout = retriever.layout(page.image(), vectors.shape[1])
    query = encode_queries(retriever, [text], cache, shown=False)[0]
    scores = layout.led_back(np.einsum("td,kmd->ktm", query, vectors.astype(np.float32)))  # (K, T, cells)
    chosen = int(scores.max(2).sum(1).argmax()) if variant is None else variant
    likeness = scores[chosen]  # (T, cells)
    low, high = likeness.min(1, keepdims=True), likeness.max(1, keepdims=True)
    heat = ((likeness - low) / np.maximum(high - low, 1e-6)).mean(0)
    spread = max(float(heat.max() - heat.min()), 1e-6)
    return np.asarray(((heat - heat.min()) / spread) ** 2, np.float32).reshape(layout.rows, layout.cols)


def data_uri(image: Any, heat: NDArray[np.float32] | None) -> str:
    """A small JPEG, with the heat laid over it in orange."""
    from PIL import Image

    small = image.convert("RGB")
    small.thumbnail((THUMB, THUMB * 2))
    if heat is not None:
        mask = Image.fromarray((heat * 190).astype(np.uint8)).resize(small.size, Image.Resampling.BICUBIC)
        small = Image.composite(Image.new("RGB", small.size, (238, 120, 30)), small, mask)
    data = io.BytesIO()
    small.save(data, "JPEG", quality=60, optimize=True)
    return "data:image/jpeg;base64," + base64.b64encode(data.getvalue()).decode()
