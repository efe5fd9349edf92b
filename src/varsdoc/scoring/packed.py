"""Many pages' packed codes in memory, and exact variant-aware MaxSim on them.

- Codes stay packed: a block of vectors at a time is unpacked, scored and forgotten, within a core's cache.
- Scores equal those of `scoring.maxsim` on the unpacked vectors up to the query's own quantisation (scoring.kernels).
- What is stored once is scored once; the maxima go through the map of places.
- Results depend neither on the blocks nor on the other rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import torch

from varsdoc.errors import ConfigError, InputError
from varsdoc.scoring.blob import SCALED, Blob, code_bytes
from varsdoc.scoring.kernels import PackedQueries, best_tokens
from varsdoc.scoring.maxsim import Scores


class _Grown:
    """An array that grows at its end, by doubling."""

    def __init__(self, width: tuple[int, ...], dtype: np.dtype | type) -> None:
        self._data = np.empty((0, *width), dtype)
        self.size = 0

    @property
    def array(self) -> np.ndarray:
        return self._data[: self.size]

    def reserve(self, extra: int) -> None:
        need = self.size + extra
        if need > len(self._data):
            # The first fill is exact: a collection read whole takes no more than its bytes.
            grown = np.empty((need if not self.size else max(need, len(self._data) * 3 // 2), *self._data.shape[1:]),
                             self._data.dtype)  # fmt: skip
            grown[: self.size] = self.array
            self._data = grown

    def room(self, extra: int) -> np.ndarray:
        """`extra` new entries at the end, to be written to."""
        self.reserve(extra)
        self.size += extra
        return self._data[self.size - extra : self.size]


@dataclass(frozen=True, eq=False)
class Block:
    """Some pages' stored vectors side by side."""

    codes: np.ndarray  # (N, bytes) uint8
    scales: np.ndarray | None  # (N,) float16
    places: np.ndarray | None  # (tokens of all variants of all pages,) int32


@dataclass
class PackedPages:
    """Pages of one codec and one K; any mix of lengths. Rows are numbered in the order in which they were added."""

    codec: str = ""
    variants: int = 0
    dim: int = 0
    _codes: _Grown = field(default_factory=lambda: _Grown((0,), np.uint8))
    _scales: _Grown = field(default_factory=lambda: _Grown((), np.float16))
    _starts: _Grown = field(default_factory=lambda: _Grown((), np.int64))  # of a page's stored vectors
    _stored: _Grown = field(default_factory=lambda: _Grown((), np.int32))
    _tokens: _Grown = field(default_factory=lambda: _Grown((), np.int32))
    _places: _Grown = field(default_factory=lambda: _Grown((), np.int32))
    _place_starts: _Grown = field(default_factory=lambda: _Grown((), np.int64))  # -1: stored in order
    _pooling: _Grown = field(default_factory=lambda: _Grown((), np.int32))  # maps of cells, one after the other
    _pooling_ends: _Grown = field(default_factory=lambda: _Grown((2,), np.int64))  # of a page's maps, and their number

    @classmethod
    def from_blobs(cls, blobs: Sequence[bytes]) -> PackedPages:
        pages = cls()
        pages.extend(blobs)
        return pages

    def __len__(self) -> int:
        return self._tokens.size

    @property
    def nbytes(self) -> int:
        """Bytes of codes, scales and maps."""
        each_page = (self._starts, self._stored, self._tokens, self._place_starts, self._pooling_ends)
        kept = (self._codes, self._scales, self._places, self._pooling, *each_page)
        return sum(each.array.nbytes for each in kept)

    def append(self, blob: bytes) -> int:
        """Add one page; its row number."""
        self.extend([blob])
        return len(self) - 1

    def extend(self, blobs: Sequence[bytes]) -> None:
        read = [Blob.from_bytes(blob) for blob in blobs]
        if not read:
            return
        if not self.codec:
            self.codec, self.variants, self.dim = read[0].codec, read[0].variants, read[0].dim
            self._codes = _Grown((code_bytes(self.codec, self.dim),), np.uint8)
        for i, blob in enumerate(read):
            if (blob.codec, blob.variants, blob.dim) != (self.codec, self.variants, self.dim):
                raise InputError(
                    f"Packed page {i} is {blob.codec} with K={blob.variants}, D={blob.dim}; the others are "
                    f"{self.codec} with K={self.variants}, D={self.dim}: reindex with one model and codec."
                )
        self._reserve(read)
        for blob in read:
            self._add(blob)

    def select(self, rows: np.ndarray | Sequence[int]) -> PackedPages:
        """A copy that holds these rows alone, in this order."""
        out = PackedPages(self.codec, self.variants, self.dim)
        out._codes = _Grown(self._codes.array.shape[1:], np.uint8)
        chosen = [self.blob(int(row)) for row in check_rows(rows, len(self))]
        out._reserve(chosen)
        for blob in chosen:
            out._add(blob)
        return out

    def blob(self, row: int) -> Blob:
        """One page taken out again."""
        start, m = int(self._starts.array[row]), int(self._tokens.array[row])
        stop = start + int(self._stored.array[row])
        at = int(self._place_starts.array[row])
        places = None if at < 0 else self._places.array[at : at + self.variants * m].reshape(self.variants, m)
        scales = self._scales.array[start:stop] if self.codec in SCALED else None
        pooling = self._pooling_of(row)
        return Blob(self.codec, self.variants, m, self.dim, self._codes.array[start:stop], scales, places, pooling)

    def _pooling_of(self, row: int) -> np.ndarray | None:
        end, maps = self._pooling_ends.array[row].tolist()
        start = int(self._pooling_ends.array[row - 1, 0]) if row else 0
        return self._pooling.array[start:end].reshape(maps, -1) if maps else None

    def reader(self, rows: np.ndarray) -> Callable[[int, int], Block]:
        """A function that gives rows[start:stop] side by side. What it needs of the rows is looked up here, once."""
        starts = self._starts.array[rows].tolist()
        stored = self._stored.array[rows].tolist()
        at, tokens = self._place_starts.array[rows].tolist(), self._tokens.array[rows].tolist()
        codes, scales = self._codes.array, self._scales.array if self.codec in SCALED else None

        def read(start: int, stop: int) -> Block:
            spans = [slice(starts[i], starts[i] + stored[i]) for i in range(start, stop)]
            places = None
            if self._places.size:
                sizes = [self.variants * tokens[i] for i in range(start, stop)]
                places = self._join_places(at[start:stop], sizes, stored[start:stop])
            return Block(_join(codes, spans), None if scales is None else _join(scales, spans), places)

        return read

    def _join_places(self, starts: list[int], sizes: list[int], stored: list[int]) -> np.ndarray:
        parts, before = [], 0
        for at, size, count in zip(starts, sizes, stored, strict=True):
            part = np.arange(size, dtype=np.int32) if at < 0 else self._places.array[at : at + size]
            parts.append(part + np.int32(before))
            before += count
        return np.concatenate(parts)

    @property
    def tokens(self) -> np.ndarray:
        """(P,) vectors of each variant."""
        return self._tokens.array

    def _reserve(self, blobs: Sequence[Blob]) -> None:
        vectors = sum(len(blob.codes) for blob in blobs)
        self._codes.reserve(vectors)
        if self.codec in SCALED:
            self._scales.reserve(vectors)
        self._places.reserve(sum(blob.places.size for blob in blobs if blob.places is not None))
        self._pooling.reserve(sum(blob.pooling.size for blob in blobs if blob.pooling is not None))
        for each in (self._starts, self._stored, self._tokens, self._place_starts, self._pooling_ends):
            each.reserve(len(blobs))

    def _add(self, blob: Blob) -> None:
        self._starts.room(1)[0] = self._codes.size
        self._stored.room(1)[0] = len(blob.codes)
        self._tokens.room(1)[0] = blob.tokens
        self._codes.room(len(blob.codes))[:] = blob.codes
        if blob.scales is not None:
            self._scales.room(len(blob.codes))[:] = blob.scales
        if blob.places is None:
            self._place_starts.room(1)[0] = -1
        else:
            self._place_starts.room(1)[0] = self._places.size
            self._places.room(blob.places.size)[:] = blob.places.reshape(-1)
        if blob.pooling is not None:
            self._pooling.room(blob.pooling.size)[:] = blob.pooling.reshape(-1)
        self._pooling_ends.room(1)[0] = self._pooling.size, 0 if blob.pooling is None else len(blob.pooling)


def _join(array: np.ndarray, spans: list[slice]) -> np.ndarray:
    """The spans one after another; a view where they already are."""
    if all(a.stop == b.start for a, b in pairwise(spans)):
        return array[spans[0].start : spans[-1].stop]
    return np.concatenate([array[span] for span in spans])


def score_packed(
    queries: Sequence[np.ndarray],
    pages: PackedPages,
    rows: np.ndarray | None = None,
    aggregation: str = "max",
    threads: int | None = None,
) -> Scores:
    """Queries (T, D) against pages[rows] (all pages without rows): exact MaxSim on the packed codes.

    >>> from varsdoc.index.codecs import get_codec
    >>> page = np.array([[[1, 0], [1, 0]], [[0, 0.5], [0.8, 0]]], np.float32)
    >>> pages = PackedPages.from_blobs([get_codec("float16").pack(page)])
    >>> score_packed([np.eye(2, dtype=np.float32)], pages).variants.round(decimals=2)
    tensor([[[1.0000, 1.3000]]])
    """
    if aggregation not in ("max", "mean", "fused"):
        raise ConfigError(f"There is no aggregation {aggregation!r}; use max, mean or fused.")
    chosen = np.arange(len(pages)) if rows is None else check_rows(rows, len(pages))
    lengths = torch.tensor([len(query) for query in queries])
    if not len(queries) or not len(chosen):
        empty = torch.zeros(len(queries), len(chosen), max(pages.variants, 1))
        return Scores(empty.sum(-1), empty, lengths)
    packed = PackedQueries.of(queries, pages.dim, pages.codec)
    variants, fused = best_tokens(packed, pages, chosen, aggregation == "fused", threads)
    total = {"max": lambda: variants.amax(-1), "mean": lambda: variants.mean(-1), "fused": lambda: fused}[aggregation]()
    return Scores(total, variants, lengths)


def check_rows(rows: np.ndarray | Sequence[int], count: int) -> np.ndarray:
    chosen = np.asarray(rows)
    if chosen.dtype == bool and chosen.shape == (count,):
        return np.flatnonzero(chosen)
    chosen = chosen.astype(np.int64) if chosen.size else np.zeros(0, np.int64)
    if chosen.ndim != 1 or (chosen.size and (chosen.min() < 0 or chosen.max() >= count)):
        raise InputError(f"Rows must be numbers from 0 to {count - 1}, or a mask of {count}.")
    return chosen
