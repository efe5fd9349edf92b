"""A question's forward pass as a CUDA graph: hundreds of small kernels launched at once instead of one by one."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from varsdoc.scoring.replay import bucket, capture

if TYPE_CHECKING:
    from varsdoc.model.fast.encoder import FastEncoder


@dataclass(frozen=True)
class _Graph:
    graph: Any
    ids: Tensor  # (length,) what it reads
    places: Tensor  # (length,) and this too: memory that is not held is given to others, and the graph goes on reading
    vectors: Tensor  # (length, dim) what it writes


class QueryGraphs:
    """One graph per padded length, captured when it is first needed."""

    def __init__(self, encoder: FastEncoder) -> None:
        self._encoder = encoder
        self._graphs: dict[int, _Graph] = {}
        self._lock = threading.Lock()  # what a graph reads and writes is one place for all threads
        self._done = torch.cuda.Event()  # and for all their streams

    def __reduce__(self) -> Any:
        return QueryGraphs, (self._encoder,)  # a copy captures its own

    def encode(self, ids: Sequence[int]) -> Tensor | None:
        """(T, dim), or None where the question is too long."""
        length = bucket(len(ids))
        if length is None:
            return None
        with self._lock:
            if length not in self._graphs:
                self._graphs[length] = self._capture(length)
            graph = self._graphs[length]
            self._done.wait()
            graph.ids[: len(ids)].copy_(torch.tensor(ids).pin_memory(), non_blocking=True)
            graph.graph.replay()
            vectors = graph.vectors[: len(ids)].clone()
            self._done.record()
            return vectors

    def _capture(self, length: int) -> _Graph:
        from varsdoc.model.fast.layout import runs_of

        device = self._encoder.model.device
        with torch.inference_mode(False):  # buffers made in that mode could not be written to outside of it
            ids = torch.zeros(length, dtype=torch.long, device=device)
            places, runs = torch.arange(length, device=device), runs_of([length])
        graph, vectors = capture(device, lambda: self._encoder.query_rows(ids, places, runs))
        return _Graph(graph, ids, places, vectors)
