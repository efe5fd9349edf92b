"""A toy where each page answers three intents and one reading cannot hold them.

    python benchmarks/toy_intents.py                     # all rows, scales and seeds, a few minutes on one core
    python benchmarks/toy_intents.py --steps 40 --seeds 1

A page is three latent vectors, one per intent; a question is a noisy copy of one of them, in eight tokens. A reading is
one vector of eight numbers, too few for three latents of twelve. The encoder is small (a shared trunk, a branch with a
probe, one head per variant) and is trained by the very losses of varsdoc.training, warm-up and expansion included;
pages at test time are unseen. It shows what the losses do, not how good a document retriever is.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from varsdoc.model import Encoded
from varsdoc.training import losses
from varsdoc.training.config import LossConfig
from varsdoc.training.judge import ndcg
from varsdoc.training.objective import PairIds, step_loss
from varsdoc.training.scoring import score_all

INTENTS, LATENT, DIM, WIDTH, TOKENS = 3, 12, 8, 96, 8
TRAIN_PAGES, TEST_PAGES, BATCH, NOISE = 4096, 256, 64, 0.35
EXPANSION_NOISE, FAR_APART = 0.02, 1.0  # here copies have no position that tells them apart, as the real model's have

PAPER = LossConfig(kind="infonce")
SCALES = {
    "sum (the paper, literally)": PAPER,
    "mean, temperature 1": replace(PAPER, score="mean", balance_score="mean", gamma_score="mean"),
    "mean, temperature 0.05": replace(
        PAPER, score="mean", temperature=0.05, balance_score="mean", balance_temperature=0.05, gamma_score="mean"
    ),
    "mean, temperature 0.05, normalised hardness": replace(
        PAPER, score="mean", temperature=0.05, hardness="normalised", balance_score="mean", balance_temperature=0.05,
        gamma_score="mean",
    ),
}  # fmt: skip
ROWS = (
    "K=1",
    "K=3",
    "K=3, copies far apart",
    "K=3 without warm-up",
    "K=3 without balance",
    "K=3 without diversity",
    "K=3 without hardness",
)
# The paper's ablation on ViDoRe V2 with K=5 (NDCG@10, tie rate, largest usage, in percent); K=1 is its backbone.
CLAIMS = {
    "K=1": {"ndcg": 61.6},
    "K=3": {"ndcg": 66.5, "tie_rate": 18.9, "max_usage": 26.2},
    "K=3 without warm-up": {"ndcg": 63.7, "tie_rate": 11.5, "max_usage": 94.2},
    "K=3 without balance": {"ndcg": 65.8, "tie_rate": 11.6, "max_usage": 92.4},
    "K=3 without diversity": {"ndcg": 65.3, "tie_rate": 56.8, "max_usage": 27.9},
    "K=3 without hardness": {"ndcg": 64.8, "tie_rate": 24.8, "max_usage": 31.7},
}


class ToyEncoder(nn.Module):
    """Trunk, branch with a probe, head: K readings of one vector. Queries have a trunk and a head of their own."""

    def __init__(self, variants: int) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(INTENTS * LATENT, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))
        self.branch = nn.Sequential(nn.GELU(), nn.Linear(WIDTH, WIDTH), nn.GELU())
        self.probes = nn.Parameter(0.5 * torch.randn(variants, WIDTH))
        self.heads = nn.ModuleList(nn.Linear(WIDTH, DIM) for _ in range(variants))
        self.query = nn.Sequential(nn.Linear(LATENT + INTENTS, WIDTH), nn.GELU(), nn.Linear(WIDTH, DIM * TOKENS))

    def forward(self, pages: Tensor, queries: Tensor) -> tuple[Encoded, Encoded]:
        """pages (B, intents, latent), queries (B, latent + intents)."""
        hidden = self.trunk(pages.flatten(1))
        readings = [head(self.branch(hidden + probe)) for head, probe in zip(self.heads, self.probes, strict=True)]
        vectors = F.normalize(torch.stack(readings, 1), dim=-1)[:, :, None]  # (B, K, 1, dim)
        tokens = F.normalize(self.query(queries).unflatten(1, (TOKENS, DIM)), dim=-1)
        return (
            Encoded(vectors, torch.ones(len(pages), 1, dtype=torch.bool)),
            Encoded(tokens, torch.ones(len(queries), TOKENS, dtype=torch.bool)),
        )

    def expand(self, variants: int, noise: float, seed: int) -> ToyEncoder:
        """1 -> K: copies of probe and head, all but the first moved a little."""
        generator = torch.Generator().manual_seed(seed)
        wide = copy.deepcopy(self)
        wide.heads = nn.ModuleList(copy.deepcopy(self.heads[0]) for _ in range(variants))
        wide.probes = nn.Parameter(self.probes.detach().repeat(variants, 1))
        with torch.no_grad():
            for k in range(1, variants):
                for x in (wide.probes[k], wide.heads[k].weight):
                    x += noise * x.std() * torch.randn(x.shape, generator=generator)
        return wide


@dataclass(frozen=True)
class Outcome:
    """What one run came to, on unseen pages."""

    ndcg: float
    max_usage: float
    tie_rate: float
    tie_rate_mean: float
    own_variant: float  # share of an intent's questions that its most frequent variant answers, mean over intents


def ask(pages: Tensor, intents: Tensor, generator: torch.Generator) -> Tensor:
    """A noisy copy of the latent that is asked for, and which intent it is."""
    latent = pages[torch.arange(len(pages)), intents]
    noisy = latent + NOISE * torch.randn(latent.shape, generator=generator)
    return torch.cat([noisy, F.one_hot(intents, INTENTS).float()], 1)


def fit(model: ToyEncoder, loss: LossConfig, steps: int, pages: Tensor, generator: torch.Generator) -> None:
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.05, steps)
    for _ in range(steps):
        rows = torch.randint(len(pages), (BATCH,), generator=generator)
        intents = torch.randint(INTENTS, (BATCH,), generator=generator)
        encoded = model(pages[rows], ask(pages[rows], intents, generator))
        optimiser.zero_grad()
        step_loss(*encoded, PairIds(rows, rows * INTENTS + intents), loss).total.backward()
        optimiser.step()
        schedule.step()


@torch.no_grad()
def judge(model: ToyEncoder, generator: torch.Generator) -> Outcome:
    pages = torch.randn(TEST_PAGES, INTENTS, LATENT, generator=generator)
    gold = torch.arange(TEST_PAGES).repeat(INTENTS)
    intents = torch.arange(INTENTS).repeat_interleave(TEST_PAGES)
    readings, _ = model(pages, ask(pages, intents[:TEST_PAGES], generator))
    _, queries = model(pages[gold], ask(pages[gold], intents, generator))
    scores = score_all(queries.vectors, queries.mask, readings.vectors, readings.mask)
    own = scores[torch.arange(len(gold)), gold]
    winner, total = own.argmax(1), scores.amax(-1)
    variants = own.shape[1]
    by_intent = [torch.bincount(winner[intents == i], minlength=variants).max() / TEST_PAGES for i in range(INTENTS)]
    return Outcome(
        ndcg=statistics.fmean(ndcg(total[i], {int(page): 1}) for i, page in enumerate(gold)),
        max_usage=(torch.bincount(winner, minlength=variants).max() / len(winner)).item(),
        tie_rate=losses.tied(own).float().mean().item(),
        tie_rate_mean=losses.tied(own / TOKENS).float().mean().item(),
        own_variant=torch.stack(by_intent).mean().item(),
    )


def run(row: str, loss: LossConfig, seed: int, steps: int) -> Outcome:
    """One row of the table: warm-up, expansion, adaptation, judgement. Every row has the same number of steps."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    pages = torch.randn(TRAIN_PAGES, INTENTS, LATENT, generator=generator)
    changes = {
        "K=3 without balance": {"balance": 0.0},
        "K=3 without diversity": {"diversity": 0.0},
        "K=3 without hardness": {"hardness": "none"},
    }
    loss = replace(loss, **changes.get(row, {}))
    if row == "K=3 without warm-up":
        model = ToyEncoder(3)
        fit(model, loss, 2 * steps, pages, generator)
    else:
        model = ToyEncoder(1)
        fit(model, LossConfig(kind="pairwise", score=loss.score, temperature=loss.temperature), steps, pages, generator)
        noise = FAR_APART if row == "K=3, copies far apart" else EXPANSION_NOISE
        model = model.expand(1 if row == "K=1" else 3, noise, seed)
        fit(model, loss, steps, pages, generator)
    return judge(model, generator)


def summary(outcomes: list[Outcome]) -> dict[str, dict[str, float]]:
    """Mean and standard deviation over seeds."""
    table = {}
    for name in asdict(outcomes[0]):
        values = [getattr(outcome, name) for outcome in outcomes]
        spread = statistics.stdev(values) if len(values) > 1 else 0.0
        table[name] = {"mean": round(statistics.fmean(values), 4), "sd": round(spread, 4)}
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=400, help="of each stage")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "toy_intents.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    started, table = time.time(), {}
    print(f"{'scale':45s}{'row':24s}{'NDCG@10':>16s}{'max usage':>11s}{'ties':>7s}{'(mean)':>8s}{'own':>6s}")
    for scale, loss in SCALES.items():
        for row in ROWS:
            found = summary([run(row, loss, seed, options.steps) for seed in range(options.seeds)])
            table.setdefault(scale, {})[row] = found
            print(
                f"{scale:45s}{row:24s}{found['ndcg']['mean']:9.3f} ±{found['ndcg']['sd']:.3f}"
                f"{found['max_usage']['mean']:11.2f}{found['tie_rate']['mean']:7.2f}"
                f"{found['tie_rate_mean']['mean']:8.2f}{found['own_variant']['mean']:6.2f}",
                flush=True,
            )
    options.out.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "command": f"python benchmarks/toy_intents.py --steps {options.steps} --seeds {options.seeds}",
        "what": "mean and standard deviation over seeds, on unseen pages",
        "settings": {
            "intents": INTENTS, "latent": LATENT, "dim": DIM, "query_tokens": TOKENS, "batch": BATCH,
            "test_pages": TEST_PAGES, "steps_per_stage": options.steps, "seeds": options.seeds,
            "expansion_noise": EXPANSION_NOISE, "far_apart": FAR_APART,
        },
        "losses": {name: asdict(loss) for name, loss in SCALES.items()},
        "paper_claims_percent": CLAIMS,
        "seen": table,
        "seconds": round(time.time() - started),
    }  # fmt: skip
    options.out.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
