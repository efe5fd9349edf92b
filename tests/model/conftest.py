"""No test of the model may touch the network, and each starts from the same random state (PEFT draws from it)."""

from __future__ import annotations

import socket
from typing import Any

import pytest
import torch


@pytest.fixture(autouse=True)
def same_random_state() -> None:
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **options: Any) -> Any:
        raise AssertionError(f"the network was touched: {arguments[1:]}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
