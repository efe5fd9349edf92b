"""How much worse pages are found when they are smaller, scanned, or inverted.

    python benchmarks/nano_robustness.py JUDGED... [--model FOLDER] [--states "as it is"] [--out FILE]
    python benchmarks/nano_robustness.py JUDGED... --model FOLDER FOLDER... --out FOLDER     # NAME.json for each

The same questions over the same pages in four states: as they are, at 75 % of their size, as noisy scans (skew, uneven
light, blur, noise, specks and JPEG of the page generator, seeded per page), and inverted. NDCG@10 with 95 % intervals,
and the paired difference from the pages as they are. For several variants also the aggregations, every variant alone,
and usage, on the first state; and NDCG@10 per query, for paired tests between models (benchmarks/nano.py). Judged
folders with `queries_selfcontained.jsonl` are asked those. Nothing is cached: a state is encoded, scored and dropped, a
few pages at a time; about 2 s a page and state on two cores, seconds in all on a GPU, where the source tree is enough.
Several models share the cutting of pages, which is what a GPU waits for (several processes would fight over the cores).
Results are written after every state.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps
from tqdm import tqdm

from varsdoc import __version__
from varsdoc.evaluation.analysis import variant_usage
from varsdoc.evaluation.judged import JudgedSet, Page, read_folder
from varsdoc.evaluation.metrics import measure
from varsdoc.evaluation.results import machine, write_json
from varsdoc.evaluation.statistics import bootstrap_interval, paired_test
from varsdoc.model import VarsDoc
from varsdoc.model.ahead import ahead
from varsdoc.model.patches import Patches
from varsdoc.scoring.device import DevicePages
from varsdoc.training.generator import Wear
from varsdoc.training.generator.degrade import degrade

SCAN = Wear(skew=1.5, light=0.25, blur=0.5, noise=12.0, specks=300, jpeg=40, contrast=0.85, paper=230)
BATCH = 16
Cutting = tuple[int, int, tuple[int, ...], bool, bool]
SELF_CONTAINED = "queries_selfcontained.jsonl"


def smaller(image: Image.Image, name: str) -> Image.Image:
    return image.resize((round(image.width * 0.75), round(image.height * 0.75)), Image.Resampling.LANCZOS)


def scanned(image: Image.Image, name: str) -> Image.Image:
    worn, _ = degrade(image.convert("L"), [], SCAN, random.Random(f"varsdoc scan {name}"))
    return Image.fromarray(worn).convert("RGB")


def inverted(image: Image.Image, name: str) -> Image.Image:
    return ImageOps.invert(image)


STATES: dict[str, Callable[[Image.Image, str], Image.Image]] = {
    "as it is": lambda image, name: image,
    "75 % size": smaller,
    "noisy scan": scanned,
    "inverted": inverted,
}


@dataclass(frozen=True)
class Scores:
    """Of all questions with all pages: the sum of each variant (Q, P, K), and over all variants' tokens (Q, P)."""

    sums: np.ndarray
    fused: np.ndarray
    query_tokens: np.ndarray

    def total(self, way: str) -> np.ndarray:
        return {"max": self.sums.max(-1), "mean": self.sums.mean(-1), "fused": self.fused}[way]


class Scorer:
    """One model's scores of a set, page by page."""

    def __init__(self, model: VarsDoc, judged: JudgedSet) -> None:
        self.model = model
        queries = model.encode_queries([query.text for query in judged.queries], progress=False)
        self.queries = [query.float().to(model.device) for query in queries]
        shape = (len(queries), len(judged.pages))
        self.sums = np.empty((*shape, model.config.variants), dtype=np.float32)
        self.fused = np.empty(shape, dtype=np.float32)

    def take(self, start: int, patches: list[Patches]) -> None:
        """Pages in float16, as `varsdoc eval` and an index have them."""
        pages = [page.variants for page in self.model.encode_pages(patches, progress=False)]
        size = 2 * sum(page.numel() for page in pages)
        held = DevicePages("float16", pages[0].shape[0], pages[0].shape[2], self.model.device, segment_bytes=size)
        held.add_vectors(pages)
        found = held.score(self.queries, aggregation="fused")
        self.sums[:, start : start + len(pages)] = found.variants.cpu().numpy()
        self.fused[:, start : start + len(pages)] = found.total.cpu().numpy()

    def scores(self) -> Scores:
        return Scores(self.sums, self.fused, np.array([len(query) for query in self.queries]))


def way_of_cutting(model: VarsDoc) -> Cutting:
    """Models that agree in these see the same patches."""
    config = model.config
    limits = config.min_visual_tokens, config.max_visual_tokens
    return *limits, config.level_print, config.turn_pages, config.light_paper


@torch.inference_mode()
def score(models: list[VarsDoc], judged: JudgedSet, state: str) -> list[Scores]:
    """Encode, score on the models' device, drop."""
    scorers = [Scorer(model, judged) for model in models]
    cutters = {way_of_cutting(model): model.processor for model in models}

    def cut(page: Page) -> dict[Cutting, Patches]:
        image = STATES[state](page.image(), page.id)
        return {way: processor.page(image) for way, processor in cutters.items()}

    made = ahead(judged.pages, cut, os.cpu_count() or 1, 4 * BATCH)  # a GPU would wait for one thread
    starts = range(0, len(judged.pages), BATCH)
    for start in tqdm(starts, desc=f"{judged.name}, {state}", unit="batch", file=sys.stderr):
        patches = list(islice(made, BATCH))
        for scorer in scorers:
            way = way_of_cutting(scorer.model)
            scorer.take(start, [page[way] for page in patches])
    return [scorer.scores() for scorer in scorers]


def row_of(gains: np.ndarray) -> dict[str, Any]:
    return {"ndcg@10": float(gains.mean()), "interval_95": bootstrap_interval(gains)}


def measured(scores: np.ndarray, judged: JudgedSet) -> np.ndarray:
    return np.asarray(measure(np.ascontiguousarray(scores), judged).per_query["ndcg@10"])


def parts_of(scores: Scores, judged: JudgedSet) -> dict[str, Any]:
    """Aggregations, single variants, and how evenly variants answer."""
    found: dict[str, Any] = {way: row_of(measured(scores.total(way), judged)) for way in ("max", "mean", "fused")}
    found["each variant"] = [row_of(measured(scores.sums[..., k], judged)) for k in range(scores.sums.shape[-1])]
    rows, pages = (np.array(side) for side in zip(*judged.gold, strict=True))
    usage = variant_usage(scores.sums[rows, pages], scores.query_tokens, [judged.pages[page].id for page in pages])
    return {**found, "usage": usage.usage, "max_usage": usage.max_usage, "tie_rate": usage.tie_rate}


class Report:
    """What is found of one model, written as it grows."""

    def __init__(self, model: VarsDoc, out: Path) -> None:
        words = [Path(word).name if "/" in word else word for word in sys.argv[1:]]
        self.out = out
        self.first: dict[str, np.ndarray] = {}
        self.content: dict[str, Any] = {
            "datasets": {},
            "model_hash": model.checkpoint_hash,
            "variants": model.config.variants,
            "dtype": model.compute_dtype,
            "device": model.device.type,
            "scan": {name: value for name, value in vars(SCAN).items() if value != getattr(Wear(), name)},
            "command": shlex.join(["python", "benchmarks/nano_robustness.py", *words]),
            "machine": machine(),
            "varsdoc": __version__,
        }

    def add(self, judged: JudgedSet, queries_file: str | None, state: str, scores: Scores) -> None:
        """A state of a set; the first is what the others are compared with."""
        gains = measured(scores.total("max"), judged)
        row = row_of(gains)
        if judged.name not in self.first:
            self.first[judged.name] = gains
            ids = (query.id for query in judged.queries)
            self.content["datasets"][judged.name] = {
                "queries": len(judged.queries),
                "pages": len(judged.pages),
                "queries_file": queries_file,
                "states": {},
                "parts": parts_of(scores, judged) if scores.sums.shape[-1] > 1 else None,
                "per_query": {name: round(float(gain), 4) for name, gain in zip(ids, gains, strict=True)},
            }
        else:
            row["against the first"] = paired_test(gains, self.first[judged.name]).to_json()
        self.content["datasets"][judged.name]["states"][state] = row
        write_json(self.out, self.content)
        print(json.dumps({self.out.stem: {judged.name: {state: round(row["ndcg@10"], 4)}}}), flush=True)


def name_of(folder: str) -> str:
    """Of a checkpoint; pieces of reading write theirs to NAME/model and, beside a mean, to NAME/last."""
    path = Path(folder)
    return {"model": path.parent.name, "last": f"{path.parent.name}-last"}.get(path.name, path.name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("judged", nargs="+")
    parser.add_argument("--model", nargs="+", default=[None])
    parser.add_argument("--device")
    parser.add_argument("--dtype")
    parser.add_argument("--plain", action="store_true", help="on a GPU, not through the fast path")
    parser.add_argument("--pages", type=int, help="only the first of each set")
    parser.add_argument("--states", nargs="+", choices=list(STATES), default=list(STATES))
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/nano/robustness.json"))
    asked = parser.parse_args()
    loaded = (VarsDoc.from_pretrained(folder, device=asked.device, dtype=asked.dtype) for folder in asked.model)
    models = [model if asked.plain else model.prepare_on_gpu() for model in loaded]
    outs = [asked.out] if len(models) == 1 else [asked.out / f"{name_of(folder)}.json" for folder in asked.model]
    reports = [Report(model, out) for model, out in zip(models, outs, strict=True)]
    for folder in asked.judged:
        chosen = SELF_CONTAINED if (Path(folder) / SELF_CONTAINED).is_file() else None
        judged = read_folder(folder, chosen)
        judged = judged.limited(asked.pages) if asked.pages else judged
        for state in asked.states:
            for report, scores in zip(reports, score(models, judged, state), strict=True):
                report.add(judged, chosen, state, scores)


if __name__ == "__main__":
    main()
