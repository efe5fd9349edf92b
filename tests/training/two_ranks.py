"""Started by torchrun from test_ranks.py: a DDP step on every rank's share of a batch; rank 0 saves what came out."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from training.tiny import draw_page, question, tiny_model
from varsdoc.model import VarsDoc
from varsdoc.training.config import LossConfig
from varsdoc.training.data import Batch, Collate, Example
from varsdoc.training.embed import embed
from varsdoc.training.objective import PairIds, step_loss

PAIRWISE = LossConfig(kind="pairwise")
PAPER = LossConfig(kind="infonce", balance=5.0, diversity=2.0, gamma=5.0)
# name -> loss, rows of each rank, micro-batch
CASES: dict[str, tuple[LossConfig, tuple[range, range], int | None]] = {
    "pairwise": (PAIRWISE, (range(3), range(3, 6)), None),
    "paper": (PAPER, (range(3), range(3, 6)), None),
    "unequal": (PAPER, (range(4), range(4, 6)), None),
    "grad_cache": (PAPER, (range(4), range(4, 6)), 1),
}


def fresh_model() -> VarsDoc:
    model = tiny_model(variants=3, branch_layers=2, heads="separate")
    model.set_trainable(None, vision=True)
    return model.train()


def share(model: VarsDoc, rows: range, micro_batch: int | None) -> tuple[Batch, ...]:
    # Pages 0 and 4 are the same page, questions 1 and 5 the same words: false negatives across ranks.
    examples = [
        Example(str(i), model.processor.page(draw_page(i % 4)), f"page {i % 4}", question(1 if i == 5 else i))
        for i in rows
    ]
    return Collate(model.processor, micro_batch)(examples)


def step(wrapped: torch.nn.Module, parts: tuple[Batch, ...], config: LossConfig) -> dict[str, Tensor]:
    embedded = embed(wrapped, parts)
    ids = PairIds(torch.cat([b.ids.page for b in parts]), torch.cat([b.ids.text for b in parts]))
    loss = step_loss(*embedded.joined(), ids, config)
    loss.total.backward()
    embedded.backward()
    facts = {"loss": loss.value, "balance": loss.balance, "wins": loss.wins, "tie_rate": loss.tie_rate}
    grads = {
        name.removeprefix("module."): p.grad.clone() for name, p in wrapped.named_parameters() if p.grad is not None
    }
    return grads | facts


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for name, (config, rows, micro_batch) in CASES.items():
        model = fresh_model()
        result = step(
            DistributedDataParallel(model, broadcast_buffers=False), share(model, rows[rank], micro_batch), config
        )
        torch.save(result, folder / f"{name}-{rank}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
