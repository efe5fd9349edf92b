"""The fused kernels compile for the GPU that they are written for, on a machine without one.

The interpreter runs no machine code; this is what shows that the assembler takes it and that the products go to the
tensor cores. In a process of its own: the tests beside it have Triton in interpreter mode.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("triton", reason="triton is not installed")

SCRIPT = """
import json
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from varsdoc.scoring.fused import CHUNK, LAUNCHES
from varsdoc.scoring.fused_kernels import bits_kernel, numbers_kernel, planes_kernel
from varsdoc.training.winners import CELLS, OPTIONS, ROWS, winners_kernel

POINTERS = dict(codes="*u8", scales="*fp16", starts="*i64", tokens="*i32", pages="*i32", planes="*i8", sums="*i32",
                slots="*i32", worth="*fp32", out="*fp32", plane_size="i32", out_row="i32")

def build(kernel, codec, rows, kind, split=2, **types):
    launch = LAUNCHES[codec, kind]
    fixed = dict(VARIANTS=5, SPAN=1, TILES=1, ROWS=rows, SLOTS=4, PLANES=split, DIM=128,
                 INT8=codec == "int8", WEIGHT=254, BLOCK=launch.block, ASM=True)
    names = list(kernel.arg_names)
    kinds = POINTERS | types
    signature = {name: "constexpr" if name in fixed else kinds[name] for name in names}
    constants = {(names.index(name),): value for name, value in fixed.items() if name in names}
    aligned = {(i,): [["tt.divisibility", 16]] for i, name in enumerate(names) if kinds.get(name, "").startswith("*")}
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=aligned)
    return made(source, num_warps=launch.warps, num_stages=launch.stages)

def made(source, **options):
    done = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    return {"wgmma": done.asm["ptx"].count("wgmma.mma_async"), "shared": done.metadata.shared}

def build_winners():
    names = list(winners_kernel.arg_names)
    fixed = dict(DIM=128, ROWS=ROWS, CELLS=CELLS)
    kinds = dict(tokens="*bf16", groups="*bf16", mask="*u8", best="*fp32", index="*i32")
    signature = {name: "constexpr" if name in fixed else kinds.get(name, "i32") for name in names}
    constants = {(names.index(name),): value for name, value in fixed.items()}
    aligned = {(i,): [["tt.divisibility", 16]] for i, name in enumerate(names) if name in kinds}
    return made(ASTSource(fn=winners_kernel, signature=signature, constexprs=constants, attrs=aligned), **OPTIONS)

def build_planes(planes="*i8", **switches):
    names = list(planes_kernel.arg_names)
    fixed = dict(DIM=128, WHOLE=True, BITS=False, PLANES=2, WEIGHT=254, CHUNK=CHUNK) | switches
    kinds = dict(flat="*fp32", begins="*i32", row_of="*i32", slot_of="*i32", order="*i64", planes=planes, sums="*i32",
                 worth="*fp32", root="fp32")
    signature = {name: "constexpr" if name in fixed else kinds.get(name, "i32") for name in names}
    constants = {(names.index(name),): value for name, value in fixed.items()}
    triton.compile(ASTSource(fn=planes_kernel, signature=signature, constexprs=constants),
                   target=GPUTarget("cuda", 90, 32))

build_planes()
build_planes(BITS=True)
build_planes("*bf16", WHOLE=False)
bf16 = dict(codes="*bf16", planes="*bf16")
print(json.dumps({
    "binary": build(bits_kernel, "binary", 32, "narrow"),
    "bfloat16": build(numbers_kernel, "bfloat16", 128, "middle", **bf16),
    "bfloat16, wide": build(numbers_kernel, "bfloat16", 256, "wide", split=1, **bf16),
    "int8, wide": build(numbers_kernel, "int8", 256, "wide", codes="*i8"),
    "winners": build_winners(),
}))
"""


def test_kernels_compile_for_hopper_and_use_its_tensor_cores() -> None:
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT], capture_output=True, text=True, env=environment, timeout=300
    )
    if done.returncode and "ptxas" in done.stderr and "not found" in done.stderr.lower():
        pytest.skip("this Triton brings no assembler")
    assert done.returncode == 0, done.stderr[-2000:]
    for name, found in json.loads(done.stdout).items():
        assert found["wgmma"] > 0, name
        assert found["shared"] < 227 * 1024, f"{name} would not fit a multiprocessor"
