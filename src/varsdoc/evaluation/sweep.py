"""Aggregation, K and codec on the same embeddings: what each choice costs and gains, without encoding anything again.

K below the model's means its first K variants. Branch k needs no probe after its own, so these are the vectors that the
model would give; but it was not trained for so few, and a model trained with K=3 is another row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from varsdoc.evaluation.cache import Cache
from varsdoc.evaluation.evaluate import Result, encode_queries
from varsdoc.evaluation.metrics import measure
from varsdoc.evaluation.progress import Progress
from varsdoc.evaluation.retrievers.protocol import Retriever
from varsdoc.evaluation.scorer import AGGREGATIONS, Floats, Scored, mean_bytes, score_cached
from varsdoc.evaluation.statistics import bootstrap_interval, paired_test

CODECS = ("float16", "int8", "int4", "binary")


@dataclass(frozen=True)
class Choice:
    """One row of the comparison."""

    codec: str
    variants: int
    aggregation: str
    ndcg10: float
    low: float
    high: float
    bytes_per_page: float
    difference: float  # to the run's own choice
    p_value: float  # of that difference

    def to_json(self) -> dict[str, Any]:
        row = asdict(self)
        row["ndcg@10"] = row.pop("ndcg10")
        return row


def default_counts(variants: int) -> list[int]:
    """1, 3, 5, ... and all.

    >>> default_counts(5), default_counts(4), default_counts(1)
    ([1, 3, 5], [1, 3, 4], [1])
    """
    return sorted({*range(1, variants + 1, 2), variants})


def sweep(
    retriever: Retriever,
    result: Result,
    cache: Cache,
    codecs: Sequence[str] = CODECS,
    counts: Sequence[int] | None = None,
) -> list[Choice]:
    """Every codec with every K, under each aggregation that its scores hold; one pass over the pages
    for each codec but the run's own, whose scores are there.
    """
    identity, judged = result.identity, result.judged
    counts = counts or default_counts(identity.variants)
    queries = encode_queries(retriever, [query.text for query in judged.queries], cache, shown=False)
    own = result.measured.per_query["ndcg@10"]
    rows = []
    with Progress(len(codecs), f"{judged.name}: comparing", result.how.shown) as bar:
        for codec in codecs:
            scored = (
                result.scored
                if codec == result.how.codec
                else score_cached(queries, cache, identity.space, result.page_keys, codec, None, identity.device)
            )
            for count in counts:
                size = _bytes(scored, cache, result, codec, count)
                for aggregation in _aggregations(count, identity.variants):
                    total = (
                        scored.total(aggregation) if count == identity.variants else _first(scored, count, aggregation)
                    )
                    values = measure(total, judged).per_query["ndcg@10"]
                    test = paired_test(values, own)
                    low, high = bootstrap_interval(values)
                    mean = float(values.mean())
                    rows.append(Choice(codec, count, aggregation, mean, low, high, size, test.difference, test.p_value))
            bar(1)
    return rows


def _aggregations(count: int, variants: int) -> tuple[str, ...]:
    """Fused scores of some variants are not in the scores of all."""
    if count == 1:
        return ("max",)
    return AGGREGATIONS if count == variants else ("max", "mean")


def _first(scored: Scored, count: int, aggregation: str) -> Floats:
    assert scored.variants is not None
    return Scored(scored.fused, scored.variants[:, :, :count]).total(aggregation)


def _bytes(scored: Scored, cache: Cache, result: Result, codec: str, count: int) -> float:
    if count == result.identity.variants:
        return scored.mean_bytes or 0.0
    return mean_bytes(cache, result.identity.space, result.page_keys, codec, count)
