"""The same scores in plain PyTorch, on any device: what `scoring.fused` is held to, and what runs without Triton.

Pages are decoded a few at a time, so the similarity tensor never exists whole.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

STEP_BYTES = 256 << 20  # of decoded vectors and similarities at a time
ROWS = 256  # query tokens at a time on a CPU
LONG = 128  # vectors of a run, on the average


def best_of_runs(
    queries: Sequence[Tensor],
    codec: str,
    dim: int,
    codes: Tensor,
    scales: Tensor | None,
    starts: Tensor,
    tokens: Tensor,
    pages: Tensor,
    variants: int,
    span: int = 1,
    step_bytes: int = STEP_BYTES,
) -> Tensor:
    """As `fused.best_of_runs`, from queries (T, D) themselves."""
    flat = torch.cat([query.float() for query in queries])
    lengths = torch.tensor([len(query) for query in queries], device=flat.device)
    owner = torch.repeat_interleave(torch.arange(len(queries), device=flat.device), lengths)
    out = torch.empty(len(queries), len(pages), variants, device=flat.device)
    size = tokens[pages.long()].long() * span  # vectors of a run
    first = starts[pages.long()]
    for start, stop in _steps(size.tolist(), variants, dim + len(flat), step_bytes):
        runs = size[start:stop].repeat_interleave(variants)
        begins = runs.cumsum(0) - runs
        whole = torch.arange(int(runs.sum()), device=flat.device)
        page_of = torch.repeat_interleave(torch.arange(stop - start, device=flat.device), size[start:stop] * variants)
        within = whole - begins.view(-1, variants)[:, 0][page_of]  # a page's runs lie one after the other
        place = first[start:stop][page_of] + within
        vectors = decode(codec, codes[place], None if scales is None else scales[place], dim)
        best = _best(vectors, flat, runs)
        summed = best.new_zeros(len(best), len(queries)).index_add_(1, owner, best)
        out[:, start:stop] = summed.T.view(len(queries), stop - start, variants)
    return out


def _best(vectors: Tensor, flat: Tensor, runs: Tensor) -> Tensor:
    """The best product of each run of vectors with each query token: (runs, T)."""
    if vectors.device.type != "cpu" or len(vectors) < LONG * len(runs):
        return torch.segment_reduce(vectors @ flat.T, "max", lengths=runs, axis=0)
    # On a CPU that reduction walks columns, slower than the product itself. A maximum along rows is vectorised, and a
    # few rows at a time stay in the cache. It is a step of Python for each run, so it pays for long ones.
    parts = flat.split(ROWS)
    return torch.stack([torch.cat([(part @ run.T).amax(1) for part in parts]) for run in vectors.split(runs.tolist())])


def decode(codec: str, codes: Tensor, scales: Tensor | None, dim: int) -> Tensor:
    """Codes (N, width) -> (N, D) float32."""
    if codec == "binary":
        shifts = torch.arange(7, -1, -1, dtype=torch.uint8, device=codes.device)
        bits = (codes[:, :, None] >> shifts) & 1
        return (bits.flatten(1)[:, :dim].float() * 2 - 1) / dim**0.5
    if codec == "int8":
        assert scales is not None
        return codes.float() * scales.float()[:, None]
    return codes.float()


def _steps(sizes: list[int], variants: int, numbers: int, budget: int) -> list[tuple[int, int]]:
    """Pages at a time: four bytes for each number of a vector and for its product with each query token."""
    steps, start, held = [], 0, 0
    for i, size in enumerate(sizes):
        cost = size * variants * numbers * 4
        if i > start and held + cost > budget:
            steps.append((start, i))
            start, held = i, 0
        held += cost
    if start < len(sizes):
        steps.append((start, len(sizes)))
    return steps
