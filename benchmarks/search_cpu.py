"""Search on two cores: latency, recall and bytes of our search beside other engines, and how it grows.

    python benchmarks/search_cpu.py [--judged FOLDER... --cache DIR --questions-file queries_selfcontained.jsonl]
        [--pages 10000] [--sizes 1000,3000,10000,30000] [--queries 30] [--peers all] [--peer-pages N]
        [--peer-queries 3] [--threads 2] [--candidates N] [--no-generated] [--out benchmarks/results/search_cpu.json]

Two kinds of pages in one run: generated ones of K=5 variants of 256 vectors of 128 (search_data.py), and the pages of
judged folders as the packaged checkpoint encodes them, from the cache of `varsdoc eval` (--judged, --cache). Ours is
measured in binary codes and in the default codec. Peers get the same pages as float vectors, every variant a point. A
latency is one question at a time, first stage to ranked ten, without encoding the question. Recall@10 is against
exhaustive search over the same codes (ours) or the same floats (peers). Bytes are codes and first-stage vectors,
without pictures and text. Needs about 12 GB of disk in the temporary folder and 10 GB of memory for the peers at
10,000 pages; only one peer is held at a time.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from search_embeddings import Source, generated, judged
from search_ours import Collection, build, codecs, ours, recall, say, spread, timed
from search_peers import ON_DEMAND, PEERS, Points, open_peer
from varsdoc.index.encoder import DEFAULT_CODEC, DEFAULT_OPTIONS

DEFAULT = ":".join([DEFAULT_CODEC, *(f"{name}={value}" for name, value in DEFAULT_OPTIONS.items())])


def beside(names: list[str], points: Points, queries: list[np.ndarray], folder: Path, threads: int) -> dict[str, Any]:
    out: dict[str, Any] = {}
    exact: list[list[int]] | None = None
    for name in names:
        try:
            start = time.perf_counter()
            search, size = open_peer(name, points, folder, threads)
            built = time.perf_counter() - start
            latency, found = timed(search, queries)
        except Exception as error:  # a peer that fails is a finding, not the end of the run
            out[name] = {"failed": f"{type(error).__name__}: {str(error)[:200]}"}
            say(f"{name}: {out[name]}")
            continue
        exact = found if exact is None else exact  # plain torch comes first and is exact
        out[name] = {
            **latency,
            "recall@10": recall(found, exact),
            "bytes/page": round(size * points.variants / len(points)),
            "built s": round(built, 1),
        }
        say(f"{name}: {out[name]}")
        del search
        gc.collect()
    return out


def part(source: Source, given: argparse.Namespace, sizes: list[int], peer_pages: int, folder: Path) -> dict[str, Any]:
    """Everything about one kind of pages."""
    folder.mkdir()
    peers = [] if given.peers == "none" else list(PEERS) if given.peers == "all" else given.peers.split("/")
    of_codec = {"binary": sizes[-1], DEFAULT: min(max(given.pages, sizes[0]), sizes[-1])}
    start = time.perf_counter()
    built = build(source, of_codec, peer_pages if peers else 0, folder / "points.f16", given.threads)
    say(f"{source.name}: built in {time.perf_counter() - start:.0f} s")
    found: dict[str, Any] = {codec: {} for codec in of_codec}
    for codec, most in of_codec.items():
        for size in sizes if codec == "binary" else [most]:
            queries = source.queries(given.queries, size)
            held = Collection.of(built, codec, size)
            found[codec][str(size)] = ours(held, queries, given.candidates)
            if codec == "binary":
                found[codec][str(size)]["scores per token"] = spread(held.packed, queries)
            say(f"{codec}, {size} pages: {found[codec][str(size)]}")
            del held
    sample = min(given.codec_pages, sizes[-1])
    k, m, d = source.page(0).shape
    tokens = np.mean([len(q) for q in queries])
    points, built.blobs, built.summaries = built.points, {}, {}
    result = {
        "data": f"{source.name}; K={k}, {m} tokens (first page), {d} numbers; {tokens:.1f} tokens a question",
        "varsdoc by codec and pages": found,
        f"codecs, {sample} pages": codecs(source, sample, source.queries(given.queries, sample)),
    }
    if points is not None:
        asked = source.queries(given.peer_queries, peer_pages)
        result[f"peers, {peer_pages} pages"] = beside(peers, points, asked, folder, given.threads)
    del points, built
    shutil.rmtree(folder)
    return result


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
    parser.add_argument("--pages", type=int, default=10_000, help="of the generated collection that peers stand beside")
    parser.add_argument("--sizes", default="1000,3000,10000,30000", help="collections for the cost as it grows")
    parser.add_argument("--queries", type=int, default=30)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--variants", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--candidates", type=int, help="default: the first stage's own, by collection size")
    parser.add_argument(
        "--peers", default="all", help=f"all, none, or some with / between: {'/'.join(PEERS + ON_DEMAND)}"
    )
    parser.add_argument("--peer-pages", type=int, help="default: --pages, and all judged ones")
    parser.add_argument("--peer-queries", type=int, default=3)
    parser.add_argument("--codec-pages", type=int, default=300)
    parser.add_argument("--no-generated", action="store_true", help="judged folders only")
    parser.add_argument("--judged", type=Path, nargs="+", default=[], metavar="FOLDER")
    parser.add_argument("--judged-pages", type=int, help="only the first so many pages of each folder")
    parser.add_argument("--questions-file", help="a queries file that each folder has; default: queries.jsonl")
    parser.add_argument("--cache", type=Path, help="of `varsdoc eval`; default: the user's")
    parser.add_argument("--model", help="default: the packaged checkpoint")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "search_cpu.json")
    return parser.parse_args()


def main() -> None:
    given = arguments()
    torch.set_num_threads(given.threads)
    result: dict[str, Any] = {
        "command": "python " + " ".join(["benchmarks/search_cpu.py", *(Path(a).name for a in sys.argv[1:])]),
        "codecs": f"binary, and the default, {DEFAULT}; query in two int8 planes; first stage: a vector for "
        "16 tokens, at least 40 a page, stored in four bits",
        "machine": machine(given.threads),
    }
    given.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        if not given.no_generated:
            source = generated(10**9, given.variants, given.tokens, given.seed)
            sizes = sorted({int(size) for size in [*given.sizes.split(","), given.pages]})
            result["generated"] = part(source, given, sizes, given.peer_pages or given.pages, Path(folder) / "a")
            given.out.write_text(json.dumps(result, indent=2) + "\n")
        if given.judged:
            source = judged(given.judged, given.questions_file, given.cache, given.model, given.judged_pages)
            peer_pages = min(given.peer_pages or source.pages, source.pages)
            result["judged"] = part(source, given, [source.pages], peer_pages, Path(folder) / "b")
    given.out.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
