"""The first stage: pages' summaries find the candidates that exact MaxSim then ranks.

- A page's first-stage score is MaxSim of the query with its summary (index.summaries), in int8, exactly.
- Summaries are as long as their pages. Those of one length (in steps of eight) lie side by side on a shelf, so that a
  page's maxima are one reshape.
- Up to CLUSTERED_FROM pages every summary is scored. Beyond, inverted lists (index.clusters) first choose the pages
  whose summaries are scored; pages added since the lists were built are always among them.
- The knob is n, how many candidates come out; `default_candidates` is what reached recall@10 >= .98 (docs/search.md).
- Row numbers are those of adding, and stay when others are removed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from varsdoc.errors import InputError
from varsdoc.index.clusters import Clusters, build_clusters
from varsdoc.index.summaries import summarise, summary_bytes, summary_from_bytes
from varsdoc.int8_product import int8_product
from varsdoc.scoring.threads import alone, for_each

__all__ = ["FirstStage", "default_candidates", "summarise", "summary_bytes", "summary_from_bytes"]

GROWTH, FEWEST = 8, 150  # candidates: this times the square root of the collection, at least so many
CLUSTERED_FROM = 8_192  # below, scoring every summary is as fast as choosing among them
WIDER, WIDEST = 6, 3_000  # where lists choose: so many pages' summaries are scored per candidate, or at least in all
PROBES = 32
BLOCK = 8_000  # summary vectors at a time, a megabyte
STEP = 8  # lengths of summaries are made whole multiples of it


def default_candidates(pages: int) -> int:
    """How many candidates keep recall@10 >= .98 on the benchmark's pages; growing like the square root.

    >>> default_candidates(200), default_candidates(10_000)
    (150, 800)
    """
    return max(FEWEST, round(GROWTH * pages**0.5))


class _Shelf:
    """Summaries of one length, in the order of adding."""

    def __init__(self, vectors: int, dim: int) -> None:
        self.vectors = vectors
        self.rows = np.empty(0, np.int64)  # the stage's, by place on the shelf
        self._data = np.empty((0, vectors, dim), np.int8)

    @property
    def summaries(self) -> np.ndarray:
        return self._data[: len(self.rows)]

    def add(self, rows: np.ndarray, summaries: Sequence[np.ndarray]) -> np.ndarray:
        """The places of these rows."""
        start, stop = len(self.rows), len(self.rows) + len(rows)
        if stop > len(self._data):
            grown = np.empty((max(stop, len(self._data) * 3 // 2 if start else 0), *self._data.shape[1:]), np.int8)
            grown[:start] = self.summaries
            self._data = grown
        for place, summary in enumerate(summaries, start):
            self._data[place, : len(summary)] = summary
            self._data[place, len(summary) :] = summary[0]  # a vector twice changes no maximum
        self.rows = np.concatenate([self.rows, rows])
        return np.arange(start, stop)


class FirstStage:
    """Summaries of many pages; add, remove, search."""

    def __init__(self, dim: int, clustered_from: int = CLUSTERED_FROM) -> None:
        self.dim, self.clustered_from = dim, clustered_from
        self._shelves: dict[int, _Shelf] = {}
        self._length = np.zeros(0, np.int32)  # of each row: its shelf
        self._place = np.zeros(0, np.int64)  # and where on it
        self._alive = np.zeros(0, bool)
        self._clusters: Clusters | None = None

    def __len__(self) -> int:
        """Rows, removed ones included."""
        return len(self._alive)

    @property
    def list_bytes(self) -> int:
        return 0 if self._clusters is None else self._clusters.nbytes

    @property
    def shelf_bytes(self) -> int:
        return sum(shelf.summaries.nbytes for shelf in self._shelves.values())

    @property
    def nbytes(self) -> int:
        """Bytes of summaries and lists, in memory."""
        held = self.shelf_bytes + sum(shelf.rows.nbytes for shelf in self._shelves.values())
        held += self._length.nbytes + self._place.nbytes + self._alive.nbytes
        return held + self.list_bytes

    def add(self, summaries: Sequence[np.ndarray]) -> np.ndarray:
        """Add pages; their row numbers. Lists are built anew when a quarter of the rows is in none."""
        for i, summary in enumerate(summaries):
            if summary.ndim != 2 or not len(summary) or summary.shape[1] != self.dim:
                raise InputError(f"summary {i} has shape {summary.shape}; give (vectors, {self.dim}) of int8.")
        rows = np.arange(len(self), len(self) + len(summaries))
        lengths = np.array([-(-len(summary) // STEP) * STEP for summary in summaries], np.int32)
        places = np.empty(len(rows), np.int64)
        for length in np.unique(lengths).tolist():
            mine = np.flatnonzero(lengths == length)
            shelf = self._shelves.setdefault(length, _Shelf(length, self.dim))
            places[mine] = shelf.add(rows[mine], [summaries[i] for i in mine.tolist()])
        self._length = np.concatenate([self._length, lengths])
        self._place = np.concatenate([self._place, places])
        self._alive = np.concatenate([self._alive, np.ones(len(rows), bool)])
        self._cluster()
        return rows

    def summary(self, row: int) -> np.ndarray:
        """(S, D) int8 of one row, filled up with its first vector to a multiple of STEP."""
        return self._shelves[int(self._length[row])].summaries[self._place[row]]

    def remove(self, rows: np.ndarray | Sequence[int]) -> None:
        """These rows are found no more."""
        rows = np.asarray(rows, np.int64)
        if rows.size and (rows.min() < 0 or rows.max() >= len(self)):
            raise InputError(f"Rows to remove must be from 0 to {len(self) - 1}.")
        self._alive[rows] = False

    def search(
        self, query: np.ndarray, n: int | None = None, allowed: np.ndarray | None = None, threads: int | None = None
    ) -> np.ndarray:
        """The n rows of the best summaries, best first; fewer where fewer are allowed: (T, D), (rows,)."""
        query = np.asarray(query, np.float32)
        if query.ndim != 2 or query.shape[1] != self.dim or not len(query):
            raise InputError(f"The query has shape {query.shape}; give (tokens, {self.dim}) with at least one token.")
        mask = self._alive
        if allowed is not None:
            if np.shape(allowed) != (len(self),):
                raise InputError(
                    f"The mask has shape {np.shape(allowed)}; give one value for each of {len(self)} rows."
                )
            mask = mask & np.asarray(allowed, bool)
        rows = np.flatnonzero(mask)
        n = default_candidates(len(rows)) if n is None else n
        if not len(rows) or n < 1:
            return rows[:0]
        wide = max(WIDER * n, WIDEST)
        if self._clusters is not None and len(rows) > wide:
            rows = self._choose(query, wide, mask)
        return _best(rows, self._score(query, rows, threads), n)

    def _choose(self, query: np.ndarray, n: int, mask: np.ndarray) -> np.ndarray:
        """The n pages that the lists rank best, and all that are in no list; rising."""
        assert self._clusters is not None
        clusters, listed = self._clusters, self._clusters.rows
        rough = alone(lambda: clusters.probe(torch.from_numpy(query), PROBES)).numpy()
        rough[~mask[:listed]] = -np.inf
        chosen = np.argpartition(-rough, min(n, listed) - 1)[:n]
        return np.concatenate([np.sort(chosen[mask[chosen]]), np.flatnonzero(mask[listed:]) + listed])

    def _score(self, query: np.ndarray, rows: np.ndarray, threads: int | None) -> np.ndarray:
        """MaxSim with the summaries of these rows (rising), in steps of the quantised query: (rows,) int64."""
        step = max(float(np.abs(query).max()), 1e-30) / 127
        small = torch.from_numpy(np.rint(query / step).astype(np.int8))  # (T, D)
        scores = np.empty(len(rows), np.int64)

        def work(block: tuple[_Shelf, np.ndarray, np.ndarray | slice]) -> None:
            shelf, at, places = block
            vectors = torch.from_numpy(shelf.summaries[places]).view(-1, self.dim)
            products = int8_product(small, vectors.T).view(len(small), len(at), shelf.vectors)
            scores[at] = products.amax(2).sum(0).numpy()

        for_each(work, self._blocks(rows), threads)
        return scores

    def _blocks(self, rows: np.ndarray) -> list[tuple[_Shelf, np.ndarray, np.ndarray | slice]]:
        """Some places of one shelf, and where in `rows` they are; a slice where a shelf is wanted whole."""
        out: list[tuple[_Shelf, np.ndarray, np.ndarray | slice]] = []
        lengths = self._length[rows]
        for shelf in self._shelves.values():
            mine = np.flatnonzero(lengths == shelf.vectors)
            places = self._place[rows[mine]]
            size = max(1, BLOCK // shelf.vectors)
            for start in range(0, len(mine), size):
                part = slice(start, min(start + size, len(mine)))
                out.append((shelf, mine[part], part if len(mine) == len(shelf.rows) else places[part]))
        return out

    def _cluster(self) -> None:
        listed = 0 if self._clusters is None else self._clusters.rows
        if len(self) > self.clustered_from and len(self) - listed > len(self) // 4:
            shelves = self._shelves.values()
            vectors = [shelf.summaries.reshape(-1, self.dim) for shelf in shelves]
            owners = np.concatenate([np.repeat(shelf.rows, shelf.vectors) for shelf in shelves])
            flat = vectors[0] if len(vectors) == 1 else np.concatenate(vectors)
            self._clusters = build_clusters(flat, owners, len(self))


def _best(rows: np.ndarray, scores: np.ndarray, n: int) -> np.ndarray:
    """The n best rows, best first, lower rows first among equals."""
    if n < len(rows):
        kept = np.sort(np.argpartition(-scores, n - 1)[:n])
        rows, scores = rows[kept], scores[kept]
    return rows[np.argsort(-scores, kind="stable")]
