"""How much worse pages are found when they are smaller, scanned, or inverted.

    python benchmarks/nano_robustness.py JUDGED... [--model FOLDER] [--states "as it is"] [--out FILE]

The same questions over the same pages in four states: as they are, at 75 % of their size, as noisy scans (skew, uneven
light, blur, noise, specks and JPEG of the page generator, seeded per page), and inverted. NDCG@10 with 95 % intervals,
and the paired difference from the pages as they are. For several variants also the aggregations, every variant alone,
and usage, on the first state; and NDCG@10 per query, for paired tests between models (benchmarks/nano.py). Judged
folders with `queries_selfcontained.jsonl` are asked those. Nothing is cached: a state is encoded, scored and dropped, a
few pages at a time; about 2 s a page and state on two cores, seconds in all on a GPU, where the source tree is enough.
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
from torch.nn.utils.rnn import pad_sequence
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
from varsdoc.training.generator import Wear
from varsdoc.training.generator.degrade import degrade
from varsdoc.training.reading.bank import fused_part
from varsdoc.training.scoring import score_all

SCAN = Wear(skew=1.5, light=0.25, blur=0.5, noise=12.0, specks=300, jpeg=40, contrast=0.85, paper=230)
BATCH = 16
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


@torch.inference_mode()
def score(model: VarsDoc, judged: JudgedSet, state: str) -> Scores:
    """Encode, score on the model's device, drop."""
    queries = model.encode_queries([query.text for query in judged.queries], progress=False)
    vectors = pad_sequence(queries, batch_first=True).to(model.device)
    mask = pad_sequence([torch.ones(len(query), dtype=torch.bool) for query in queries], batch_first=True)
    mask = mask.to(model.device)
    shape = (len(queries), len(judged.pages))
    sums = np.empty((*shape, model.config.variants), dtype=np.float32)
    fused = np.empty(shape, dtype=np.float32)

    def cut(page: Page) -> Patches:
        return model.processor.page(STATES[state](page.image(), page.id))

    made = ahead(judged.pages, cut, os.cpu_count() or 1, 4 * BATCH)  # a GPU would wait for one thread
    for start in tqdm(range(0, shape[1], BATCH), desc=f"{judged.name}, {state}", unit="batch", file=sys.stderr):
        for i, page in enumerate(model.encode_pages(list(islice(made, BATCH)), progress=False), start):
            held = page.variants.to(model.device)[None]  # (1, K, M, d)
            every = torch.ones(1, held.shape[2], dtype=torch.bool, device=model.device)
            sums[:, i] = score_all(vectors, mask, held, every)[:, 0].float().cpu().numpy()
            together = score_all(vectors, mask, *fused_part(held, every))
            fused[:, i] = together[:, 0, 0].float().cpu().numpy()
    return Scores(sums, fused, mask.sum(1).cpu().numpy())


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


def rows_of(model: VarsDoc, judged: JudgedSet, states: list[str]) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    parts: dict[str, Any] | None = None
    first: np.ndarray | None = None
    for state in states:
        scores = score(model, judged, state)
        gains = measured(scores.total("max"), judged)
        rows[state] = row_of(gains)
        if first is None:
            first, parts = gains, parts_of(scores, judged) if model.config.variants > 1 else None
        else:
            rows[state]["against the first"] = paired_test(gains, first).to_json()
    assert first is not None
    per_query = {query.id: round(float(gain), 4) for query, gain in zip(judged.queries, first, strict=True)}
    return {"states": rows, "parts": parts, "per_query": per_query}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("judged", nargs="+")
    parser.add_argument("--model")
    parser.add_argument("--device")
    parser.add_argument("--pages", type=int, help="only the first of each set")
    parser.add_argument("--states", nargs="+", choices=list(STATES), default=list(STATES))
    parser.add_argument("--out", default="benchmarks/results/nano/robustness.json")
    asked = parser.parse_args()
    model = VarsDoc.from_pretrained(asked.model, device=asked.device)
    content: dict[str, Any] = {"datasets": {}}
    for folder in asked.judged:
        chosen = SELF_CONTAINED if (Path(folder) / SELF_CONTAINED).is_file() else None
        judged = read_folder(folder, chosen)
        judged = judged.limited(asked.pages) if asked.pages else judged
        rows = rows_of(model, judged, asked.states)
        content["datasets"][judged.name] = {
            "queries": len(judged.queries),
            "pages": len(judged.pages),
            "queries_file": chosen,
            **rows,
        }
        said = {state: round(row["ndcg@10"], 4) for state, row in rows["states"].items()}
        print(json.dumps({judged.name: said}), flush=True)
    words = [Path(word).name if "/" in word else word for word in sys.argv[1:]]
    content |= {
        "model_hash": model.checkpoint_hash,
        "variants": model.config.variants,
        "dtype": model.compute_dtype,
        "device": model.device.type,
        "scan": {name: value for name, value in vars(SCAN).items() if value != getattr(Wear(), name)},
        "command": shlex.join(["python", "benchmarks/nano_robustness.py", *words]),
        "machine": machine(),
        "varsdoc": __version__,
    }
    write_json(asked.out, content)


if __name__ == "__main__":
    main()
