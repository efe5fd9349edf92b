"""Pairs -> checkpoints: losses, data, trainer, stages.

Names are imported when they are first used: a loader's worker or a page generator needs no trainer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from varsdoc.lazy import lazy_names

if TYPE_CHECKING:
    from varsdoc.training.config import LossConfig, TrainConfig, load_config
    from varsdoc.training.plan import Plan
    from varsdoc.training.sources import DataError
    from varsdoc.training.stages import Finished, train
    from varsdoc.training.trainer import TrainingError

_HOMES = {
    "DataError": "sources",
    "Finished": "stages",
    "LossConfig": "config",
    "Plan": "plan",
    "TrainConfig": "config",
    "TrainingError": "trainer",
    "load_config": "config",
    "train": "stages",
}

__all__ = ["DataError", "Finished", "LossConfig", "Plan", "TrainConfig", "TrainingError", "load_config", "train"]

__getattr__ = lazy_names(__name__, _HOMES)
