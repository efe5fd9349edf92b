"""`varsdoc train configs/nano/read.yaml --dry-run`: what a piece of reading would do, and what it lacks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from varsdoc.model import nano_config
from varsdoc.training.reading.config import ReadConfig, check_read_config, missing_folders
from varsdoc.training.reading.pages import SHAPES
from varsdoc.training.reading.pool import pool_sizes


@dataclass(frozen=True)
class ReadPlan:
    """The facts of one piece."""

    config: ReadConfig
    missing: list[str]

    def lines(self) -> list[str]:
        config = self.config
        start = config.source or f"random weights of {nano_config().blocks} blocks x {nano_config().hidden_size}"
        largest = max(SHAPES, key=lambda shape: shape[0] * shape[1])
        pages = (
            f"{max(2, config.batch_tokens // (largest[0] * largest[1]))} of {' or '.join(map(_cells, SHAPES))} cells"
        )
        pools = [pool_sizes(config.pool), *([pool_sizes(config.real_pool)] if config.pairs else [])]
        held = sum(n * SHAPES[i][0] * SHAPES[i][1] * 4 * 588 for sizes in pools for i, n in sizes.items())
        return [
            f"model       {_variants(config)}, from {start}",
            f"steps       {config.steps:,} by {config.optimiser}; its rate falls over the last {config.decay:.0%}",
            f"pages       a step has {pages}; {config.queries} queries a page, {config.contrast} of them ranked",
            f"pool        {held / 1e9:.1f} GB of pages on the device, drawn by {config.workers} workers",
            *(f"missing     the folder {folder}" for folder in self.missing),
        ]


def _cells(shape: tuple[int, int]) -> str:
    return f"{shape[0]} x {shape[1]}"


def _variants(config: ReadConfig) -> str:
    """
    >>> _variants(ReadConfig()), _variants(ReadConfig(variants=5, branch_layers=4))
    ('one variant, no probe, one head', 'K=5, branches in the last 4 blocks')
    """
    if config.variants == 1 and not config.branch_layers:
        return "one variant, no probe, one head"
    return f"K={config.variants}, branches in the last {config.branch_layers} blocks"


def read_plan(path: str | Path) -> ReadPlan:
    config = check_read_config(path)
    return ReadPlan(config, missing_folders(config))
