"""NDCG@10 over a judged folder while training: how far the model is, in minutes rather than after the run.

Pages are divided among ranks, scored against all queries as they are encoded, and dropped: only scores are kept.
The training path is used under the trainer's precision, so mixed bf16 and float32 weights need no second copy.
Pages are read as they came, whatever `turn_pages` says.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

from varsdoc.model import VarsDoc
from varsdoc.training import losses
from varsdoc.training.ranks import rank, world_size
from varsdoc.training.scoring import score_all
from varsdoc.training.sources import DataError, page_image, read_lines, read_qrels


@dataclass(frozen=True)
class Judged:
    """A BEIR folder: page entries, the questions that have a judgement, and the grade of pages per question."""

    folder: Path
    pages: list[dict[str, object]]
    queries: list[str]
    grades: list[dict[int, int]]  # page index -> grade above 0

    def __len__(self) -> int:
        return len(self.queries)


def read_judged(folder: str, queries: str | None = None) -> Judged:
    """Read and check. Questions without a judged page are left out; a judgement of an unknown page is an error."""
    root = Path(folder).expanduser()
    pages = list(read_lines(root / "corpus.jsonl"))
    index = {str(page["_id"]): i for i, page in enumerate(pages)}
    grades: dict[str, dict[int, int]] = {}
    for query, page, score in read_qrels(root):
        if page not in index:
            raise DataError(f"{root}/qrels/test.tsv judges the page {page}, which corpus.jsonl lacks.")
        if score > 0:
            grades.setdefault(query, {})[index[page]] = score
    asked = [q for q in read_lines(Path(queries) if queries else root / "queries.jsonl") if str(q["_id"]) in grades]
    if not pages or not asked:
        raise DataError(f"{root} has {len(pages)} pages and {len(asked)} judged queries; evaluation needs both.")
    return Judged(root, pages, [str(q["text"]) for q in asked], [grades[str(q["_id"])] for q in asked])


@dataclass(frozen=True)
class Quality:
    """What a judged folder says about the model."""

    ndcg: float
    wins: list[float]
    tie_rate: float
    tie_rate_mean: float


@torch.no_grad()
def judge(model: VarsDoc, judged: Judged, batch: int, precision: AbstractContextManager[None]) -> Quality:
    """Encode, score, rank. Every rank must call it; all get the same answer."""
    was_training = model.training
    model.eval()
    try:
        with precision:
            scores, tokens = _scores(model, judged, batch)
    finally:
        model.train(was_training)
    own = torch.stack([scores[i, max(grades, key=grades.__getitem__)] for i, grades in enumerate(judged.grades)])
    wins = torch.bincount(own.argmax(1), minlength=own.shape[1]).float() / len(own)
    total = scores.amax(-1)
    gains = [ndcg(total[i], grades) for i, grades in enumerate(judged.grades)]
    return Quality(
        sum(gains) / len(gains),
        wins.tolist(),
        losses.tied(own).float().mean().item(),
        losses.tied(losses.Scale("mean")(own, tokens)).float().mean().item(),
    )


def ndcg(scores: Tensor, grades: dict[int, int], k: int = 10) -> float:
    """Discounted gain of the k best pages over that of the best order.

    The only relevant page comes second: 1 / log2(3).

    >>> round(ndcg(torch.tensor([0.9, 0.5, 0.1]), {1: 1}), 4)
    0.6309
    """
    discounts = torch.log2(torch.arange(2, k + 2).float())
    order = scores.argsort(descending=True, stable=True)[:k].tolist()
    gained = sum(grades.get(page, 0) / discounts[i].item() for i, page in enumerate(order))
    ideal = sum(grade / discounts[i].item() for i, grade in enumerate(sorted(grades.values(), reverse=True)[:k]))
    return gained / ideal


def _scores(model: VarsDoc, judged: Judged, batch: int) -> tuple[Tensor, Tensor]:
    """Sums (Q, P, K) on the CPU, and the length of each question."""
    processor = model.processor
    ids = [processor.query_ids(text, f"query {i}") for i, text in enumerate(judged.queries)]
    questions = [
        model.forward_queries(processor.queries(ids[i : i + 4 * batch]).to(model.device), "training")
        for i in range(0, len(ids), 4 * batch)
    ]
    mine = list(range(rank(), len(judged.pages), world_size()))
    variants = model.config.variants
    scores = torch.full((len(ids), len(judged.pages), variants), -torch.inf)
    for start in range(0, len(mine), batch):
        rows = mine[start : start + batch]
        cut = [processor.page(page_image(judged.folder, judged.pages[i]), str(judged.pages[i]["_id"])) for i in rows]
        encoded = model.forward_pages(processor.pages(cut).to(model.device), "training")
        scores[:, rows] = torch.cat(
            [score_all(q.vectors, q.mask, encoded.vectors, encoded.mask).cpu() for q in questions]
        )
    tokens = torch.cat([q.mask.sum(1) for q in questions]).cpu()
    if world_size() > 1:
        together = scores.to(model.device)
        dist.all_reduce(together, dist.ReduceOp.MAX)
        scores = together.cpu()
    return scores, tokens
