"""Text baselines on judged folders, with 95 % intervals: OCR at two sizes, BM25 with and without stemming, MiniLM.

    python benchmarks/baselines.py FOLDER... --queries queries_selfcontained.jsonl

OCR text and passages are cached (--cache), so a second run takes seconds. Writes benchmarks/results/baselines.json.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

from varsdoc import __version__
from varsdoc.evaluation.baselines.ocr import Ocr
from varsdoc.evaluation.baselines.run import TextBaseline, run_baseline
from varsdoc.evaluation.cache import Cache
from varsdoc.evaluation.judged import read_folder
from varsdoc.evaluation.results import machine, write_json

OUT = Path(__file__).parent / "results" / "baselines.json"
CHOICES = (("bm25", 2.0), ("bm25-plain", 2.0), ("minilm", 2.0), ("bm25", 1.0), ("bm25-plain", 1.0))
KEPT = ("ndcg@5", "ndcg@10", "recall@10", "mrr", "map", "queries", "pages", "interval_95", "queries_file", "problems")


def measure(folder: str, queries: str | None, cache: Cache, choices: tuple[tuple[str, float], ...]) -> dict[str, Any]:
    judged = read_folder(folder, queries)
    rows = {}
    for method, scale in choices:
        result = run_baseline(TextBaseline(method, Ocr(scale=scale)), judged, cache)
        found = result.to_json()
        rows[result.identity.name] = {key: found[key] for key in KEPT} | {
            "text_bytes_per_page": found["bytes_per_page"],
            "ocr": result.identity.note,
            "hash": result.identity.hash,
        }
        low, high = found["interval_95"]["ndcg@10"]
        print(
            f"{judged.name} {queries or 'all'}: {result.identity.name}: {found['ndcg@10']:.3f} ({low:.3f}-{high:.3f})"
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--queries", help="name of a queries file inside each folder; all queries are measured too")
    parser.add_argument("--cache")
    parser.add_argument("--skip", nargs="*", default=[], help="choices to leave out, like minilm@2 or bm25@1")
    parser.add_argument("--out", default=str(OUT))
    asked = parser.parse_args()
    cache = Cache(asked.cache)
    choices = tuple(c for c in CHOICES if f"{c[0]}@{c[1]:g}" not in asked.skip)
    content: dict[str, Any] = {"datasets": {}}
    for folder in asked.folders:
        sets = {
            name: measure(folder, name or None, cache, choices) for name in dict.fromkeys([asked.queries or "", ""])
        }
        content["datasets"][Path(folder).resolve().name] = {
            name or "queries.jsonl": rows for name, rows in sets.items()
        }
    words = [Path(word).name if Path(word).exists() else word for word in sys.argv[1:]]
    content |= {
        "command": shlex.join(["python", "benchmarks/baselines.py", *words]),
        "machine": machine(),
        "varsdoc": __version__,
        "token_cap": None,
        "dtype": "float32",
    }
    write_json(asked.out, content)
    print(f"wrote {Path(asked.out).name}")


if __name__ == "__main__":
    main()
