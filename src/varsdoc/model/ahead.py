"""Work done ahead of the one who takes it, in threads, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")


def ahead(items: Iterable[A], work: Callable[[A], B], workers: int, depth: int) -> Iterator[B]:
    """`map(work, items)`, up to `depth` items ahead in `workers` threads; without workers, nothing is done ahead.

    Items are read in the caller's thread. An error comes where its result would have come, and ends the rest.

    >>> list(ahead(range(5), lambda x: x * x, workers=2, depth=3))
    [0, 1, 4, 9, 16]
    """
    if workers < 1:
        yield from map(work, items)
        return
    waiting: deque[Future[B]] = deque()
    pool = ThreadPoolExecutor(workers, thread_name_prefix="varsdoc-ahead")
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) >= max(depth, 1):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
