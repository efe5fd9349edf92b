"""Pages: how fast they are rendered, how much memory 2,000 of them take, and how long an encoder waits for them.

    python benchmarks/pages.py [--pages 2000] [--workers 2] [--encode-ms 50] [--out benchmarks/results/pages.json]

The corpus is made anew: PDFs of 80 pages (text, lines, a picture on every fourth page) and scans (JPEG, PNG, TIFF).
Speed is taken with a consumer that does nothing. The memory curve is taken with a consumer that keeps every core busy
with matrix products for so many milliseconds a page, as an encoder does; it is the resident memory of this process and
of its workers, sampled four times a second. A plot goes beside the JSON. Linux only: it reads /proc.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import platform
import queue
import random
import statistics
import sys
import tempfile
import threading
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "pages"))

import made  # the PDF writer of the tests

from varsdoc.pages import DocumentEnd, Failure, Limits, Page, find, read
from varsdoc.pages.processes import WorkerProcess
from varsdoc.pages.settings import Settings

PDF_PAGES = 80
SCANS = ("jpeg", "png", "tiff")
WORDS = ("revenue", "margin", "growth", "region", "quarter", "segment", "report", "figure", "income", "assets", "share")
MIB = 1 << 20


def corpus(folder: Path, pages: int) -> dict[str, int]:
    """About nine tenths in PDFs, the rest scans between them; how many pages of each kind there are.

    Evenly mixed in name order: scans take more memory and time than PDF pages, and a block of them at the end would
    look like growth.
    """
    chance, counts = random.Random(1), {"pdf": 0, "jpeg": 0, "png": 0, "tiff": 0}
    files = pages * 9 // 10 // PDF_PAGES
    scans = pages - files * PDF_PAGES
    for number in range(files):
        made.write(folder, {f"{number:04d}.pdf": _pdf(chance)})
        counts["pdf"] += PDF_PAGES
    for number in range(scans):
        kind, buffer = SCANS[number % len(SCANS)], io.BytesIO()
        _scan(chance).save(buffer, kind.upper())
        behind = number * files // scans
        made.write(folder, {f"{behind:04d}-scan-{number:04d}.{kind}": buffer.getvalue()})
        counts[kind] += 1
    return counts


def _pdf(chance: random.Random) -> bytes:
    buffer = io.BytesIO()
    Image.effect_noise((600, 400), 40).convert("RGB").save(buffer, "JPEG", quality=85)
    entries = b"/Type /XObject /Subtype /Image /Width 600 /Height 400 /ColorSpace /DeviceRGB /BitsPerComponent 8"
    photo = made.stream(buffer.getvalue(), entries + b" /Filter /DCTDecode")
    drawn = []
    for number in range(PDF_PAGES):
        lines = [f"({_line(chance)}) Tj 0 -14 Td" for _ in range(48)]
        rules = [f"50 {y} m 545 {y} l S" for y in range(60, 780, 40)]
        picture = "q 300 0 0 200 150 80 cm /Im Do Q" if number % 4 == 0 else ""
        drawn.append("%\nBT /F1 10 Tf 50 780 Td " + " ".join(lines) + " ET\n" + " ".join(rules) + "\n" + picture)
    return made.pdf(drawn, more=[photo], resources=b"/XObject << /Im 4 0 R >>")


def _scan(chance: random.Random) -> Image.Image:
    image = Image.new("RGB", (1654, 2339), "white")  # A4 at 200 dpi
    pen, font = ImageDraw.Draw(image), ImageFont.load_default(30)
    for line in range(52):
        pen.text((120, 120 + 40 * line), _line(chance), "black", font)
    return image


def _line(chance: random.Random) -> str:
    return " ".join(chance.choice(WORDS) for _ in range(10))


def speed(folder: Path, workers: int) -> dict[str, float]:
    """Pages a second when nobody encodes, and seconds until the first page."""
    began, first, pages = time.perf_counter(), 0.0, 0
    for item in read(find([folder]), workers=workers):
        if isinstance(item, Page):
            first = first or time.perf_counter() - began
            pages += 1
    took = time.perf_counter() - began
    return {"pages": pages, "pages/s": round(pages / took, 1), "seconds to the first page": round(first, 3)}


def start_up(times: int = 7) -> float:
    """Seconds until a new worker is ready, median."""
    took = []
    for _ in range(times):
        inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        began = time.perf_counter()
        worker = WorkerProcess(Settings(Limits()), inbox)
        assert inbox.get()[1] == {"event": "ready"}
        took.append(time.perf_counter() - began)
        worker.end()
    return round(statistics.median(took), 3)


class Watch:
    """Resident memory of this process and its workers, sampled in the background."""

    def __init__(self) -> None:
        self.pages = 0
        self.samples: list[tuple[float, int, float, float]] = []
        self.done, self.began = threading.Event(), time.perf_counter()
        self.thread = threading.Thread(target=self._sample)
        self.thread.start()

    def _sample(self) -> None:
        while not self.done.wait(0.25):
            workers = sum(made.resident(pid) for pid in made.children())
            own = made.resident(int(Path("/proc/self").readlink().name))
            self.samples.append((time.perf_counter() - self.began, self.pages, own / MIB, workers / MIB))

    def stop(self) -> list[tuple[float, int, float, float]]:
        self.done.set()
        self.thread.join()
        return self.samples


def encode_beside(folder: Path, workers: int, milliseconds: float) -> dict[str, Any]:
    """Take every page, keep all cores busy for a while, and note how long the next page let us wait."""
    matrix, watch = np.ones((700, 700), dtype=np.float32), Watch()
    waits: list[float] = []
    sizes, noticed, ends, failures = [], {"pdf": 0, "scan": 0}, 0, 0
    stream = read(find([folder]), workers=workers)
    while True:
        asked = time.perf_counter()
        item = next(stream, None)
        if item is None:
            break
        if isinstance(item, Page):
            waits.append(time.perf_counter() - asked)
            sizes.append(len(item.jpeg))
            if len(waits) > 1 and waits[-1] > 0.001:
                noticed["pdf" if item.document.name.endswith(".pdf") else "scan"] += 1
            watch.pages += 1
            end = time.perf_counter() + milliseconds / 1000
            while time.perf_counter() < end:
                matrix @ matrix
        ends += isinstance(item, DocumentEnd)
        failures += isinstance(item, Failure)
    samples = watch.stop()
    return {
        "pages": len(waits),
        "documents": ends,
        "failures": failures,
        "seconds": round(samples[-1][0], 1),
        "JPEG KiB a page, mean": round(statistics.mean(sizes) / 1024, 1),
        "wait for the first page, ms": round(1000 * waits[0], 1),
        "wait for a later page, ms": {
            "median": round(1000 * statistics.median(waits[1:]), 3),
            "99th percentile": round(1000 * sorted(waits[1:])[int(0.99 * len(waits[1:]))], 3),
            "how many waited over 1 ms, by kind": noticed,
            "longest": round(1000 * max(waits[1:]), 1),
            "all together, share of the time": round(sum(waits[1:]) / samples[-1][0], 5),
        },
        "memory MiB": flatness(samples),
        "curve: seconds, pages, this process MiB, workers MiB": [
            [round(value, 1) for value in sample] for sample in samples[:: max(1, len(samples) // 150)]
        ],
    }


def flatness(samples: list[tuple[float, int, float, float]]) -> dict[str, float]:
    """Peaks, and what the second half took over the first: flat means next to nothing."""
    last = samples[-1][1]
    total = [(pages, own + workers) for _, pages, own, workers in samples]
    early = [memory for pages, memory in total if 0.2 * last <= pages < 0.5 * last]
    late = [memory for pages, memory in total if pages >= 0.7 * last]
    return {
        "peak, this process": round(max(own for _, _, own, _ in samples), 1),
        "peak, workers together": round(max(workers for _, _, _, workers in samples), 1),
        "mean at 20 to 50 % of the pages": round(statistics.mean(early), 1),
        "mean at 70 to 100 % of the pages": round(statistics.mean(late), 1),
    }


def plot(result: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    curve = np.array(result["curve: seconds, pages, this process MiB, workers MiB"])
    figure, axes = pyplot.subplots(figsize=(6, 3), layout="constrained")
    axes.stackplot(curve[:, 1], curve[:, 2], curve[:, 3], labels=["this process", "workers"], alpha=0.8)
    axes.set(xlabel="pages taken", ylabel="resident memory, MiB", title="Memory while pages are rendered and encoded")
    axes.legend(loc="lower right", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)


def machine() -> dict[str, Any]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    cpu = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())
    cores = sum(line.startswith("processor") for line in lines)
    packages = {name: version(name) for name in ("pypdfium2", "pillow")}
    return {"cpu": cpu, "cores": cores, "python": platform.python_version(), **packages}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pages", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--encode-ms", type=float, default=50.0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "pages.json")
    options = parser.parse_args()
    load, started = round(os.getloadavg()[0], 1), start_up()
    with tempfile.TemporaryDirectory() as folder:
        counts = corpus(Path(folder) / "all", options.pages)
        corpus(Path(folder) / "some", 400)
        by_workers = {str(workers): speed(Path(folder) / "some", workers) for workers in sorted({1, options.workers})}
        beside = encode_beside(Path(folder) / "all", options.workers, options.encode_ms)
    result = {
        "command": f"python benchmarks/pages.py --pages {options.pages} --workers {options.workers}"
        f" --encode-ms {options.encode_ms:g}",
        "data": f"made: pages by kind {counts}; PDFs of {PDF_PAGES} A4 pages, scans of 1654 x 2339 pixels",
        "pages out": "JPEG, long side 1600, quality 90, with the text layer",
        "machine": machine(),
        "machine busy with other work (1 minute load average at the start)": load,
        "seconds to start a worker, median of 7": started,
        "rendering alone, 400 pages, by workers": by_workers,
        f"beside an encoder of {options.encode_ms:g} ms a page on all cores": beside,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=2) + "\n")
    plot(beside, options.out.with_suffix(".png"))
    for name in [name for name in beside if name.startswith("curve")]:
        del beside[name]  # in the file, and in the plot
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
