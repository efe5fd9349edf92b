"""Servers for tests: in a thread of this process for many requests, as `varsdoc serve` where processes matter."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import torch

from index.conftest import save_checkpoint
from index.papers import pdf, picture, tiff
from serving.launching import Launcher
from varsdoc import Index, VarsDoc
from varsdoc.serving import Settings, create_app
from varsdoc.serving.server import Server

WORDS = ["valve pressure manual", "travel expense claim", "annual revenue growth", "cell temperature survival"]


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_checkpoint(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def model(checkpoint: Path) -> VarsDoc:
    return VarsDoc.from_pretrained(checkpoint, device="cpu")


def documents(folder: Path) -> Path:
    pdf(folder / "words.pdf", WORDS)
    tiff(folder / "squares.tiff", [1, 2, 3])
    picture(folder / "<img src=x onerror=alert(1)>.png", 5)
    return folder


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory, model: VarsDoc) -> Path:
    """A collection of eight pages that no test writes to. Not pooled: a dozen cells under random weights become one."""
    base = tmp_path_factory.mktemp("made")
    Index.open(base / "reports", model, codec="int4").add(
        documents(base / "papers"), metadata={"year": 2021, "note": "<b>bold</b>"}
    )
    return base / "reports"


@contextmanager
def running(*collections: Path | str, settings: Settings | None = None) -> Iterator[httpx.Client]:
    """A server in a thread, and a client of it."""
    settings = settings or Settings(device="cpu")
    app = create_app(collections, settings)
    up = threading.Event()
    server = Server(app, "127.0.0.1", 0, settings.limits, lambda address: up.set())
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        assert up.wait(30)
        headers = {"Authorization": f"Bearer {settings.token}"} if settings.token else {}
        with httpx.Client(base_url=server.address, headers=headers, timeout=60) as client:
            client.service = app.state.service  # type: ignore[attr-defined]
            yield client
    finally:
        server.stop()
        thread.join(30)
    assert not thread.is_alive()


@pytest.fixture(scope="session")
def client(made: Path) -> Iterator[httpx.Client]:
    with running(made) as client:
        yield client


@pytest.fixture(scope="session")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launcher]:
    with Launcher(tmp_path_factory.mktemp("servers")) as launcher:
        yield launcher


def wait_for(happened: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def finished(client: httpx.Client, job: dict, seconds: float = 300.0) -> dict:
    """A job when it has ended."""
    shown = job

    def ended() -> bool:
        nonlocal shown
        shown = client.get(f"/jobs/{job['id']}").json()
        return shown["state"] not in ("waiting", "running")

    wait_for(ended, seconds)
    return shown
