"""Launching the fused kernels (scoring.fused_kernels): which layout, which tiles, whose scores.

The same code runs in Triton's interpreter (TRITON_INTERPRET=1): tests/scoring/test_fused.py.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from varsdoc.scoring.fused_kernels import bits_kernel, numbers_kernel, planes_kernel
from varsdoc.scoring.kernels import PLANE
from varsdoc.scoring.query_tiles import QueryTiles, bit_order, flat_queries

INTERPRETED = os.environ.get("TRITON_INTERPRET", "0") == "1"
DIMS = {"float16": (32, 64, 128, 256), "bfloat16": (32, 64, 128, 256), "int8": (32, 64, 128, 256, 512),
        "binary": (128, 256, 512)}  # fmt: skip
# Bits are taken out of four bytes at a time by two instructions. The interpreter knows no machine code; there, and if
# ever a compiler gets it wrong (benchmarks/gpu.py --check), plain shifts do the same.
MACHINE_BITS = not INTERPRETED


@dataclass(frozen=True)
class Launch:
    """How a kernel is laid out: vectors of a block, warps of a program, depth of the pipeline of loads."""

    block: int
    warps: int
    stages: int


# By codec and tile: "narrow" is one short query (memory binds), "middle" and "wide" are many (the matrix units bind).
# The fastest of those tried on an H200 (benchmarks/results/gpu.json, "layouts tried").
KINDS = {"narrow": Launch(128, 4, 3), "middle": Launch(64, 4, 4), "wide": Launch(64, 4, 3)}
LAUNCHES = {(codec, kind): launch for codec in DIMS for kind, launch in KINDS.items()}
LAUNCHES["binary", "narrow"] = Launch(64, 4, 3)
# What `tune` tries beside.
CHOICES = (
    Launch(64, 4, 2),
    Launch(64, 4, 3),
    Launch(64, 4, 4),
    Launch(64, 8, 2),
    Launch(64, 8, 4),
    Launch(128, 4, 3),
    Launch(128, 8, 3),
)


CHUNK = 16  # tokens that `planes_kernel` takes at a time


def make_tiles(queries: Sequence[Tensor], codec: str) -> QueryTiles:
    """`query_tiles.tile_queries` in one launch, for codes that the kernels take."""
    flat, dtype, placing = flat_queries(queries, codec)
    flat, dim, device = flat.contiguous(), flat.shape[1], flat.device
    count = 1 if flat.dtype == dtype else 2
    rows = placing.tiles * placing.rows
    # Rows without a token belong to no slot, and slots without a query are not read: what lies there does not matter,
    # but for numbers that a product must not meet.
    planes = torch.zeros(count, rows, dim, dtype=dtype or torch.int8, device=device)
    sums = torch.empty(rows, dtype=torch.int32, device=device) if codec == "binary" else None
    worth = torch.empty(placing.tiles * placing.slots, dtype=torch.float32, device=device)
    bits = codec == "binary"
    order = bit_order(dim, device) if bits else placing.begins
    given = (
        flat,
        placing.begins,
        placing.row_of,
        placing.slot_of,
        order,
        planes,
        placing.begins if sums is None else sums,
    )
    fixed: dict[str, Any] = {"WHOLE": dtype is None, "BITS": bits, "PLANES": count, "WEIGHT": PLANE, "CHUNK": CHUNK}
    with on(device):
        planes_kernel[(len(queries),)](*given, worth, rows * dim, dim**0.5 if bits else 1.0, DIM=dim, **fixed)
    return QueryTiles(len(queries), placing, planes, worth, sums)


def fits(codec: str, dim: int) -> bool:
    """Whether the kernels take vectors of this codec and size; others go through `scoring.streamed`."""
    return dim in DIMS.get(codec, ())


def best_of_runs(
    tiles: QueryTiles,
    codec: str,
    dim: int,
    codes: Tensor,
    scales: Tensor | None,
    starts: Tensor,
    tokens: Tensor,
    pages: Tensor,
    variants: int,
    span: int = 1,
    launch: Launch | None = None,
) -> Tensor:
    """Sums of maxima (Q, pages, variants) float32.

    codes   (N, width): float16, bfloat16 or int8 numbers, or bytes of eight signs; scales (N,) float16 with int8
    starts  (P,) int64 the first vector of a page, tokens (P,) int32 vectors of one of its variants
    pages   (n,) int32 which pages, variants: runs of each, span: variants of a run
    """
    placing = tiles.placing
    runs = len(pages) * variants
    out = torch.empty(placing.tiles * placing.slots, runs, dtype=torch.float32, device=codes.device)
    chosen = launch or LAUNCHES[codec, kind_of(tiles)]
    options: dict[str, Any] = {} if INTERPRETED else {"num_warps": chosen.warps, "num_stages": chosen.stages}
    options |= {"VARIANTS": variants, "SPAN": span, "TILES": placing.tiles, "ROWS": placing.rows}
    options |= {"SLOTS": placing.slots, "DIM": dim, "BLOCK": chosen.block, "WEIGHT": PLANE}
    where = (starts, tokens, pages, tiles.planes)
    results = (placing.slot, tiles.worth, out, tiles.planes[0].numel(), runs)
    grid = (runs * placing.tiles,)
    with on(codes.device):
        if codec == "binary":
            assert tiles.sums is not None
            bits_kernel[grid](codes, *where, tiles.sums, *results, ASM=MACHINE_BITS, **options)
        else:
            scaled = codes if scales is None else scales
            planes = len(tiles.planes)
            numbers_kernel[grid](codes, scaled, *where, *results, PLANES=planes, INT8=codec == "int8", **options)
    return _by_query(out, tiles).view(tiles.queries, len(pages), variants)


def kind_of(tiles: QueryTiles) -> str:
    """Which layout these tiles take."""
    if tiles.placing.tiles * tiles.placing.rows <= 64:
        return "narrow"
    return "middle" if tiles.placing.rows <= 128 else "wide"


def on(device: torch.device) -> AbstractContextManager[Any]:
    """Triton launches on the current device."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def tune(codec: str, kind: str, run: Callable[[], Any], choices: Sequence[Launch] = CHOICES) -> dict[str, float]:
    """Time a launch of this kind in each layout on this GPU; keep the fastest for this process. Milliseconds."""
    from triton.testing import do_bench

    times: dict[Launch, float] = {}
    first = LAUNCHES[codec, kind]
    for choice in (first, *(choice for choice in choices if choice != first)):
        LAUNCHES[codec, kind] = choice
        try:
            times[choice] = float(do_bench(run, warmup=10, rep=60, return_mode="median"))
        except Exception as error:  # more shared memory or registers than the chip has
            if not times:
                raise
            print(f"{codec} {choice}: {type(error).__name__}", file=sys.stderr)
    LAUNCHES[codec, kind] = min(times, key=times.__getitem__)
    return {f"block {c.block}, warps {c.warps}, stages {c.stages}": t for c, t in times.items()}


def _by_query(out: Tensor, tiles: QueryTiles) -> Tensor:
    placing = tiles.placing
    if not placing.cut:
        return out if len(out) == tiles.queries else out[placing.used]
    summed = out.new_zeros(tiles.queries, out.shape[1])
    return summed.index_add_(0, placing.owner, out[placing.used])
