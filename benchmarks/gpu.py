"""One GPU at full size, in one run: pages for K = 1, 3, 5, the pipeline, MaxSim, a million pages, latency, memory.

    PYTHONPATH=src python benchmarks/gpu.py --out gpu.json --flash-maxsim FOLDER      # all sections, about 7 minutes
    PYTHONPATH=src python benchmarks/gpu.py --sections check,tests,ceilings,maxsim,codes,million --out a.json
    PYTHONPATH=src python benchmarks/gpu.py --sections ceilings,vision,forward,pipeline,latency,memory --out b.json
    PYTHONPATH=src python benchmarks/gpu.py --join a.json b.json                      # -> benchmarks/results/gpu.json
    PYTHONPATH=src python benchmarks/gpu.py --check --out check.json                  # the checks alone; exit 1: failed
    PYTHONPATH=src python benchmarks/gpu.py --tiny --out tiny.json                    # every code path, on a CPU

Needs torch, transformers, triton, tokenizers, Pillow and, for `tests`, pytest; FOLDER holds the unpacked flash-maxsim
wheel. A section that fails says why in its place and the others go on; the file is written after each. Weights are
random, of the true shape of Qwen2.5-VL-3B; speed does not depend on their values. Shares are of ceilings measured in
the same run.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SECTIONS = (
    *("check", "tests", "ceilings", "maxsim", "codes", "million"),
    *("vision", "forward", "pipeline", "latency", "memory"),
)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=HERE / "results" / "gpu.json")
    parser.add_argument("--sections", default=",".join(SECTIONS), help="comma-separated, in this order")
    parser.add_argument("--flash-maxsim", type=Path, help="folder with the unpacked flash-maxsim wheel")
    parser.add_argument("--tiny", action="store_true", help="tiny shapes on the CPU, Triton's interpreter")
    parser.add_argument("--check", action="store_true", help="the checks alone")
    parser.add_argument("--join", nargs="+", type=Path, help="result files to be joined into --out")
    chosen = parser.parse_args()
    unknown = set(chosen.sections.split(",")) - set(SECTIONS)
    if unknown:
        parser.error(f"there is no section {sorted(unknown)[0]!r}; use {', '.join(SECTIONS)}.")
    return chosen


def join(files: list[Path], out: Path) -> None:
    """Sections of several runs, or of files joined before, the first that has one; a section that failed gives way to
    one that did not. `runs` says which sections each gave."""
    joined: dict[str, Any] = {"runs": []}
    sections: dict[str, Any] = {}
    for file in files:
        read = json.loads(file.read_text())
        taken = [name for name in read["sections"] if name not in sections or "error" in sections[name]]
        sections |= {name: read["sections"][name] for name in taken}
        for run in read.get("runs") or [{**read, "sections": taken}]:
            if gave := [name for name in run["sections"] if name in taken]:
                joined["runs"].append({**run, "sections": gave})
    joined["sections"] = {name: sections[name] for name in SECTIONS if name in sections}
    write(joined, out)


def write(result: dict[str, Any], out: Path) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(rounded(result), indent=2) + "\n")


def rounded(x: Any) -> Any:
    if isinstance(x, float):
        return float(f"{x:.4g}")
    if isinstance(x, dict):
        return {key: rounded(value) for key, value in x.items()}
    return [rounded(value) for value in x] if isinstance(x, list | tuple) else x


def run_section(bench: Any, name: str) -> dict[str, Any]:
    import torch

    from gpu_check import check, tests
    from gpu_encoding import forward, memory, pipeline, vision
    from gpu_scoring import codes, latency, maxsim, million
    from gpu_tools import ceilings

    encoding = {"vision": vision, "forward": forward, "pipeline": pipeline, "memory": memory}
    scoring = {"maxsim": maxsim, "codes": codes, "million": million, "latency": latency}
    sections = {"check": check, "tests": tests, "ceilings": ceilings, **encoding, **scoring}
    start = time.perf_counter()
    try:
        with torch.no_grad():
            found = sections[name](bench)
    except Exception as error:
        found = {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()[-3000:]}
    found["section took s"] = time.perf_counter() - start
    if (
        name in ("check", "ceilings", "maxsim", "codes", "million") or "error" in found
    ):  # what comes next wants the memory
        gc.collect()
        if bench.device.type == "cuda":
            torch.cuda.empty_cache()
    return found


def main() -> None:
    chosen = arguments()
    if chosen.join:
        join(chosen.join, chosen.out)
        return
    if chosen.tiny:
        os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported
    sys.path.insert(0, str(HERE))
    import torch

    from gpu_tools import Bench, machine, watched

    if not chosen.tiny and not torch.cuda.is_available():
        sys.exit("This benchmark needs a CUDA device; --tiny runs its code paths on a CPU.")
    bench = Bench(torch.device("cpu" if chosen.tiny else "cuda"), chosen.tiny, chosen.flash_maxsim)
    names = ["check"] if chosen.check else chosen.sections.split(",")
    result: dict[str, Any] = {
        "command": "python benchmarks/gpu.py "
        + " ".join(Path(word).name if "/" in word else word for word in sys.argv[1:]),
        "tiny": chosen.tiny,
        "model": "random weights of Qwen2.5-VL-3B's shape, L=36, n=4, D=128" if not chosen.tiny else "tiny",
        "dtype": str(bench.dtype).removeprefix("torch."),
        "machine": machine(bench.device),
        "sections": bench.results,
    }
    with watched(bench.device) as card:
        for name in names:
            bench.results[name] = run_section(bench, name) | {"card": card()}
            write(result, chosen.out)
            print(json.dumps({name: rounded(bench.results[name])}, indent=1), flush=True)
    failed = [name for name in names if "error" in bench.results[name]]
    if not bench.results.get("check", {}).get("all hold", True):
        failed.append("check")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}; the others are in {chosen.out}")


if __name__ == "__main__":
    main()
