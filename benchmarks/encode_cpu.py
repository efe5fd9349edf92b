"""Page encoding on CPU: five variants against one, the fast path against the reference, int8 against float32, and
products through oneDNN against torch's own (`varsdoc.model.onednn`).

    python benchmarks/encode_cpu.py [--rounds 7] [--threads 2] [--out benchmarks/results/encode_cpu.json]

Everything is measured side by side in one run: each round times every contender once, in turn, and a figure is the
median over rounds, so that a slow minute of the machine slows all of them. Weights are the packaged ones; speed does
not depend on their values. The prediction is by block count: from the time of K=1 and of its vision tower, a language
block costs b = (whole - vision) / L, and K variants over n blocks cost vision + (L - n + K n) b.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from PIL import Image, ImageDraw, ImageFont

from varsdoc.model import UntrainedWarning, VarsDoc, onednn
from varsdoc.model.vision import encode_patches

BOUND = "measured / predicted (must be under 1.15)"
PAGE = (952, 1232)  # 34 x 44 cells: 1,496 visual tokens, about what the packaged checkpoint brings pages to
CAPS = {1024: (784, 1008), 768: (672, 896)}  # `max_visual_tokens`, and a page as it is then: 28 x 36 and 24 x 32 cells


def page() -> Image.Image:
    image = Image.new("RGB", PAGE, "white")
    pen = ImageDraw.Draw(image)
    for line in range(40):
        pen.text(
            (40, 24 + 24 * line),
            f"Line {line}: operating income of {line * 37} million",
            "black",
            ImageFont.load_default(16),
        )
    return image


def model(variants: int, branch_layers: int | None = None, dtype: str = "float32") -> VarsDoc:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrainedWarning)
        packaged = VarsDoc.from_pretrained(device="cpu")
    if variants == packaged.config.variants:
        return packaged.to_device("cpu", dtype)
    depth = packaged.config.branch_layers if branch_layers is None else branch_layers
    config = packaged.config.with_(variants=variants, branch_layers=depth)
    return VarsDoc(config, packaged.processor.tokenizer).to_device("cpu", dtype)


def contenders() -> tuple[dict[str, Callable[[], Any]], VarsDoc]:
    """Each a full page: pixels to embeddings, preprocessing aside."""
    five, one, plain = model(5), model(1), model(1, 0)
    five_int8, one_int8 = model(5, dtype="int8"), model(1, dtype="int8")
    drawn = page()
    batch = five.processor.pages([five.processor.page(drawn)])
    config = five.config
    smaller = {}
    for cap, size in CAPS.items():
        five.reconfigure(config.with_(min_visual_tokens=4, max_visual_tokens=cap))
        smaller[cap] = five.processor.pages([five.processor.page(drawn.resize(size))])
    five.reconfigure(config)
    question = "What was the operating income of Europe in 2019?"
    runs: dict[str, Callable[[], Any]] = {
        "vision float32": lambda: encode_patches(
            one.backbone.visual, batch.pixels, batch.grids, config.image_mean, config.image_std
        ),
        "vision int8": lambda: encode_patches(
            one_int8.backbone.visual, batch.pixels, batch.grids, config.image_mean, config.image_std
        ),
        "K=1 without probe, fast": lambda: plain.forward_pages(batch, "inference"),
        "K=1 with probe, fast": lambda: one.forward_pages(batch, "inference"),
        "K=5 fast": lambda: five.forward_pages(batch, "inference"),
        "K=5 fast, torch's own products": partial(without_onednn, lambda: five.forward_pages(batch, "inference")),
        "K=5 training path, no gradient": lambda: five.forward_pages(batch, "training"),
        "K=5 reference": lambda: five.forward_pages(batch, "reference"),
        "K=1 with probe, fast, int8": lambda: one_int8.forward_pages(batch, "inference"),
        "K=5 fast, int8": lambda: five_int8.forward_pages(batch, "inference"),
        **{f"K=5 fast, cap {cap}": partial(five.forward_pages, cut, "inference") for cap, cut in smaller.items()},
        **{
            f"K=5 fast, int8, cap {cap}": partial(five_int8.forward_pages, cut, "inference")
            for cap, cut in smaller.items()
        },
        "preprocessing": lambda: five.processor.page(drawn),
        "query float32": lambda: five.encode_queries([question]),
        "query float32, torch's own products": partial(without_onednn, lambda: five.encode_queries([question])),
        "query int8": lambda: five_int8.encode_queries([question]),
    }
    return runs, five


def without_onednn(run: Callable[[], Any]) -> Any:
    """As on a processor or with a torch that lacks it."""
    there, onednn.available = onednn.available, lambda: False  # type: ignore[assignment]
    try:
        return run()
    finally:
        onednn.available = there


@torch.no_grad()
def measure(runs: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()
    for i in range(rounds):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
        print(f"round {i + 1} of {rounds}", file=sys.stderr)
    return {name: statistics.median(each) for name, each in times.items()}


def ratios(seconds: dict[str, float], config: Any) -> dict[str, float]:
    vision, one, five = seconds["vision float32"], seconds["K=1 with probe, fast"], seconds["K=5 fast"]
    stock = {name: seconds[f"{name}, torch's own products"] / seconds[name] for name in ("K=5 fast", "query float32")}
    block = (one - vision) / config.blocks
    n, k = config.branch_layers, 5
    predicted = (vision + (config.blocks - n + k * n) * block) / one
    return {
        "K=5 / K=1, measured": five / one,
        "K=5 / K=1, predicted by block count": predicted,
        BOUND: five / one / predicted,
        "language part alone, K=5 / K=1": (five - vision) / (one - vision),
        "language part alone, predicted": (config.blocks - n + k * n) / config.blocks,
        "reference / fast, K=5": seconds["K=5 reference"] / five,
        "torch's own products / oneDNN, K=5": stock["K=5 fast"],
        "torch's own products / oneDNN, query": stock["query float32"],
        "float32 / int8, K=5": five / seconds["K=5 fast, int8"],
        "float32 / int8, K=1": one / seconds["K=1 with probe, fast, int8"],
    }


def machine() -> dict[str, Any]:
    cpu = next(
        (line.split(":")[1].strip() for line in _cpuinfo() if line.startswith("model name")), platform.processor()
    )
    flags = next((line for line in _cpuinfo() if line.startswith("flags")), "")
    return {
        "cpu": cpu,
        "threads": torch.get_num_threads(),
        "oneDNN": onednn.available(),
        "vnni": "avx512_vnni" in flags or "avx_vnni" in flags,
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def _cpuinfo() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.is_file() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "encode_cpu.json")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    runs, five = contenders()
    seconds = measure(runs, arguments.rounds)
    a = five.encode_pages([page()])[0].variants
    b = model(5, dtype="int8").encode_pages([page()])[0].variants
    config = five.config
    result = {
        "command": f"python benchmarks/encode_cpu.py --rounds {arguments.rounds} --threads {arguments.threads}",
        "model": f"{five.source}, hash {five.checkpoint_hash}, L={config.blocks}, n={config.branch_layers}",
        "page": f"{PAGE[0]} x {PAGE[1]} pixels, {PAGE[0] * PAGE[1] // 784} visual tokens, one page a batch",
        "visual tokens under a smaller cap": {cap: width * height // 784 for cap, (width, height) in CAPS.items()},
        "machine": machine(),
        "seconds, median": {name: round(value, 4) for name, value in seconds.items()},
        "ratios": {name: round(value, 3) for name, value in ratios(seconds, config).items()},
        "int8 cosine to float32": {
            "least": round((a * b).sum(-1).min().item(), 5),
            "mean": round((a * b).sum(-1).mean().item(), 5),
        },
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))
    if ratios(seconds, config)[BOUND] > 1.15:
        sys.exit("The branches cost more than 1.15 times what their blocks predict.")


if __name__ == "__main__":
    main()
