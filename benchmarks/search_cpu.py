"""Search on two cores: latency, recall and bytes of our search beside other engines, and how it grows.

    python benchmarks/search_cpu.py [--pages 10000] [--sizes 1000,3000,10000,30000] [--queries 50] [--threads 2]
        [--peers all] [--peer-pages 10000] [--peer-queries 10] [--candidates N]
        [--embeddings FILE.npz | --judged FOLDER [--model MODEL]] [--out benchmarks/results/search_cpu.json]

Pages are K=5 variants of 256 vectors of 128 (generated, see search_data.py), packed as binary codes; peers get the same
pages as float vectors, every variant a point. A latency is one question at a time, first stage to ranked ten,
without encoding the question. Recall@10 is against exhaustive search over the same codes (ours) or the same floats
(peers). Bytes are codes and first-stage vectors, without pictures and text. Needs about 4 GB of disk in the
temporary folder and 8 GB of memory for the peers at 10,000 pages; only one peer is held at a time.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from search_embeddings import Source, encode, from_file, generated
from search_peers import ON_DEMAND, PEERS, Points, open_peer
from varsdoc.index.codecs import get_codec
from varsdoc.index.first_stage import FirstStage, default_candidates, summarise
from varsdoc.scoring import score_pages
from varsdoc.scoring.packed import PackedPages, score_packed

CODECS: list[tuple[str, dict[str, Any]]] = [
    ("float16", {}), ("int8", {}), ("binary", {}), ("binary", {"share": True}), ("binary", {"share": 0.95}),
    ("binary", {"pool": 2}), ("binary", {"pool": 3}), ("int8", {"share": True}), ("int8", {"pool": 3}),
]  # fmt: skip


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def timed(search: Callable[[np.ndarray], Any], queries: list[np.ndarray]) -> tuple[dict[str, float], list[Any]]:
    search(queries[0])
    times, answers = [], []
    for query in queries:
        start = time.perf_counter()
        answers.append(search(query))
        times.append(1000 * (time.perf_counter() - start))
    return {
        "p50 ms": round(float(np.quantile(times, 0.5)), 2),
        "p95 ms": round(float(np.quantile(times, 0.95)), 2),
    }, answers


def recall(found: list[list[int]], exact: list[list[int]]) -> float:
    return round(float(np.mean([len(set(a) & set(b)) / len(b) for a, b in zip(found, exact, strict=True)])), 4)


def build(source: Source, pages: int, floats: np.memmap | None) -> tuple[list[bytes], list[np.ndarray]]:
    codec, blobs, summaries = get_codec("binary"), [], []
    for number in range(pages):
        page = source.page(number)
        blobs.append(codec.pack(page))
        summaries.append(summarise(page))
        if floats is not None and number * len(page) < len(floats):
            floats[number * len(page) : (number + 1) * len(page)] = page
        if number % 1000 == 999:
            say(f"{number + 1} pages built")
    return blobs, summaries


def ours(packed: PackedPages, first: FirstStage, queries: list[np.ndarray], wanted: int | None) -> dict[str, Any]:
    """Exhaustive search over the codes, then the search with a first stage, on the same questions."""
    k = min(10, len(packed))
    candidates = wanted or default_candidates(len(packed))

    def exhaustive(query: np.ndarray) -> list[int]:
        return score_packed([query], packed).total[0].topk(k).indices.tolist()

    def search(query: np.ndarray) -> list[int]:
        rows = first.search(query, candidates)
        return rows[score_packed([query], packed, rows).total[0].topk(k).indices.numpy()].tolist()

    slow, exact = timed(exhaustive, queries)
    fast, found = timed(search, queries)
    stage, _ = timed(lambda query: first.search(query, candidates), queries)
    return {
        **fast,
        "candidates": candidates,
        "recall@10": recall(found, exact),
        "recall@10 by candidates": _by_candidates(first, queries, exact),
        "first stage alone": stage,
        "exhaustive over the codes": slow,
        "bytes/page": {
            "codes": round(packed.nbytes / len(packed)),
            "first stage": round(first.nbytes / len(packed)),
            "of one float16 variant": round(
                float((packed.nbytes + first.nbytes) / (packed.tokens.sum() * 2 * packed.dim)), 3
            ),
        },
    }


def _by_candidates(first: FirstStage, queries: list[np.ndarray], exact: list[list[int]]) -> dict[str, float]:
    return {str(n): recall([first.search(q, n).tolist() for q in queries], exact) for n in (50, 100, 200, 400, 800)}


def spread(packed: PackedPages, queries: list[np.ndarray]) -> dict[str, float]:
    """How scores are distributed, per query token, so that a reader can judge how hard the data is."""
    scores = score_packed(queries, packed).normalised.sort(1, descending=True).values
    ranks = {f"rank {r}": scores[:, r - 1] for r in (1, 2, 10, 100) if r <= scores.shape[1]}
    each = {**ranks, "median": scores.median(1).values, "least": scores[:, -1], "standard deviation": scores.std(1)}
    return {name: round(value.mean().item(), 4) for name, value in each.items()}


def codecs(source: Source, pages: int, queries: list[np.ndarray]) -> list[dict[str, Any]]:
    """Each codec's bytes, and how its ranking differs from float32's."""
    sample = [source.page(number) for number in range(pages)]
    asked = [torch.from_numpy(query) for query in queries]
    exact = score_pages(asked, [torch.from_numpy(page) for page in sample])
    best = exact.total.topk(10).indices.tolist()
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
            "float32's ten kept": recall(order[:, :10].tolist(), best),
            "NDCG@10, relevant = float32's first": round((1 / torch.log2(rank + 2.0) * (rank < 10)).mean().item(), 4),
        })  # fmt: skip
        say(str(out[-1]))
    return out


def beside(names: list[str], points: Points, queries: list[np.ndarray], folder: Path) -> dict[str, Any]:
    out: dict[str, Any] = {}
    exact: list[list[int]] | None = None
    for name in names:
        try:
            start = time.perf_counter()
            search, size = open_peer(name, points, folder)
            built = time.perf_counter() - start
            latency, found = timed(search, queries)
        except Exception as error:  # a peer that fails is a finding, not the end of the run
            out[name] = {"failed": f"{type(error).__name__}: {str(error)[:200]}"}
            say(f"{name}: {out[name]}")
            continue
        exact = found if exact is None else exact  # plain torch comes first and is exact
        pages = len(points.array) // points.variants
        out[name] = {
            **latency,
            "recall@10": recall(found, exact),
            "bytes/page": round(size / pages),
            "built s": round(built, 1),
        }
        say(f"{name}: {out[name]}")
        del search
        gc.collect()
    return out


def machine(threads: int) -> dict[str, Any]:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    cpu = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "threads": threads,
        "load before": [round(load, 1) for load in os.getloadavg()],
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pages", type=int, default=10_000)
    parser.add_argument("--sizes", default="1000,3000,10000,30000", help="collections for the cost as it grows")
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--variants", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--candidates", type=int, help="default: the first stage's own, by collection size")
    parser.add_argument("--peers", default="all", help=f"all, none, or some of: {', '.join(PEERS + ON_DEMAND)}")
    parser.add_argument("--peer-pages", type=int, help="default: --pages")
    parser.add_argument("--peer-queries", type=int, default=10)
    parser.add_argument("--codec-pages", type=int, default=300)
    parser.add_argument("--embeddings", type=Path)
    parser.add_argument("--judged", type=Path)
    parser.add_argument("--model")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "search_cpu.json")
    return parser.parse_args()


def main() -> None:
    given = arguments()
    torch.set_num_threads(given.threads)
    with tempfile.TemporaryDirectory() as folder:
        result = run(given, Path(folder))
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


def run(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    if given.judged:
        given.embeddings = encode(given.judged, given.model, folder / f"{given.judged.name}.npz")
    source = from_file(given.embeddings) if given.embeddings else generated(
        10**9, given.variants, given.tokens, given.seed
    )  # fmt: skip
    sizes = sorted({min(int(size), source.pages) for size in [*given.sizes.split(","), given.pages]})
    peers = [] if given.peers == "none" else list(PEERS) if given.peers == "all" else given.peers.split(",")
    k, m, d = source.page(0).shape
    peer_pages = min(given.peer_pages or given.pages, source.pages)
    floats = None
    if peers:
        floats = np.memmap(folder / "points.f16", np.float16, "w+", shape=(peer_pages * k, m, d))
    before = machine(given.threads)
    blobs, summaries = build(source, sizes[-1], floats)
    growth = {}
    for size in sizes:
        queries = source.queries(given.queries, size)
        packed, first = PackedPages.from_blobs(blobs[:size]), FirstStage(d)
        first.add(summaries[:size])
        growth[str(size)] = {
            **ours(packed, first, queries, given.candidates),
            "scores per token": spread(packed, queries),
        }
        say(f"{size} pages: {growth[str(size)]}")
    sample = min(given.codec_pages, sizes[-1])
    return {
        "command": "python " + " ".join(["benchmarks/search_cpu.py", *(Path(a).name for a in sys.argv[1:])]),
        "data": f"{source.name}; K={k}, {m} tokens (first page), {d} numbers; questions: {given.queries}, "
        f"{np.mean([len(q) for q in queries]):.1f} tokens",
        "codec": "binary, query in two int8 planes; first stage 40 int8 vectors a page",
        "machine": before,
        "varsdoc by pages": growth,
        f"codecs, {sample} pages": codecs(source, sample, source.queries(given.queries, sample)),
        f"peers, {peer_pages} pages": beside(
            peers, Points(floats, k), source.queries(given.peer_queries, peer_pages), folder
        ) if floats is not None else {},
    }  # fmt: skip


if __name__ == "__main__":
    main()
