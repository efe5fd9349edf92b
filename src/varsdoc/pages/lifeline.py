"""A worker ends with its parent, whatever ends the parent, and cannot take more memory than it was lent.

On Linux the kernel kills it (PDEATHSIG); everywhere a thread waits for the end of stdin, which closes when the parent
is gone, and where a stray copy of the pipe keeps that from happening, looks every second who the parent is.
"""

from __future__ import annotations

import contextlib
import os
import queue
import select
import shutil
import signal
import sys
import threading
import time
from typing import Any

from varsdoc.pages import wire

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

_PR_SET_PDEATHSIG = 1
_POLL_SECONDS = 1.0
_PEEK_SECONDS = 0.02


class Lifeline:
    """Tasks from the parent, and the end when there is no parent any more."""

    def __init__(self, parent: int):
        self.parent = parent
        self.tasks: queue.Queue[dict[str, Any]] = queue.Queue()
        self.scratch: str | None = None  # a folder to leave no trace of
        die_with_parent(True)
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        try:
            while (received := wire.receive(self._read)) is not None:
                self.tasks.put(received[0])
        except (wire.BadFrameError, OSError):
            pass
        self._end()

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            if sys.platform != "win32":
                while not select.select([0], [], [], _POLL_SECONDS)[0]:
                    if os.getppid() != self.parent:
                        self._end()
            else:
                _wait_for_input()
            chunk = os.read(0, size - len(data))
            if not chunk:
                break
            data += chunk
        return data

    def _end(self) -> None:
        """Take along what this worker started (LibreOffice): they share its process group."""
        if self.scratch:
            shutil.rmtree(self.scratch, ignore_errors=True)
        if sys.platform != "win32" and os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)
        os._exit(0)


def _wait_for_input() -> None:
    """Windows: a thread in the middle of reading a pipe holds up every library that asks for stdin as it is loaded."""
    if sys.platform == "win32":
        import _winapi
        import msvcrt

        pipe = msvcrt.get_osfhandle(0)
        with contextlib.suppress(OSError):  # the other side is gone: reading says so
            while not _winapi.PeekNamedPipe(pipe, 0)[0]:
                time.sleep(_PEEK_SECONDS)


def die_with_parent(wanted: bool) -> None:
    """Linux only. Off while LibreOffice runs, which a kernel's SIGKILL of the worker alone would leave behind."""
    if sys.platform.startswith("linux"):
        import ctypes

        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL if wanted else 0, 0, 0, 0)


def mapped() -> int:
    """Bytes of address space in use; 0 where nobody counts them."""
    if resource is None or not sys.platform.startswith("linux"):
        return 0
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def bound_memory(more: int) -> None:
    """At most `more` bytes of address space beyond what is mapped now: a bomb is a MemoryError or one lost worker."""
    if resource is None or not sys.platform.startswith("linux"):
        return  # macOS knows the limit and ignores it
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = mapped() + more
    resource.setrlimit(resource.RLIMIT_AS, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))


def bound_written(most: int) -> None:
    """No file larger than `most` bytes from here on, LibreOffice's included."""
    if resource is not None:
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def no_core_dumps() -> None:
    if resource is not None:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
