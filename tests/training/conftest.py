from __future__ import annotations

from pathlib import Path

import pytest
import torch

from training.tiny import make_root


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_root(tmp_path)
