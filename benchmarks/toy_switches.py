"""What makes near-identical copies specialise after a warm-up? Switches of the reading stage, on the toy of intents.

    python benchmarks/toy_switches.py [--steps 400] [--seeds 4]

Pages, encoder and losses are those of toy_intents.py, on means at temperature 0.05. Every row has the same warm-up of
one variant and the same number of steps after it; what differs is how three variants are made of it (copies nearly
alike, copies far apart, fresh heads and probes on the trained trunk) and whether queries are split evenly among
variants by their scores (`assign`, varsdoc.training.reading.assignment).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parent))

from toy_intents import (
    BATCH,
    DIM,
    EXPANSION_NOISE,
    FAR_APART,
    INTENTS,
    LATENT,
    SCALES,
    TRAIN_PAGES,
    WIDTH,
    Outcome,
    ToyEncoder,
    ask,
    fit,
    judge,
    summary,
)
from varsdoc.training.config import LossConfig
from varsdoc.training.objective import PairIds, step_loss
from varsdoc.training.reading.assignment import assignment
from varsdoc.training.scoring import score_all

LOSS = SCALES["mean, temperature 0.05"]
VARIANTS = 3
# How variants begin, and the weight of `assign`.
ROWS = {
    "copies": ("near", 0.0),
    "copies, assign 0.1": ("near", 0.1),
    "copies, assign 1": ("near", 1.0),
    "far apart": ("far", 0.0),
    "far apart, assign 0.1": ("far", 0.1),
    "far apart, assign 1": ("far", 1.0),
    "fresh": ("fresh", 0.0),
    "fresh, assign 0.1": ("fresh", 0.1),
    "fresh, assign 1": ("fresh", 1.0),
}


def begin(model: ToyEncoder, how: str, seed: int) -> ToyEncoder:
    """Three variants of a model with one."""
    wide = model.expand(VARIANTS, FAR_APART if how == "far" else EXPANSION_NOISE, seed)
    if how == "fresh":
        torch.manual_seed(seed + 1000)
        wide.heads = nn.ModuleList(nn.Linear(WIDTH, DIM) for _ in range(VARIANTS))
        wide.probes = nn.Parameter(0.5 * torch.randn(VARIANTS, WIDTH))
    return wide


def fit_assigned(model: ToyEncoder, weight: float, steps: int, pages: Tensor, generator: torch.Generator) -> None:
    """As `fit`, with the even split of queries beside the paper's losses."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.05, steps)
    own = torch.arange(BATCH)
    for _ in range(steps):
        rows = torch.randint(len(pages), (BATCH,), generator=generator)
        intents = torch.randint(INTENTS, (BATCH,), generator=generator)
        read, asked = model(pages[rows], ask(pages[rows], intents, generator))
        total = step_loss(read, asked, PairIds(rows, rows * INTENTS + intents), LOSS).total
        scores = score_all(asked.vectors, asked.mask, read.vectors, read.mask)[own, own] / asked.mask.sum(1)[:, None]
        optimiser.zero_grad()
        (total + weight * assignment(scores, LOSS.balance_temperature)).backward()
        optimiser.step()
        schedule.step()


def run(row: str, seed: int, steps: int) -> Outcome:
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    pages = torch.randn(TRAIN_PAGES, INTENTS, LATENT, generator=generator)
    how, weight = ROWS[row]
    model = ToyEncoder(1)
    warm = LossConfig(kind="pairwise", score=LOSS.score, temperature=LOSS.temperature)
    fit(model, warm, steps, pages, generator)
    model = begin(model, how, seed)
    if weight:
        fit_assigned(model, weight, steps, pages, generator)
    else:
        fit(model, LOSS, steps, pages, generator)
    return judge(model, generator)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=400, help="of each stage")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "toy_switches.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    started, table = time.time(), {}
    for row in ROWS:
        found = summary([run(row, seed, options.steps) for seed in range(options.seeds)])
        table[row] = found
        said = {name: f"{value['mean']:.3f} ±{value['sd']:.3f}" for name, value in found.items()}
        print(f"{row:24s}", said, flush=True)
    content = {
        "command": f"python benchmarks/toy_switches.py --steps {options.steps} --seeds {options.seeds}",
        "what": "three variants made of one after a warm-up; mean and standard deviation over seeds, on unseen pages",
        "seen": table,
        "seconds": round(time.time() - started),
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
