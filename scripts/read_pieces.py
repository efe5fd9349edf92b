"""Several pieces of reading in one process, one after the other: workers, pages and compiled code are made once.

    python scripts/read_pieces.py CONFIG... --out FOLDER [--minutes 24 [--fit]] [--cache FILE]
    python scripts/read_pieces.py CONFIG... --out FOLDER --warm      # compile beforehand, while data still comes
    python scripts/read_pieces.py CONFIG... --out FOLDER --until FILE ...   # the same, and begin once FILE is there

Made for a lease of a few minutes on a machine that is bare before and gone afterwards:
- FOLDER/curve.json grows with every judgement; FOLDER/log.jsonl has every line of every piece with its name;
- FOLDER/NAME.tar.gz.00, .01, ... is the finished model of a piece (NAME: the last part of its output) in int8, in
  parts under 16 MiB that can be fetched one by one: cat NAME.tar.gz.* | tar xz; where that is a mean (`mean_from`),
  FOLDER/NAME-last.tar.gz.* is what the piece ended with;
- pieces end in time: each gets at most what is left of --minutes, and its rate falls to zero by then;
- --fit: all pieces after the first get the same number of steps, as many as the time left allows at the first one's
  speed and none of them more than its config says: what is compared must have been trained alike;
- started again, it leaves out finished pieces and goes on with the last save of one that was cut off;
- FOLDER/profile.txt says where the first piece's time went on the GPU, in three steps of it, and FOLDER/python.txt
  where in the trainer's own thread, in five more;
- --warm takes two steps of each kind of piece and each shape on generated pages, from the first config's source, and
  ends: what it compiled stays in torch's cache on disk for the real run on the same machine;
- --until FILE does so in the run's own process, which then need not even read that cache, and ends it when FILE
  appears, to begin in earnest (new workers are forked then; like torch's own loaders they do not touch the GPU); what
  FILE holds is the time in minutes, in place of --minutes;
- --cache keeps what was compiled, for another process on the same kind of GPU (torch.compiler.save_cache_artifacts).

A piece's source may be the model of a piece before it. All pieces are fed as the first config says.
"""

from __future__ import annotations

import argparse
import cProfile
import io
import json
import logging
import pstats
import statistics
import tarfile
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import torch

from varsdoc.errors import ConfigError
from varsdoc.model import VarsDoc
from varsdoc.training.reading.config import ReadConfig, check_read_config, missing_folders
from varsdoc.training.reading.feed import Feed
from varsdoc.training.reading.stage import Reading
from varsdoc.training.reading.start import build
from varsdoc.training.reading.step import Losses, step
from varsdoc.training.trainer import TrainingError

PART = 16_700_000  # just under 16 MiB
SHARD = 64 * 1024**2
PROFILED = 400  # the step at which it is looked where time goes: all shapes are compiled by then
LEAST_MINUTES = 0.5  # a shorter piece is not begun
AROUND = 25  # seconds of a piece that are no steps: building, judging, packing
logger = logging.getLogger("read_pieces")


def read_configs(paths: list[str]) -> list[ReadConfig]:
    """All configs, checked before the first minute is spent; what an earlier piece will write may be missing."""
    configs: list[ReadConfig] = []
    for path in paths:
        config = check_read_config(path)
        coming = {str(Path(earlier.output) / "model") for earlier in configs}
        missing = [folder for folder in missing_folders(config) if folder not in coming]
        if missing:
            raise ConfigError(f"{path} names the folder {missing[0]}, which does not exist.")
        configs.append(config)
    return configs


def resumed(config: ReadConfig, minutes: float) -> ReadConfig:
    """The piece in the time that is left; from its last save, for what it had left, where it was cut off."""
    output = Path(config.output)
    limit = min(config.max_minutes, minutes)
    if (output / "latest" / "varsdoc.json").is_file():
        lines = [json.loads(line) for line in (output / "log.jsonl").read_text().splitlines()]
        begun = max((i for i, line in enumerate(lines) if line["step"] == 0), default=0)
        step = max((line["step"] for line in lines[begun:] if line["step"] % config.save_every == 0), default=0)
        spent = max((line.get("minutes", 0.0) for line in lines[begun:] if line["step"] <= step), default=0.0)
        limit = max(LEAST_MINUTES, min(config.max_minutes - spent, minutes))
        left = max(1, config.steps - step)
        return replace(config, source=str(output / "latest"), steps=left, max_minutes=limit, seed=config.seed + 100)
    return replace(config, max_minutes=limit)


def seconds_per_step(log: Path) -> float:
    """The median over a piece's reports; compiling and judging fall into few of them."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    lines = [line for line in lines if "pages" in line]
    pairs = [(a, b) for a, b in pairwise(lines) if b["step"] > a["step"]]
    return 60 * statistics.median((b["minutes"] - a["minutes"]) / (b["step"] - a["step"]) for a, b in pairs)


def fit_steps(pieces: list[ReadConfig], step: float, minutes: float) -> list[ReadConfig]:
    """As many steps for each of the pieces as fit into the time, where one with one variant takes `step` seconds."""
    cost = sum(1 + 0.15 * (piece.variants - 1) for piece in pieces)
    steps = int((60 * minutes - AROUND * len(pieces)) / (step * cost))
    return [replace(piece, steps=max(1, min(steps, piece.steps))) for piece in pieces]


def write_parts(output: Path, out: Path) -> list[Path]:
    """The model of a finished piece in int8, as a tar in parts; beside a mean also what the piece ended with."""
    last = output / "last"
    parts = _write_parts(output / "model", output.name, out)
    return parts + (_write_parts(last, f"{output.name}-last", out) if last.is_dir() else [])


def _write_parts(model: Path, name: str, out: Path) -> list[Path]:
    folder = model.parent / f"{model.name}-int8"
    saved = VarsDoc.from_pretrained(model, device="cpu", dtype="float32")
    saved.save_pretrained(folder, dtype="int8", shard_bytes=SHARD)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=3) as tar:
        tar.add(folder, arcname=name)
    data = packed.getvalue()
    parts = []
    for i, start in enumerate(range(0, len(data), PART)):
        part = out / f"{name}.tar.gz.{i:02d}"
        part.write_bytes(data[start : start + PART])
        parts.append(part)
    return parts


def write_curve(configs: list[ReadConfig], out: Path) -> None:
    """Every judgement of every piece, and all log lines, from the pieces' own logs."""
    lines = []
    for config in configs:
        path = Path(config.output) / "log.jsonl"
        for line in path.read_text().splitlines() if path.is_file() else []:
            lines.append({"piece": Path(config.output).name, **json.loads(line)})
    (out / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    judged = {Path(folder).name for config in configs for folder in config.judged}
    curve = [line for line in lines if judged & line.keys()]
    (out / "curve.json").write_text(json.dumps(curve, indent=1) + "\n")


class Told(Reading):
    """A piece that keeps the curve up to date as it is judged."""

    configs: list[ReadConfig]
    out: Path

    def one(self, i: int) -> tuple[Losses, int]:
        if i == PROFILED + 10 and not (self.out / "python.txt").exists():
            return self._profile_python(i)
        if i != PROFILED or not torch.cuda.is_available() or (self.out / "profile.txt").exists():
            return super().one(i)
        kinds = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=kinds) as profile:
            for _ in range(3):
                taken = super().one(i)
            torch.cuda.synchronize()
        table = profile.key_averages().table(sort_by="self_cuda_time_total", row_limit=60, max_name_column_width=90)
        (self.out / "profile.txt").write_text(table)
        return taken

    def _profile_python(self, i: int) -> tuple[Losses, int]:
        profile = cProfile.Profile()
        with profile:
            for _ in range(5):
                self.feed.take()
                taken = super().one(i)
        with (self.out / "python.txt").open("w") as file:
            for order in ("tottime", "cumtime"):
                pstats.Stats(profile, stream=file).sort_stats(order).print_stats(40)
        return taken

    def quality(self, i: int, weights: str = "last") -> None:
        super().quality(i, weights)
        write_curve(self.configs, self.out)


def run_pieces(
    configs: list[ReadConfig], out: Path, minutes: float, cache: Path | None = None, fit: bool = False
) -> list[str]:
    """Names of the pieces that are finished, now or before."""
    ends = time.monotonic() + 60 * minutes
    out.mkdir(parents=True, exist_ok=True)
    if cache is not None and cache.is_file():
        torch.compiler.load_cache_artifacts(cache.read_bytes())
    open_pieces = [config for config in configs if not (Path(config.output) / "done").is_file()]
    feed = None
    try:
        for i, config in enumerate(open_pieces):
            left = (ends - time.monotonic()) / 60
            if fit and i == 1:
                speed = seconds_per_step(Path(open_pieces[0].output) / "log.jsonl")
                open_pieces[1:] = fit_steps(open_pieces[1:], speed, left)
                config = open_pieces[1]
                logger.info("%.3f s a step: %d steps for each of the others", speed, config.steps)
            if left < LEAST_MINUTES:
                logger.warning("no time left for %s", config.output)
                break
            if feed is None:
                feed = Feed(open_pieces[0], build(resumed(open_pieces[0], left)), open_pieces[0].judged)
                left = (ends - time.monotonic()) / 60
            piece = Told(resumed(config, left), feed)
            piece.configs, piece.out = configs, out
            try:
                piece.run()
            except TrainingError as error:  # the others may still come to their end
                logger.error("%s: %s", config.output, error)
            else:
                (Path(config.output) / "done").write_text(f"{piece.steps} steps\n")
                write_parts(Path(config.output), out)
                write_curve(configs, out)
                if cache is not None and (made := torch.compiler.save_cache_artifacts()) is not None:
                    cache.parent.mkdir(parents=True, exist_ok=True)
                    cache.write_bytes(made[0])
            del piece
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
    finally:
        if feed is not None:
            feed.close()
    return [Path(config.output).name for config in configs if (Path(config.output) / "done").is_file()]


class Warm(Reading):
    """Two steps on each shape: everything that a piece compiles."""

    until: Path | None = None

    def run(self) -> Path:
        pool = self.feed.generated
        assert pool is not None
        for shape in pool.rings:
            if over(self.until):
                break
            while pool.filled(shape) < self.pages(shape):
                self.feed.take(wait=True)
            for _ in range(2):
                drawn = pool.draw(shape, self.pages(shape), self.config.queries)
                step(self.model, self.spelling, self.shapes, drawn, self.config, self.generator).total.backward()
                self.weights.step(1e-3, self.config.max_grad_norm)
            logger.info("warm: %d variants, shape %d, after %.0f s", self.config.variants, shape, self._seconds())
        return self.output

    def _seconds(self) -> float:
        return time.monotonic() - self.began


def over(until: Path | None) -> bool:
    return until is not None and until.is_file()


def warm(configs: list[ReadConfig], out: Path, until: Path | None = None) -> None:
    """Compile for every kind of piece once, into torch's own cache. Each kind starts from the first one's model."""
    first = configs[0]
    kinds = {(config.variants, config.branch_layers): config for config in configs}
    feed = None
    for config in kinds.values():
        if over(until):
            break
        small = {"pairs": [], "judged": [], "workers": min(6, first.workers), "pool": max(8, min(1000, first.pool))}
        source = first.source if feed is None else str(out / "warm" / "model")
        config = replace(config, source=source, output=str(out / "warm"), **small)
        feed = feed or Feed(config, build(config))
        piece = Warm(config, feed)
        piece.until = until
        piece.run()
        if config.variants == 1:  # what the others begin with
            piece.save("model")
        del piece
    if feed is not None:
        feed.close()
    del feed  # and with it pages on the device
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def minutes_in(until: Path) -> float:
    """Wait for the file; the number that it holds."""
    while not (over(until) and until.read_text().strip()):
        time.sleep(0.5)
    return float(until.read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("configs", nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=1e6)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--fit", action="store_true", help="the same steps for all pieces after the first, in time")
    parser.add_argument("--warm", action="store_true", help="compile for these configs and end")
    parser.add_argument("--until", type=Path, help="compile until this file is there; it holds --minutes")
    asked = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    if asked.warm or asked.until is not None:
        warm([check_read_config(path) for path in asked.configs], asked.out, asked.until)
    if asked.warm:
        return
    minutes = asked.minutes if asked.until is None else minutes_in(asked.until)
    done = run_pieces(read_configs(asked.configs), asked.out, minutes, asked.cache, asked.fit)
    print("finished:", ", ".join(done) or "nothing")


if __name__ == "__main__":
    main()
