"""Inverted lists over summary vectors: which pages can answer a query token, without looking at the others.

Summary vectors of all pages are clustered (k-means, about 2 sqrt(N) centres). A query token is compared with the
centres and probes the nearest; the pages in their lists get the centre's similarity as the token's maximum, every
other page the similarity of the last centre probed, an upper estimate. The sum over tokens orders pages roughly; the
best of them are then scored by their summaries. Lists grow like sqrt(pages), so probing does too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from varsdoc.scoring.threads import for_each

SAMPLE = 24  # training vectors per centre
ROUNDS = 5
BLOCK = 2048


@dataclass(frozen=True)
class Clusters:
    """Centres and, for each, the rows of the pages with a summary vector in it."""

    centres: Tensor  # (C, D) float32 of unit length
    starts: Tensor  # (C + 1,) int64
    owners: Tensor  # (postings,) int32: rows, grouped by centre, each once per centre
    rows: int  # pages 0 .. rows - 1 are in the lists

    @property
    def nbytes(self) -> int:
        return self.centres.nbytes + self.starts.nbytes + self.owners.nbytes

    def probe(self, query: Tensor, probes: int) -> Tensor:
        """(rows,) float32: a rough score of every page in the lists, query (T, D) float32."""
        near, which = (query @ self.centres.T).topk(min(probes, len(self.centres)), dim=1)  # (T, probes)
        begin, end = self.starts[which], self.starts[which + 1]
        sizes = (end - begin).reshape(-1)
        # Positions of all postings of all probes: begin + 0, 1, 2, ...
        offset = torch.arange(int(sizes.sum())) - (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
        rows = self.owners[begin.reshape(-1).repeat_interleave(sizes) + offset].long()
        token = torch.arange(len(query)).repeat_interleave(near.shape[1]).repeat_interleave(sizes)
        best = near[:, -1:].repeat(1, self.rows)  # (T, rows)
        best.view(-1).scatter_reduce_(0, token * self.rows + rows, near.reshape(-1).repeat_interleave(sizes), "amax")
        return best.sum(0)


def build_clusters(vectors: np.ndarray, owners: np.ndarray, pages: int, threads: int | None = None) -> Clusters:
    """Cluster summary vectors (N, D) int8 of pages 0 .. pages - 1, each page's by `owners` (N,).

    Deterministic: the sample is every n-th vector.
    """
    flat = torch.from_numpy(vectors)
    count = max(1, round(2 * len(flat) ** 0.5))
    sample = flat[:: max(1, len(flat) // (SAMPLE * count))].float()
    sample /= sample.norm(dim=1, keepdim=True).clamp_min(1e-6)
    centres = sample[torch.linspace(0, len(sample) - 1, count).long()].clone()
    for _ in range(ROUNDS):
        label = _nearest(sample, centres, threads)
        sums = torch.zeros_like(centres).index_add_(0, label, sample)
        norms = sums.norm(dim=1, keepdim=True)
        centres = torch.where(norms > 1e-6, sums / norms.clamp_min(1e-6), centres)
    label = _nearest(flat, centres, threads)
    pairs = torch.unique(
        label * pages + torch.from_numpy(owners)
    )  # sorted by centre, then by row; twice in a centre counts once
    sizes = torch.bincount(pairs // pages, minlength=count)
    starts = torch.cat([torch.zeros(1, dtype=torch.int64), sizes.cumsum(0)])
    return Clusters(centres, starts, (pairs % pages).to(torch.int32), pages)


def _nearest(vectors: Tensor, centres: Tensor, threads: int | None) -> Tensor:
    label = torch.empty(len(vectors), dtype=torch.int64)

    def work(start: int) -> None:
        label[start : start + BLOCK] = (vectors[start : start + BLOCK].float() @ centres.T).argmax(1)

    for_each(work, range(0, len(vectors), BLOCK), threads)
    return label
