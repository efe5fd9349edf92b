"""Load on a server: many clients search for a while, while a job indexes an uploaded document.

    python benchmarks/serve_load.py [--clients 32] [--seconds 20] [--documents 12] [--pages 60]
                                    [--model FOLDER] [--out benchmarks/results/serve_load.json]

A real `varsdoc serve` on loopback, with the sample documents of the package and its checkpoint. Every client asks one
question after the other, each a new one, so that none is answered from what the server keeps. Latencies are the
clients' own. Memory is the server's resident memory, sampled twice a second. Linux only: it reads /proc.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
from PIL import Image, ImageDraw

from varsdoc.demo import SAMPLES, sample_questions

_READY = 180.0  # seconds for the server and its model


def uploaded(pages: int) -> bytes:
    """A document of many pages of lines, as a TIFF."""
    made = []
    for number in range(pages):
        page = Image.new("L", (850, 1100), "white")
        draw = ImageDraw.Draw(page)
        for line in range(40):
            draw.text((80, 60 + 25 * line), f"Page {number + 1}, line {line + 1}: valve pressure and expenses", "black")
        made.append(page)
    out = io.BytesIO()
    made[0].save(out, "TIFF", save_all=True, append_images=made[1:], compression="tiff_deflate")
    return out.getvalue()


def start(folder: Path, model: str | None) -> tuple[subprocess.Popen[str], str]:
    chosen = ["--model", model] if model else []
    process = subprocess.Popen(
        [sys.executable, "-m", "varsdoc", "serve", "--index", str(folder), "--port", "0", *chosen],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("Serving"):
            return process, line.split(" at ")[1].strip()
    raise SystemExit("The server did not start.")


def resident_mib(process: int) -> float:
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


async def until_ready(client: httpx.AsyncClient) -> None:
    deadline = time.monotonic() + _READY
    while (await client.get("/health")).json()["model"] != "ready":
        if time.monotonic() > deadline:
            raise SystemExit("The model did not load.")
        await asyncio.sleep(0.2)
    (await client.post("/search", json={"query": "a first question"})).raise_for_status()


async def ask(address: str, number: int, until: float, times: list[float], errors: list[str]) -> None:
    questions = [one.question for one in sample_questions()]
    async with httpx.AsyncClient(base_url=address, timeout=60) as client:
        turn = 0
        while time.monotonic() < until:
            words = f"{questions[(number + turn) % len(questions)]} {number} {turn}"
            started = time.perf_counter()
            try:
                answered = await client.post("/search", json={"query": words, "k": 10})
                if answered.status_code != 200 or not answered.json()["hits"]:
                    errors.append(f"{answered.status_code}: {answered.text[:100]}")
            except httpx.HTTPError as error:
                errors.append(type(error).__name__)
            times.append(time.perf_counter() - started)
            turn += 1


async def load(address: str, process: int, options: argparse.Namespace) -> dict[str, Any]:
    times: list[float] = []
    errors: list[str] = []
    memory: list[float] = []
    async with httpx.AsyncClient(base_url=address, timeout=120) as client:
        await until_ready(client)
        files = [("files", ("load.tiff", uploaded(options.pages), "image/tiff"))]
        job = (await client.post("/documents", files=files)).json()["job"]
        while (await client.get(f"/jobs/{job['id']}")).json()["pages_total"] is None:  # it encodes from here on
            await asyncio.sleep(0.2)
        before = (await client.get("/stats")).json()
        started = time.monotonic()
        until = started + options.seconds
        clients = [asyncio.create_task(ask(address, n, until, times, errors)) for n in range(options.clients)]
        while time.monotonic() < until:
            memory.append(round(resident_mib(process), 1))
            await asyncio.sleep(0.5)
        await asyncio.gather(*clients)
        seconds = time.monotonic() - started
        after = (await client.get("/stats")).json()
        shown = (await client.get(f"/jobs/{job['id']}")).json()
    batches = after["batches"] - before["batches"]
    ordered = sorted(times)
    return {
        "clients": options.clients,
        "seconds": round(seconds, 1),
        "searches": len(times),
        "searches a second": round(len(times) / seconds, 1),
        "errors": len(errors),
        "first errors": errors[:5],
        "p50 ms": round(1000 * statistics.median(ordered), 1) if ordered else None,
        "p95 ms": round(1000 * ordered[int(0.95 * (len(ordered) - 1))], 1) if ordered else None,
        "longest ms": round(1000 * ordered[-1], 1) if ordered else None,
        "forward passes": batches,
        "queries per forward pass": round((after["questions"] - before["questions"]) / max(1, batches), 2),
        "server's own p50 and p95 ms (last 1,024)": after["search_ms"],
        "memory MiB": {"start": memory[0], "end": memory[-1], "max": max(memory), "curve, twice a second": memory},
        "job": {"state": shown["state"], "pages": options.pages, "pages done meanwhile": shown["pages_done"]},
    }


def machine() -> dict[str, Any]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    cpu = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())
    packages = {name: version(name) for name in ("torch", "fastapi", "uvicorn", "lancedb")}
    return {"cpu": cpu, "cores": os.cpu_count(), "python": platform.python_version(), **packages}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--documents", type=int, default=12, help="of the samples")
    parser.add_argument("--pages", type=int, default=60, help="of the uploaded document")
    parser.add_argument("--model", help="another checkpoint than the packaged one")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "serve_load.json")
    options = parser.parse_args()
    busy = round(os.getloadavg()[0], 1)
    with tempfile.TemporaryDirectory() as scratch:
        samples, folder = Path(scratch) / "samples", Path(scratch) / "index"
        samples.mkdir()
        chosen = sorted(path for path in SAMPLES.iterdir() if path.suffix != ".json")[: options.documents]
        for path in chosen:
            shutil.copy(path, samples)
        from varsdoc import Index

        added = Index.open(folder, options.model).add(samples).added
        process, address = start(folder, options.model)
        try:
            found = asyncio.run(load(address, process.pid, options))
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(30)
    result = {
        "command": f"python benchmarks/serve_load.py --clients {options.clients} --seconds {options.seconds:g} "
        f"--documents {options.documents} --pages {options.pages}" + (" --model ..." if options.model else ""),
        "data": f"{len(chosen)} sample documents, {added} pages; an upload of {options.pages} pages meanwhile",
        "machine": machine(),
        "machine busy with other work (1 minute load average at the start)": busy,
        "result": found,
        "exit code after SIGTERM": code,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=2) + "\n")
    found["memory MiB"].pop("curve, twice a second")  # in the file
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
