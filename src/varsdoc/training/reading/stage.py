"""`varsdoc train configs/nano/read.yaml`: from generated pages to a model that reads.

A piece of training, not a whole: it starts from a checkpoint or fresh, takes its steps, lets the learning rate fall to
zero over the last of them and writes a model that can be used, judged and gone on with. Pieces of a few minutes add up;
optimiser state does not travel between them, a short warm-up stands in for it.
"""

from __future__ import annotations

import json
import logging
import random
import sys
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from varsdoc.model.device import choose_device
from varsdoc.model.fast.encoder import allow_recompiling
from varsdoc.training.reading.bank import Bank
from varsdoc.training.reading.config import ReadConfig
from varsdoc.training.reading.feed import Feed
from varsdoc.training.reading.master import MasterWeights
from varsdoc.training.reading.pages import SHAPES
from varsdoc.training.reading.pool import SHARES, Pool
from varsdoc.training.reading.printed import Spelling
from varsdoc.training.reading.start import build
from varsdoc.training.reading.step import Losses, Shapes, step
from varsdoc.training.trainer import TrainingError

logger = logging.getLogger(__name__)
NAMES = ("align", "transcribe", "spell", "tell", "contrast", "told", "found", "first", "most", "tied")  # of a log line
BAD_STEPS = 2  # that may follow each other, besides those whose wrong answers come from a bad one
SHARD_BYTES = 15 * 1024**2  # small enough to be moved between machines file by file


class Finite:
    """Whether a step's loss is a number, on its way to the host while the device goes on with the next step."""

    def __init__(self, losses: Losses) -> None:
        loss = losses.total
        self.losses = losses
        self.value = torch.isfinite(loss.detach()).to("cpu", non_blocking=True)
        self.there = torch.cuda.Event() if loss.is_cuda else None
        if self.there is not None:
            self.there.record()

    def __bool__(self) -> bool:
        if self.there is not None:
            self.there.synchronize()
        return bool(self.value)

    def __str__(self) -> str:
        return ", ".join(f"{name} {getattr(self.losses, name).item():.3g}" for name in NAMES)


class Reading:
    """A running piece. With a feed it uses that one and leaves it running; without, it has its own."""

    def __init__(self, config: ReadConfig, feed: Feed | None = None) -> None:
        self.config = config
        self.output = Path(config.output)
        self.output.mkdir(parents=True, exist_ok=True)
        self.model = build(config)
        self.own_feed = feed is None
        self.feed = feed or Feed(config, self.model)
        device = choose_device(None)  # after the workers: a process that uses the GPU cannot be forked
        self.model.to_device(device, "bfloat16" if device.type == "cuda" else "float32")
        self.model.set_trainable(None, vision=True).train()
        self.spelling = Spelling().to(device, self.model.dtype)
        learners = torch.nn.ModuleList([self.model, self.spelling])
        self.weights = MasterWeights(learners, config.lr, config.weight_decay, config.optimiser == "muon")
        self.shapes = Shapes(self.model)
        self.feed.place(device)
        self.banks = defaultdict[tuple[bool, int] | None, Bank](lambda: Bank(config.bank))
        self.random = random.Random(config.seed)
        self.generator = torch.Generator(device=device).manual_seed(config.seed)
        self.began = self.judged_at = self.stepped_at = time.monotonic()
        self.steps, self.loss, self.bad = 0, float("nan"), 0
        if config.compile and device.type == "cuda":
            # Blocks share their code: shapes, windows and full attention are its variants, more than dynamo expects.
            allow_recompiling(64)
            for block in (*self.model.backbone.visual.blocks, *self.model.backbone.language_model.layers):
                block.compile(dynamic=False)

    def run(self) -> Path:
        try:
            self._fill()
            self.began = self.judged_at = time.monotonic()
            self.report(0, None, 0)
            self._steps()
            self.model.reconfigure(self.model.config.with_(trained=True))
            if self.weights.remembered:
                self._take_mean()
        finally:
            if self.own_feed:
                self.feed.close()
        return self.save("model")

    def _take_mean(self) -> None:
        """Noise that the last steps moved one way and earlier ones another cancels; the last weights stay beside it."""
        self.save("last")
        self.weights.become_mean()
        self.save("model")  # nothing that comes may cost it
        if self._judging:
            self.quality(self.steps, "mean")

    def _fill(self) -> None:
        """Enough for the first batches of every common shape."""
        pool = self.feed.generated
        assert pool is not None
        need = {shape: min(self.pages(shape) * 2, pool.rings[shape].size) for shape in (0, 1)}
        with tqdm(total=sum(need.values()), desc="first pages", unit="page", file=sys.stderr) as bar:
            while any(pool.filled(shape) < count for shape, count in need.items()):
                bar.update(self.feed.take(wait=True))

    def pages(self, shape: int) -> int:
        """Of a step: the same for all shapes, so that what depends on their number is compiled once."""
        del shape
        return max(2, self.config.batch_tokens // max(rows * cols for rows, cols in SHAPES))

    def done(self, i: int) -> float:
        """How much of the piece is over, by steps or by the clock, whichever is further."""
        return max(i / self.config.steps, (time.monotonic() - self.began) / 60 / self.config.max_minutes)

    def _steps(self) -> None:
        config = self.config
        sums: list[Losses] = []
        seen, before = 0, None
        with tqdm(total=config.steps, desc="reading", unit="step", file=sys.stderr, mininterval=5) as bar:
            for i in range(1, config.steps + 1):
                self.feed.take()
                losses, pages = self.one(i)
                finite = Finite(losses)
                if before is not None:
                    # A step late: asking now for the loss just launched would leave the device idle meanwhile.
                    self._check(before, i - 1)
                self.steps, before = i, finite
                seen += pages
                sums.append(losses)
                bar.update()
                if i % config.log_every == 0:
                    self.report(i, sums, seen)
                    sums = []
                if i % config.save_every == 0 and i < config.steps:
                    self.save("latest")
                if self._judge_now(i):
                    self.quality(i)
                if self.done(i) >= 1:
                    break
        self._check(finite, self.steps)
        if self._judging and self.judged_at < self.stepped_at:  # else it was judged a moment ago
            self.quality(self.steps)

    @property
    def _judging(self) -> bool:
        """Sets may be held for other pieces of the same feed."""
        return bool(self.feed.held and self.config.judged)

    def _judge_now(self, i: int) -> bool:
        self.stepped_at = time.monotonic()
        late = self.stepped_at - self.judged_at > 60 * self.config.judge_minutes
        return self._judging and (late or i % self.config.judge_every == 0)

    def _check(self, finite: Finite, i: int) -> None:
        """A step whose loss is no number is left out (master.py), and so are those that rank against its pages; a piece
        in which more of them follow each other than that has gone wrong."""
        self.bad = 0 if finite else self.bad + 1
        if self.bad == 1:
            logger.warning("The loss is not a number at step %d, which is left out: %s", i, finite)
        if self.bad > self.config.bank + BAD_STEPS:
            raise TrainingError(f"The loss is not a number at step {i}; the last whole save is under {self.output}.")

    def one(self, i: int) -> tuple[Losses, int]:
        """Draw, forward, backward, update. Returns the losses and the number of pages."""
        config = self.config
        pool = self._pool(i)
        ready = self._ready(pool)
        shape = self.random.choices(ready, [self._share(shape, pool) for shape in ready])[0]
        drawn = pool.draw(shape, self.pages(shape), config.queries)
        fair = self.done(i) < config.fair
        bank = self.banks[(pool is self.feed.real, shape) if config.alike else None]
        losses = step(self.model, self.spelling, self.shapes, drawn, config, self.generator, bank, fair)
        losses.total.backward()
        self.weights.step(self.factor(i), config.max_grad_norm)
        if config.mean_from < 1 and self.done(i) >= config.mean_from:
            self.weights.remember()
        return losses, len(drawn.page)

    def _pool(self, i: int) -> Pool:
        """Real pages or generated ones; the latter where too few real ones have come yet."""
        generated, real = self.feed.generated, self.feed.real
        assert generated is not None
        wanted = self.done(i) >= self.config.pairs_from and self.random.random() < self.config.pairs_share
        return real if wanted and real is not None and self._ready(real) else generated

    def _ready(self, pool: Pool) -> list[int]:
        return [shape for shape in pool.rings if pool.filled(shape) >= self.pages(shape)]

    def _share(self, shape: int, pool: Pool) -> float:
        """Shapes come up as often as among generated pages, or as often as real ones have come."""
        return SHARES[shape] if pool is self.feed.generated else pool.rings[shape].came

    def factor(self, i: int) -> float:
        """Warm-up, plateau, and a linear fall over the last part."""
        left = (1 - self.done(i)) / max(1e-6, self.config.decay)
        return min(1.0, i / max(1, self.config.warmup), max(left, 1e-3))

    def report(self, i: int, sums: list[Losses] | None, seen: int) -> None:
        seconds = time.monotonic() - self.began
        line: dict[str, Any] = {"step": i, "minutes": round(seconds / 60, 2), "pages": seen, "made": self.feed.made}
        if sums:
            self.loss = torch.stack([x.total.detach() for x in sums]).float().nanmean().item()
            for name in NAMES[: None if self.config.variants > 1 else -2]:
                line[name] = round(torch.stack([getattr(x, name) for x in sums]).float().nanmean().item(), 4)
        self._write(line)

    def quality(self, i: int, weights: str = "last") -> None:
        self.model.eval()
        line: dict[str, Any] = {
            "step": i,
            "minutes": round((time.monotonic() - self.began) / 60, 2),
            "weights": weights,
        }
        with torch.compiler.set_stance("force_eager"):  # its pages have every shape
            for held in self.feed.held:
                line |= held.quality(self.model, self.shapes)
        self.model.train()
        self.judged_at = time.monotonic()
        self._write(line)

    def _write(self, line: dict[str, Any]) -> None:
        print(json.dumps(line), flush=True)
        with (self.output / "log.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")

    def save(self, name: str) -> Path:
        target = self.output / name
        self.model.save_pretrained(target, dtype="bfloat16", shard_bytes=SHARD_BYTES)
        return target


def read_stage(config: ReadConfig, resume: bool = False) -> tuple[Path, int, float]:
    """Run one piece; returns the folder of the finished model, its steps, and the last mean loss.

    With `resume` it starts from the last save in its output folder, where there is one.
    """
    latest = Path(config.output) / "latest"
    if resume and (latest / "varsdoc.json").is_file():
        config = replace(config, source=str(latest))
    piece = Reading(config)
    return piece.run(), piece.steps, piece.loss
