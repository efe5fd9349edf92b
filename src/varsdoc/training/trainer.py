"""`transformers.Trainer` with our loss, our checkpoints, our evaluation.

What is taken from it: the loop, resuming, schedules, logging, DDP. What is ours:
- `training_step`: embed, loss over the global batch, backward (embed.py says why in three parts);
- checkpoints in varsdoc's own format, written beside and moved into place, so a full disk leaves the last one whole;
- a loss or gradient that is not finite stops the run before it reaches the weights, and names the batch;
- bad records are counted over all ranks; more than 1 % end the run.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from transformers import Trainer, TrainingArguments

from varsdoc.errors import VarsDocError
from varsdoc.model import Encoded, PageBatch, QueryBatch, VarsDoc
from varsdoc.model.varsdoc import EncodePath
from varsdoc.training.config import LossConfig
from varsdoc.training.data import BadRecord, Batch, Collate, Pairs, check_bad
from varsdoc.training.embed import embed
from varsdoc.training.judge import Judged, judge
from varsdoc.training.objective import PairIds, StepLoss, step_loss
from varsdoc.training.ranks import sum_over_ranks, world_size
from varsdoc.training.weights import load_weights

logger = logging.getLogger(__name__)
STAGING = ".saving"


class TrainingError(VarsDocError, RuntimeError):
    """A run that had to stop; the sentence says where it can go on from."""


class Trainee(nn.Module):
    """The model without its `config`: transformers takes that name for its own kind and writes into it."""

    def __init__(self, encoder: VarsDoc) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, pages: PageBatch, queries: QueryBatch, path: EncodePath) -> tuple[Encoded | None, Encoded | None]:
        return self.encoder(pages, queries, path)


class VarsTrainer(Trainer):
    """One stage of training."""

    def __init__(
        self,
        model: VarsDoc,
        arguments: TrainingArguments,
        pairs: Pairs,
        loss: LossConfig,
        *,
        micro_batch: int | None = None,
        judged: Judged | None = None,
        judge_batch: int = 8,
        base: str | None = None,
        keep: int = 2,
    ) -> None:
        self.encoder = model
        self.pairs = pairs
        self.loss_config = loss
        self.judge_batch = judge_batch
        self.base = base
        self.keep = keep
        self.bad: dict[str, BadRecord] = {}
        self._steps: list[StepLoss] = []
        self._names: tuple[str, ...] = ()
        self._saving = False
        collate = Collate(pairs.processor, micro_batch)
        super().__init__(
            model=Trainee(model), args=arguments, data_collator=collate, train_dataset=pairs, eval_dataset=judged
        )

    # A step

    def training_step(
        self, model: nn.Module, inputs: tuple[Batch, ...], num_items_in_batch: Tensor | int | None = None
    ) -> Tensor:
        """inputs: the micro-batches of one batch."""
        model.train()
        batches = tuple(batch.to(self.args.device) for batch in inputs)
        self._names = tuple(name for batch in batches for name in batch.names)
        self._count_bad([bad for batch in batches for bad in batch.skipped])
        embedded = embed(model, batches)
        ids = PairIds(torch.cat([b.ids.page for b in batches]), torch.cat([b.ids.text for b in batches]))
        step = step_loss(*embedded.joined(), ids, self.loss_config)
        self._require_finite(step.value, "loss")
        (step.total / self.current_gradient_accumulation_steps).backward()
        embedded.backward()
        self._steps.append(step)
        return step.value / self.current_gradient_accumulation_steps

    def _get_grad_norm(self, model: nn.Module, grad_norm: Any = None) -> Any:
        norm = super()._get_grad_norm(model, grad_norm)
        self._require_finite(torch.as_tensor(norm), "gradient")
        return norm

    def _require_finite(self, value: Tensor, kind: str) -> None:
        """Before the optimiser moves: a weight that is NaN once is NaN in every later checkpoint."""
        if torch.isfinite(value).all():
            return
        last = last_checkpoint(Path(self.args.output_dir))
        kept = f"the last good checkpoint is {last}" if last else "no checkpoint had been saved yet"
        named = ", ".join(self._names[:8]) + (f" and {len(self._names) - 8} more" if len(self._names) > 8 else "")
        raise TrainingError(
            f"The {kind} is {value.item()} at step {self.state.global_step + 1}, on the batch of {named}; {kept}."
        )

    def _count_bad(self, skipped: list[BadRecord]) -> None:
        new = [bad for bad in skipped if bad.name not in self.bad]
        # A number first: names travel between ranks only when there are any.
        if world_size() > 1 and sum_over_ranks(torch.tensor([len(new)], device=self.args.device)).item():
            everyone: list[list[BadRecord]] = [[] for _ in range(world_size())]
            dist.all_gather_object(everyone, new)
            new = [bad for part in everyone for bad in part if bad.name not in self.bad]
        for bad in new:
            self.bad[bad.name] = bad
            if self.is_world_process_zero():
                logger.warning("skipped the record %s: %s", bad.name, bad.reason)
        if new:
            check_bad(list(self.bad.values()), len(self.pairs))

    # Curves

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Every term of the loss, usage and ties, as means since the last line."""
        if "loss" in logs and self._steps:
            logs = {**logs, **curves(self._steps), "bad_records": float(len(self.bad))}
            self._steps = []
        super().log(logs, start_time)

    def evaluate(self, *_: Any, metric_key_prefix: str = "eval", **__: Any) -> dict[str, float]:
        judged = self.eval_dataset
        assert isinstance(judged, Judged)
        quality = judge(self.encoder, judged, self.judge_batch, self.accelerator.autocast())
        metrics = {
            f"{metric_key_prefix}_ndcg@10": quality.ndcg,
            f"{metric_key_prefix}_max_usage": max(quality.wins),
            f"{metric_key_prefix}_tie_rate": quality.tie_rate,
            f"{metric_key_prefix}_tie_rate_mean": quality.tie_rate_mean,
        }
        self.log(metrics)
        self.control: Any = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def close_bars(self) -> None:
        """End the progress bar's line, so that an error does not begin in its middle."""
        for callback in self.callback_handler.callbacks:
            bar = getattr(callback, "training_bar", None)
            if bar is not None:
                bar.close()

    # Checkpoints

    def _get_output_dir(self, trial: Any) -> str:
        run = str(self.args.output_dir)
        return os.path.join(run, STAGING) if self._saving else run

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        """Write beside, move when all ranks are done, then drop the oldest. A failure leaves what was there."""
        run = Path(self.args.output_dir)
        if self.is_world_process_zero():
            shutil.rmtree(run / STAGING, ignore_errors=True)
        self.all_ranks_did(None)
        failure: Exception | None = None
        self._saving = True
        try:
            super()._save_checkpoint(model, trial)
        except Exception as error:  # what a full disk raises depends on the library that writes
            failure = error
        finally:
            self._saving = False
        if not self.all_ranks_did(failure):
            if self.is_world_process_zero():
                shutil.rmtree(run / STAGING, ignore_errors=True)
            last = last_checkpoint(run)
            reason = (str(failure).strip().splitlines() or [type(failure).__name__])[0] if failure else "another rank"
            raise TrainingError(
                f"Saving step {self.state.global_step} failed ({reason}); "
                + (f"{last} is whole, go on from it with --resume." if last else "there is no earlier checkpoint.")
            ) from failure
        if self.is_world_process_zero():
            _move_in(run / STAGING / f"checkpoint-{self.state.global_step}", run)
            for old in checkpoints(run)[: -self.keep]:
                shutil.rmtree(old, ignore_errors=True)
        self.all_ranks_did(None)

    def all_ranks_did(self, failure: Exception | None) -> bool:
        """Wait for every rank, and learn whether all succeeded."""
        failed = torch.tensor([0.0 if failure is None else 1.0], device=self.args.device)
        return not sum_over_ranks(failed).item()

    def _save(self, output_dir: str | None = None, state_dict: dict[str, Tensor] | None = None) -> None:
        encoder = self.encoder
        encoder.reconfigure(encoder.config.with_(trained=True))
        encoder.save_pretrained(output_dir or str(self.args.output_dir), base=self.base)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        load_weights(self.encoder, Path(resume_from_checkpoint))


def curves(steps: list[StepLoss]) -> dict[str, float]:
    """Means over steps, under the names of the log."""
    values = {
        "loss_retrieval": torch.stack([s.retrieval for s in steps]),
        "loss_balance": torch.stack([s.balance for s in steps]),
        "loss_diversity": torch.stack([s.diversity for s in steps]),
        "tie_rate": torch.stack([s.tie_rate for s in steps]),
        "tie_rate_mean": torch.stack([s.tie_rate_mean for s in steps]),
    }
    wins = torch.stack([s.wins for s in steps]).mean(0)
    means = {name: value.float().mean().item() for name, value in values.items()}
    return means | {"max_usage": wins.max().item()} | {f"usage_{k}": share for k, share in enumerate(wins.tolist())}


def checkpoints(run: Path) -> list[Path]:
    """The whole checkpoints of a run, oldest first."""
    found = [path for path in run.glob("checkpoint-*") if re.fullmatch(r"checkpoint-\d+", path.name)]
    return sorted((path for path in found if path.is_dir()), key=lambda path: int(path.name.split("-")[1]))


def last_checkpoint(run: Path) -> Path | None:
    return next(reversed(checkpoints(run)), None)


def _move_in(made: Path, run: Path) -> None:
    target, aside = run / made.name, run / STAGING / "replaced"
    if target.exists():
        os.replace(target, aside)
    os.replace(made, target)
    shutil.rmtree(run / STAGING, ignore_errors=True)
