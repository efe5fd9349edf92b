"""Pairs -> batches: pages are read, made upright and cut in the loader's workers.

A record that cannot be read is named and counted, and the next one takes its place, so that the batches of all ranks
keep their size.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch.utils.data import Dataset

from varsdoc.errors import VarsDocError
from varsdoc.model import PageBatch, Processor, QueryBatch
from varsdoc.model.patches import Patches
from varsdoc.training.objective import PairIds
from varsdoc.training.sources import DataError, Source, open_source

MOST_BAD = 0.01


@dataclass(frozen=True)
class BadRecord:
    name: str
    reason: str


@dataclass(frozen=True)
class Example:
    """One pair, ready for a batch, and the bad records that were passed over to reach it."""

    name: str
    patches: Patches
    page: str
    query: str
    skipped: tuple[BadRecord, ...] = ()


class Pairs(Dataset[Example]):
    """All sources one after the other, decoded where they are read. Bad records are passed over and reported."""

    def __init__(self, paths: list[str], processor: Processor) -> None:
        if not paths:
            raise DataError("The config names no training data; give data.train a list of folders, files or hub ids.")
        self.sources = [open_source(path) for path in paths]
        self.ends = np.cumsum([len(source) for source in self.sources])
        self.processor = processor
        if not len(self):
            raise DataError(f"The training data is empty: {', '.join(paths)} hold no pair.")

    def __len__(self) -> int:
        return int(self.ends[-1])

    def __getitem__(self, index: int) -> Example:
        skipped: list[BadRecord] = []
        while True:
            where = int(np.searchsorted(self.ends, index, side="right"))
            source, row = self.sources[where], index - (int(self.ends[where - 1]) if where else 0)
            try:
                return self._example(source, row, tuple(skipped))
            except (VarsDocError, OSError, ValueError, KeyError, TypeError) as error:
                reason = (str(error).splitlines() or [type(error).__name__])[0]
                skipped.append(BadRecord(source.name(row), reason))
            check_bad(skipped, len(self))
            index = (index + 1) % len(self)

    def _example(self, source: Source, row: int, skipped: tuple[BadRecord, ...]) -> Example:
        record = source.read(row)
        self.processor.query_ids(record.query)  # refuses what is no question
        page = replace(self.processor.page(record.image), others=())  # a page is learnt from as it came
        return Example(source.name(row), page, record.page, record.query, skipped)


def check_bad(bad: list[BadRecord], total: int) -> None:
    """More than one record in a hundred bad is a broken data set, not an accident."""
    if len(bad) > MOST_BAD * total:
        raise DataError(
            f"{len(bad)} of {total} training records are bad, more than 1 %; the last is {bad[-1].name} "
            f"({bad[-1].reason.rstrip('.')})."
        )


@dataclass(frozen=True)
class Batch:
    """Pairs for one rank. `to` moves it, as accelerate asks of what a loader yields."""

    pages: PageBatch
    queries: QueryBatch
    ids: PairIds
    names: tuple[str, ...]
    skipped: tuple[BadRecord, ...] = ()

    def __len__(self) -> int:
        return len(self.names)

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Batch:
        ids = PairIds(self.ids.page.to(device), self.ids.text.to(device))
        return Batch(self.pages.to(device), self.queries.to(device), ids, self.names, self.skipped)


@dataclass(frozen=True)
class Collate:
    """Examples -> micro-batches of one batch, each padded on its own."""

    processor: Processor
    micro_batch: int | None = None

    def __call__(self, examples: list[Example]) -> tuple[Batch, ...]:
        step = self.micro_batch or len(examples)
        return tuple(self._batch(examples[i : i + step]) for i in range(0, len(examples), step))

    def _batch(self, examples: list[Example]) -> Batch:
        return Batch(
            self.processor.pages([example.patches for example in examples]),
            self.processor.queries([self.processor.query_ids(example.query) for example in examples]),
            PairIds(
                torch.tensor([text_id(example.page) for example in examples]),
                torch.tensor([text_id(" ".join(example.query.split()).casefold()) for example in examples]),
            ),
            tuple(example.name for example in examples),
            tuple(bad for example in examples for bad in example.skipped),
        )


def text_id(text: str) -> int:
    """64 bits of a text, the same in every process.

    >>> text_id("a") == text_id("a"), text_id("a") == text_id("b")
    (True, False)
    """
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest(), "big", signed=True)
