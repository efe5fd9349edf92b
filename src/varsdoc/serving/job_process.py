"""Jobs in a process of their own: it reads, encodes and commits uploads, gently, one after the other, and ends with its
parent. It keeps its model from one job to the next.

The server goes on searching meanwhile: the only thing that both touch is the collection on disk, where one writer and
many readers are at home. Killed at any moment it leaves what `Index.add` leaves; started again, it goes on from there.
An uploaded file takes its predecessor's place right after the commit that shows its pages, under the writer's lock.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from varsdoc.errors import VarsDocError
from varsdoc.pages import wire

_START = (
    "import sys, json; values = json.loads(sys.argv[1]); sys.path[:] = values['path'];"
    "from varsdoc.serving.job_process import main; main(values['parent'])"
)
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
_WAIT = 3600.0  # seconds for another writer
_NICE = 5


@dataclass(frozen=True)
class Order:
    """What a job process is told."""

    uri: str
    files: list[tuple[str, str, str]]  # name for people, where it waits, where it belongs
    metadata: dict[str, Any]
    max_pages: int
    max_bytes: int
    model: str | None = None
    device: str | None = None
    dtype: str | None = None


class JobProcess:
    """The parent's side. Made by a thread that lives as long as the server: the kernel ends the process with it."""

    def __init__(self) -> None:
        values = {"parent": os.getpid(), "path": [os.path.abspath(p) for p in sys.path]}
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", _START, json.dumps(values)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | _ONE_THREAD,
            start_new_session=True,
        )

    def send(self, order: Order) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it is gone, and `hear` says so
            self._process.stdin.write(wire.frame(asdict(order)))
            self._process.stdin.flush()

    def hear(self) -> dict[str, Any] | None:
        """Its next word, None where it has ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return dict(json.loads(line)) if line.endswith(b"\n") else None

    def end(self) -> None:
        """Now, with everything it started; its renderers see the end of their pipes."""
        if self._process.returncode is not None:  # its number may be somebody else's by now
            return
        if sys.platform == "win32":
            self._process.kill()
        else:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def main(parent: int) -> None:
    from varsdoc.pages.lifeline import Lifeline, no_core_dumps

    line = Lifeline(parent)
    no_core_dumps()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C is for the server, which ends this process in its own time
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    _be_gentle()

    def tell(**facts: Any) -> None:
        out.write(json.dumps(facts) + "\n")
        out.flush()

    opened: dict[str, Any] = {}
    while True:
        order = Order(**line.tasks.get())
        try:
            tell(event="done", **_run(order, opened, tell))
        except VarsDocError as error:
            tell(event="failed", reason=str(error))
        except MemoryError:
            tell(event="failed", reason="There was not enough memory.")
        except Exception as error:  # a full disk, say: the next job may do better
            tell(event="failed", reason=f"It could not be indexed ({type(error).__name__}: {str(error)[:300]}).")


def _be_gentle() -> None:
    """Searches first. Where Linux shares the processor out by sessions, a session's own share must be made smaller."""
    with contextlib.suppress(OSError, AttributeError):
        os.nice(_NICE)
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(_NICE))


def _run(order: Order, opened: dict[str, Any], tell: Callable[..., None]) -> dict[str, Any]:
    import torch

    from varsdoc.index import Index
    from varsdoc.pages import Document, Failure, Limits, find

    torch.set_num_threads(1)
    limits = Limits(max_pages=order.max_pages, max_file_bytes=order.max_bytes)
    names = {os.path.realpath(place): name for name, _, place in order.files}
    failed: list[dict[str, Any]] = []

    def found() -> Iterator[Document]:
        for name, waiting, place in order.files:
            # An earlier attempt that was cut off may have brought it home already; then it is found there, unchanged.
            at = waiting if os.path.exists(waiting) else place
            for one in find([at], limits=limits):
                if isinstance(one, Failure):
                    failed.append({"source": name, "reason": one.reason})
                else:
                    yield replace(one, source=os.path.realpath(place), name=name, path=at)

    if order.uri not in opened:
        opened[order.uri] = Index.open(order.uri, order.model, device=order.device, dtype=order.dtype)
    index: Index = opened[order.uri]
    documents = [*found()]
    tell(event="files", files=len(documents))
    if documents:
        done = index.add(
            documents,
            metadata=order.metadata,
            wait=_WAIT,
            watch=_Telling(tell),
            workers=1,
            limits=limits,
            progress=False,
        )
        failed += [one.to_json() | {"source": names.get(one.source, "")} for one in done.failed]
        return {"added": done.added, "replaced": done.replaced, "unchanged": done.unchanged, "failed": failed}
    return {"added": 0, "replaced": 0, "unchanged": 0, "failed": failed}


class _Telling:
    """Passes on what the run says, and puts files where they belong."""

    def __init__(self, tell: Callable[..., None]) -> None:
        self._tell = tell

    def opened(self, document: Any, pages: int) -> None:
        self._tell(event="opened", pages=pages)

    def encoded(self, pages: int) -> None:
        self._tell(event="encoded", pages=pages)

    def shown(self, document: Any) -> None:
        Path(document.source).parent.mkdir(parents=True, exist_ok=True)
        os.replace(document.path, document.source)  # onto itself, where it is home already
