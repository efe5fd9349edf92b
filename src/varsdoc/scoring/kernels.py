"""Block kernels: packed codes of a few pages against queries, the best token of each variant, summed.

- binary: a table of 256 x 8 signs turns each byte into eight int8 numbers; the query is quantised to two int8 planes
  (q ~ step * (254 hi + lo), one step per query), so one int8 matrix product gives both, in exact integers. The error
  is the query's: half a step a number, some 1e-5 of its largest; a token's product is within 1e-4 of the float query's.
- int8: the same planes; products are multiplied by the vector's scale and cut to 1/256 of a step before the maximum.
- float16: float32 products, page by page and query by query, so that the shape of a product depends on nothing else.
- Maxima and sums of integers are exact in any order: a result does not depend on blocks, threads or neighbours.
- Pages of one length form a block, so that a maximum per variant is one reshape.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from varsdoc.errors import InputError
from varsdoc.scoring.codes import decode
from varsdoc.scoring.threads import for_each

if TYPE_CHECKING:
    from varsdoc.scoring.packed import PackedPages

BLOCK = 4096  # vectors unpacked at a time: half a megabyte as int8, within a core's second-level cache
TOKENS = 256  # query tokens at a time
WIDEST = 512  # numbers of a vector: beyond, 254 * 127 * 127 * D could leave int32, and float32 products are used
PLANE = 254
FINER = 256  # int8: steps of the query are cut this much finer, so that the vector's scale loses nothing


@dataclass(frozen=True)
class QueryChunk:
    """Whole queries whose tokens are scored together."""

    first: int
    lengths: list[int]
    flat: Tensor  # (tokens, D) float32
    planes: Tensor | None  # (2 * tokens, D in whole bytes) int8: hi, then lo
    steps: Tensor  # (queries,) float64: what one unit of the integer products is worth


@dataclass(frozen=True)
class PackedQueries:
    """Queries made ready for one codec."""

    count: int
    chunks: list[QueryChunk]

    @classmethod
    def of(cls, queries: Sequence[np.ndarray], dim: int, codec: str) -> PackedQueries:
        arrays = [np.asarray(query, np.float32) for query in queries]
        for i, query in enumerate(arrays):
            if query.ndim != 2 or query.shape[1] != dim or not len(query):
                raise InputError(f"query {i} has shape {query.shape}; give (tokens, {dim}) with at least one token.")
            if not np.isfinite(query).all():
                raise InputError(f"query {i} has numbers that are not finite; encode it again, in float32.")
        floats = codec == "float16" or dim > WIDEST
        groups = _groups([len(query) for query in arrays], 1 if floats else TOKENS)
        return cls(len(arrays), [_chunk(start, arrays[start:stop], codec, floats) for start, stop in groups])


def _groups(lengths: list[int], tokens: int) -> Iterator[tuple[int, int]]:
    start = 0
    for i in range(len(lengths)):
        if i > start and sum(lengths[start : i + 1]) > tokens:
            yield start, i
            start = i
    yield start, len(lengths)


def _chunk(first: int, queries: list[np.ndarray], codec: str, floats: bool) -> QueryChunk:
    flat = torch.from_numpy(np.concatenate(queries))
    lengths = [len(query) for query in queries]
    if floats:
        return QueryChunk(first, lengths, flat, None, torch.ones(len(queries), dtype=torch.float64))
    steps = torch.tensor([max(float(np.abs(query).max()), 1e-30) / (127 * PLANE) for query in queries]).double()
    whole = (flat.double() / steps.repeat_interleave(torch.tensor(lengths))[:, None]).round()
    hi = (whole / PLANE).round()
    planes = torch.cat([hi, whole - PLANE * hi]).to(torch.int8)
    if codec == "binary":
        planes = torch.nn.functional.pad(planes, (0, -planes.shape[1] % 8))
        worth = steps / np.sqrt(flat.shape[1])
    else:
        worth = steps / FINER
    return QueryChunk(first, lengths, flat, planes, worth)


def best_tokens(
    queries: PackedQueries, pages: PackedPages, rows: np.ndarray, fused: bool, threads: int | None
) -> tuple[Tensor, Tensor]:
    """Sums of maxima: variants (Q, rows, K), and fused (Q, rows), which is zero where it is not wanted."""
    variants = torch.empty(queries.count, len(rows), pages.variants)
    together = torch.zeros(queries.count, len(rows))
    floats = queries.chunks[0].planes is None

    def score(block: np.ndarray) -> None:
        where = torch.from_numpy(block)
        vectors, places = _load(pages, rows[block], floats)
        for chunk in queries.chunks:
            products = _products(vectors, chunk)  # (tokens, N)
            if places is not None:
                products = products.index_select(1, places)
            best = products.view(len(products), len(block), pages.variants, -1).amax(3)  # (tokens, pages, K)
            mine = slice(chunk.first, chunk.first + len(chunk.lengths))
            variants[mine, where] = _sum_by_query(best, chunk)
            if fused:
                together[mine, where] = _sum_by_query(best.amax(2, keepdim=True), chunk)[..., 0]

    for_each(score, _blocks(pages, rows, floats), threads)
    return variants, together


def _blocks(pages: PackedPages, rows: np.ndarray, floats: bool) -> Iterator[np.ndarray]:
    """Positions in `rows`, pages of one length together."""
    tokens = pages.tokens[rows]
    order = np.argsort(tokens, kind="stable")
    ends = np.flatnonzero(np.diff(tokens[order])) + 1
    for run in np.split(order, ends):
        size = 1 if floats else max(1, BLOCK // (pages.variants * int(tokens[run[0]])))
        for start in range(0, len(run), size):
            yield run[start : start + size]


@dataclass(frozen=True)
class _Vectors:
    numbers: Tensor  # (N, D) int8, or float32
    scales: Tensor | None  # (N,) float32, int8 codes only


def _load(pages: PackedPages, rows: np.ndarray, floats: bool) -> tuple[_Vectors, Tensor | None]:
    codes, scales, places = pages.gather(rows)
    where = None if places is None else torch.from_numpy(places)
    if floats:
        return _Vectors(torch.from_numpy(decode(pages.codec, codes, scales, pages.dim)), None), where
    if pages.codec == "binary":
        index = torch.from_numpy(codes).view(-1).int()
        return _Vectors(_signs().index_select(0, index).view(torch.int8).view(len(codes), -1), None), where
    assert scales is not None
    finer = torch.from_numpy(scales).float().mul_(FINER)
    return _Vectors(torch.from_numpy(codes).view(torch.int8), finer), where


@cache
def _signs() -> Tensor:
    """For each byte its eight signs as int8, seen as one int64: the table that unpacks eight numbers a look-up."""
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.int8)
    return torch.from_numpy((2 * bits - 1).view(np.int64).reshape(-1))


def _products(vectors: _Vectors, chunk: QueryChunk) -> Tensor:
    """(tokens, N) in units of the chunk's steps: int32, or float32. Tokens first: maxima then run along memory."""
    if chunk.planes is None:
        return chunk.flat @ vectors.numbers.T
    both = torch._int_mm(chunk.planes, vectors.numbers.T)  # (2 * tokens, N) int32
    tokens = len(both) // 2
    whole = torch.add(both[tokens:], both[:tokens], alpha=PLANE)
    return whole if vectors.scales is None else torch.mul(whole, vectors.scales).to(torch.int32)


def _sum_by_query(best: Tensor, chunk: QueryChunk) -> Tensor:
    """(tokens, pages, K) -> (queries of the chunk, pages, K) float32, through running sums: exact for integers."""
    exact = best.double() if best.is_floating_point() else best.long()
    if len(chunk.lengths) == 1:
        sums = exact.sum(0, keepdim=True)
    else:
        ends = torch.tensor(chunk.lengths).cumsum(0) - 1
        running = exact.cumsum(0).index_select(0, ends)
        sums = torch.diff(running, dim=0, prepend=running.new_zeros(1, *running.shape[1:]))
    return (sums * chunk.steps[:, None, None]).float()
