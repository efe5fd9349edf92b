"""One writer for a collection in a folder: an OS lock that dies with its process.

Its choices:
- A record lock (fcntl.lockf), not flock: a forked worker inherits a flock with the descriptor and would keep it alive
  after its parent was killed; a record lock belongs to the process alone.
- A record lock does not stop a second writer in the same process, and closing any other descriptor of the file drops
  it. So a table in this process says who holds what, and the file is opened nowhere else.
- The holder writes its process id into the file, for the sentence that the second writer gets. The text outlives its
  writer; the lock does not, so a stale text means nothing.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from varsdoc.errors import BusyError

LOCK_FILE = "varsdoc.lock"
_POLL_SECONDS = 0.2
# The locked byte lies far behind the text: on Windows a locked range cannot be read by others.
_LOCK_OFFSET = 1 << 20
_TAKEN = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)
_held: dict[str, int] = {}
_held_guard = threading.Lock()


@contextmanager
def folder_lock(folder: Path, wait: float = 0.0) -> Iterator[None]:
    """Hold the collection for writing; wait so many seconds for another writer, then say who has it."""
    key = str(folder.resolve())
    deadline = time.monotonic() + wait
    while True:
        descriptor = _try(folder, key)
        if descriptor is not None:
            break
        if time.monotonic() >= deadline:
            raise BusyError(f"{folder} is being written by {_holder(folder, key)}; wait for it, or stop it first.")
        time.sleep(_POLL_SECONDS)
    try:
        yield
    finally:
        with _held_guard:
            _held.pop(key, None)
            os.close(descriptor)


def _try(folder: Path, key: str) -> int | None:
    with _held_guard:
        if _held.get(key) == os.getpid():
            return None
        descriptor = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _lock(descriptor)
        except OSError as error:
            os.close(descriptor)
            if error.errno in _TAKEN:
                return None
            raise  # a file system without locks, say: not a second writer
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        _held[key] = os.getpid()
        return descriptor


def _holder(folder: Path, key: str) -> str:
    with _held_guard:  # also while reading: closing the file would drop a lock that a thread took meanwhile
        if _held.get(key) == os.getpid():
            return "another thread of this process"
        try:
            text = (folder / LOCK_FILE).read_text().strip()
        except OSError:
            text = ""
    return f"process {text}" if text.isdigit() else "another process"


if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        os.lseek(descriptor, _LOCK_OFFSET, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)
else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _LOCK_OFFSET, os.SEEK_SET)
