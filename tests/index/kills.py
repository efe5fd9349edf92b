"""Kill -9 counted in commits: a process is killed when its n-th commit lies in the store, whatever time that took.

Counted in seconds, kills miss the moments that matter: a fault between two commits a few milliseconds apart was found
by none of a hundred.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

from index.forked import Forked
from varsdoc.index.store import Store

PATIENCE = 60


class Commits:
    """Counts the commits that a store's tables have seen since this was made; the lease's renewals are none."""

    def __init__(self, look: Callable[[], Iterator[str]]) -> None:
        self._look = look
        self._before = set(look())
        self._seen: set[str] = set()

    @classmethod
    def of(cls, path: str | Path) -> Commits:
        return cls(lambda: _in_bucket(str(path)) if "://" in str(path) else _in_folder(Path(path)))

    def count(self) -> int:
        self._seen |= set(self._look()) - self._before
        return len(self._seen)


def _in_folder(path: Path) -> Iterator[str]:
    """By name: Lance drops old manifests, and tables go; what was seen once counts."""
    for table in _entries(path):
        for name in _entries(table / "_versions"):
            if name.suffix == ".manifest":
                yield f"{table.name}/{name.name}"


def _entries(folder: Path) -> list[Path]:
    try:
        return [folder / name for name in os.listdir(folder)]
    except (FileNotFoundError, NotADirectoryError):  # not made yet, or dropped while we look
        return []


def _in_bucket(uri: str) -> Iterator[str]:
    """From the memory of moto's server, which runs in this process: asking it over HTTP would come too late."""
    from moto.core import DEFAULT_ACCOUNT_ID
    from moto.s3.models import s3_backends

    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    stored = s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[bucket].keys
    while True:
        try:
            keys = [str(key) for key in stored]
            break
        except RuntimeError:  # it changed while we looked
            continue
    for key in keys:
        if key.startswith(f"{prefix}/") and key.endswith(".manifest") and "/lease.lance/" not in key:
            yield key


def kill_after(
    forked: Forked, path: str | Path, commits: int, command: list[str], later: float = 0.0, **how: object
) -> tuple[int, int]:
    """Run a command and kill it when it has made so many commits; its process id and how it ended."""
    watched = Commits.of(path)
    process = forked.start(*command, **how)
    deadline = time.monotonic() + PATIENCE
    while watched.count() < commits and psutil.pid_exists(process) and time.monotonic() < deadline:
        time.sleep(0.0005)
    time.sleep(later)
    if psutil.pid_exists(process):
        os.kill(process, signal.SIGKILL)
    return process, forked.wait()


def started_by(parent: int, module: str) -> list[int]:
    """Processes that run a module of ours for a process, which may be gone."""
    found = []
    for process in psutil.process_iter(["pid", "cmdline"]):
        line = " ".join(process.info["cmdline"] or [])
        if module in line and f'"parent": {parent},' in line:
            found.append(process.info["pid"])
    return found


def workers_of(parent: int) -> list[int]:
    return started_by(parent, "varsdoc.pages.worker")


def no_orphans(victims: list[int]) -> bool:
    deadline = time.monotonic() + 10
    while any(workers_of(victim) for victim in victims):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def contents(path: str | Path) -> list[tuple[str, str, int, str]]:
    """What a collection holds, by its own tables: visible documents with every page row of theirs."""
    store = Store(path)
    generation = store.generation(store.state().generation)
    documents = {d.version: d for d in generation.read_documents().values()}
    rows = generation.pages.search().select(["version", "page", "id"]).to_arrow().to_pylist()
    assert {row["version"] for row in rows} == set(documents), "page rows and documents name different versions"
    for version, document in documents.items():
        assert sum(row["version"] == version for row in rows) == document.pages, f"{document.name} is not whole"
    return sorted((documents[r["version"]].name, documents[r["version"]].version, r["page"], r["id"]) for r in rows)
