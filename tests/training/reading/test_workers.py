"""Chunks come over whole from forked processes, slots are used again, and all of them end."""

from __future__ import annotations

import numpy as np
import pytest

import tiny
from varsdoc.training.generator import PageStream
from varsdoc.training.reading.pages import Chunk, Maker
from varsdoc.training.reading.workers import Workers
from varsdoc.training.sources import DataError


def maker() -> Maker:
    model = tiny.model(1, 0, heads="shared")
    stream = PageStream(seed=1, layouts={"plot": 1})
    return Maker(stream, model.config, model.processor.tokenizer.to_str(), chunk=1)


def same(a: Chunk, b: Chunk) -> bool:
    names = ("pixels", "ids", "keys", "page", "printed", "places", "present")
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in names)


def take_all(workers: Workers) -> None:
    for _ in range(100):
        workers.get(wait=True)


def test_chunks_come_as_they_were_made_however_few_slots_there_are() -> None:
    made = maker()
    expected = made.chunks(0, 1, 5)
    workers = Workers(made, 1, start=5, ahead=2)
    try:
        for _ in range(5):
            chunk = workers.get(wait=True)
            assert chunk is not None
            assert same(chunk, next(expected))
    finally:
        workers.close()
    assert not any(process.is_alive() for process in workers.processes)


def test_the_largest_chunk_fits_a_slot() -> None:
    made = maker()
    assert made.chunk_bytes == max(44 * 34, 33 * 45, 55 * 27) * 4 * 588


def test_dead_workers_are_said() -> None:
    workers = Workers(maker(), 1)
    try:
        assert workers.get(wait=True) is not None
        for process in workers.processes:
            process.kill()
            process.join()
        with pytest.raises(DataError, match="All page workers have died"):
            take_all(workers)
    finally:
        workers.close()
