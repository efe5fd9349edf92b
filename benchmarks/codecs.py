"""What each codec costs: NDCG@10 on judged folders against float16, and bytes a page. From cached embeddings.

    python benchmarks/codecs.py FOLDER... [--queries queries_selfcontained.jsonl] [--cache DIR] [--model MODEL]
        [--device cuda] [--codecs int8,int4,...] [--pages N] [--questions N] [--out benchmarks/results/codecs.json]

Pages and questions come from the cache of `varsdoc eval` (--cache); only what it lacks is encoded. A difference is
paired over the questions, with its 95 % interval. The default codec is the smallest whose mean difference stays above
-.005 on every folder: the result file names it. Storing equal codes once (`share`) changes no score (a test), so only
its bytes are measured.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from varsdoc import __version__
from varsdoc.evaluation.cache import Cache
from varsdoc.evaluation.evaluate import encode_pages, encode_queries
from varsdoc.evaluation.judged import JudgedSet, read_folder
from varsdoc.evaluation.metrics import measure
from varsdoc.evaluation.results import machine, write_json
from varsdoc.evaluation.retrievers.ours import VarsDocRetriever
from varsdoc.evaluation.scorer import mean_bytes, score_cached
from varsdoc.evaluation.statistics import bootstrap_interval, paired_test
from varsdoc.index.summaries import summary_length

OUT = Path(__file__).parent / "results" / "codecs.json"
REFERENCE = "float16"
CODECS = (
    "int8", "int8:share=0.98", "int8:share=0.95", "int8:share=0.9", "int8:pool=2",
    "int4", "int4:share=0.98", "int4:share=0.95", "int4:share=0.9", "int4:pool=2", "int4:pool=3",
    "binary", "binary:share=0.95", "binary:pool=2",
)  # fmt: skip
LOSSLESS = ("float16:share", "int8:share", "int4:share", "binary:share")
ALLOWED_LOSS = 0.005
SHARING_PAYS = 0.95  # of the bytes without: a search goes through the map of shared codes, which costs time


def part_of(judged: JudgedSet, pages: int | None, questions: int | None) -> JudgedSet:
    judged = judged if pages is None else judged.limited(pages)
    if questions is None or questions >= len(judged.queries):
        return judged
    whole = judged.slice_of or (len(judged.pages), len(judged.queries))
    chosen = np.sort(np.random.default_rng(0).permutation(len(judged.queries))[:questions])
    kept = [judged.queries[i] for i in chosen]
    return replace(judged, queries=kept, grades={q.id: judged.grades[q.id] for q in kept}, slice_of=whole)


def measure_folder(judged: JudgedSet, retriever: VarsDocRetriever, cache: Cache, codecs: list[str]) -> dict[str, Any]:
    keys = encode_pages(retriever, judged, cache)
    queries = encode_queries(retriever, [query.text for query in judged.queries], cache)
    space = retriever.identity.space
    rows: dict[str, Any] = {}
    reference = np.zeros(0)
    for codec in [REFERENCE, *codecs]:
        started = time.perf_counter()
        scored = score_cached(queries, cache, space, keys, codec, device=retriever.identity.device)
        values = measure(scored.total(), judged).per_query["ndcg@10"]
        reference = values if codec == REFERENCE else reference
        rows[codec] = _row(values, reference) | {"bytes/page": round(scored.mean_bytes or 0)}
        print(f"{judged.name} {codec}: {rows[codec]}, {time.perf_counter() - started:.0f} s", file=sys.stderr)
    for codec in LOSSLESS:
        base = codec.partition(":")[0]
        if base in rows:
            size = mean_bytes(cache, space, keys, codec, retriever.identity.variants)
            rows[codec] = rows[base] | {"bytes/page": round(size), "scores": f"those of {base}, by construction"}
    sizes = [array.shape for array in cache.arrays(space, keys)]
    return {
        "pages": len(judged.pages),
        "queries": len(judged.queries),
        "queries file": judged.queries_file,
        "slice of": judged.slice_of,
        "tokens a variant": round(float(np.mean([shape[1] for shape in sizes]))),
        "first stage, bytes/page": round(float(np.mean([summary_length(k * m) * (d // 2 + 2) for k, m, d in sizes]))),
        "codecs": rows,
    }


def _row(values: np.ndarray, reference: np.ndarray) -> dict[str, Any]:
    test = paired_test(values, reference)
    return {
        "ndcg@10": round(float(values.mean()), 4),
        "interval_95": [round(x, 4) for x in bootstrap_interval(values)],
        "difference": round(test.difference, 4),
        "difference_interval_95": [round(test.low, 4), round(test.high, 4)],
        "p_value": round(test.p_value, 4),
    }


def choose(datasets: dict[str, Any]) -> dict[str, Any]:
    """The smallest codec, by mean bytes, that loses under half a point on every set."""
    names = [name for name in next(iter(datasets.values()))["codecs"] if name not in LOSSLESS]
    rows = {name: [found["codecs"][name] for found in datasets.values()] for name in names}
    kept = {
        name: float(np.mean([row["bytes/page"] for row in each]))
        for name, each in rows.items()
        if all(row["difference"] > -ALLOWED_LOSS for row in each)
    }
    best = min(kept, key=kept.__getitem__)
    shared = [found["codecs"].get(f"{best}:share", {}).get("bytes/page", kept[best]) for found in datasets.values()]
    if np.mean(shared) < SHARING_PAYS * kept[best]:
        best = f"{best}:share"
    return {
        "codec": best,
        "rule": f"fewest bytes/page with a difference above -{ALLOWED_LOSS} on every set; equal codes stored once "
        f"where that leaves under {SHARING_PAYS} of the bytes",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--queries", help="name of a queries file inside each folder")
    parser.add_argument("--cache", help="of `varsdoc eval`; default: the user's")
    parser.add_argument("--model", help="default: the packaged checkpoint")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--codecs", default=",".join(CODECS))
    parser.add_argument("--pages", type=int, help="only the first so many pages of each folder")
    parser.add_argument("--questions", type=int, help="only so many of each folder, chosen at random with a seed")
    parser.add_argument("--out", default=str(OUT))
    asked = parser.parse_args()
    retriever, cache = VarsDocRetriever(asked.model, device=asked.device, dtype="float32"), Cache(asked.cache)
    datasets: dict[str, Any] = {}
    words = [Path(word).name if Path(word).exists() else word for word in sys.argv[1:]]
    for folder in asked.folders:
        judged = part_of(read_folder(folder, asked.queries), asked.pages, asked.questions)
        datasets[judged.name] = measure_folder(judged, retriever, cache, asked.codecs.split(","))
        content = {
            "command": shlex.join(["python", "benchmarks/codecs.py", *words]),
            "model": asdict(retriever.identity),
            "default": choose(datasets),
            "datasets": datasets,
            "machine": machine(),
            "varsdoc": __version__,
        }
        write_json(asked.out, content)  # after each folder: a run that is stopped keeps what it has
    print(f"wrote {Path(asked.out).name}: the default by the rule is {content['default']['codec']}")


if __name__ == "__main__":
    main()
