"""All rows that the checkpoint must show, gathered from their result files into one table.

    python benchmarks/nano.py [--results benchmarks/results] [--out benchmarks/results/nano/table.json]

It measures nothing; each row says which command writes its file:
- nano/judged.json              nano K=5: python benchmarks/nano_robustness.py SET... --model A B... --states "as it is"
- nano/probe.json, plain.json   K=1 with its probe and without one, on the same averaged trunk, of the same run
- nano/piece-vary.json, piece-probe.json, piece-plain.json   the three pieces that were averaged, of the same run
- nano/robustness.json          other states of the pages: python benchmarks/nano_robustness.py SET... --model A
- nano/SET.json                 codecs: varsdoc eval SET --queries queries_selfcontained.jsonl --sweep --json
- baselines.json                OCR + BM25 and MiniLM: benchmarks/baselines.py
- encode_cpu.json               seconds a page and a query: benchmarks/encode_cpu.py
A file that is not there is named as missing, and its rows are left out. `checkpoints` says of which checkpoint each
file is: rows of different ones must not be set side by side, but for twins and what they are twins of.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from varsdoc.evaluation.results import write_json
from varsdoc.evaluation.statistics import paired_test

MAIN = "nano/judged.json"
STATES = "nano/robustness.json"
TWINS = {"K=1 with its probe": "nano/probe.json", "K=1 without a probe": "nano/plain.json"}
PIECE = "nano/piece-vary.json"
PIECES = {
    "one piece, K=1 with its probe": "nano/piece-probe.json",
    "one piece, K=1 without a probe": "nano/piece-plain.json",
}
SELF_CONTAINED = "queries_selfcontained.jsonl"


class Results:
    """Result files by name; those that are not there are remembered."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.missing: list[str] = []
        self.checkpoints: dict[str, str] = {}

    def read(self, name: str) -> dict[str, Any]:
        path = self.folder / name
        if not path.is_file():
            self.missing.append(name)
            return {}
        content: dict[str, Any] = json.loads(path.read_text())
        model = content.get("model")
        if found := content.get("model_hash") or (model.get("hash") if isinstance(model, dict) else None):
            self.checkpoints[name] = found
        return content


def row(name: str, found: dict[str, Any], **more: Any) -> dict[str, Any]:
    low, high = found["interval_95"]
    return {"row": name, "ndcg@10": round(found["ndcg@10"], 4), "interval_95": [round(low, 4), round(high, 4)], **more}


def main_rows(results: Results, dataset: str) -> list[dict[str, Any]]:
    """nano K=5, its states, aggregations and single variants."""
    found = results.read(MAIN).get("datasets", {}).get(dataset)
    if not found:
        return []
    parts = found.get("parts") or {}
    more = {"max_usage": parts.get("max_usage"), "tie_rate": parts.get("tie_rate")}
    rows = [row("nano K=5", found["states"]["as it is"], **more)]
    rows += [row(f"K=5, {way}", parts[way]) for way in ("mean", "fused") if way in parts]
    return rows + [row(f"K=5, variant {k + 1} alone", each) for k, each in enumerate(parts.get("each variant", []))]


def state_rows(results: Results, dataset: str) -> list[dict[str, Any]]:
    found = results.read(STATES).get("datasets", {}).get(dataset, {}).get("states", {})
    return [row(f"K=5, pages: {state}", part) for state, part in found.items()]


def twin_rows(results: Results, dataset: str) -> list[dict[str, Any]]:
    """The K=1 twins, and the pieces before they were averaged, each with the paired difference that K=5 has over it."""
    rows = twins_of(results, dataset, MAIN, TWINS)
    piece = results.read(PIECE).get("datasets", {}).get(dataset)
    if piece:
        rows.append(row("one piece, K=5", piece["states"]["as it is"]))
    return rows + twins_of(results, dataset, PIECE, PIECES)


def twins_of(results: Results, dataset: str, main: str, twins: dict[str, str]) -> list[dict[str, Any]]:
    ours = results.read(main).get("datasets", {}).get(dataset, {}).get("per_query", {})
    rows = []
    for name, file in twins.items():
        found = results.read(file).get("datasets", {}).get(dataset)
        if not found:
            continue
        shared = [query for query in found["per_query"] if query in ours]
        pairs = ([side[query] for query in shared] for side in (ours, found["per_query"]))
        over = paired_test(*pairs).to_json() if shared else None
        rows.append(row(name, found["states"]["as it is"], **{"K=5 over it": over}))
    return rows


def baseline_rows(results: Results, dataset: str) -> list[dict[str, Any]]:
    found = results.read("baselines.json").get("datasets", {}).get(dataset, {}).get(SELF_CONTAINED, {})
    return [row(name, {**each, "interval_95": each["interval_95"]["ndcg@10"]}) for name, each in found.items()]


def codec_rows(results: Results, dataset: str) -> list[dict[str, Any]]:
    found = results.read(f"nano/{dataset}.json").get("datasets", {}).get(dataset, {})
    return [
        row(f"codec {each['codec']}, {each['aggregation']}", {**each, "interval_95": [each["low"], each["high"]]})
        for each in found.get("sweep", [])
        if each["variants"] == max(other["variants"] for other in found["sweep"])
    ]


ROWS = (main_rows, twin_rows, state_rows, baseline_rows, codec_rows)


def gather(folder: Path, datasets: list[str]) -> dict[str, Any]:
    results = Results(folder)
    tables = {dataset: [made for rows in ROWS for made in rows(results, dataset)] for dataset in datasets}
    speed = results.read("encode_cpu.json").get("seconds, median", {})
    curve = results.read("nano/training_curve.json").get("points", [])
    return {
        "datasets": tables,
        "seconds on two cores": speed,
        "curve": curve,
        "checkpoints": results.checkpoints,
        "missing": sorted(set(results.missing)),
    }


def markdown(content: dict[str, Any]) -> str:
    lines = []
    for dataset, rows in content["datasets"].items():
        lines += [f"| {dataset} | NDCG@10 | 95 % |", "|---|---|---|"]
        lines += [
            f"| {each['row']} | {each['ndcg@10']:.3f} | {each['interval_95'][0]:.3f} to {each['interval_95'][1]:.3f} |"
            for each in rows
        ]
        lines.append("")
    lines += [f"{file}: checkpoint {found}" for file, found in content["checkpoints"].items()]
    if content["missing"]:
        lines.append("missing: " + ", ".join(content["missing"]))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--datasets", nargs="+", default=["docvqa-dev", "chartqa-dev"])
    parser.add_argument("--out", default="benchmarks/results/nano/table.json")
    asked = parser.parse_args()
    content = gather(asked.results, asked.datasets)
    write_json(asked.out, {**content, "command": "python benchmarks/nano.py"})
    print(markdown(content))


if __name__ == "__main__":
    main()
