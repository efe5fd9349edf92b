"""The first stage: a few dozen vectors per page find the candidates that exact MaxSim then ranks.

- A page's summary is up to SUMMARY_VECTORS centroids of all its variants' tokens (spherical k-means), in int8.
- A page's first-stage score is MaxSim of the query with the summary.
"""

from __future__ import annotations

import numpy as np
import torch

from varsdoc.errors import InputError

SUMMARY_VECTORS = 40
CANDIDATES = 400  # pages re-ranked by default


def summarise(variants: np.ndarray, vectors: int = SUMMARY_VECTORS, rounds: int = 8) -> np.ndarray:
    """(K, M, D) -> (S, D) int8: unit centroids times 127, S = min(vectors, K * M)."""
    tokens = np.asarray(variants, np.float32).reshape(-1, variants.shape[-1])
    count = min(vectors, len(tokens))
    x = torch.from_numpy(np.ascontiguousarray(tokens))
    centres = x[torch.linspace(0, len(x) - 1, count).long()].clone()
    for _ in range(rounds):
        similarity = x @ centres.T
        best, label = similarity.max(1)
        sums = torch.zeros_like(centres).index_add_(0, label, x)
        filled = torch.bincount(label, minlength=count) > 0
        norms = sums.norm(dim=1, keepdim=True).clamp_min(1e-6)
        centres = torch.where(filled[:, None], sums / norms, centres)
        empty = int((~filled).sum())
        if empty:  # an empty centre takes a token that is served worst
            centres[~filled] = x[best.argsort(stable=True)[:empty]]
    return np.rint(centres.numpy() * 127).clip(-127, 127).astype(np.int8)


def summary_bytes(summary: np.ndarray) -> bytes:
    return np.ascontiguousarray(summary, np.int8).tobytes()


def summary_from_bytes(data: bytes, dim: int) -> np.ndarray:
    """(S, D) int8 from its bytes."""
    if not data or len(data) % dim:
        raise InputError(f"A page's summary has {len(data)} bytes, no multiple of {dim}; index the page again.")
    return np.frombuffer(data, np.int8).reshape(-1, dim)


class FirstStage:
    """Summaries of many pages; row numbers are those of adding, and stay when others are removed."""

    def __init__(self, dim: int) -> None:
        self.dim = dim
        self._summaries: list[np.ndarray] = []
        self._alive = np.zeros(0, bool)

    def __len__(self) -> int:
        return len(self._summaries)

    def add(self, summaries: list[np.ndarray]) -> np.ndarray:
        """Add pages; their row numbers."""
        start = len(self)
        self._summaries.extend(np.asarray(each, np.int8) for each in summaries)
        self._alive = np.concatenate([self._alive, np.ones(len(summaries), bool)])
        return np.arange(start, len(self))

    def remove(self, rows: np.ndarray) -> None:
        self._alive[np.asarray(rows, np.int64)] = False

    def search(self, query: np.ndarray, n: int = CANDIDATES, allowed: np.ndarray | None = None) -> np.ndarray:
        """The n rows of the best summaries, best first; fewer where fewer are allowed."""
        rows = np.flatnonzero(self._alive if allowed is None else self._alive & allowed)
        if not len(rows):
            return rows
        query = np.asarray(query, np.float32)
        chosen = [self._summaries[row] for row in rows]
        similarity = np.concatenate(chosen).astype(np.float32) @ query.T
        starts = np.cumsum([0] + [len(each) for each in chosen[:-1]])
        scores = np.maximum.reduceat(similarity, starts, axis=0).sum(1)
        return rows[np.argsort(-scores, kind="stable")[:n]]
