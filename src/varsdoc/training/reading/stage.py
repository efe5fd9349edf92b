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
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from varsdoc.model import VarsDoc, nano_config
from varsdoc.model.checkpoint import nano_folder, read_tokenizer
from varsdoc.model.device import choose_device
from varsdoc.training.build import load_to_train
from varsdoc.training.config import ModelConfig
from varsdoc.training.generator import PageStream
from varsdoc.training.reading.config import ReadConfig
from varsdoc.training.reading.held import Held
from varsdoc.training.reading.master import MasterWeights
from varsdoc.training.reading.pages import SHAPES, Maker, Workers
from varsdoc.training.reading.pool import SHARES, Pool, pool_sizes
from varsdoc.training.reading.printed import Spelling
from varsdoc.training.reading.real import real_pages
from varsdoc.training.reading.step import Losses, Shapes, step
from varsdoc.training.trainer import TrainingError

logger = logging.getLogger(__name__)
NAMES = ("align", "transcribe", "spell", "contrast", "found", "first", "most", "tied")  # of a log line
# Chunks taken in per step. Unpacking all that a dozen renderers make held the GPU up: 290 pages/s instead of 340.
INTAKE = 2
SHARD_BYTES = 15 * 1024**2  # small enough to be moved between machines file by file


def build(config: ReadConfig) -> VarsDoc:
    """The source, expanded where the config asks for more variants or a probe; else fresh, where the backbone reads."""
    if config.source is None:
        plain = nano_config().with_(variants=1, branch_layers=0, heads="shared", trained=False)
        model = VarsDoc(plain, read_tokenizer(nano_folder()), config.seed)
    else:
        model = load_to_train(config.source, ModelConfig(noise=config.noise), config.seed)
    wanted = (config.variants, config.branch_layers)
    if (model.config.variants, model.config.branch_layers) != wanted:
        model.expand(
            *wanted, heads="separate" if config.variants > 1 else "shared", noise=config.noise, seed=config.seed
        )
        _spread(model, config.probe_noise, config.seed)
    if config.min_visual_tokens is not None:
        model.reconfigure(model.config.with_(min_visual_tokens=config.min_visual_tokens))
    return model


def _spread(model: VarsDoc, noise: float, seed: int) -> None:
    """Move probes apart: near-identical ones read alike for ever (docs/log.md, the toy of three intents)."""
    spread = model.backbone.language_model.embed_tokens.weight.detach().float().std()
    moved = torch.randn(model.probes.shape, generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        model.probes.add_((noise * spread * moved).to(model.probes))


class Reading:
    """A running piece."""

    def __init__(self, config: ReadConfig) -> None:
        self.config = config
        self.output = Path(config.output)
        self.output.mkdir(parents=True, exist_ok=True)
        self.model = build(config)
        stream = PageStream(seed=config.seed + 1, fonts=config.fonts, texts=config.texts)
        maker = Maker(stream, self.model.config, self.model.processor.tokenizer.to_str())
        self.workers = Workers(maker, config.workers, start=config.seed * 10_000_000)
        device = choose_device(None)  # after the workers: a process that uses the GPU cannot be forked
        self.model.to_device(device, "bfloat16" if device.type == "cuda" else "float32")
        self.model.set_trainable(None, vision=True).train()
        self.spelling = Spelling().to(device)
        learners = torch.nn.ModuleList([self.model, self.spelling])
        self.weights = MasterWeights(learners, config.lr, config.weight_decay, config.optimiser == "muon")
        self.shapes = Shapes(self.model)
        self.pool = Pool(pool_sizes(config.pool), device, config.seed)
        self.real = self._load_real(device)
        self.held = [Held.load(folder, self.model, config.workers) for folder in config.judged]
        self.random = random.Random(config.seed)
        self.began = time.monotonic()
        self.steps, self.loss = 0, float("nan")
        if config.compile and device.type == "cuda":
            # Blocks share their code: shapes, windows and full attention are its variants, more than dynamo expects.
            torch._dynamo.config.recompile_limit = 64
            for block in (*self.model.backbone.visual.blocks, *self.model.backbone.language_model.layers):
                block.compile(dynamic=False)

    def _load_real(self, device: torch.device) -> Pool | None:
        if not self.config.pairs:
            return None
        chunks = [
            chunk
            for folder in self.config.pairs
            for chunk in real_pages(
                folder, self.model.config, self.model.processor.tokenizer, self.config.workers, self.config.views
            )
        ]
        counts = {shape: sum(chunk.shape == shape for chunk in chunks) for shape in range(len(SHAPES))}
        pool = Pool({shape: count for shape, count in counts.items() if count}, device, self.config.seed)
        for chunk in chunks:
            pool.add(chunk)
        logger.info("real pages per shape: %s", counts)
        return pool

    def run(self) -> Path:
        try:
            self._fill()
            self.report(0, None, 0)
            self._steps()
        finally:
            self.workers.close()
        self.model.reconfigure(self.model.config.with_(trained=True))
        return self.save("model")

    def _fill(self) -> None:
        """Enough for the first batches of every common shape."""
        need = {shape: min(self.pages(shape) * 2, len(self.pool.rings[shape].page)) for shape in (0, 1)}
        with tqdm(total=sum(need.values()), desc="first pages", unit="page", file=sys.stderr) as bar:
            while any(self.pool.filled(shape) < count for shape, count in need.items()):
                chunk = self.workers.get(wait=True)
                assert chunk is not None
                self.pool.add(chunk)
                bar.update(len(chunk.page))

    def pages(self, shape: int) -> int:
        rows, cols = SHAPES[shape]
        return max(2, self.config.batch_tokens // (rows * cols))

    def done(self, i: int) -> float:
        """How much of the piece is over, by steps or by the clock, whichever is further."""
        return max(i / self.config.steps, (time.monotonic() - self.began) / 60 / self.config.max_minutes)

    def _steps(self) -> None:
        config = self.config
        sums: list[Losses] = []
        seen = 0
        with tqdm(total=config.steps, desc="reading", unit="step", file=sys.stderr, mininterval=5) as bar:
            for i in range(1, config.steps + 1):
                for _ in range(INTAKE):
                    if (chunk := self.workers.get(wait=False)) is not None:
                        self.pool.add(chunk)
                losses = self.one(i)
                self.steps = i
                seen += losses[1]
                sums.append(losses[0])
                bar.update()
                if i % config.log_every == 0:
                    self.report(i, sums, seen)
                    sums = []
                if i % config.save_every == 0 and i < config.steps:
                    self.save("latest")
                if self.held and i % config.judge_every == 0:
                    self.quality(i)
                if self.done(i) >= 1:
                    break
        if self.held and self.steps % config.judge_every:  # else it was judged a moment ago
            self.quality(self.steps)

    def one(self, i: int) -> tuple[Losses, int]:
        """Draw, forward, backward, update. Returns the losses and the number of pages."""
        config = self.config
        real = self.done(i) >= config.pairs_from and self.random.random() < config.pairs_share
        pool = self.real if self.real is not None and real else self.pool
        ready = [shape for shape in pool.rings if pool.filled(shape) >= self.pages(shape)]
        shape = self.random.choices(ready, [self._share(shape, pool) for shape in ready])[0]
        drawn = pool.draw(shape, self.pages(shape), config.queries)
        losses = step(self.model, self.spelling, self.shapes, drawn, config, self.pool.generator)
        if not torch.isfinite(losses.total.detach()):
            raise TrainingError(f"The loss is not a number at step {i}; the last whole save is under {self.output}.")
        losses.total.backward()
        self.weights.step(self.factor(i), config.max_grad_norm)
        return losses, len(drawn.page)

    def _share(self, shape: int, pool: Pool) -> float:
        """Shapes come up in proportion to their visual tokens, not to how many of them are held."""
        rows, cols = SHAPES[shape]
        return SHARES[shape] if pool is self.pool else pool.filled(shape) * rows * cols

    def factor(self, i: int) -> float:
        """Warm-up, plateau, and a linear fall over the last part."""
        left = (1 - self.done(i)) / max(1e-6, self.config.decay)
        return min(1.0, i / max(1, self.config.warmup), max(left, 1e-3))

    def report(self, i: int, sums: list[Losses] | None, seen: int) -> None:
        seconds = time.monotonic() - self.began
        line: dict[str, Any] = {"step": i, "minutes": round(seconds / 60, 2), "pages": seen, "made": self.pool.made}
        if sums:
            self.loss = torch.stack([x.total.detach() for x in sums]).float().mean().item()
            for name in NAMES[: None if self.config.variants > 1 else -2]:
                line[name] = round(torch.stack([getattr(x, name) for x in sums]).float().mean().item(), 4)
        self._write(line)

    def quality(self, i: int) -> None:
        self.model.eval()
        line: dict[str, Any] = {"step": i}
        with torch.compiler.set_stance("force_eager"):  # its pages have every shape
            for held in self.held:
                line |= held.quality(self.model, self.shapes)
        self.model.train()
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
