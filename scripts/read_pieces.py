"""Several pieces of reading in one process, one after the other: workers, pages and compiled code are made once.

    python scripts/read_pieces.py CONFIG... --out FOLDER [--minutes 24] [--cache FILE]

Made for a lease of a few minutes on a machine that is bare before and gone afterwards:
- FOLDER/curve.json grows with every judgement; FOLDER/log.jsonl has every line of every piece with its name;
- FOLDER/NAME.tar.gz.00, .01, ... is the finished model of a piece (NAME: the last part of its output) in int8, in
  parts under 16 MiB that can be fetched one by one: cat NAME.tar.gz.* | tar xz;
- pieces end in time: each gets at most what is left of --minutes, and its rate falls to zero by then;
- started again, it leaves out finished pieces and goes on with the last save of one that was cut off;
- FOLDER/profile.txt says where the first piece's time went on the GPU, in three steps of it, and FOLDER/python.txt
  where in the trainer's own thread, in five more;
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
import tarfile
import time
from dataclasses import replace
from pathlib import Path

import torch

from varsdoc.errors import ConfigError
from varsdoc.model import VarsDoc
from varsdoc.training.reading.config import ReadConfig, check_read_config, missing_folders
from varsdoc.training.reading.feed import Feed
from varsdoc.training.reading.stage import Reading
from varsdoc.training.reading.start import build
from varsdoc.training.reading.step import Losses

PART = 16_700_000  # just under 16 MiB
SHARD = 64 * 1024**2
PROFILED = 400  # the step at which it is looked where time goes: all shapes are compiled by then
LEAST_MINUTES = 0.5  # a shorter piece is not begun
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


def write_parts(output: Path, out: Path) -> list[Path]:
    """The model of a finished piece in int8, as a tar in parts."""
    name = output.name
    folder = output / "int8"
    saved = VarsDoc.from_pretrained(output / "model", device="cpu", dtype="float32")
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

    def quality(self, i: int) -> None:
        super().quality(i)
        write_curve(self.configs, self.out)


def run_pieces(configs: list[ReadConfig], out: Path, minutes: float, cache: Path | None = None) -> list[str]:
    """Names of the pieces that are finished, now or before."""
    ends = time.monotonic() + 60 * minutes
    out.mkdir(parents=True, exist_ok=True)
    if cache is not None and cache.is_file():
        torch.compiler.load_cache_artifacts(cache.read_bytes())
    open_pieces = [config for config in configs if not (Path(config.output) / "done").is_file()]
    feed = None
    try:
        for config in open_pieces:
            left = (ends - time.monotonic()) / 60
            if left < LEAST_MINUTES:
                logger.warning("no time left for %s", config.output)
                break
            if feed is None:
                feed = Feed(open_pieces[0], build(resumed(open_pieces[0], left)), open_pieces[0].judged)
                left = (ends - time.monotonic()) / 60
            piece = Told(resumed(config, left), feed)
            piece.configs, piece.out = configs, out
            piece.run()
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("configs", nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=1e6)
    parser.add_argument("--cache", type=Path)
    asked = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    done = run_pieces(read_configs(asked.configs), asked.out, asked.minutes, asked.cache)
    print("finished:", ", ".join(done) or "nothing")


if __name__ == "__main__":
    main()
