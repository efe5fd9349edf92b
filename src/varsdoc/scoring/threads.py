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
Result = TypeVar("Result")
NAME = "varsdoc-score"
_pools: dict[int, ThreadPoolExecutor] = {}
_lock = threading.Lock()
_default = 1  # torch threads of the last caller


def for_each(work: Callable[[Item], None], items: Iterable[Item], threads: int | None = None) -> None:
    """Call work on every item, from `threads` threads (default: as many as torch has). Errors come through."""
    count = torch.get_num_threads() if threads is None else threads
    if count < 1:
        raise ConfigError(f"threads must be at least 1, not {threads}.")
    queue = deque(items)
    if _is_ours() or (torch.get_num_threads() == 1 and (count == 1 or len(queue) == 1)):  # this thread computes alone
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

    futures = [_pool(count).submit(run) for _ in range(min(count, len(queue)))]
    for future in futures:
        future.result()


def alone(work: Callable[[], Result]) -> Result:
    """Call work on one of our threads: many small operations, none of which is worth splitting."""
    return work() if _is_ours() else _pool(1).submit(work).result()


def _is_ours() -> bool:
    """One of our threads never waits for another."""
    return threading.current_thread().name.startswith(NAME)


def _pool(count: int) -> ThreadPoolExecutor:
    global _default
    with _lock:
        _default = torch.get_num_threads()
        if count not in _pools:
            _pools[count] = ThreadPoolExecutor(count, NAME, initializer=_compute_alone)
        return _pools[count]


def _compute_alone() -> None:
    """One torch thread in this thread. torch also makes it the default of threads to come: put that back."""
    with _lock:
        torch.get_num_threads()  # a thread's first call takes the default over: before our setting, not after it
        torch.set_num_threads(1)
        restore = threading.Thread(target=torch.set_num_threads, args=(_default,))
        restore.start()
        restore.join()


def _forget() -> None:
    """A forked child has none of its parent's threads."""
    _pools.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
