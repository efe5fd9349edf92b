"""The first stage: pages' summaries find the candidates that exact MaxSim then ranks.

- A page's first-stage score is MaxSim of the query with its summary (index.summaries), in int8, exactly.
- Up to CLUSTERED_FROM pages every summary is scored. Beyond, inverted lists (index.clusters) first choose the pages
  whose summaries are scored; pages added since the lists were built are always among them.
- The knob is n, how many candidates come out; `default_candidates` is what reached recall@10 >= .98 (docs/search.md).
- Row numbers are those of adding, and stay when others are removed.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence

import numpy as np
import torch

from varsdoc.errors import InputError
from varsdoc.index.clusters import Clusters, build_clusters
from varsdoc.index.summaries import SUMMARY_VECTORS, summarise, summary_bytes, summary_from_bytes
from varsdoc.scoring.threads import alone, for_each

__all__ = ["CANDIDATES", "FirstStage", "default_candidates", "summarise", "summary_bytes", "summary_from_bytes"]

GROWTH, FEWEST = 6, 100  # candidates: this times the square root of the collection, at least so many
CANDIDATES = 600  # for who wants one number: the default at 10,000 pages
CLUSTERED_FROM = 8_192  # below, scoring every summary is as fast as choosing among them
WIDER, WIDEST = 6, 3_000  # where lists choose: so many pages' summaries are scored per candidate, or at least in all
PROBES = 32
BLOCK = 200  # pages: 8,000 summary vectors, a megabyte


def default_candidates(pages: int) -> int:
    """How many candidates keep recall@10 >= .98 on the benchmark's pages; growing like the square root.

    >>> default_candidates(200), default_candidates(10_000)
    (100, 600)
    """
    return max(FEWEST, round(GROWTH * pages**0.5))


class FirstStage:
    """Summaries of many pages; add, remove, search."""

    def __init__(self, dim: int, vectors: int = SUMMARY_VECTORS, clustered_from: int = CLUSTERED_FROM) -> None:
        self.dim, self.vectors, self.clustered_from = dim, vectors, clustered_from
        self._data = np.empty((0, vectors, dim), np.int8)
        self._alive = np.zeros(0, bool)
        self._count = 0
        self._clusters: Clusters | None = None

    def __len__(self) -> int:
        """Rows, removed ones included."""
        return self._count

    @property
    def nbytes(self) -> int:
        """Bytes of summaries and lists."""
        return self._summaries.nbytes + self._count + (0 if self._clusters is None else self._clusters.nbytes)

    @property
    def _summaries(self) -> np.ndarray:
        return self._data[: self._count]

    def add(self, summaries: Sequence[np.ndarray]) -> np.ndarray:
        """Add pages; their row numbers. Lists are built anew when a quarter of the rows is in none."""
        for i, summary in enumerate(summaries):
            if summary.ndim != 2 or not 0 < len(summary) <= self.vectors or summary.shape[1] != self.dim:
                raise InputError(
                    f"summary {i} has shape {summary.shape}; give (at most {self.vectors}, {self.dim}) of int8: "
                    "reindex with this version of varsdoc."
                )
        start, stop = self._count, self._count + len(summaries)
        if stop > len(self._data):
            grown = np.empty((max(stop, len(self._data) * 3 // 2 if start else 0), self.vectors, self.dim), np.int8)
            grown[:start] = self._summaries
            self._data = grown
            self._alive = np.concatenate([self._alive[:start], np.ones(len(grown) - start, bool)])
        for row, summary in enumerate(summaries, start):
            self._data[row, : len(summary)] = summary
            self._data[row, len(summary) :] = summary[0]  # a vector twice changes no maximum
        self._alive[start:stop] = True
        self._count = stop
        self._cluster()
        return np.arange(start, stop)

    def remove(self, rows: np.ndarray | Sequence[int]) -> None:
        """These rows are found no more."""
        rows = np.asarray(rows, np.int64)
        if rows.size and (rows.min() < 0 or rows.max() >= self._count):
            raise InputError(f"Rows to remove must be from 0 to {self._count - 1}.")
        self._alive[rows] = False

    def search(
        self, query: np.ndarray, n: int | None = None, allowed: np.ndarray | None = None, threads: int | None = None
    ) -> np.ndarray:
        """The n rows of the best summaries, best first; fewer where fewer are allowed: (T, D), (rows,)."""
        query = np.asarray(query, np.float32)
        if query.ndim != 2 or query.shape[1] != self.dim or not len(query):
            raise InputError(f"The query has shape {query.shape}; give (tokens, {self.dim}) with at least one token.")
        mask = self._alive[: self._count]
        if allowed is not None:
            if np.shape(allowed) != (self._count,):
                raise InputError(
                    f"The mask has shape {np.shape(allowed)}; give one value for each of {self._count} rows."
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
        """The n pages that the lists rank best, and all that are in no list."""
        assert self._clusters is not None
        clusters, listed = self._clusters, self._clusters.rows
        rough = alone(lambda: clusters.probe(torch.from_numpy(query), PROBES)).numpy()
        rough[~mask[:listed]] = -np.inf
        chosen = np.argpartition(-rough, min(n, listed) - 1)[:n]
        return np.concatenate([np.sort(chosen[mask[chosen]]), np.flatnonzero(mask[listed:]) + listed])

    def _score(self, query: np.ndarray, rows: np.ndarray, threads: int | None) -> np.ndarray:
        """MaxSim with the summaries of these rows, in steps of the quantised query: (rows,) int64."""
        step = max(float(np.abs(query).max()), 1e-30) / 127
        small = torch.from_numpy(np.rint(query / step).astype(np.int8))  # (T, D)
        scores = np.empty(len(rows), np.int64)
        everything = len(rows) == self._count

        def work(start: int) -> None:
            stop = min(start + BLOCK, len(rows))
            block = self._data[start:stop] if everything else self._data[rows[start:stop]]
            vectors = torch.from_numpy(block).view(-1, self.dim)
            products = torch._int_mm(small, vectors.T).view(len(small), stop - start, self.vectors)  # int32, exact
            scores[start:stop] = products.amax(2).sum(0).numpy()

        for_each(work, range(0, len(rows), BLOCK), threads)
        return scores

    def _cluster(self) -> None:
        listed = 0 if self._clusters is None else self._clusters.rows
        if self._count > self.clustered_from and self._count - listed > self._count // 4:
            self._clusters = build_clusters(self._summaries)

    def to_bytes(self) -> bytes:
        """Everything, so that opening needs no clustering."""
        kept: dict[str, np.ndarray] = {"format": np.array([1, self.clustered_from])}
        kept |= {"summaries": self._summaries, "alive": self._alive[: self._count]}
        if self._clusters is not None:
            made = self._clusters
            kept |= {"centres": made.centres.numpy(), "starts": made.starts.numpy(), "owners": made.owners.numpy()}
            kept["listed"] = np.array(made.rows)
        out = io.BytesIO()
        np.savez(out, **kept)  # type: ignore[arg-type]
        return out.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> FirstStage:
        try:
            read = dict(np.load(io.BytesIO(data), allow_pickle=False))
            version, clustered_from = read["format"].tolist()
            summaries, alive = read["summaries"], read["alive"]
        except (ValueError, OSError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise InputError("These bytes are no first stage of varsdoc; build it again from the pages.") from error
        if version != 1 or summaries.ndim != 3 or summaries.dtype != np.int8 or len(alive) != len(summaries):
            raise InputError(f"A first stage of format {version} cannot be read; build it again from the pages.")
        out = cls(summaries.shape[2], summaries.shape[1], clustered_from)
        out._data, out._alive, out._count = summaries, alive, len(summaries)
        if "centres" in read:
            centres, starts, owners = (torch.from_numpy(read[name]) for name in ("centres", "starts", "owners"))
            out._clusters = Clusters(centres, starts, owners, int(read["listed"]))
        return out


def _best(rows: np.ndarray, scores: np.ndarray, n: int) -> np.ndarray:
    """The n best rows, best first, lower rows first among equals."""
    if n < len(rows):
        kept = np.sort(np.argpartition(-scores, n - 1)[:n])
        rows, scores = rows[kept], scores[kept]
    return rows[np.argsort(-scores, kind="stable")]
