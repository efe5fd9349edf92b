"""`varsdoc serve` as a process, and what a test notices on its pages."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

import pytest

HTML_NAME = "<img src=x onerror=document.title='run'>.jpg"
HTML_NOTE = "<script>document.title='run'</script><b>bold</b>"
ROOT = Path(__file__).parents[3]


def missing(reason: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason} With CI=true the tests of the web page must run.")
    pytest.skip(reason)


def ask(page: Any, words: str) -> None:
    """Type a question and wait for its answer."""
    page.get_by_role("combobox", name="Ask your documents").fill(words)
    page.keyboard.press("Enter")
    page.wait_for_function("words => document.querySelector('#hits')?.dataset.query === words", arg=words)


def drop(page: Any, name: str, file: Path) -> None:
    """Drop a file on the page, as from a folder."""
    page.evaluate(
        """([name, bytes]) => {
             const data = new DataTransfer();
             data.items.add(new File([new Uint8Array(bytes)], name));
             for (const kind of ["dragenter", "dragover", "drop"])
               document.body.dispatchEvent(new DragEvent(kind, {bubbles: true, cancelable: true, dataTransfer: data}));
           }""",
        [name, list(file.read_bytes())],
    )


@dataclass
class Server:
    address: str
    process: subprocess.Popen[str]


def start(where: list[Path], checkpoint: Path, *arguments: str) -> Server:
    """`varsdoc serve` on a free port, once it accepts connections."""
    named = [part for one in where for part in ("--index", str(one))]
    command = [sys.executable, "-m", "varsdoc", "serve", *named, "--port", "0", "--model", str(checkpoint), *arguments]
    env = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, env=env, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if line.startswith("Serving "):
            threading.Thread(target=process.stderr.read, daemon=True).start()  # a full pipe would stop the server
            server = Server(line.split()[-1], process)
            try:
                _wait_for_model(server)
            except BaseException:
                stop(server)
                raise
            return server
    raise AssertionError("varsdoc serve ended: " + "".join(said))


def _wait_for_model(server: Server) -> None:
    """What a test waits for is then the page alone."""
    for _ in range(1800):
        with urllib.request.urlopen(server.address + "/health", timeout=60) as answer:
            if json.load(answer)["model"] == "ready":
                return
        time.sleep(0.1)
    raise AssertionError("The model of varsdoc serve was not ready within three minutes.")


def asked_again(server: Server, response: Any) -> Any:
    """What the server answers to a request that the page made. Chromium may have dropped the body it got itself."""
    made = response.request
    again = urllib.request.Request(
        server.address + "/search", made.post_data.encode(), {"Content-Type": "application/json"}, method=made.method
    )
    with urllib.request.urlopen(again, timeout=60) as answer:
        return json.load(answer)


def stop(server: Server) -> None:
    server.process.send_signal(signal.SIGTERM)
    try:
        server.process.wait(20)
    except subprocess.TimeoutExpired:
        server.process.kill()
        server.process.wait()


@dataclass
class Watched:
    """Pages of one test, and what went wrong on them."""

    contexts: list[Any] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    allowed: list[str] = field(default_factory=list)  # parts of messages that a test expects

    def watch(self, page: Any) -> None:
        page.on(
            "console", lambda said: said.type in ("error", "warning") and self.faults.append(f"console: {said.text}")
        )
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("request", self._request)

    def _request(self, request: Any) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in ("data", "blob") and parts.hostname != "127.0.0.1":
            self.faults.append(f"outside request: {request.url}")

    def check(self) -> None:
        left = [fault for fault in self.faults if not any(part in fault for part in self.allowed)]
        assert not left
