"""Our own search for benchmarks/search_cpu.py: collections in memory, latency, recall, bytes, codecs."""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from search_embeddings import Source
from search_peers import Points
from varsdoc.evaluation.codec_names import open_codec
from varsdoc.index.codecs import get_codec
from varsdoc.index.first_stage import FirstStage, default_candidates, summarise, summary_bytes, summary_from_bytes
from varsdoc.scoring import score_pages
from varsdoc.scoring.packed import PackedPages, score_packed

CODECS: list[tuple[str, dict[str, Any]]] = [
    ("float16", {}), ("int8", {}), ("int8", {"share": True}), ("int4", {}), ("int4", {"share": True}),
    ("int4", {"share": 0.95}), ("int4", {"pool": 2}), ("binary", {}), ("binary", {"share": True}),
    ("binary", {"share": 0.95}), ("binary", {"pool": 2}), ("binary", {"pool": 3}),
]  # fmt: skip
ENOUGH_SECONDS = 30  # after two questions, an engine that took so long is asked no more


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def timed(search: Callable[[np.ndarray], Any], queries: list[np.ndarray]) -> tuple[dict[str, Any], list[Any]]:
    """Latencies, one question at a time, after a warm-up; and the answers to as many questions as were asked."""
    times: list[float] = []
    answers: list[Any] = []
    warm = False
    while len(answers) < len(queries):
        start = time.perf_counter()
        answers.append(search(queries[len(answers)]))
        times.append(1000 * (time.perf_counter() - start))
        if not warm and times[0] < 1000 * ENOUGH_SECONDS / 4:  # a slow engine's first question counts
            times, answers = [], []
        warm = True
        if sum(times) > 1000 * ENOUGH_SECONDS and len(times) > 1:
            break
    return {
        "p50 ms": round(float(np.quantile(times, 0.5)), 2),
        "p95 ms": round(float(np.quantile(times, 0.95)), 2),
        "questions": len(times),
    }, answers


def recall(found: list[list[int]], exact: list[list[int]]) -> float:
    pairs = zip(found, exact[: len(found)], strict=True)
    return round(float(np.mean([len(set(a) & set(b)) / len(b) for a, b in pairs])), 4)


@dataclass
class Built:
    """Blobs and summaries of a source's pages by codec, and the floats of the first of them for the peers."""

    blobs: dict[str, list[bytes]] = field(default_factory=dict)
    tokens: list[int] = field(default_factory=list)  # of a variant of each page, before pooling
    summaries: dict[str, list[bytes]] = field(default_factory=dict)
    points: Points | None = None


_job: dict[str, Any] = {}  # what the workers of `build` inherit


def _make(number: int) -> tuple[int, dict[str, tuple[bytes, bytes]]]:
    torch.set_num_threads(1)
    page = _job["source"].page(number)
    if number < _job["floats"]:
        start = _job["starts"][number]
        flat = np.memmap(_job["file"], np.float16, "r+", shape=_job["shape"])
        flat[start : start + page.shape[0] * page.shape[1]] = page.reshape(-1, page.shape[2])
    return page.shape[1], {
        codec: (open_codec(codec).pack(page), summary_bytes(summarise(page, codec=codec.partition(":")[0])))
        for codec, pages in _job["codecs"].items()
        if number < pages
    }


def build(source: Source, codecs: dict[str, int], peer_pages: int, file: Path, processes: int) -> Built:
    """codecs: how many pages of each. Pages are made in processes: each is some milliseconds of numpy."""
    shapes = [source.page(n).shape for n in range(peer_pages)] if peer_pages else []
    if shapes and source.name.startswith("generated"):
        shapes = [shapes[0]] * peer_pages
    tokens = np.array([k * m for k, m, _ in shapes], np.int64)
    built = Built({codec: [] for codec in codecs}, summaries={codec: [] for codec in codecs})
    _job.update(source=source, codecs=codecs, floats=peer_pages, file=file)
    if peer_pages:
        shape = (int(tokens.sum()), shapes[0][2])
        flat = np.memmap(file, np.float16, "w+", shape=shape)
        _job.update(starts=np.concatenate([[0], np.cumsum(tokens)]), shape=shape)
        built.points = Points(flat, np.repeat([m for _, m, _ in shapes], [k for k, _, _ in shapes]), shapes[0][0])
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        for number, (page_tokens, made) in enumerate(pool.imap(_make, range(max(codecs.values())), chunksize=8)):
            built.tokens.append(page_tokens)
            for codec, (blob, summary) in made.items():
                built.blobs[codec].append(blob)
                built.summaries[codec].append(summary)
            if number % 2000 == 1999:
                say(f"{number + 1} pages built")
    return built


@dataclass(frozen=True)
class Collection:
    packed: PackedPages
    first: FirstStage
    stored: int  # bytes of the summaries as they are stored; in memory they take twice that
    tokens: int  # of one variant of all pages, before pooling

    @classmethod
    def of(cls, built: Built, codec: str, pages: int) -> Collection:
        packed = PackedPages.from_blobs(built.blobs[codec][:pages])
        first, stored = FirstStage(packed.dim), built.summaries[codec][:pages]
        first.add([summary_from_bytes(data, packed.dim) for data in stored])
        return cls(packed, first, sum(map(len, stored)), sum(built.tokens[:pages]))


def ours(held: Collection, queries: list[np.ndarray], wanted: int | None) -> dict[str, Any]:
    """Exhaustive search over the codes, then the search with a first stage, on the same questions."""
    packed, first = held.packed, held.first
    k = min(10, len(packed))
    candidates = min(wanted or default_candidates(len(packed)), len(packed))

    def exhaustive(query: np.ndarray) -> list[int]:
        return score_packed([query], packed).total[0].topk(k).indices.tolist()

    def search(query: np.ndarray) -> list[int]:
        rows = first.search(query, candidates)
        return rows[score_packed([query], packed, rows).total[0].topk(k).indices.numpy()].tolist()

    slow, exact = timed(exhaustive, queries)
    fast, found = timed(search, queries[: len(exact)])
    stage, _ = timed(lambda query: first.search(query, candidates), queries)
    one_variant = held.tokens * 2 * packed.dim
    stage_bytes = held.stored + first.list_bytes
    return {
        **fast,
        "candidates": candidates,
        "recall@10": recall(found, exact),
        "recall@10 by candidates": {
            str(n): recall([first.search(q, n).tolist() for q in queries[: len(exact)]], exact)
            for n in (50, 100, 200, 400, 800)
            if n < len(packed)
        },
        "first stage alone": stage,
        "exhaustive over the codes": slow,
        "bytes/page": {
            "codes": round(packed.nbytes / len(packed)),
            "first stage": round(stage_bytes / len(packed)),
            "first stage in memory": round(first.nbytes / len(packed)),
            "of one float16 variant": round((packed.nbytes + stage_bytes) / one_variant, 3),
        },
    }


def spread(packed: PackedPages, queries: list[np.ndarray]) -> dict[str, float]:
    """How scores are distributed, per query token, so that a reader can judge how hard the data is."""
    scores = score_packed(queries, packed).normalised.sort(1, descending=True).values
    ranks = {f"rank {r}": scores[:, r - 1] for r in (1, 2, 10, 100) if r <= scores.shape[1]}
    each = {**ranks, "median": scores.median(1).values, "least": scores[:, -1], "standard deviation": scores.std(1)}
    return {name: round(value.mean().item(), 4) for name, value in each.items()}


def codecs(source: Source, pages: int, queries: list[np.ndarray]) -> list[dict[str, Any]]:
    """Each codec's bytes, and how its ranking differs from float32's. NDCG on judgements: benchmarks/codecs.py."""
    sample = [source.page(number) for number in range(pages)]
    asked = [torch.from_numpy(query) for query in queries]
    exact = score_pages(asked, [torch.from_numpy(page) for page in sample])
    top = min(10, pages)
    best = exact.total.topk(top).indices.tolist()
    out = []
    for name, options in CODECS:
        codec = get_codec(name, **options)
        start = time.perf_counter()
        blobs = [codec.pack(page) for page in sample]
        packing = 1000 * (time.perf_counter() - start) / pages
        scores = score_packed(queries, PackedPages.from_blobs(blobs))
        order = scores.total.argsort(dim=1, descending=True, stable=True)
        rank = (order == exact.total.argmax(1)[:, None]).float().argmax(1)
        out.append({
            "codec": name, **options, "bytes/page": round(sum(map(len, blobs)) / pages),
            "packing ms/page": round(packing, 2),
            "float32's ten kept": recall(order[:, :top].tolist(), best),
            "NDCG@10, relevant = float32's first": round((1 / torch.log2(rank + 2.0) * (rank < 10)).mean().item(), 4),
        })  # fmt: skip
        say(str(out[-1]))
    return out
