"""The settings of the reading stage, one YAML file (`configs/nano/read.yaml`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from varsdoc.errors import ConfigError
from varsdoc.training.config import build_settings, read_settings


@dataclass(frozen=True)
class ReadConfig:
    """What is read, for how long, and how.

    source           a checkpoint to go on from; null: the packaged architecture with one variant and no probe, fresh
    steps            of this piece; the learning rate falls to zero over its last `decay` share, so that a piece ends
                     with a model one can use, and the next piece warms up again
    mean_from        once this share of the piece is done, its weights are averaged step by step: `model` is that mean,
                     `last` has the weights of the last step. 1: no mean
    batch_tokens     visual tokens of one step; pages per step follow from their shape
    queries          taught per page and step; `contrast` of them are also ranked against all pages of the step
    align, scale     weight and scale of the word-to-cell loss
    transcripts      long queries per page made of what is printed; `transcribe` weighs their word-to-cell loss
    spell            weight of telling a cell's tokens from the vision tower alone
    tell             weight of telling which pages of the step print a word, with `tell_temperature` on cosines;
                     `tell_variants`: "best" variant of a page per word, or "each" by itself
    bank             steps whose pages stay, without gradients, as wrong answers for `tell` and contrast
    alike            each kind of page (generated or real, and its shape) has a bank of its own: a chart's wrong answers
                     are charts, as in a collection
    temperature      of the contrast on mean scores; hardness as in the adaptation stage
    variants         K with `branch_layers`, where the source has one variant: it is expanded with `noise`, and fresh
                     probes are moved apart by `probe_noise` of the spread of token embeddings
    fresh            an expansion begins with new page heads: what shares a history stays alike
    fair             share of the piece in which queries are dealt out to variants at random and every variant tells
                     words by itself: among new heads those that begin badly would never win and never learn
    balance, balance_temperature, diversity, gamma   as in the adaptation stage, on mean scores
    assign           weight of an even split of queries among variants that the scores must follow
    aggregation      on what contrast and alignment work: the best variant ("max"), all variants' cells ("fused"), or
                     "both": contrast on either, alignment on all cells
    min_visual_tokens, max_visual_tokens  smaller pages are enlarged, larger ones shrunk; null: as the source has it
    source_variant   the variant of a source with several that goes on alone, where `variants` is 1
    pairs            packs and judged folders with real pages; `pairs_share` of the steps are drawn from them, once
                     `pairs_from` of the piece is done: before a model reads, questions only teach it to guess
    often            how often a round shows the pages of a source (as their pack's manifest names it), if not once
    judge_every      steps, or `judge_minutes`, between judgements on the folders of `judged`
    max_minutes      the piece ends by then, its learning rate falling in time, whatever its steps
    pool             generated pages held on the device, counted as portrait pages; `real_pool`: views of real ones
    real_made        share of the pages that workers make which are views of real ones
    """

    stage: Literal["read"] = "read"
    output: str = "runs/nano/read"
    source: str | None = None
    seed: int = 0
    steps: int = 10_000
    warmup: int = 200
    decay: float = 0.3
    mean_from: float = 1.0
    lr: float = 1e-3
    weight_decay: float = 0.05
    max_grad_norm: float = 1.0
    optimiser: Literal["adamw", "muon"] = "muon"
    batch_tokens: int = 64 * 1496
    queries: int = 4
    contrast: int = 2
    transcripts: int = 2
    transcribe: float = 1.0
    spell: float = 0.5
    tell: float = 1.0
    tell_temperature: float = 0.05
    tell_variants: Literal["best", "each"] = "best"
    bank: int = 0
    alike: bool = False
    hardness: Literal["none", "paper", "normalised"] = "none"
    variants: int = 1
    branch_layers: int = 0
    noise: float = 0.0
    probe_noise: float = 0.0
    fresh: bool = False
    fair: float = 0.0
    balance: float = 0.1
    balance_temperature: float = 0.02
    diversity: float = 0.05
    gamma: float = 0.05
    assign: float = 0.0
    aggregation: Literal["max", "fused", "both"] = "max"
    source_variant: int = 0
    min_visual_tokens: int | None = None
    max_visual_tokens: int | None = None
    align: float = 1.0
    scale: float = 20.0
    temperature: float = 0.03
    fonts: str | None = None
    texts: str | None = None
    workers: int = 14
    pool: int = 6000
    real_pool: int = 4000
    real_made: float = 0.35
    pairs: list[str] = field(default_factory=list)
    often: dict[str, int] = field(default_factory=dict)
    pairs_share: float = 0.25
    pairs_from: float = 0.5
    judged: list[str] = field(default_factory=list)
    judge_every: int = 2000
    judge_minutes: float = 1e9
    save_every: int = 1000
    log_every: int = 50
    max_minutes: float = 1e9
    compile: bool = True


def load_read_config(path: str | Path) -> ReadConfig:
    """Read, inherit, check; every folder it names must be there."""
    config = check_read_config(path)
    missing = missing_folders(config)
    if missing:
        raise ConfigError(f"{path} names the folder {missing[0]}, which does not exist.")
    return config


def missing_folders(config: ReadConfig) -> list[str]:
    named = (config.fonts, config.texts, config.source, *config.pairs, *config.judged)
    return [folder for folder in named if folder is not None and not Path(folder).is_dir()]


def check_read_config(path: str | Path) -> ReadConfig:
    """Read, inherit, check the values, without looking for what they name."""
    config: ReadConfig = build_settings(ReadConfig, read_settings(Path(path)), str(path))
    positive = ("steps", "lr", "batch_tokens", "queries", "temperature", "tell_temperature", "scale", "workers", "pool")
    for name in (*positive, "real_pool", "log_every", "judge_every", "judge_minutes", "save_every", "max_minutes"):
        if not getattr(config, name) > 0:
            raise ConfigError(f"{path}: {name} must be above 0, not {getattr(config, name)}.")
    for name in ("decay", "mean_from", "pairs_share", "pairs_from", "real_made", "fair"):
        if not 0 <= getattr(config, name) <= 1:
            raise ConfigError(f"{path}: {name} must lie between 0 and 1, not {getattr(config, name)}.")
    if config.bank < 0 or any(times < 1 for times in config.often.values()):
        raise ConfigError(f"{path}: bank must be 0 or more and often 1 or more, not {config.bank} and {config.often}.")
    if not 1 <= config.contrast <= config.queries:
        raise ConfigError(f"{path}: contrast must lie between 1 and queries ({config.queries}), not {config.contrast}.")
    return config
