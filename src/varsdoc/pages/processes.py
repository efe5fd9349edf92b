"""Starting, feeding and ending worker processes.

A worker is a clean interpreter: it does not run the caller's `__main__` again, inherits no lock or file descriptor,
leads a process group of its own (so that it can be ended together with what it started), and finds the same packages.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from typing import Any

from varsdoc.pages import wire
from varsdoc.pages.settings import Settings

_START = (
    "import sys, json; values = json.loads(sys.argv[1]); sys.path[:] = values['path'];"
    "from varsdoc.pages.worker import main; main(values)"
)
# One arena and one thread: otherwise each worker reserves address space that counts against its limit.
_FRUGAL = {"MALLOC_ARENA_MAX": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class WorkerProcess:
    """One worker. What it says arrives in `inbox` as (worker, header, body); at its end as (worker, None, b"")."""

    def __init__(self, settings: Settings, inbox: queue.SimpleQueue[Any]):
        values = {"settings": settings.as_json(), "parent": os.getpid(), "path": [os.path.abspath(p) for p in sys.path]}
        self.inbox = inbox
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-c", _START, json.dumps(values)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **_FRUGAL},
            start_new_session=True,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0) if sys.platform == "win32" else 0,
        )
        threading.Thread(target=self._listen, daemon=True, name="varsdoc-pages-listen").start()

    def send(self, task: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):  # it is gone, and its end is on the way through the inbox
            self.process.stdin.write(wire.frame(task))
            self.process.stdin.flush()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        try:
            while (received := wire.receive(self.process.stdout.read)) is not None:
                self.inbox.put((self, *received))
        except (wire.BadFrameError, OSError, ValueError):
            pass
        with contextlib.suppress(OSError):
            self.process.stdout.close()
        self.inbox.put((self, None, b""))

    def end(self) -> None:
        """Now, with everything it started; returns when it is gone."""
        if self.process.returncode is not None:  # its number may be somebody else's by now
            return
        if sys.platform == "win32":
            self.process.kill()
        else:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):  # what was not flushed has no reader any more
            self.process.stdin.close()

    def obituary(self) -> str:
        """How it ended by itself, in words."""
        self.end()  # it has closed its stdout: dead or dying, and what it started must go too
        code = self.process.returncode
        if code < 0:
            name = signal.Signals(-code).name
            starved = name in ("SIGKILL", "SIGABRT", "SIGTRAP")  # the system's way, and PDFium's, out of no memory
            return f"crashed ({name}{', perhaps for want of memory' if starved else ''})"
        return f"ended with code {code}"
