"""Processes that make chunks of pages ahead of the trainer, and the memory in which pixels come over.

A coloured chunk is 19 MB. Pickled through a queue, it is copied while the interpreter is held, twenty times a second: a
fifth of the trainer's time, which has a GPU to keep busy. So pixels are written to memory that all processes share, a
slot for each chunk, and copied out of it by a thread that lets the trainer go on meanwhile.
"""

from __future__ import annotations

import mmap
import multiprocessing as mp
import queue
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from varsdoc.training.reading.pages import Chunk, Maker
from varsdoc.training.sources import DataError

READY = 4  # chunks that wait, copied
AHEAD = 32  # slots


class Slots:
    """Shared memory in equal slots, and which of them are free. Made before a fork."""

    def __init__(self, context: Any, count: int, size: int) -> None:
        self.memory, self.size = mmap.mmap(-1, count * size), size
        self.free, self._give = context.Pipe(duplex=False)
        self._lock = context.Lock()
        for slot in range(count):
            self.give(slot)

    def take(self, seconds: float) -> int | None:
        """A free slot, for any process; None where none came in time."""
        if not self._lock.acquire(timeout=seconds):
            return None
        try:
            return int(self.free.recv()) if self.free.poll(seconds) else None
        finally:
            self._lock.release()

    def give(self, slot: int) -> None:
        """Back again; by one process alone."""
        self._give.send(slot)

    def view(self, slot: int, shape: tuple[int, ...]) -> np.ndarray:
        count = int(np.prod(shape))
        return np.frombuffer(self.memory, np.uint8, count, slot * self.size).reshape(shape)


def _work(maker: Maker, worker: int, workers: int, start: int, slots: Slots, out: Any, done: Any) -> None:
    for chunk in maker.chunks(worker, workers, start):
        slot = None
        while slot is None and not done.is_set():
            slot = slots.take(1)
        if slot is None:
            out.cancel_join_thread()
            return
        slots.view(slot, chunk.pixels.shape)[:] = chunk.pixels
        out.put((slot, chunk.pixels.shape, replace(chunk, pixels=chunk.pixels[:0])))


class Workers:
    """Worker processes that make chunks ahead of the trainer; they end with it.

    Forked, so that fifteen of them do not import torch fifteen times: start them before the GPU is first used.
    `copy` is how the thread that receives pixels copies them.
    """

    def __init__(self, maker: Maker, count: int, start: int = 0, ahead: int = AHEAD) -> None:
        context = mp.get_context("fork")
        self.done = context.Event()
        self.queue: Any = context.Queue()
        self.slots = Slots(context, ahead, maker.chunk_bytes)
        self.processes = [
            context.Process(target=_work, args=(maker, i, count, start, self.slots, self.queue, self.done), daemon=True)
            for i in range(count)
        ]
        self.ready: queue.Queue[Chunk] = queue.Queue(maxsize=READY)
        self.copy: Callable[[np.ndarray], np.ndarray] = np.copy
        self.reader: threading.Thread | None = None
        for process in self.processes:
            process.start()

    def get(self, wait: bool) -> Chunk | None:
        """The next chunk; without waiting, None where none is ready."""
        if self.reader is None:  # not earlier: a process with threads should not fork
            self.reader = threading.Thread(target=self._read, daemon=True)
            self.reader.start()
        while True:
            try:
                return self.ready.get(timeout=5) if wait else self.ready.get_nowait()
            except queue.Empty:
                if not wait:
                    return None
                if not any(process.is_alive() for process in self.processes):
                    raise DataError("All page workers have died; their messages stand above.") from None

    def _read(self) -> None:
        while not self.done.is_set():
            try:
                slot, shape, chunk = self.queue.get(timeout=1)
            except queue.Empty:
                continue
            chunk = replace(chunk, pixels=self.copy(self.slots.view(slot, shape)))
            self.slots.give(slot)
            while not self.done.is_set():
                try:
                    self.ready.put(chunk, timeout=1)
                    break
                except queue.Full:
                    continue

    def close(self) -> None:
        self.done.set()
        if self.reader is not None:
            self.reader.join(timeout=5)
        for process in self.processes:
            process.join(timeout=5)
            if process.is_alive():
                process.terminate()
