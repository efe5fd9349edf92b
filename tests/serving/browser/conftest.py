"""Real Chromium on a real `varsdoc serve`: a collection of sample pages, read by a tiny model.

VARSDOC_CHROMIUM names the browser where it has another name; VARSDOC_ARTIFACTS the folder of the screenshots (default:
test-artifacts/ in the working directory). Without Chromium the tests are skipped, or fail where CI=true.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tiny
from serving.browser.tools import HTML_NAME, HTML_NOTE, Server, Watched, missing, start, stop
from varsdoc.demo import SAMPLES
from varsdoc.index import Index

ARGUMENTS = [
    "--no-sandbox",
    "--headless",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """The browser, one for a file: as long as it is open, its event loop runs in this thread, and no other may."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("playwright is not installed.")
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    path = os.environ.get("VARSDOC_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if path is None:
        missing("There is no Chromium; scripts/install_chromium.sh installs it.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def artifacts() -> Path:
    folder = Path(os.environ.get("VARSDOC_ARTIFACTS") or Path.cwd() / "test-artifacts")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        folder = Path(tempfile.mkdtemp())
    return folder


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("browser") / "tiny"
    model = tiny.model(variants=3, max_visual_tokens=96)
    model.reconfigure(model.config.with_(trained=True))
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory, checkpoint: Path) -> Path:
    """A collection with a name that tries to be HTML; tests that change it take a copy."""
    docs = tmp_path_factory.mktemp("docs")
    for name in ("annual-report.pdf", "newsletter.pdf"):
        shutil.copy(SAMPLES / name, docs)
    if os.name == "posix":
        shutil.copy(SAMPLES / "receipt.jpg", docs / HTML_NAME)
    where = tmp_path_factory.mktemp("library") / "papers"
    Index.open(where, checkpoint).add(docs, metadata={"note": HTML_NOTE})
    return where


@pytest.fixture(scope="session")
def served(library: Path, checkpoint: Path) -> Iterator[Server]:
    """Serves what no test changes."""
    server = start([library], checkpoint)
    yield server
    stop(server)


@pytest.fixture
def watched() -> Iterator[Watched]:
    made = Watched()
    yield made
    for context in made.contexts:
        context.close()
    made.check()


Visit = Callable[..., Any]


@pytest.fixture
def visit(chromium: Any, watched: Watched) -> Visit:
    """visit(server, "/?q=...", width=, dark=) opens a page in a fresh profile. No console error, no outside request."""

    def go(server: Server, path: str = "/", width: int = 1280, dark: bool = False, **options: Any) -> Any:
        scheme = "dark" if dark else "light"
        size = {"width": width, "height": 844 if width < 500 else 860}
        context = chromium.new_context(viewport=size, color_scheme=scheme, reduced_motion="reduce", **options)
        context.set_default_timeout(60_000)  # for a busy machine; an idle one needs a fraction of a second
        watched.contexts.append(context)
        page = context.new_page()
        watched.watch(page)
        page.goto(server.address + path)
        return page

    return go
