"""A retriever and a judged set -> figures. Encoding goes through the cache, so whoever interrupts it loses a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from varsdoc.evaluation.analysis import Usage, variant_usage
from varsdoc.evaluation.cache import Cache, content_key
from varsdoc.evaluation.judged import JudgedSet
from varsdoc.evaluation.metrics import Measured, by_language, measure
from varsdoc.evaluation.progress import Progress
from varsdoc.evaluation.retrievers.protocol import Identity, Retriever, Vectors
from varsdoc.evaluation.scorer import Scored, score_cached
from varsdoc.evaluation.statistics import bootstrap_interval

PAGE_BATCH = {"cpu": 4, "cuda": 64}  # pages between two writes to the cache
QUERY_BATCH = 64
INTERVALS = ("ndcg@5", "ndcg@10", "recall@10", "mrr", "map")


@dataclass(frozen=True)
class How:
    """Settings of a run that are not the model's."""

    codec: str = "float16"
    aggregation: str = "max"
    shown: bool = True  # progress on stderr


@dataclass(frozen=True)
class Result:
    """One system on one judged set."""

    judged: JudgedSet
    identity: Identity
    how: How
    scored: Scored
    measured: Measured
    usage: Usage | None
    page_keys: list[str] = field(default_factory=list)

    @property
    def mean(self) -> dict[str, float]:
        return self.measured.mean()

    def to_json(self) -> dict[str, Any]:
        """The contract's keys first, then what a reader needs to trust them."""
        mean, judged = self.mean, self.judged
        usage = self.usage
        return {
            "ndcg@5": mean["ndcg@5"],
            "ndcg@10": mean["ndcg@10"],
            "recall@10": mean["recall@10"],
            "queries": len(judged.queries),
            "pages": len(judged.pages),
            "usage": usage.usage if usage else [],
            "max_usage": usage.max_usage if usage else None,
            "tie_rate": usage.tie_rate if usage else None,
            "tie_rate_mean": usage.tie_rate_mean if usage else None,
            **{name: value for name, value in mean.items() if name not in ("ndcg@5", "ndcg@10", "recall@10")},
            "interval_95": {name: bootstrap_interval(self.measured.per_query[name]) for name in INTERVALS},
            "languages": by_language(self.measured, judged),
            "problems": judged.problems.counts(),
            "queries_file": judged.queries_file,
            "slice_of": judged.slice_of,
            "codec": self.how.codec,
            "aggregation": self.how.aggregation,
            "bytes_per_page": self.scored.mean_bytes,
            "gap_histogram": usage.histogram() if usage else None,
        }

    def per_query(self) -> dict[str, dict[str, Any]]:
        """By query id: what a later paired test needs."""
        gold = dict(self.judged.gold)
        rows = {}
        for i, query in enumerate(self.judged.queries):
            rows[query.id] = {
                "ndcg@10": float(self.measured.per_query["ndcg@10"][i]),
                "ndcg@5": float(self.measured.per_query["ndcg@5"][i]),
                "recall@10": float(self.measured.per_query["recall@10"][i]),
                "gold": self.judged.pages[gold[i]].id,
                "variant": int(self.usage.winners[i]) if self.usage else None,
            }
        return rows


def evaluate(retriever: Retriever, judged: JudgedSet, cache: Cache, how: How | None = None) -> Result:
    """Encode what is not cached, score, measure."""
    how = how or How()
    keys = encode_pages(retriever, judged, cache, how.shown)
    queries = encode_queries(retriever, [query.text for query in judged.queries], cache, how.shown)
    identity = retriever.identity
    with Progress(len(keys), f"{judged.name}: scoring", how.shown) as bar:
        scored = score_cached(queries, cache, identity.space, keys, how.codec, device=identity.device, done=bar)
    return result_of(scored, judged, identity, how, keys)


def result_of(scored: Scored, judged: JudgedSet, identity: Identity, how: How, page_keys: Sequence[str] = ()) -> Result:
    """Figures from scores."""
    measured = measure(scored.total(how.aggregation), judged)
    usage = None
    if scored.variants is not None and scored.query_tokens is not None:
        rows, pages = (np.array(side) for side in zip(*judged.gold, strict=True))
        own = scored.variants[rows, pages]  # (Q, K)
        usage = variant_usage(own, scored.query_tokens, [judged.pages[page].id for page in pages])
    return Result(judged, identity, how, scored, measured, usage, list(page_keys))


def encode_pages(retriever: Retriever, judged: JudgedSet, cache: Cache, shown: bool = True) -> list[str]:
    """Fill the cache with the set's pages; their keys in order."""
    with Progress(len(judged.pages), f"{judged.name}: reading pages", shown) as bar:
        keys = []
        for page in judged.pages:
            keys.append(page.key())
            bar(1)

    def make(rows: list[int]) -> list[Vectors]:
        return retriever.encode_pages([judged.pages[row].image() for row in rows])

    batch = PAGE_BATCH.get(retriever.identity.device, PAGE_BATCH["cpu"])
    with Progress(len(set(keys)), f"{judged.name}: encoding pages", shown) as bar:
        cache.fill(retriever.identity.space, keys, make, batch, bar)
    return keys


def encode_queries(retriever: Retriever, texts: Sequence[str], cache: Cache, shown: bool = True) -> list[Vectors]:
    """Vectors of the questions, from the cache where they were asked before."""
    space = retriever.identity.space + "-queries"
    keys = [content_key(text) for text in texts]

    def make(rows: list[int]) -> list[Vectors]:
        return retriever.encode_queries([texts[row] for row in rows])

    with Progress(len(set(keys)), "encoding queries", shown) as bar:
        cache.fill(space, keys, make, QUERY_BATCH, bar)
    return [array.astype(np.float32) for array in cache.arrays(space, keys)]
