"""Pages per second of the generator on one core, per layout, with degradations and queries.

    python benchmarks/page_generator.py --fonts FOLDER [--pages 60]

Writes benchmarks/results/page_generator.json. The first pages of a layout fill the glyph caches and are not counted.
Wall time and the process's own CPU time are both given: on a shared machine they differ.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path

import numpy as np
import PIL

from varsdoc.training.generator import PageStream
from varsdoc.training.generator.layouts import LAYOUTS

RESULT = Path(__file__).parent / "results" / "page_generator.json"


def rate(stream: PageStream, pages: int, warm_up: int) -> dict[str, float]:
    for index in range(warm_up):
        stream[index]
    sizes, words, queries = [], 0, 0
    start, cpu = time.perf_counter(), time.process_time()
    for index in range(warm_up, warm_up + pages):
        sample = stream[index]
        sizes.append(sample.image.shape[:2])
        words += len(sample.words)
        queries += len(sample.queries)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    height, width = np.mean(sizes, axis=0)
    return {
        "pages_per_second": round(pages / seconds, 1),
        "pages_per_cpu_second": round(pages / cpu, 1),
        "words_per_page": round(words / pages),
        "queries_per_page": round(queries / pages, 1),
        "mean_width": round(width),
        "mean_height": round(height),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fonts", default=None)
    parser.add_argument("--pages", type=int, default=60)
    parser.add_argument("--warm-up", type=int, default=40)
    options = parser.parse_args()
    layouts = {}
    for name in sorted(LAYOUTS):
        layouts[name] = rate(
            PageStream(seed=1, fonts=options.fonts, layouts={name: 1.0}), options.pages, options.warm_up
        )
        print(f"{name:10} {layouts[name]}")
    mixture = rate(PageStream(seed=1, fonts=options.fonts), 4 * options.pages, options.warm_up)
    print(f"{'all':10} {mixture}")
    result = {
        "command": "python benchmarks/page_generator.py --fonts FOLDER",
        "machine": f"{platform.machine()}, one core",
        "python": platform.python_version(),
        "pillow": PIL.__version__,
        "numpy": np.__version__,
        "fonts": "built-in" if options.fonts is None else len(list(Path(options.fonts).iterdir())),
        "pages_per_layout": options.pages,
        "layouts": layouts,
        "all": mixture,
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
