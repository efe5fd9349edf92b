"""No test touches the network. A small judged folder and a small trained-looking model serve most of them."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from evaluation_tools import RandomRetriever, write_folder


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: socket.socket, address: Any) -> Any:
        if isinstance(address, tuple) and address[0] in ("127.0.0.1", "localhost"):
            return connect(self, address)
        raise AssertionError(f"the network was touched: {address}")

    connect = socket.socket.connect
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    torch.manual_seed(0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Six pages, eight judged queries in two languages; names in the style of a real set."""
    return write_folder(tmp_path / "tiny-dev")


@pytest.fixture
def retriever() -> RandomRetriever:
    return RandomRetriever()


@pytest.fixture
def intents_file(tmp_path: Path) -> Path:
    path = tmp_path / "intents.jsonl"
    rows = [
        {
            "page": page,
            "region": [0, 0, 1, 1],
            "intent": a,
            "formulation": m,
            "text": f"{page} {a} {m}",
            "verified": True,
        }
        for page in ("p0", "p1", "p2")
        for a in (1, 2)
        for m in (1, 2)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(7)
