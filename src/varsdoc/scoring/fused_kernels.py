"""The fused kernel: packed codes on a GPU against many queries, one pass over the pages, no similarity tensor.

One program scores one variant of one page (a "run") against one tile of query rows:
- It streams the run in blocks of vectors; a block meets the query rows in one matrix product (int8 and binary in whole
  numbers, two planes), and only the largest product of each row is kept, in registers.
- A block that reaches past the run's end reads its last vector again: a vector twice changes no maximum, so there is
  neither padding nor a mask.
- Bits become numbers in registers, once for all rows of the tile.
- Programs of one run are neighbours, so further tiles of queries find its codes in the cache.
- With `span` = K a page's variants are one run: every token takes the best of all of them ("fused").

`planes_kernel` makes queries ready for them (scoring.query_tiles says how), a program for each query.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _run_of(starts, tokens, pages, run, VARIANTS: tl.constexpr, SPAN: tl.constexpr):
    """First vector and length of a run."""
    page = tl.load(pages + run // VARIANTS)
    length = tl.load(tokens + page) * SPAN
    return tl.load(starts + page) + (run % VARIANTS).to(tl.int64) * length, length


@triton.jit
def _store(top, slots, worth, out, out_row, run, tile, rows, SLOTS: tl.constexpr):
    """Sums of the rows (ROWS,) of each query of the tile. Whole numbers of 128 rows fit 32 bits."""
    mine = tl.load(slots + rows)[:, None] == tl.arange(0, SLOTS)[None, :]
    sums = tl.sum(tl.where(mine, top[:, None], 0), 0)  # (SLOTS,)
    slot = tile * SLOTS + tl.arange(0, SLOTS)
    tl.store(out + slot.to(tl.int64) * out_row + run, sums.to(tl.float32) * tl.load(worth + slot))


@triton.jit
def numbers_kernel(
    codes, scales, starts, tokens, pages, planes, slots, worth, out, plane_size, out_row,
    VARIANTS: tl.constexpr, SPAN: tl.constexpr, TILES: tl.constexpr, ROWS: tl.constexpr, SLOTS: tl.constexpr,
    PLANES: tl.constexpr, DIM: tl.constexpr, INT8: tl.constexpr, WEIGHT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """float16, bfloat16 and int8 codes."""
    program = tl.program_id(0)
    tile, run = program % TILES, program // TILES
    first, length = _run_of(starts, tokens, pages, run, VARIANTS, SPAN)
    dims = tl.arange(0, DIM)
    rows = tile * ROWS + tl.arange(0, ROWS)
    query = planes + rows[:, None] * DIM + dims[None, :]
    high = tl.trans(tl.load(query))  # (DIM, ROWS)
    if PLANES == 2:
        low = tl.trans(tl.load(query + plane_size))
    best = tl.full((BLOCK, ROWS), float("-inf"), tl.float32)
    for at in range(0, length, BLOCK):
        place = first + tl.minimum(at + tl.arange(0, BLOCK), length - 1)
        vectors = tl.load(codes + place[:, None] * DIM + dims[None, :])
        if INT8:
            whole = tl.dot(vectors, high, out_dtype=tl.int32)
            whole = tl.dot(vectors, low, whole * WEIGHT, out_dtype=tl.int32)
            found = whole.to(tl.float32) * tl.load(scales + place).to(tl.float32)[:, None]
        else:
            found = tl.dot(vectors, high)
            if PLANES == 2:
                found = tl.dot(vectors, low, found)
        best = tl.maximum(best, found)
    _store(tl.max(best, 0), slots, worth, out, out_row, run, tile, rows, SLOTS)


@triton.jit
def _low_or_high(bits, high, ASM: tl.constexpr):
    """A byte, or where `high` is 255 its upper four bits moved down; what lies above bit 3 is then of no use."""
    if ASM:  # four bytes at a time; 0xD8: the third chooses between the first two
        return tl.inline_asm_elementwise(
            "{ .reg .b32 t; shr.u32 t, $1, 4; lop3.b32 $0, $1, t, $2, 0xD8; }",
            "=r,r,r", [bits, high], dtype=tl.uint8, is_pure=True, pack=4,
        )  # fmt: skip
    return tl.where(high == 0, bits, bits >> 4)


@triton.jit
def _bit(bits, ASM: tl.constexpr, AT: tl.constexpr):
    """One bit of each byte, as int8 0 or 1."""
    if not ASM:
        return ((bits >> AT) & 1).to(tl.int8)
    if AT == 0:
        return tl.inline_asm_elementwise(
            "and.b32 $0, $1, 0x01010101;", "=r,r", [bits], dtype=tl.int8, is_pure=True, pack=4
        )
    if AT == 1:
        return tl.inline_asm_elementwise(
            "{ .reg .b32 t; shr.u32 t, $1, 1; and.b32 $0, t, 0x01010101; }",
            "=r,r", [bits], dtype=tl.int8, is_pure=True, pack=4,
        )  # fmt: skip
    if AT == 2:
        return tl.inline_asm_elementwise(
            "{ .reg .b32 t; shr.u32 t, $1, 2; and.b32 $0, t, 0x01010101; }",
            "=r,r", [bits], dtype=tl.int8, is_pure=True, pack=4,
        )  # fmt: skip
    return tl.inline_asm_elementwise(
        "{ .reg .b32 t; shr.u32 t, $1, 3; and.b32 $0, t, 0x01010101; }",
        "=r,r", [bits], dtype=tl.int8, is_pure=True, pack=4,
    )  # fmt: skip


@triton.jit
def bits_kernel(
    codes, starts, tokens, pages, planes, sums, slots, worth, out, plane_size, out_row,
    VARIANTS: tl.constexpr, SPAN: tl.constexpr, TILES: tl.constexpr, ROWS: tl.constexpr, SLOTS: tl.constexpr,
    DIM: tl.constexpr, WEIGHT: tl.constexpr, BLOCK: tl.constexpr, ASM: tl.constexpr,
):  # fmt: skip
    """binary codes. A block's bytes are read twice side by side, and the second copy's upper halves moved down: bit AT
    of all of them is then a quarter of the vectors, 0 or 1. The columns of the query come in the same order
    (`query_tiles.bit_order`), and `sums` turns 0 / 1 into -1 / +1 at the end: 2 sum(b q) - sum(q). The quarters are
    joined, for every product makes the program wait: two for a block, not eight."""
    program = tl.program_id(0)
    tile, run = program % TILES, program // TILES
    first, length = _run_of(starts, tokens, pages, run, VARIANTS, SPAN)
    WIDTH: tl.constexpr = DIM // 8
    PART: tl.constexpr = DIM // 4
    part = tl.arange(0, PART)
    rows = tile * ROWS + tl.arange(0, ROWS)
    query = planes + rows[:, None] * DIM + tl.arange(0, DIM)[None, :]
    high, low = tl.trans(tl.load(query)), tl.trans(tl.load(query + plane_size))  # (DIM, ROWS)
    upper = tl.where(part >= WIDTH, 255, 0).to(tl.uint8)[None, :].broadcast_to((BLOCK, PART))
    best = tl.full((BLOCK, ROWS), -2147483648, tl.int32)
    for at in range(0, length, BLOCK):
        place = first + tl.minimum(at + tl.arange(0, BLOCK), length - 1)
        bits = tl.load(codes + place[:, None] * WIDTH + (part % WIDTH)[None, :])
        bits = _low_or_high(bits, upper, ASM)
        lower = tl.join(_bit(bits, ASM, 0), _bit(bits, ASM, 1))
        higher = tl.join(_bit(bits, ASM, 2), _bit(bits, ASM, 3))
        vectors = tl.join(lower, higher).permute(0, 3, 2, 1).reshape((BLOCK, DIM))
        whole = tl.dot(vectors, high, out_dtype=tl.int32)
        whole = tl.dot(vectors, low, whole * WEIGHT, out_dtype=tl.int32)
        best = tl.maximum(best, whole)
    top = 2 * tl.max(best, 0) - tl.load(sums + rows)
    _store(top, slots, worth, out, out_row, run, tile, rows, SLOTS)


@triton.jit
def _rounded(x):
    """To the nearest whole number, ties to even, for numbers below 2^22: what lies behind the point falls off."""
    return (x + 12582912.0) - 12582912.0


@triton.jit
def planes_kernel(
    flat, begins, row_of, slot_of, order, planes, sums, worth, plane_size, root,
    DIM: tl.constexpr, WHOLE: tl.constexpr, BITS: tl.constexpr, PLANES: tl.constexpr, WEIGHT: tl.constexpr,
    CHUNK: tl.constexpr,
):  # fmt: skip
    """The planes of one query, its rows' sums and what its slots are worth.

    WHOLE: whole numbers for int8 and binary codes (BITS), else the codes' own dtype in one or two planes.
    """
    begin, end = tl.load(begins + tl.program_id(0)), tl.load(begins + tl.program_id(0) + 1)
    dims = tl.arange(0, DIM)
    columns = tl.load(order + dims) if BITS else dims
    step = 1.0
    if WHOLE:
        largest = tl.zeros((CHUNK, DIM), tl.float32)
        for at in range(begin, end, CHUNK):
            token = at + tl.arange(0, CHUNK)
            x = tl.load(flat + token[:, None] * DIM + dims[None, :], mask=(token < end)[:, None], other=0.0)
            largest = tl.maximum(largest, tl.abs(x.to(tl.float32)))
        step = tl.div_rn(tl.maximum(tl.max(tl.max(largest, 1), 0), 1e-30), 127.0 * WEIGHT)
    unit = tl.div_rn(step, root) if WHOLE else 1.0
    for at in range(begin, end, CHUNK):
        token = at + tl.arange(0, CHUNK)
        there = token < end
        x = tl.load(flat + token[:, None] * DIM + columns[None, :], mask=there[:, None], other=0.0)
        row = tl.load(row_of + token, mask=there, other=0)
        place = planes + row[:, None] * DIM + dims[None, :]
        if WHOLE:
            whole = _rounded(tl.div_rn(x.to(tl.float32), tl.full((CHUNK, DIM), 1.0, tl.float32) * step))
            high = _rounded(tl.div_rn(whole, tl.full((CHUNK, DIM), WEIGHT, tl.float32)))
            tl.store(place, high.to(tl.int8), mask=there[:, None])
            tl.store(place + plane_size, (whole - WEIGHT * high).to(tl.int8), mask=there[:, None])
            if BITS:
                tl.store(sums + row, tl.sum(whole, 1).to(tl.int32), mask=there)
        else:
            near = x.to(planes.dtype.element_ty)
            tl.store(place, near, mask=there[:, None])
            if PLANES == 2:
                lost = x.to(tl.float32) - near.to(tl.float32)
                tl.store(place + plane_size, lost.to(planes.dtype.element_ty), mask=there[:, None])
        slot = tl.load(slot_of + token, mask=there, other=0)
        tl.store(worth + slot, tl.zeros((CHUNK,), tl.float32) + unit, mask=there)
