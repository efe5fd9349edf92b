"""What the sections of benchmarks/gpu.py share: clocks, ceilings, machine, random models of the true shape."""

from __future__ import annotations

import platform
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor
from transformers import Qwen2_5_VLConfig

from varsdoc.model import PageBatch, VarsConfig, VarsDoc
from varsdoc.model.checkpoint import nano_folder
from varsdoc.model.qwen25vl import qwen_3b


@dataclass
class Bench:
    """One run: where, how large, and what earlier sections found."""

    device: torch.device
    tiny: bool = False
    flash_maxsim: Path | None = None
    results: dict[str, Any] = field(default_factory=dict)
    models: dict[int, VarsDoc] = field(default_factory=dict)

    @property
    def dtype(self) -> torch.dtype:
        return torch.float32 if self.tiny else torch.bfloat16

    @property
    def backend(self) -> str:
        """Of torch.compile; a CPU without a compiler still captures the graphs."""
        return "inductor" if self.device.type == "cuda" else "eager"

    def milliseconds(self, run: Callable[[], Any], repeats: int = 20, warm: int = 3) -> float:
        """Median over repeats, each between two events of the device; on a CPU by the clock."""
        return self.in_turns({"it": run}, repeats, warm)["it"]

    def in_turns(self, runs: Mapping[str, Callable[[], Any]], repeats: int = 20, warm: int = 3) -> dict[str, float]:
        """`milliseconds` of several, one after the other in every round: a card lowers its clocks under load, so what
        is set side by side must have been measured side by side."""
        repeats, warm = (2, 1) if self.tiny else (repeats, warm)
        times: dict[str, list[float]] = {name: [] for name in runs}
        for i in range(warm + repeats):
            for name, run in runs.items():
                took = self._once(run)
                if i >= warm:
                    times[name].append(took)
        return {name: statistics.median(some) for name, some in times.items()}

    def _once(self, run: Callable[[], Any]) -> float:
        if self.device.type != "cuda":
            start = time.perf_counter()
            run()
            return 1e3 * (time.perf_counter() - start)
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        run()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end)

    def latency(self, run: Callable[[], Any], repeats: int = 50) -> dict[str, float]:
        """Wall clock, waiting for the answer each time."""
        return self.latency_in_turns({"it": run}, repeats)["it"]

    def latency_in_turns(self, runs: Mapping[str, Callable[[], Any]], repeats: int = 50) -> dict[str, dict[str, float]]:
        """`latency` of several, one after the other in every round."""
        repeats, warm = (2, 1) if self.tiny else (repeats, 5)
        times: dict[str, list[float]] = {name: [] for name in runs}
        for i in range(warm + repeats):
            for name, run in runs.items():
                self.wait()
                start = time.perf_counter()
                run()
                self.wait()
                if i >= warm:
                    times[name].append(1e3 * (time.perf_counter() - start))
        return {name: _middle_and_tail(sorted(some)) for name, some in times.items()}

    def wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def random_unit(self, *shape: int, dtype: torch.dtype | None = None, seed: int = 0) -> Tensor:
        """Unit vectors, made on the device a piece at a time: float32 copies of large ones would not fit."""
        generator = torch.Generator(self.device).manual_seed(seed)
        out = torch.empty(shape, dtype=dtype or self.dtype, device=self.device)
        rows = out.view(-1, shape[-1])
        for part in rows.split(1 << 21):
            noise = torch.randn(part.shape, generator=generator, device=self.device)
            part.copy_(torch.nn.functional.normalize(noise, dim=-1))
        return out


def _middle_and_tail(times: list[float]) -> dict[str, float]:
    return {"p50 ms": round(statistics.median(times), 3), "p95 ms": round(times[int(0.95 * (len(times) - 1))], 3)}


def machine(device: torch.device) -> dict[str, Any]:
    import transformers

    facts: dict[str, Any] = {"python": platform.python_version(), "torch": torch.__version__}
    facts["transformers"] = transformers.__version__
    try:
        import triton

        facts["triton"] = triton.__version__
    except ImportError:
        facts["triton"] = None
    if device.type == "cuda":
        found = torch.cuda.get_device_properties(device)
        facts |= {"gpu": found.name, "memory GiB": round(found.total_memory / 2**30, 1), "cuda": torch.version.cuda}
        facts |= {"multiprocessors": found.multi_processor_count}
    else:
        facts["gpu"] = None
    return facts


ASKED = {"SM MHz": "clocks.sm", "W": "power.draw", "degrees C": "temperature.gpu"}


@contextmanager
def watched(device: torch.device) -> Iterator[Callable[[], dict[str, dict[str, float]] | None]]:
    """The card's clock, power and heat while a run goes on, twice a second, by nvidia-smi beside it.

    Another card, or the same one after an hour of work, may run a quarter slower: a figure needs its clock beside it.
    What is given tells least, median and most of each since it was last called; None where nothing was seen.
    """
    query = ["nvidia-smi", "-lms", "500", f"--query-gpu={','.join(ASKED.values())}", "--format=csv,noheader,nounits"]
    process = None
    with tempfile.NamedTemporaryFile("w") as written, Path(written.name).open() as lines:
        if device.type == "cuda" and shutil.which(query[0]):
            query.append(f"--id={device.index or 0}")
            process = subprocess.Popen(query, stdout=written, stderr=subprocess.DEVNULL)
        try:
            yield lambda: _spread(lines.read().splitlines())
        finally:
            if process is not None:
                process.terminate()
                process.wait()


def _spread(lines: list[str]) -> dict[str, dict[str, float]] | None:
    seen = [line.split(",") for line in lines if line.count(",") == len(ASKED) - 1]
    columns = {name: [_number(line[i]) for line in seen] for i, name in enumerate(ASKED)}
    kept = {name: [x for x in column if x is not None] for name, column in columns.items()}
    found = {
        name: {"least": min(some), "median": statistics.median(some), "most": max(some)}
        for name, some in kept.items()
        if some
    }
    return found or None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:  # "[N/A]"
        return None


class Ceilings:
    """What the card can do at most: a large copy (bytes read + written), large products on random numbers."""

    def __init__(self, bench: Bench) -> None:
        self.size, self.side = (1 << 16, 64) if bench.tiny else (1 << 32, 8192)
        self.source = torch.randint(0, 256, (self.size,), dtype=torch.uint8, device=bench.device)
        self.target = torch.empty_like(self.source)
        shape = (self.side, self.side)
        self.a, self.b = (torch.randn(shape, device=bench.device, dtype=bench.dtype) for _ in range(2))
        self.c, self.d = (torch.randint(-127, 128, shape, device=bench.device).to(torch.int8) for _ in range(2))

    def copy(self) -> Tensor:
        return self.target.copy_(self.source)

    def read(self) -> Tensor:
        return self.source.view(torch.int64).sum()

    def product(self) -> Tensor:
        return self.a @ self.b

    def whole_product(self) -> Tensor:
        return torch._int_mm(self.c, self.d.T)

    def rates(self, ms: Mapping[str, float]) -> dict[str, float]:
        """TB/s and TFLOP/s from the milliseconds of some of them, by name."""
        worked = 2 * self.side**3
        amounts = {"copy": 2 * self.size, "read": self.size, "product": worked, "whole_product": worked}
        return {RATES[name]: amounts[name] / ms[name] / 1e9 for name in RATES if name in ms}


RATES = {
    "copy": "copy TB/s",
    "read": "sum (read only) TB/s",
    "product": "bf16 product TFLOP/s",
    "whole_product": "int8 product TOP/s",
}


def ceilings(bench: Bench) -> dict[str, Any]:
    """Each by itself, on a card that has done nothing else before."""
    held = Ceilings(bench)
    found: dict[str, Any] = held.rates({name: bench.milliseconds(getattr(held, name)) for name in RATES})
    found["sizes"] = f"copy of {held.size} bytes; {held.side} x {held.side} x {held.side} products of random numbers"
    return found


def small_backbone() -> Qwen2_5_VLConfig:
    """For --tiny and for checks: the same architecture, small."""
    return Qwen2_5_VLConfig(
        text_config={
            "vocab_size": 8192, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4,
            "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 4096,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]},
        },
        vision_config={
            "depth": 3, "hidden_size": 32, "intermediate_size": 44, "num_heads": 2, "out_hidden_size": 64,
            "fullatt_block_indexes": [1], "window_size": 112,
        },
        image_token_id=8190,
    )  # fmt: skip


def random_model(
    backbone: Qwen2_5_VLConfig, variants: int, branch_layers: int, device: torch.device, dtype: torch.dtype, **more: Any
) -> VarsDoc:
    """Random weights, made on the device: nothing is loaded, nothing crosses the bus."""
    config = VarsConfig(backbone, variants=variants, branch_layers=branch_layers, **more)
    with torch.device("meta"):
        model = VarsDoc(config, Tokenizer.from_file(str(nano_folder() / "tokenizer.json")))
    model.to_empty(device=device)
    fill(model, dtype)
    model.compute_dtype = str(dtype).removeprefix("torch.")
    return model.eval().requires_grad_(False)


@torch.no_grad()
def fill(model: VarsDoc, dtype: torch.dtype, seed: int = 0) -> None:
    """Weights that keep activations at size one, so that a wrong mask would show."""
    generator = torch.Generator(model.probes.device).manual_seed(seed)
    for name, parameter in sorted(model.named_parameters()):
        value = torch.empty(parameter.shape, dtype=dtype, device=parameter.device)
        if parameter.ndim == 1:
            value.normal_(1.0 if "norm" in name or "ln_q" in name else 0.0, 0.1, generator=generator)
        else:
            wide = "embed_tokens" in name or name.endswith("probes")
            value.normal_(0.0, 1.0 if wide else parameter[0].numel() ** -0.5, generator=generator)
        parameter.data = value
    for name, buffer in model.named_buffers():  # rotation tables: built on meta, so they are empty now
        assert name.endswith("inv_freq"), name
        rope = model.config.backbone.text_config.rope_parameters
        theta = 10000.0 if ".visual." in name else float(rope["rope_theta"])
        width = 2 * len(buffer)
        buffer.copy_(1.0 / theta ** (torch.arange(0, width, 2, device=buffer.device).float() / width))


def models(bench: Bench, variants: int, branch_layers: int = 4) -> VarsDoc:
    """K variants over one backbone: the weights are shared by all K, as they are large."""
    key = variants if branch_layers else -variants
    if key not in bench.models:
        backbone = small_backbone() if bench.tiny else qwen_3b()
        depth = min(branch_layers, 2) if bench.tiny else branch_layers
        if not bench.models:
            made = random_model(backbone, variants, depth, bench.device, bench.dtype)
        else:
            other = next(iter(bench.models.values()))
            config = VarsConfig(backbone, variants=variants, branch_layers=depth)
            with torch.device("meta"):
                made = VarsDoc(config, other.processor.tokenizer)
            made.backbone = other.backbone
            made.heads, made.query_head = (x.to_empty(device=bench.device) for x in (made.heads, made.query_head))
            made.probes = torch.nn.Parameter(torch.empty(made.probes.shape, device=bench.device))
            for parameter in (*made.heads.parameters(), *made.query_head.parameters(), made.probes):
                parameter.data = torch.randn(parameter.shape, device=bench.device).to(bench.dtype) / 40
            made.compute_dtype = other.compute_dtype
            made.eval().requires_grad_(False)
        bench.models[key] = made
    return bench.models[key]


def page_batch(bench: Bench, model: VarsDoc, pages: int, grid: tuple[int, int] | None = None) -> PageBatch:
    """Pages with random pixels on the device; without a grid of patches, of 24 x 32 cells (768 visual tokens)."""
    merge, patch = model.config.merge_size, model.config.patch_size
    rows, cols = (grid[0] // merge, grid[1] // merge) if grid else (4, 6) if bench.tiny else (24, 32)
    ids, mask, positions = model.processor.page_frame(rows, cols)
    pixels = torch.randint(
        0, 256, (pages * rows * cols * merge**2, 3 * patch**2), dtype=torch.uint8, device=bench.device
    )
    grids = ((rows * merge, cols * merge),) * pages
    moved = (x.to(bench.device) for x in (ids.repeat(pages, 1), mask.repeat(pages, 1), positions.repeat(1, pages, 1)))
    return PageBatch(*moved, pixels, grids, model.processor.image_start)


def operations(model: VarsDoc, cells: int) -> dict[str, float]:
    """Floating-point operations of one page, from shapes alone: products of matrices, attention included."""
    text, vision = model.config.backbone.text_config, model.config.backbone.vision_config
    tokens = cells + len(model.processor.prompt_ids)
    patches, wide = cells * vision.spatial_merge_size**2, vision.hidden_size
    linear = wide * 4 * wide + 3 * wide * vision.intermediate_size
    window = (vision.window_size // vision.patch_size) ** 2
    full = len(vision.fullatt_block_indexes)
    merged = wide * vision.spatial_merge_size**2
    seeing = 2 * patches * linear * vision.depth + 4 * patches * wide * (
        window * (vision.depth - full) + patches * full
    )
    seeing += 2 * cells * merged * (merged + text.hidden_size) + 2 * patches * 3 * vision.patch_size**2 * wide
    width = text.hidden_size // text.num_attention_heads
    qkv = text.hidden_size * width * (text.num_attention_heads + 2 * text.num_key_value_heads)
    rest = text.hidden_size * text.hidden_size + 3 * text.hidden_size * text.intermediate_size
    attention = 4 * tokens * tokens * text.hidden_size / 2
    block = 2 * tokens * (qkv + rest) + attention
    k, n, blocks = model.config.variants, model.config.branch_layers, text.num_hidden_layers
    reading = block * (blocks - n)
    if n:  # the first branched block shares q, k, v and the causal attention
        reading += 2 * tokens * (qkv + k * rest) + attention + k * block * (n - 1)
    heads = 2 * k * tokens * text.hidden_size * model.config.dim
    return {"vision": seeing, "language": reading + heads, "all": seeing + reading + heads}
