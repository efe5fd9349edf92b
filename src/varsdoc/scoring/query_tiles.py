"""Queries cut into tiles for the fused kernel: whole queries side by side, in the numbers that the codes are scored in.

- Tokens of one or many queries fill tiles of 16 to 256 rows. Every tile reads the pages again, from the cache: with 128
  rows that, not the matrix units, would bind. A query stays within a tile where it fits ("slot"); one
  that is longer is cut into several slots, whose sums are added afterwards.
- float16 and bfloat16 codes: the query in the codes' own dtype, and where it was float32 a second plane with what the
  first one lost, so that scores are those of the float32 query.
- int8 and binary codes: the two int8 planes of `scoring.kernels`, q ~ step * (254 hi + lo), one step per query: whole
  numbers, so the GPU finds what the CPU finds.
- Everything is computed where the queries lie; where rows go depends on lengths alone and is kept for the next query.

`tile_queries` is the plain form. On a GPU its thirty small operations take longer than scoring does, so
`fused.make_tiles` has one kernel make the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

import torch
from torch import Tensor

from varsdoc.scoring.kernels import PLANE

SMALLEST, LARGEST = 16, 256  # rows of a tile
TILE_BYTES = 64 * 1024  # of its planes at most: two programs should fit a multiprocessor


@dataclass(frozen=True)
class Placing:
    """Where the tokens of queries of these lengths go."""

    tiles: int
    rows: int  # of a tile
    slots: int  # of a tile, a power of two
    take: Tensor  # (tiles * rows,) int64: the token of each row; one past the last token: nothing
    slot: Tensor  # (tiles * rows,) int32: the slot of each row within its tile; -1: nothing
    owner: Tensor  # (used slots,) int64: whose query
    used: Tensor  # (used slots,) int64: which of the tiles * slots
    token_owner: Tensor  # (tokens,) int64
    begins: Tensor  # (queries + 1,) int32: the first token of each query, and the number of tokens
    row_of: Tensor  # (tokens,) int32: the row of each token
    slot_of: Tensor  # (tokens,) int32: which of the tiles * slots it belongs to
    cut: bool  # whether a query has several slots


@dataclass(frozen=True)
class QueryTiles:
    """Queries made ready for one codec on one device."""

    queries: int
    placing: Placing
    planes: Tensor  # (planes, tiles * rows, D)
    worth: Tensor  # (tiles * slots,) float32: what one unit of a slot's sum is worth
    sums: Tensor | None = None  # (tiles * rows,) int32, binary only: the sum of a row's numbers


def most_rows(codec: str, dim: int, planes: int) -> int:
    """Of a tile of queries in these numbers.

    >>> most_rows("bfloat16", 128, 1), most_rows("bfloat16", 128, 2), most_rows("int8", 128, 2)
    (256, 128, 256)
    """
    if codec == "binary":
        return 128  # the sum of 128 rows of whole numbers fits 32 bits, of 256 not always
    row = dim * planes * (1 if codec == "int8" else 2)
    return LARGEST if LARGEST * row <= TILE_BYTES else LARGEST // 2


@lru_cache(maxsize=256)
def place(lengths: tuple[int, ...], device: torch.device, most: int = LARGEST) -> Placing:
    """Fill tiles of at most so many rows in order, each with as many whole queries as fit."""
    total = sum(lengths)
    rows = min(max(SMALLEST, 1 << (total - 1).bit_length()), most)
    pieces: list[list[tuple[int, int, int]]] = [[]]  # of each tile: query, first token, tokens
    room, before = rows, 0
    for query, length in enumerate(lengths):
        for start in range(0, length, rows):
            size = min(rows, length - start)
            if size > room:
                pieces.append([])
                room = rows
            pieces[-1].append((query, before + start, size))
            room -= size
        before += length
    slots = 1 << (max(len(tile) for tile in pieces) - 1).bit_length()
    take: list[int] = []
    slot: list[int] = []
    owner: list[int] = []
    used: list[int] = []
    for tile, parts in enumerate(pieces):
        for i, (query, first, size) in enumerate(parts):
            take += range(first, first + size)
            slot += [i] * size
            owner.append(query)
            used.append(tile * slots + i)
        empty = (tile + 1) * rows - len(take)
        take += [total] * empty
        slot += [-1] * empty
    token_owner = [query for query, length in enumerate(lengths) for _ in range(length)]
    begins = [0, *accumulate(lengths)]
    row_of = [row for row, token in enumerate(take) if token < total]  # tokens lie in their order
    slot_of = [row // rows * slots + slot[row] for row in row_of]
    # One transfer for all: a query's latency is made of such small things.
    parts_of = (take, slot, owner, used, token_owner, begins, row_of, slot_of)
    moved = torch.tensor([x for part in parts_of for x in part]).to(device).split([len(part) for part in parts_of])
    return Placing(
        tiles=len(pieces),
        rows=rows,
        slots=slots,
        take=moved[0],
        slot=moved[1].int(),
        owner=moved[2],
        used=moved[3],
        token_owner=moved[4],
        begins=moved[5].int(),
        row_of=moved[6].int(),
        slot_of=moved[7].int(),
        cut=len(owner) > len(lengths),
    )


def flat_queries(queries: Sequence[Tensor], codec: str) -> tuple[Tensor, torch.dtype | None, Placing]:
    """All tokens (N, D), the float dtype of the codes if they have one, and where the tokens go."""
    flat = queries[0] if len(queries) == 1 else torch.cat([*queries])
    dtype = {"float16": torch.float16, "bfloat16": torch.bfloat16}.get(codec)
    most = most_rows(codec, flat.shape[1], 1 if flat.dtype == dtype else 2)
    return flat, dtype, place(tuple(len(query) for query in queries), flat.device, most)


def tile_queries(queries: Sequence[Tensor], codec: str) -> QueryTiles:
    """Queries (T, D) on one device -> tiles for codes of this codec."""
    flat, dtype, placing = flat_queries(queries, codec)
    dim = flat.shape[1]
    slots = placing.tiles * placing.slots
    if dtype is not None:
        padded = torch.cat([flat, flat.new_zeros(1, dim)])[placing.take]
        near = padded.to(dtype)[None]
        if flat.dtype != dtype:
            near = torch.cat([near, (padded.float() - near.float()).to(dtype)])
        return QueryTiles(len(queries), placing, near, flat.new_ones(slots, dtype=torch.float32))
    flat = flat.float()
    owners = torch.arange(len(queries), device=flat.device)[:, None]
    largest = (flat.abs().amax(1)[None] * (placing.token_owner[None] == owners)).amax(1)  # (Q,)
    steps = largest.clamp(min=1e-30) / (127 * PLANE)
    whole = torch.round(flat / steps[placing.token_owner][:, None])
    padded = torch.cat([whole, whole.new_zeros(1, dim)])[placing.take]
    high = torch.round(padded / PLANE)
    if codec == "binary":  # columns to whole bytes, then in the order in which the kernel takes bits
        padded, high = (
            torch.nn.functional.pad(x, (0, -dim % 8))[:, bit_order(dim, flat.device)] for x in (padded, high)
        )
    planes = torch.stack([high, padded - PLANE * high]).to(torch.int8)
    worth = flat.new_ones(slots)
    worth[placing.used] = steps[placing.owner] / (dim**0.5 if codec == "binary" else 1.0)
    sums = padded.sum(1).int() if codec == "binary" else None
    return QueryTiles(len(queries), placing, planes, worth, sums)


@lru_cache(maxsize=16)
def bit_order(dim: int, device: torch.device) -> Tensor:
    """The dimension at each place of an unpacked vector: bit 0 of all bytes, bit 4 of all bytes, 1, 5, 2, 6, 3, 7.

    Codes have the first of eight dimensions in the highest bit.

    >>> bit_order(16, torch.device("cpu")).tolist()
    [7, 15, 3, 11, 6, 14, 2, 10, 5, 13, 1, 9, 4, 12, 0, 8]
    """
    width = (dim + 7) // 8
    bits = (0, 4, 1, 5, 2, 6, 3, 7)
    return torch.tensor([8 * byte + 7 - bit for bit in bits for byte in range(width)]).to(device)
