"""One job in a process of its own: reads, encodes and commits an upload, gently, and ends with its parent.

The server goes on searching meanwhile: the only thing that both touch is the collection on disk, where one writer and
many readers are at home. Killed at any moment it leaves what `Index.add` leaves; started again, it goes on from there.
An uploaded file takes its predecessor's place right after the commit that shows its pages, under the writer's lock.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from varsdoc.errors import VarsDocError

_START = (
    "import sys, json; values = json.loads(sys.argv[1]); sys.path[:] = values['path'];"
    "from varsdoc.serving.job_process import main; main(values)"
)
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
_WAIT = 3600.0  # seconds for another writer
_NICE = 10


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


def start(order: Order) -> subprocess.Popen[str]:
    """From a thread that lives as long as the server: the kernel ends the process with the thread that started it."""
    values = asdict(order) | {"parent": os.getpid(), "path": [os.path.abspath(p) for p in sys.path]}
    return subprocess.Popen(
        [sys.executable, "-I", "-c", _START, json.dumps(values)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | _ONE_THREAD,
        start_new_session=True,
        text=True,
        encoding="utf-8",
    )


def main(values: dict[str, Any]) -> None:
    from varsdoc.pages.lifeline import Lifeline, no_core_dumps

    Lifeline(values.pop("parent"))
    values.pop("path")
    no_core_dumps()
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if hasattr(os, "nice"):
        os.nice(_NICE)

    def tell(**facts: Any) -> None:
        out.write(json.dumps(facts) + "\n")
        out.flush()

    order = Order(**values | {"files": [tuple(one) for one in values["files"]]})
    try:
        tell(event="done", **_run(order, tell))
    except VarsDocError as error:
        tell(event="failed", reason=str(error))
    except MemoryError:
        tell(event="failed", reason="There was not enough memory.")


def _run(order: Order, tell: Callable[..., None]) -> dict[str, Any]:
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

    index = Index.open(order.uri, order.model, device=order.device, dtype=order.dtype)
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
