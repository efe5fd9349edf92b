"""Searches replayed from CUDA graphs: launching thirty small operations takes longer than scoring 5,000 pages does.

A graph is captured for a padded query length and what is asked. Rows of zeros at a query's end add nothing to a score:
their product with everything is 0, whatever the codec. What a graph reads must stay where it is: it holds the
collections' tensors and the queries' placing, and is made anew when pages were added. What it reads and writes is one
place for all threads, so a lock is held from the query's copying to the answer's.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import torch
from torch import Tensor

STEP, LONGEST = 8, 128  # tokens; longer queries are launched kernel by kernel
MOST = 16  # graphs kept: each has memory of its own
_CAPTURING = threading.Lock()
Result = TypeVar("Result")
Work = Callable[[Tensor], tuple[Tensor, tuple[Any, ...]]]


@dataclass(frozen=True)
class _Graph:
    graph: Any
    query: Tensor  # (length, dim) what it reads
    found: Tensor  # what it writes
    held: tuple[Any, ...]  # whatever else it reads


class Replays:
    """The graphs of one collection."""

    def __init__(self) -> None:
        self._graphs: OrderedDict[Hashable, _Graph] = OrderedDict()
        self._lock = threading.Lock()

    def __reduce__(self) -> Any:
        return Replays, ()  # a copy captures its own

    def forget(self) -> None:
        with self._lock:
            self._graphs.clear()

    def run(self, query: Tensor, device: torch.device, asked: Hashable, work: Work) -> Tensor | None:
        """What `work` finds for a query (T, D), on the CPU; None where the query is too long.

        work  padded query on the device -> what is found, and what it read beside the query
        """
        length = bucket(len(query))
        if length is None:
            return None
        key = (length, query.shape[1], query.dtype, asked)
        with self._lock:
            graph = self._graphs.get(key)
            if graph is None:
                graph = self._graphs[key] = self._capture(length, query, device, work)
                while len(self._graphs) > MOST:
                    self._graphs.popitem(last=False)
            self._graphs.move_to_end(key)
            graph.query[len(query) :].zero_()
            graph.query[: len(query)].copy_(query, non_blocking=True)
            graph.graph.replay()
            return graph.found.cpu()

    def _capture(self, length: int, query: Tensor, device: torch.device, work: Work) -> _Graph:
        with torch.inference_mode(False):  # a buffer made in that mode could not be written to outside of it
            buffer = torch.ones(length, query.shape[1], dtype=query.dtype, device=device)  # zeros have no scale
        graph, (found, held) = capture(device, lambda: work(buffer))
        return _Graph(graph, buffer, found, held)


def bucket(length: int) -> int | None:
    """The padded length that a question or query of this length runs at; None: too long for a graph.

    >>> bucket(1), bucket(24), bucket(25), bucket(500)
    (8, 24, 32, None)
    """
    padded = -(-length // STEP) * STEP
    return padded if padded <= LONGEST else None


@cache
def _side_stream(device: torch.device) -> Any:
    """One for each device: torch keeps a workspace for every stream that ever multiplied, and its own stream for
    captures is on whichever device was the first."""
    return torch.cuda.Stream(device)


def capture(device: torch.device, work: Callable[[], Result]) -> tuple[Any, Result]:
    """A CUDA graph of `work`, and what it wrote there. Whatever `work` reads must be held as long as the graph is.

    One capture at a time; other threads may go on using the device meanwhile.
    """
    with _CAPTURING, torch.cuda.device(device), torch.inference_mode(False), torch.no_grad():
        before = torch.cuda.current_stream()
        side = _side_stream(torch.device("cuda", torch.cuda.current_device()))
        side.wait_stream(before)
        with torch.cuda.stream(side):  # compiles, chooses kernels and fills caches and pools outside of the capture
            for _ in range(3):
                work()
        before.wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, stream=side, capture_error_mode="thread_local"):
                found = work()
        finally:
            torch.cuda.set_stream(before)  # a capture that fails leaves its own behind
    return graph, found
