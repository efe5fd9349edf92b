"""`varsdoc train`: one stage from its config to its model, the stage before it first where that has not run."""

from __future__ import annotations

import dataclasses
import json
import logging
import math
import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import torch
import yaml
from transformers import TrainingArguments

from varsdoc.errors import ConfigError
from varsdoc.model import VarsDoc
from varsdoc.training.build import build_model, source_of, source_settings
from varsdoc.training.config import TrainConfig, load_config, read_settings
from varsdoc.training.data import Pairs
from varsdoc.training.expansion import expansion_gaps
from varsdoc.training.judge import read_judged
from varsdoc.training.ranks import leave, rank, world_size
from varsdoc.training.sources import DataError
from varsdoc.training.trainer import TrainingError, VarsTrainer, last_checkpoint

logger = logging.getLogger(__name__)
PROBE_PAGES = 8


@dataclass(frozen=True)
class Finished:
    """A stage that ran to its end."""

    model: Path
    steps: int
    loss: float
    bad_records: int


def train(path: str | Path, resume: bool = False) -> Finished:
    """Run a config. With `resume`, go on from the last checkpoint in its output folder, where there is one."""
    finished = _run(path, resume)
    leave()
    return finished


def _run(path: str | Path, resume: bool) -> Finished:
    """A config, after the stage before it where that has not run."""
    if read_settings(Path(path)).get("stage") == "read":
        from varsdoc.training.reading.config import load_read_config
        from varsdoc.training.reading.stage import read_stage

        return Finished(*read_stage(load_read_config(path), resume), bad_records=0)
    config = load_config(path)
    if config.after and not (load_config(config.after).result / "varsdoc.json").is_file():
        logger.warning("%s starts from the result of %s, which has not run: running it first.", path, config.after)
        _run(config.after, resume)
    return run_stage(config, resume)


def run_stage(config: TrainConfig, resume: bool = False) -> Finished:
    """One stage."""
    run = Path(config.output)
    last = last_checkpoint(run)
    if last and not resume:
        raise ConfigError(
            f"{run} holds {last.name} of an earlier run; add --resume to go on, or choose another output."
        )
    arguments = training_arguments(config)  # also starts the process group
    trainer = make_trainer(config, arguments)
    if rank() == 0:
        run.mkdir(parents=True, exist_ok=True)
        (run / "config.yaml").write_text(yaml.safe_dump(dataclasses.asdict(config), sort_keys=False))
    if last and _step(last) >= optimiser_steps(config, len(trainer.pairs), world_size()):
        trainer._load_from_checkpoint(str(last))  # all steps are done; transformers would take one more
        steps, loss = _step(last), _logged_loss(last)
    else:
        steps, loss = _train(trainer, last)
    _save_result(trainer, config.result)
    return Finished(config.result, steps, loss, len(trainer.bad))


def _train(trainer: VarsTrainer, last: Path | None) -> tuple[int, float]:
    try:
        output = trainer.train(resume_from_checkpoint=str(last) if last else None)
    except DataError as error:
        # From a worker it comes wrapped in a traceback; its own sentence is the last line.
        raise DataError(str(error).strip().splitlines()[-1].split("DataError: ")[-1]) from error
    finally:
        trainer.close_bars()
    return output.global_step, output.training_loss


def _save_result(trainer: VarsTrainer, folder: Path) -> None:
    failure: Exception | None = None
    if rank() == 0:
        try:
            trainer._save(str(folder))
        except Exception as error:  # what a full disk raises depends on the library that writes
            failure = error
    if not trainer.all_ranks_did(failure):
        raise TrainingError(
            f"The trained model could not be saved to {folder} ({failure or 'see rank 0'}); "
            "its last checkpoint is whole, so make room and run again with --resume."
        ) from failure


def _step(checkpoint: Path) -> int:
    return int(checkpoint.name.split("-")[1])


def _logged_loss(checkpoint: Path) -> float:
    history = json.loads((checkpoint / "trainer_state.json").read_text())["log_history"]
    losses = [line["loss"] for line in history if "loss" in line]
    return sum(losses) / len(losses) if losses else math.nan


def make_trainer(config: TrainConfig, arguments: TrainingArguments) -> VarsTrainer:
    """Model, data and judged folder, put together."""
    judged = read_judged(config.eval.folder, config.eval.queries) if config.eval.folder else None
    model = build_model(config)
    pairs = Pairs(config.data.train, model.processor)
    together = config.optim.batch * world_size()
    if len(pairs) < together:
        raise DataError(f"The training data has {len(pairs)} pairs, fewer than one global batch of {together}.")
    source = source_of(config)
    before = {} if config.model.fresh else source_settings(source)
    if not before.get("branch_layers"):
        _start_probes(model, pairs, config.seed)
    elif before["variants"] == 1 < model.config.variants:
        _report_expansion(model, pairs)
    return VarsTrainer(
        model,
        arguments,
        pairs,
        config.loss,
        micro_batch=config.optim.micro_batch if config.optim.grad_cache else None,
        judged=judged,
        judge_batch=config.eval.batch,
        base=model.base if config.model.lora else None,
        keep=config.keep,
    )


def _start_probes(model: VarsDoc, pairs: Pairs, seed: int) -> None:
    """A new probe starts at the mean token of real pages, not of the prompt alone."""
    pages = [pairs[i].patches for i in range(min(PROBE_PAGES, len(pairs)))]
    model.reset_probes(pages=model.processor.pages(pages), seed=seed)


def _report_expansion(model: VarsDoc, pairs: Pairs) -> None:
    examples = [pairs[i] for i in range(min(PROBE_PAGES, len(pairs)))]
    processor = model.processor
    pages = processor.pages([example.patches for example in examples])
    gaps = expansion_gaps(model, pages, processor.queries([processor.query_ids(x.query) for x in examples]))
    if rank() == 0:
        said = ", ".join(f"{gap:.4f}" for gap in gaps)
        logger.warning(
            "expanded 1 -> %d; scores of variants 2.. differ from variant 1 by up to %s", len(gaps) + 1, said
        )


def training_arguments(config: TrainConfig) -> TrainingArguments:
    """Our config in the terms of transformers."""
    optim = config.optim
    accumulate = accumulation(config)
    gpu = torch.cuda.is_available()
    arguments = TrainingArguments(
        output_dir=config.output,
        num_train_epochs=optim.epochs,
        max_steps=optim.steps or -1,
        learning_rate=optim.lr,
        lr_scheduler_type=optim.schedule,
        warmup_steps=optim.lr_warmup_steps,
        weight_decay=optim.weight_decay,
        max_grad_norm=optim.max_grad_norm,
        per_device_train_batch_size=optim.batch // accumulate,
        gradient_accumulation_steps=accumulate,
        bf16=optim.bf16,
        dataloader_num_workers=config.data.workers,
        dataloader_drop_last=True,
        dataloader_pin_memory=gpu,
        remove_unused_columns=False,
        logging_steps=config.log_every,
        logging_nan_inf_filter=False,
        save_strategy="steps",
        save_steps=config.save_every,
        eval_strategy="steps" if config.eval.folder else "no",
        eval_steps=config.eval.every,
        report_to=_reporters(config.report_to),
        seed=config.seed,
        use_cpu=not gpu and not torch.backends.mps.is_available(),
        ddp_backend="gloo" if launched_ranks() > 1 and not gpu else None,
        ddp_find_unused_parameters=False,
        ddp_broadcast_buffers=False,  # they are rotation tables, the same everywhere
    )
    if arguments.n_gpu > 1:
        logger.warning("using one of %d GPUs; start with torchrun --nproc-per-node to use them all.", arguments.n_gpu)
        arguments._n_gpu = 1
    return arguments


def _reporters(wanted: list[str]) -> list[str]:
    kept = list(wanted)
    if "tensorboard" in kept and find_spec("tensorboard") is None and find_spec("tensorboardX") is None:
        logger.warning("tensorboard is not installed, so curves go to the console only; install varsdoc[train].")
        kept.remove("tensorboard")
    return kept


def optimiser_steps(config: TrainConfig, pairs: int, ranks: int) -> int:
    """How many optimiser steps a run takes. What does not fill a forward pass on every rank is left out of an epoch.

    >>> optimiser_steps(TrainConfig(), pairs=118695, ranks=4)  # one epoch of 32 x 4
    927
    """
    if config.optim.steps:
        return config.optim.steps
    accumulate = accumulation(config)
    passes = pairs // (config.optim.batch // accumulate) // ranks
    return math.ceil(config.optim.epochs * math.ceil(passes / accumulate))


def accumulation(config: TrainConfig) -> int:
    """Forward passes whose gradients are added up; a grad_cache batch is one."""
    optim = config.optim
    return 1 if optim.grad_cache or not optim.micro_batch else optim.batch // optim.micro_batch


def launched_ranks() -> int:
    """How many processes torchrun or accelerate started."""
    return int(os.environ.get("WORLD_SIZE", "1"))
