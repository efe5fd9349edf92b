"""Block kernels: packed codes of a few pages against queries, the best token of each variant, summed.

- binary: a table of 256 x 8 signs turns each byte into eight int8 numbers; the query is quantised to two int8 planes
  (q ~ step * (254 hi + lo), one step per query), so one int8 matrix product gives both, in exact integers. The error
  is the query's: half a step a number, some 1e-5 of its largest; a token's product is within 1e-4 of the float query's.
- int8: the same planes; products are multiplied by the vector's scale and cut to 1/256 of a step before the maximum.
- int4: half bytes become int8 by a shift and a mask (eight times the odd number they stand for), then as int8.
- float16: float32 products, page by page and query by query, so that the shape of a product depends on nothing else.
- Maxima and sums of integers are exact in any order: a result does not depend on blocks, threads or neighbours.
- Pages of one length form a block, so that a maximum per variant is one reshape.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from varsdoc.errors import InputError
from varsdoc.int8_product import int8_product
from varsdoc.scoring.codes import decode
from varsdoc.scoring.threads import for_each

if TYPE_CHECKING:
    from varsdoc.scoring.packed import Block, PackedPages

BLOCK = 10_240  # vectors unpacked at a time, 1.3 MB as int8: smaller ones cost more in calls than they save in cache
TOKENS = 256  # query tokens at a time
WIDEST = 512  # numbers of a vector: beyond, 254 * 127 * 127 * D could leave int32, and float32 products are used
NARROWEST = 8  # torch 2.13's int8 product of vectors of one number is wrong: small ones take float32 too
PLANE = 254
FINER = 256  # int8: steps of the query are cut this much finer, so that the vector's scale loses nothing


@dataclass(frozen=True)
class QueryChunk:
    """Whole queries whose tokens are scored together."""

    first: int
    lengths: list[int]
    flat: Tensor  # (tokens, D) float32
    planes: Tensor | None  # (2 * tokens, D in whole bytes) int8: hi, then lo
    steps: list[float]  # of each query: what one unit of the integer products is worth


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
        floats = codec == "float16" or not NARROWEST <= dim <= WIDEST
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
    """In numpy: torch would split even these few numbers among its threads, and wait for them."""
    flat = np.concatenate(queries)
    lengths = [len(query) for query in queries]
    if floats:
        return QueryChunk(first, lengths, torch.from_numpy(flat), None, [1.0] * len(queries))
    steps = np.array([max(float(np.abs(query).max()), 1e-30) / (127 * PLANE) for query in queries])
    whole = np.rint(flat / np.repeat(steps, lengths)[:, None])
    hi = np.rint(whole / PLANE)
    planes = np.concatenate([hi, whole - PLANE * hi]).astype(np.int8)
    whole_bytes = {"binary": 8, "int4": 2}.get(codec, 1)  # a vector's last byte may hold more numbers than it has
    planes = np.pad(planes, ((0, 0), (0, -planes.shape[1] % whole_bytes)))
    worth = steps / (np.sqrt(flat.shape[1]) if codec == "binary" else FINER)
    return QueryChunk(first, lengths, torch.from_numpy(flat), torch.from_numpy(planes), worth.tolist())


def best_tokens(
    queries: PackedQueries, pages: PackedPages, rows: np.ndarray, fused: bool, threads: int | None
) -> tuple[Tensor, Tensor]:
    """Sums of maxima: variants (Q, rows, K), and fused (Q, rows), which is zero where it is not wanted."""
    variants = np.empty((queries.count, len(rows), pages.variants), np.float32)
    together = np.zeros((queries.count, len(rows)), np.float32)
    floats = queries.chunks[0].planes is None
    order = np.argsort(pages.tokens[rows], kind="stable")
    block_of = pages.reader(rows[order])
    blocks = _blocks(pages.tokens[rows[order]], pages.variants, floats)
    for chunk in queries.chunks:
        shape = (len(chunk.flat), len(rows), pages.variants)
        best = torch.empty(shape, dtype=torch.float32 if floats else torch.int32)

        parts = _parts(chunk)

        def score(block: tuple[int, int], parts: Parts = parts, best: Tensor = best) -> None:
            start, stop = block
            vectors = _load(pages.codec, pages.dim, block_of(start, stop), floats)
            for at, part in parts:
                products = _products(vectors, part)  # (tokens, N)
                if vectors.places is not None:
                    products = products.index_select(1, vectors.places)
                products = products.view(len(products), stop - start, pages.variants, -1)
                torch.amax(products, 3, out=best[at : at + len(products), start:stop])

        for_each(score, blocks, threads)
        _sum_by_query(best.numpy(), chunk, order, variants, together if fused else None)
    return torch.from_numpy(variants), torch.from_numpy(together)


Parts = list[tuple[int, QueryChunk]]


def _parts(chunk: QueryChunk) -> Parts:
    """A chunk that is one long query, some tokens at a time: what a thread keeps for integer products is bounded."""
    count, planes = len(chunk.flat), chunk.planes
    if planes is None or count <= TOKENS:
        return [(0, chunk)]
    parts = []
    for at in range(0, count, TOKENS):
        flat = chunk.flat[at : at + TOKENS]
        both = torch.cat([planes[at : at + len(flat)], planes[count + at : count + at + len(flat)]])
        parts.append((at, QueryChunk(chunk.first, [len(flat)], flat, both, chunk.steps)))
    return parts


def _blocks(tokens: np.ndarray, variants: int, floats: bool) -> list[tuple[int, int]]:
    """Runs of pages of one length, cut to size; the lengths come sorted."""
    out = []
    ends = [0, *(np.flatnonzero(np.diff(tokens)) + 1).tolist(), len(tokens)]
    for start, stop in pairwise(ends):
        size = 1 if floats else max(1, BLOCK // (variants * int(tokens[start])))
        out += [(at, min(at + size, stop)) for at in range(start, stop, size)]
    return out


class _Workspace(threading.local):
    """Buffers of a thread, kept: fresh ones of this size would be handed back to the system and faulted in again."""

    def take(self, name: str, dtype: torch.dtype, *shape: int) -> Tensor:
        size = math.prod(shape)
        held = self.__dict__.get(name)
        if held is None or held.shape[0] < size:
            held = self.__dict__[name] = torch.empty(size, dtype=dtype)
        return held[:size].view(shape)


_workspace = _Workspace()


@dataclass(frozen=True)
class _Vectors:
    numbers: Tensor  # (N, D) int8, or float32
    scales: Tensor | None  # (N,) float32, int8 and int4 codes only
    places: Tensor | None  # which vector each token of each variant of each page is; None: they are in order


def _load(codec: str, dim: int, block: Block, floats: bool) -> _Vectors:
    codes = block.codes
    places = None if block.places is None else torch.from_numpy(block.places)
    if floats:
        return _Vectors(torch.from_numpy(decode(codec, codes, block.scales, dim)), None, places)
    if codec == "binary":
        index = _workspace.take("index", torch.int32, codes.size)
        index.copy_(torch.from_numpy(codes).view(-1))
        signs = _workspace.take("signs", torch.int64, codes.size)
        torch.index_select(_signs(), 0, index, out=signs)
        return _Vectors(signs.view(torch.int8).view(len(codes), -1), None, places)
    assert block.scales is not None
    if codec == "int4":
        return _Vectors(_halves(codes), torch.from_numpy(block.scales).float().mul_(FINER / 8), places)
    finer = torch.from_numpy(block.scales).float().mul_(FINER)
    return _Vectors(torch.from_numpy(codes).view(torch.int8), finer, places)


def _halves(codes: np.ndarray) -> Tensor:
    """`codes.eighths` in torch, into a kept buffer."""
    packed = torch.from_numpy(codes)
    numbers = _workspace.take("halves", torch.uint8, len(codes), 2 * codes.shape[1])
    torch.bitwise_left_shift(packed, 4, out=numbers[:, : codes.shape[1]])
    torch.bitwise_and(packed, 0xF0, out=numbers[:, codes.shape[1] :])
    return numbers.bitwise_or_(8).view(torch.int8)


@cache
def _signs() -> Tensor:
    """For each byte its eight signs as int8, seen as one int64: the table that unpacks eight numbers a look-up."""
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.int8)
    return torch.from_numpy((2 * bits - 1).view(np.int64).reshape(-1))


def _products(vectors: _Vectors, chunk: QueryChunk) -> Tensor:
    """(tokens, N) in units of the chunk's steps: int32, or float32. Tokens first: maxima then run along memory."""
    if chunk.planes is None:
        return chunk.flat @ vectors.numbers.T
    tokens, count = len(chunk.flat), len(vectors.numbers)
    both = _workspace.take("both", torch.int32, 2 * tokens, count)
    int8_product(chunk.planes, vectors.numbers.T, signs=vectors.scales is None, out=both)
    whole = _workspace.take("whole", torch.int32, tokens, count)
    torch.add(both[tokens:], both[:tokens], alpha=PLANE, out=whole)
    if vectors.scales is None:
        return whole
    scaled = torch.mul(whole, vectors.scales, out=_workspace.take("scaled", torch.float32, tokens, count))
    return whole.copy_(scaled)  # cut to whole numbers, so that maxima and sums are exact in any order


def _sum_by_query(
    best: np.ndarray, chunk: QueryChunk, order: np.ndarray, variants: np.ndarray, fused: np.ndarray | None
) -> None:
    """best (tokens, pages in order, K) -> the chunk's rows of variants (Q, pages, K) and fused (Q, pages).

    In int64 or float64, so that the order of adding does not show.
    """
    wide = np.float64 if best.dtype == np.float32 else np.int64
    start = 0
    for q, (length, step) in enumerate(zip(chunk.lengths, chunk.steps, strict=True), chunk.first):
        mine = best[start : start + length]
        variants[q, order] = mine.sum(0, dtype=wide) * step
        if fused is not None:
            fused[q, order] = mine.max(2).sum(0, dtype=wide) * step
        start += length
