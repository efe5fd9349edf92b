"""Searches replayed from CUDA graphs: launching thirty small operations takes longer than scoring 5,000 pages does.

A graph is captured for a padded query length and what is asked. Rows of zeros at a query's end add nothing to a score:
their product with everything is 0, whatever the codec. What a graph reads must stay where it is: it holds the
collections' tensors and the queries' placing, and is made anew when pages were added.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

STEP, LONGEST = 8, 128  # tokens; longer queries are launched kernel by kernel
MOST = 32  # graphs kept
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
        length = -(-len(query) // STEP) * STEP
        if length > LONGEST:
            return None
        key = (length, query.shape[1], query.dtype, asked)
        graph = self._graphs.get(key)
        if graph is None:
            graph = self._graphs[key] = _capture(query.new_zeros(length, query.shape[1], device=device), work)
            while len(self._graphs) > MOST:
                self._graphs.popitem(last=False)
        self._graphs.move_to_end(key)
        graph.query[len(query) :].zero_()
        graph.query[: len(query)].copy_(query, non_blocking=True)
        graph.graph.replay()
        return graph.found


def _capture(query: Tensor, work: Work) -> _Graph:
    query[:, 0] = 1  # a query of zeros has no scale
    device = query.device
    with torch.cuda.device(device):
        side = torch.cuda.Stream(device)
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):  # compiles kernels and fills caches outside of the capture
            for _ in range(2):
                work(query)
        torch.cuda.current_stream(device).wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            found, held = work(query)
    return _Graph(graph, query, found, held)
