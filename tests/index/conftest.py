"""A tiny checkpoint on disk, and the folders that tests index. Everything runs through the real rooms."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import tiny
from index.forked import Forked
from varsdoc import VarsDoc


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny products: more threads only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def forked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forked]:
    made = Forked(tmp_path_factory.mktemp("forked"))
    yield made
    made.close()


def save_checkpoint(folder: Path, seed: int = 0, variants: int = 3) -> Path:
    model = tiny.model(variants=variants, seed=seed, max_visual_tokens=24)
    model.reconfigure(model.config.with_(trained=True))  # random, but not to be warned about
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_checkpoint(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def other_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_checkpoint(tmp_path_factory.mktemp("models") / "other", seed=7, variants=2)


@pytest.fixture(scope="session")
def model(checkpoint: Path) -> VarsDoc:
    return VarsDoc.from_pretrained(checkpoint, device="cpu")
