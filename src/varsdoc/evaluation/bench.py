"""Cost per page and per query, measured as the paper does: batch 32, mean of 10 repeats, per K in one run.

index size   bytes that the codec stores for a page
index time   encode and store one page: preprocessing, forward pass, packing, writing to disk
latency      encode one question and search the whole corpus with it

K=1 is the plain backbone (no probe), the paper's baseline. For K below the checkpoint's the first K probes and heads
are used; a checkpoint with one variant is expanded. The weights' values do not matter to any of these figures.
"""

from __future__ import annotations

import copy
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from varsdoc.errors import ConfigError
from varsdoc.evaluation.codec_names import open_codec
from varsdoc.evaluation.judged import read_folder
from varsdoc.evaluation.progress import Progress
from varsdoc.evaluation.published import EFFICIENCY, EFFICIENCY_NOTE
from varsdoc.evaluation.results import command_line, machine
from varsdoc.evaluation.retrievers.protocol import Identity, Vectors

QUERIES = (
    "Which region contributed most to growth in the third quarter?",
    "What is the total amount due on the invoice?",
    "How does the pressure valve connect to the main pump?",
    "Who signed the agreement on behalf of the supplier?",
)


@dataclass(frozen=True)
class Plan:
    """What to measure."""

    model: str | None = None
    pages: str | None = None
    count: int = 32
    variants: tuple[int, ...] = (1, 3, 5)
    batch: int = 32
    repeats: int = 10
    codec: str = "float16"
    device: str | None = None
    dtype: str | None = None
    max_visual_tokens: int | None = None
    max_seconds: float | None = None  # for the repeats of one figure; one is always measured
    shown: bool = False

    def __post_init__(self) -> None:
        for name in ("count", "batch", "repeats"):
            if getattr(self, name) < 1:
                raise ConfigError(f"--{name} must be 1 or more, not {getattr(self, name)}.")
        if self.max_seconds is not None and self.max_seconds <= 0:
            raise ConfigError(f"--max-seconds must be more than 0, not {self.max_seconds:g}.")


def counts(text: str) -> tuple[int, ...]:
    """The K of "1,3,5"."""
    try:
        found = tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise ConfigError(f"--variants takes numbers with commas, like 1,3,5, not {text!r}.") from error
    if min(found) < 1:
        raise ConfigError(f"--variants must be 1 or more, not {min(found)}.")
    return found


def measure(plan: Plan, keep: Callable[[dict[str, Any]], None] = lambda _: None) -> dict[str, Any]:
    """The table as JSON. `keep` gets it as far as it is, before the first K and after each: a long run may stop."""
    from varsdoc.evaluation.retrievers.ours import VarsDocRetriever

    open_codec(plan.codec)
    model = load(plan)
    facts = VarsDocRetriever(model=model).identity  # the checkpoint's own, before K is changed
    for k in plan.variants:
        require_variants(model, k)  # all of them before the first is measured, which may take an hour
    del model
    images, data = _images(plan)
    rows: list[dict[str, Any]] = []
    keep(_table(plan, rows, facts, data, len(images)))
    for k in plan.variants:
        rows.append(_row(plan, k, with_variants(load(plan), k), images))
        keep(_table(plan, rows, facts, data, len(images)))
    return _table(plan, rows, facts, data, len(images))


def _table(plan: Plan, rows: list[dict[str, Any]], facts: Identity, data: str, pages: int) -> dict[str, Any]:
    for row in rows:
        row["bytes_ratio"] = row["index_bytes_per_page"] / rows[0]["index_bytes_per_page"]
        row["index_ratio"] = row["index_ms_per_page"] / rows[0]["index_ms_per_page"]
        row["query_ratio"] = row["query_ms"] / rows[0]["query_ms"]
    return {
        "rows": rows,
        "complete": len(rows) == len(plan.variants),
        "data": data,
        "pages": pages,
        "tokens_per_page": rows[0]["vectors_per_page"] if rows else None,
        "token_cap": facts.token_cap,
        "dtype": facts.dtype,
        "device": facts.device,
        "codec": plan.codec,
        "batch": plan.batch,
        "repeats": plan.repeats,
        "model": asdict(facts),
        "machine": machine(),
        "command": command_line(),
        "published": [
            {"label": f"K={k}", "mib": size, "index_ms": index, "query_ms": query}
            for k, (size, index, query) in EFFICIENCY.items()
        ],
        "published_note": EFFICIENCY_NOTE,
    }


def load(plan: Plan) -> Any:
    """The checkpoint as it is."""
    import warnings

    from varsdoc.model import VarsDoc

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it may be untrained does not matter to a clock
        return VarsDoc.from_pretrained(
            plan.model, device=plan.device, dtype=plan.dtype, max_visual_tokens=plan.max_visual_tokens
        )


def require_variants(model: Any, variants: int) -> None:
    if 1 != model.config.variants < variants:
        raise ConfigError(f"The checkpoint has K={model.config.variants}; K={variants} can only be measured from K=1.")


def with_variants(model: Any, variants: int) -> Any:
    """The same weights with K variants; 1 has no probe at all."""
    import torch
    from torch import nn

    config = model.config
    require_variants(model, variants)
    if variants > config.variants:
        return model.expand(variants, branch_layers=config.branch_layers or 4)
    depth = config.branch_layers if variants > 1 else 0
    model.reconfigure(config.with_(variants=variants, branch_layers=depth))
    kept = variants * config.probes_per_variant if depth else 0
    with torch.no_grad():
        model.probes = nn.Parameter(model.probes[:kept].clone())
    if len(model.heads) > 1:
        model.heads = nn.ModuleList(copy.deepcopy(list(model.heads)[:variants]))
    return model


def _row(plan: Plan, k: int, model: Any, images: Sequence[Any]) -> dict[str, Any]:
    from varsdoc.scoring.packed import PackedPages

    codec = open_codec(plan.codec)
    blobs: list[bytes] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pages.bin"

        def index(_: int, step: Callable[[int], None]) -> None:
            blobs[:] = _index(model, images, codec, plan.batch, path, step)

        index_s = _seconds(plan, f"K={k}: indexing", len(images), index)
    packed = PackedPages.from_blobs(blobs)
    search = _searcher(model, codec, blobs, packed)

    def ask(repeat: int, step: Callable[[int], None]) -> None:
        search(QUERIES[repeat % len(QUERIES)])
        step(1)

    query_s = _seconds(plan, f"K={k}: searching", 1, ask)
    note = "plain, no probe" if not model.config.branch_layers else f"n={model.config.branch_layers}"
    pages = len(images)
    return {
        "variants": k,
        "label": f"K={k} ({note})",
        "index_bytes_per_page": float(np.mean([len(blob) for blob in blobs])),
        "index_ms_per_page": 1000 * float(np.mean(index_s)) / pages,
        "index_ms_per_page_sd": 1000 * float(np.std(index_s)) / pages,
        "index_repeats": len(index_s),
        "query_ms": 1000 * float(np.mean(query_s)),
        "query_ms_sd": 1000 * float(np.std(query_s)),
        "query_repeats": len(query_s),
        "vectors_per_page": float(packed.tokens.mean()),
    }


def _seconds(plan: Plan, what: str, items: int, work: Callable[[int, Callable[[int], None]], None]) -> list[float]:
    """What each repeat took, after one that warms caches and kernels up.

    work  is given the repeat's number, and what to call with the items that are done
    """
    found: list[float] = []
    rounds = plan.repeats + 1
    if plan.shown:
        print(f"{what}: {items} x {rounds}, the first to warm up", file=sys.stderr)
    with Progress(rounds * items, what, plan.shown) as bar:
        began = time.perf_counter()
        for repeat in range(rounds):
            start = time.perf_counter()
            work(repeat, bar)
            if repeat:
                found.append(time.perf_counter() - start)
            if found and plan.max_seconds is not None and time.perf_counter() - began > plan.max_seconds:
                break
    return found


def _index(
    model: Any, images: Sequence[Any], codec: Any, batch: int, path: Path, step: Callable[[int], None]
) -> list[bytes]:
    """Encode in batches, pack, write."""
    blobs = []
    with path.open("wb") as file:
        for start in range(0, len(images), batch):
            part = list(images[start : start + batch])
            # A budget no batch reaches: the whole part goes through in one pass, each way in which a page may lie.
            for page in model.encode_pages(part, batch_tokens=1 << 30, progress=False):
                blob = codec.pack(page.variants.float().cpu().numpy())
                file.write(blob)
                blobs.append(blob)
            step(len(part))
        file.flush()
    return blobs


def _searcher(model: Any, codec: Any, blobs: list[bytes], packed: Any) -> Callable[[str], Any]:
    """One question against the corpus: packed codes on a CPU, decoded tensors where there is a GPU."""
    from varsdoc.scoring import score_pages
    from varsdoc.scoring.packed import score_packed

    if model.device.type == "cpu":

        def on_cpu(text: str) -> Any:
            query: Vectors = model.encode_queries([text], progress=False)[0].float().numpy()
            return score_packed([query], packed).total[0].topk(min(10, len(packed)))

        return on_cpu
    import torch

    pages = [torch.from_numpy(codec.unpack(blob)).to(model.device) for blob in blobs]

    def on_device(text: str) -> Any:
        query = model.encode_queries([text], progress=False)[0].to(model.device)
        best = score_pages([query], pages, memory_budget=4 * 1024**3).total[0].topk(min(10, len(pages)))
        return best.indices.cpu()  # waits for the device

    return on_device


def _images(plan: Plan) -> tuple[list[Any], str]:
    if plan.pages:
        judged = read_folder(plan.pages)
        return [page.image() for page in judged.pages[: plan.count]], judged.name
    return [sample_page(i) for i in range(plan.count)], "generated pages of 1240 x 1754 pixels"


def sample_page(seed: int) -> Any:
    """A page of text-like lines at 150 dpi A4: what it says does not matter to a clock, its size does."""
    from PIL import Image, ImageDraw

    random = np.random.default_rng(seed)
    page = Image.new("RGB", (1240, 1754), "white")
    draw = ImageDraw.Draw(page)
    for y in range(120, 1640, 34):
        x = 110
        while x < 1100:
            width = int(random.integers(20, 120))
            draw.rectangle((x, y, min(x + width, 1130), y + 14), fill=(40, 40, 40))
            x += width + 16
    return page
