"""Sections of benchmarks/gpu.py about encoding: the vision tower, whole pages for K = 1, 3, 5, memory."""

from __future__ import annotations

import gc
import io
import os
import time
from typing import Any

import torch
from PIL import Image, ImageDraw
from torch import Tensor

from gpu_tools import Bench, models, operations, page_batch
from varsdoc.model import PageBatch, VarsDoc
from varsdoc.model.attention import IMPLEMENTATION

STEP = 32  # pages of a batch


def pages_of(bench: Bench) -> int:
    return 2 if bench.tiny else STEP


def rate(bench: Bench) -> float | None:
    """Operations per millisecond that the card was seen to reach."""
    found = bench.results.get("ceilings", {}).get("bf16 product TFLOP/s")
    return found * 1e9 if found else None


class Stock:
    """transformers' own forward pass on the same weights: its vision tower, its language model, one head."""

    def __init__(self, model: VarsDoc, batch: PageBatch) -> None:
        self.model, self.batch = model, batch
        mean, std = (torch.tensor(x, device=model.device) for x in (model.config.image_mean, model.config.image_std))
        values = (batch.pixels.unflatten(1, (3, -1)).float() / 255 - mean[:, None]) / std[:, None]
        frames = int(model.config.backbone.vision_config.temporal_patch_size)
        values = values[:, :, None].expand(-1, -1, frames, -1)
        self.values = values.flatten(1).to(model.dtype)
        self.grids = torch.tensor([(1, *grid) for grid in batch.grids], device=model.device)

    def __enter__(self) -> Stock:
        self.model.backbone.set_attn_implementation("sdpa")
        return self

    def __exit__(self, *_: object) -> None:
        self.model.backbone.set_attn_implementation(IMPLEMENTATION)

    def vision(self) -> Tensor:
        cells: Tensor = self.model.backbone.visual(self.values, grid_thw=self.grids).pooler_output
        return cells

    def language(self, cells: Tensor) -> Tensor:
        batch, text = self.batch, self.model.backbone.language_model
        hidden = text.embed_tokens(batch.input_ids)
        where = (batch.input_ids == self.model.config.backbone.image_token_id)[..., None]
        hidden = hidden.masked_scatter(where.expand_as(hidden), cells.to(hidden.dtype))
        states = text(
            inputs_embeds=hidden,
            position_ids=batch.positions,
            attention_mask=batch.mask.long(),
            use_cache=False,
        ).last_hidden_state
        return torch.nn.functional.normalize(self.model.head(0)(states), dim=-1)

    def page(self) -> Tensor:
        return self.language(self.vision())


def vision(bench: Bench) -> dict[str, Any]:
    """The tower alone, milliseconds a page: stock, ours eager, ours compiled."""
    model, count = models(bench, 5), pages_of(bench)
    batch = page_batch(bench, model, count)
    found: dict[str, Any] = {"pages a batch": count, "visual tokens": len(batch.pixels) // count // 4}
    with Stock(model, batch) as stock:
        found["stock ms/page"] = bench.milliseconds(stock.vision, 3, 1) / count
        expected = stock.vision()
    for name, compiled in (("ours, eager", False), ("ours, compiled", True)):
        fast = model.prepare(compile=compiled, backend=bench.backend, graphs=False).fast
        assert fast is not None
        layout = fast.layout(batch.grids)
        found[f"{name} ms/page"] = (
            bench.milliseconds(lambda fast=fast, layout=layout: fast._embed(batch.pixels, layout), 10) / count
        )
        rows = fast._embed(batch.pixels, layout)
        is_cell = (batch.input_ids == model.config.backbone.image_token_id).flatten()
        cosine = torch.nn.functional.cosine_similarity(rows[is_cell].float(), expected.float(), dim=-1)
        found[f"{name}, least cosine to stock"] = cosine.min().item()
    floor = operations(model, found["visual tokens"])["vision"]
    found["floor ms/page"] = floor / rate(bench) if rate(bench) else None
    found["goal: at most 10 ms/page"] = found["ours, compiled ms/page"] <= 10
    return found


def forward(bench: Bench) -> dict[str, Any]:
    """Whole pages, pixels on the device to unit vectors: stock K=1, ours for K = 1, 3, 5."""
    count = pages_of(bench)
    batch = page_batch(bench, models(bench, 5), count)
    visual = len(batch.pixels) // count // 4
    found: dict[str, Any] = {"pages a batch": count, "visual tokens": visual}
    with Stock(models(bench, 5), batch) as stock:
        found["stock K=1 ms/page"] = bench.milliseconds(stock.page, 3, 1) / count
        cells = stock.vision()
        found["of it, language ms/page"] = bench.milliseconds(lambda: stock.language(cells), 3, 1) / count
    for label, k, n in (("K=1 without probe", 1, 0), ("K=1", 1, 4), ("K=3", 3, 4), ("K=5", 5, 4)):
        model = models(bench, k, n)
        for name, compiled in ((label, True), (f"{label}, eager", False)):
            fast = model.prepare(compile=compiled, backend=bench.backend, graphs=False).fast
            assert fast is not None
            found[f"{name} ms/page"] = (
                bench.milliseconds(lambda fast=fast: fast.pages(batch.pixels, batch.grids), 7, 3) / count
            )
            model.fast = None
        if rate(bench):
            floor = operations(model, visual)["all"] / rate(bench)
            found[f"{label} floor ms/page"] = floor
            found[f"{label} share of the floor"] = floor / found[f"{label} ms/page"]
    found["before this path: K=5 inference path, eager ms/page"] = (
        bench.milliseconds(lambda: models(bench, 5).forward_pages(batch, "inference"), 3, 1) / count
    )
    found["K=5 / stock K=1 (goal at most 0.35)"] = found["K=5 ms/page"] / found["stock K=1 ms/page"]
    found["K=5 / K=1 (goal at most 1.3)"] = found["K=5 ms/page"] / found["K=1 ms/page"]
    return found


def pipeline(bench: Bench) -> dict[str, Any]:
    """Scans as JPEG files in memory to embeddings on the host: decoding, scaling and cutting beside the GPU, K=5.

    The share of the wall clock that the forward pass alone takes for pages of the same size is how busy the GPU is.
    """
    model = models(bench, 5).prepare(compile=True, backend=bench.backend, graphs=False)
    assert model.fast is not None
    size = (140, 190) if bench.tiny else (1654, 2339)  # A4 at 200 dpi
    scans = [_scan(size, seed) for seed in range(4)] * (1 if bench.tiny else 128)
    cut = model.processor.page(scans[0], "a scan")
    grid = (cut.rows, cut.cols)
    count = pages_of(bench)
    pixels = page_batch(bench, model, count, grid).pixels
    alone = bench.milliseconds(lambda: model.fast.pages(pixels, (grid,) * count), 5, 2) / count
    for some in (scans[: len(scans) // 4 + 1], scans[: len(scans) // 2]):
        model.encode_pages(some, progress=False)  # its batches are of other sizes: compiled now
    start = time.perf_counter()
    made = model.encode_pages(scans, progress=False)
    wall = 1e3 * (time.perf_counter() - start) / len(scans)
    start = time.perf_counter()
    model.processor.page(scans[0], "a scan")
    cutting = 1e3 * (time.perf_counter() - start)
    model.fast = None
    return {
        "pages": len(made),
        "scan pixels": f"{size[0]} x {size[1]}",
        "visual tokens": grid[0] * grid[1] // 4,
        "cpu cores": os.cpu_count(),
        "decode, scale, cut: ms/page of one core": cutting,
        "forward alone ms/page": alone,
        "files to embeddings ms/page": wall,
        "share of the time that the forward pass takes": alone / wall,
    }


def _scan(size: tuple[int, int], seed: int) -> bytes:
    """A page of lines as a grey JPEG, with a little grain so that it is no smaller than a real one."""
    page = Image.effect_noise(size, 12).point(lambda x: min(255, x + 100))
    draw = ImageDraw.Draw(page)
    for y in range(size[1] // 12, size[1] - size[1] // 12, 36):
        draw.text(
            (size[0] // 10, y), f"Line {y} of page {seed}: operating income and restructuring costs " * 2, fill=20
        )
    held = io.BytesIO()
    page.save(held, "JPEG", quality=85)
    return held.getvalue()


def memory(bench: Bench) -> dict[str, Any]:
    """Peak memory of a batch, and the largest batch of doubling size that fits, K=5."""
    found: dict[str, Any] = {}
    model = models(bench, 5)
    fast = model.prepare(compile=True, backend=bench.backend, graphs=False).fast
    assert fast is not None
    found["weights, both copies GiB"] = _held(bench)
    count, most = pages_of(bench), 4 if bench.tiny else 1024
    while count <= most:
        batch = None
        try:
            batch = page_batch(bench, model, count)
            _reset(bench)
            fast.pages(batch.pixels, batch.grids)
            bench.wait()
            found[f"peak GiB, {count} pages"] = _peak(bench)
            found["largest batch that fits, doubling"] = count
        except torch.cuda.OutOfMemoryError:
            found["smallest batch that did not fit"] = count
            break
        finally:
            fast.layouts.clear()
            del batch
            gc.collect()
        count *= 2
    model.fast = None
    return found


def _held(bench: Bench) -> float | None:
    return torch.cuda.memory_allocated(bench.device) / 2**30 if bench.device.type == "cuda" else None


def _reset(bench: Bench) -> None:
    if bench.device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(bench.device)


def _peak(bench: Bench) -> float | None:
    return torch.cuda.max_memory_allocated(bench.device) / 2**30 if bench.device.type == "cuda" else None
