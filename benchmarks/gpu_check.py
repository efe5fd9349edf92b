"""Sections `check` and `tests` of benchmarks/gpu.py: what the figures rest on, and the tests marked gpu, on this card.

A check that fails is named in the result, and the run goes on. If only the machine code that takes bits out of bytes is
wrong, plain shifts take its place for the rest of the run, and the result says so.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gpu_scoring import DIM, random_codes, random_summaries, reference
from gpu_tools import Bench, random_model, small_backbone
from varsdoc.model import PageBatch, VarsDoc
from varsdoc.model.fast import FastEncoder
from varsdoc.scoring import streamed
from varsdoc.scoring.device import DevicePages


def check(bench: Bench) -> dict[str, Any]:
    """Everything that the figures rest on."""
    found: dict[str, Any] = {}
    checks: dict[str, Callable[[], float]] = {
        "binary codes": lambda: _codes(bench, "binary"),
        "int8 codes": lambda: _codes(bench, "int8"),
        "float16 pages of any length": lambda: _ragged(bench, torch.float16),
        "bfloat16 pages of any length": lambda: _ragged(bench, torch.bfloat16),
        "fast path, float32, eager": lambda: _pages(bench, torch.float32, False),
        "fast path, float32, compiled": lambda: _pages(bench, torch.float32, True),
        "fast path, bfloat16, compiled": lambda: _pages(bench, torch.bfloat16, True),
        "questions, graph": lambda: _questions(bench),
        "searches, graph": lambda: _searches(bench),
    }
    for name, run in checks.items():
        found[name] = _result(run)
    bits = found["binary codes"]
    if bench.device.type == "cuda" and not bits["holds"]:
        from varsdoc.scoring import fused

        fused.MACHINE_BITS = False
        found["binary codes, plain shifts"] = _result(checks["binary codes"])
    found["all hold"] = all(one["holds"] for one in found.values())
    return found


def tests(bench: Bench) -> dict[str, Any]:
    """The tests marked gpu, by pytest in a process of its own. Other tests' files stay closed: they need much more."""
    root = Path(__file__).parent.parent
    files = [path for path in sorted((root / "tests").rglob("test_*.py")) if "pytest.mark.gpu" in path.read_text()]
    if not importlib.util.find_spec("pytest"):
        raise ModuleNotFoundError("pytest is not installed; a folder with it on PYTHONPATH is enough.")
    command = [sys.executable, "-m", "pytest", "-m", "gpu", "-rs", "-p", "no:cacheprovider", *map(str, files)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    closing = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else ""
    counts = {outcome: int(number) for number, outcome in re.findall(r"(\d+) (passed|failed|skipped|errors?)", closing)}
    found: dict[str, Any] = {"command": "python -m pytest -m gpu", "files": [path.name for path in files], **counts}
    if done.returncode:
        found["error"] = f"pytest ended with {done.returncode}"
        found["trace"] = (done.stdout + done.stderr)[-3000:]
    return found


def _result(run: Callable[[], float]) -> dict[str, Any]:
    """Each check gives its error as a share of what is allowed."""
    try:
        share = run()
        return {"holds": bool(share < 1), "error / allowed": share}
    except Exception as error:
        return {"holds": False, "error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()[-1500:]}


def _codes(bench: Bench, codec: str) -> float:
    """One query, many, and one longer than a tile; against decoded float32."""
    p, k, m = (3, 2, 9) if bench.tiny else (50, 3, 203)
    pages = random_codes(bench, codec, p, k, m)
    worst = 0.0
    for lengths in ((20,), (9, 1, 30, 17, 64), (150, 3)):
        queries = [bench.random_unit(t, DIM, dtype=torch.float32, seed=t) for t in lengths]
        found = pages.score(queries).variants
        error = (found - reference(pages, queries, torch.arange(p))).abs().max().item()
        worst = max(worst, error / (3e-5 * max(lengths)))
        assert torch.isfinite(found).all()
    return worst


def _ragged(bench: Bench, dtype: torch.dtype) -> float:
    if bench.tiny and dtype == torch.bfloat16:
        return 0.0  # Triton's interpreter multiplies bfloat16 wrongly
    pages = DevicePages(str(dtype).removeprefix("torch."), 3, DIM, bench.device, fused=True)
    lengths = (1, 20, 7) if bench.tiny else (1, 128, 777, 64, 300, 129, 5)
    vectors = [bench.random_unit(3, m, DIM, dtype=dtype, seed=m) for m in lengths]
    pages.add_vectors(vectors)
    worst = 0.0
    for tokens in ((25,), (32,) * 5):
        queries = [bench.random_unit(t, DIM, dtype=torch.float32, seed=i + 1) for i, t in enumerate(tokens)]
        segment = pages.segments[0]
        rows = torch.arange(len(pages), dtype=torch.int32, device=bench.device)
        layout = (pages.codec, DIM, segment.codes, None, *segment.places, rows, 3)
        for aggregation in ("max", "fused"):
            found = pages.score(queries, aggregation=aggregation).total
            span = (1, 3) if aggregation == "fused" else (3, 1)
            exact = streamed.best_of_runs(queries, *layout[:-1], *span).amax(-1)
            worst = max(worst, (found - exact).abs().max().item() / (3e-5 * max(tokens)))
    return worst


def _small(bench: Bench, dtype: torch.dtype) -> tuple[VarsDoc, PageBatch]:
    model = random_model(small_backbone(), 3, 2, bench.device, dtype)
    sizes = ((10, 16), (20, 10), (6, 6), (10, 16), (4, 22))  # patches: partial windows, mixed
    merge, patch = model.config.merge_size, model.config.patch_size
    frames = [model.processor.page_frame(r // merge, c // merge) for r, c in sizes]
    width = max(ids.shape[1] for ids, _, _ in frames)
    ids = torch.cat([torch.nn.functional.pad(i, (width - i.shape[1], 0)) for i, _, _ in frames])
    mask = torch.cat([torch.nn.functional.pad(x, (width - x.shape[1], 0)) for _, x, _ in frames])
    positions = torch.cat([torch.nn.functional.pad(x, (width - x.shape[2], 0)) for _, _, x in frames], 1)
    generator = torch.Generator().manual_seed(1)
    pixels = torch.randint(0, 256, (sum(r * c for r, c in sizes), 3 * patch**2), dtype=torch.uint8, generator=generator)
    moved = (x.to(bench.device) for x in (ids, mask, positions, pixels))
    return model, PageBatch(*moved, sizes, model.processor.image_start)


def _pages(bench: Bench, dtype: torch.dtype, compiled: bool) -> float:
    """The reference is the paper with dense masks, in the same dtype; in bfloat16 its noise is compared."""
    if bench.device.type == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = False
    model, batch = _small(bench, dtype)
    expected = model.forward_pages(batch, "reference").vectors.float()
    fast = FastEncoder(model, compiled, bench.backend, graphs=False)
    vectors = fast.pages(batch.pixels, batch.grids).float()
    out = torch.zeros_like(expected)
    for page, part in enumerate(vectors.split(list(fast.layout(batch.grids).lengths), 1)):
        out[page, :, batch.mask[page]] = part
    if dtype == torch.float32:
        return (out - expected).abs().max().item() / 1e-4
    cosine = torch.nn.functional.cosine_similarity(out, expected, dim=-1)
    return (1 - cosine[expected.norm(dim=-1) > 0].min().item()) / 0.05


def _questions(bench: Bench) -> float:
    """A CUDA graph, twice in a row with other questions, against the reference."""
    model, _ = _small(bench, torch.float32)
    fast = FastEncoder(model, False, bench.backend)
    worst = 0.0
    for text in ("one", "a question that is longer", "two words", "a question of other words"):
        ids = model.processor.query_ids(text)
        batch = model.processor.queries([ids]).to(bench.device)
        expected = model.forward_queries(batch, "reference").vectors[0]
        worst = max(worst, (fast.queries([ids])[0] - expected).abs().max().item() / 1e-4)
    return worst


def _searches(bench: Bench) -> float:
    """CUDA graphs of whole searches, in one stage and two, against the same without; other lengths, then more pages."""
    p, k, m = (9, 2, 20) if bench.tiny else (500, 3, 100)
    pages, summaries = random_codes(bench, "binary", p, k, m), random_summaries(bench, p, k, m)
    worst = 0.0
    for i, tokens in enumerate((5, 17, 30, 17)):
        query = bench.random_unit(tokens, DIM, dtype=torch.float32, seed=i + 1)
        among = np.sort(summaries.best(query, p // 2))
        worst = max(worst, _difference(pages.search(query, 5), pages.search(query, 5, np.arange(p))))
        worst = max(worst, _difference(pages.search_in_two(query, 5, summaries, p // 2), pages.search(query, 5, among)))
    pages.add_codes(pages.segments[0].codes[: k * m].flip(0), None, m)
    worst = max(worst, _difference(pages.search(query, 5), pages.search(query, 5, np.arange(p + 1))))
    return worst if pages.replays is not None else float("inf")


def _difference(found: tuple[Tensor, ...], expected: tuple[Tensor, ...]) -> float:
    if not torch.equal(found[0], expected[0]):
        return float("inf")
    return max((a - b).abs().max().item() for a, b in zip(found[1:], expected[1:], strict=True)) / 1e-4
