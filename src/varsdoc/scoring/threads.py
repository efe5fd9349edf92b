"""Blocks of work on threads of our own, each of which computes alone.

torch's own pool splits every single operation and waits at its end. A block here is six small operations on what fits
in one core's cache: splitting them costs more than it brings, and on a machine that does other things too every wait
can cost milliseconds (16 ms an operation were seen). So each thread takes whole blocks, with one torch thread; there is
one wait, at the end. torch releases Python's lock while it computes.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

from varsdoc.errors import ConfigError

Item = TypeVar("Item")
_pools: dict[int, ThreadPoolExecutor] = {}
_lock = threading.Lock()


def for_each(work: Callable[[Item], None], items: Iterable[Item], threads: int | None = None) -> None:
    """Call work on every item, from `threads` threads (default: as many as torch has). Errors come through."""
    count = torch.get_num_threads() if threads is None else threads
    if count < 1:
        raise ConfigError(f"threads must be at least 1, not {threads}.")
    queue = deque(items)
    if len(queue) < 2 or count == 1 == torch.get_num_threads():  # not worth a hand-over
        for item in queue:
            work(item)
        return

    def run() -> None:
        while True:
            try:
                item = queue.popleft()  # atomic
            except IndexError:
                return
            work(item)

    futures = [_pool(count).submit(run) for _ in range(count)]
    for future in futures:
        future.result()


def _pool(count: int) -> ThreadPoolExecutor:
    with _lock:
        if count not in _pools:
            _pools[count] = ThreadPoolExecutor(count, "varsdoc-score", initializer=_alone)
        return _pools[count]


def _alone() -> None:
    """One torch thread in this thread. The setting is per thread but also the default of later ones: put that back."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    _restore_default(before)


def _restore_default(before: int) -> None:
    restore = threading.Thread(target=torch.set_num_threads, args=(before,))
    restore.start()
    restore.join()


def _forget() -> None:
    """A forked child has none of its parent's threads."""
    _pools.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
