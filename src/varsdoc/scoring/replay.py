"""Searches replayed from CUDA graphs: launching thirty small operations takes longer than scoring 5,000 pages does.

A graph is captured for a padded query length and what is asked. Rows of zeros at a query's end add nothing to a score:
their product with everything is 0, whatever the codec. What a graph reads must stay where it is: it holds the
collections' tensors and the queries' placing, and is made anew when pages were added.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

STEP, LONGEST = 8, 128  # tokens; longer queries are launched kernel by kernel
MOST = 32  # graphs kept
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

    def forget(self) -> None:
        self._graphs.clear()

    def run(self, query: Tensor, device: torch.device, asked: Hashable, work: Work) -> Tensor | None:
        """What `work` finds for a query (T, D), to be read before the next call; None where the query is too long.

        work  padded query on the device -> what is found, and what it read beside the query
        """
        length = bucket(len(query))
        if length is None:
            return None
        key = (length, query.shape[1], query.dtype, asked)
        graph = self._graphs.get(key)
        if graph is None:
            buffer = query.new_ones(length, query.shape[1], device=device)  # a query of zeros has no scale
            replayed, (found, held) = capture(device, lambda: work(buffer))
            graph = self._graphs[key] = _Graph(replayed, buffer, found, held)
            while len(self._graphs) > MOST:
                self._graphs.popitem(last=False)
        self._graphs.move_to_end(key)
        graph.query[len(query) :].zero_()
        graph.query[: len(query)].copy_(query, non_blocking=True)
        graph.graph.replay()
        return graph.found


def bucket(length: int) -> int | None:
    """The padded length that a question or query of this length runs at; None: too long for a graph.

    >>> bucket(1), bucket(24), bucket(25), bucket(500)
    (8, 24, 32, None)
    """
    padded = -(-length // STEP) * STEP
    return padded if padded <= LONGEST else None


def capture(device: torch.device, work: Callable[[], Result]) -> tuple[Any, Result]:
    """A CUDA graph of `work`, and what it wrote there. Whatever `work` reads must be held as long as the graph is."""
    with torch.cuda.device(device):
        side = torch.cuda.Stream(device)
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):  # compiles, chooses kernels and fills caches and pools outside of the capture
            for _ in range(3):
                work()
        torch.cuda.current_stream(device).wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            found = work()
    return graph, found
