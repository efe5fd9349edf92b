"""How many pages that lie on their side or upside down the packaged checkpoint puts right (model/orientation.py).

    python benchmarks/nano_orientation.py JUDGED... [--model FOLDER] [--pages 60] [--out FILE]

Every page of a set, as it is, is looked at; those that may lie otherwise are encoded in each way, and none should be
turned. The first `--pages` of them are then laid on either side, in turns, and upside down: how many are seen to lie
otherwise, how many of these are put right, how many wrong. A page that is put right has the embeddings of the upright
page, but for what scaling rounds. About 2 s an encoded way on two cores.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from PIL import Image
from tqdm import tqdm

from varsdoc import __version__
from varsdoc.evaluation.judged import read_folder
from varsdoc.evaluation.results import machine, write_json
from varsdoc.image import read_image
from varsdoc.model import VarsDoc
from varsdoc.model.orientation import Reader

LYING = {"as it is": (0,), "on its side": (1, 3), "upside down": (2,)}  # quarter turns, anticlockwise


def turns_given(model: VarsDoc, page: Image.Image) -> int | None:
    """By how many quarters the model turns a page; None where it sees nothing to ask about."""
    cut = model.processor.page(page)
    if not cut.others:
        return None
    ways = (replace(cut, others=()), *cut.others)
    encoded = [model.encode_pages([replace(way, turns=0)], progress=False)[0] for way in ways]
    reader = Reader(model)
    for way, embedding in zip(cut.others, encoded[1:], strict=True):
        reader.choose(0, way, embedding)
    chosen = reader.choose(0, cut, encoded[0])
    return next(way.turns for way, embedding in zip(ways, encoded, strict=True) if embedding is chosen)


def outcome(model: VarsDoc, page: Image.Image, turned: int) -> str:
    given = turns_given(model, page.rotate(90 * turned, expand=True))
    if given is None:
        return "not asked about"
    if (given + turned) % 4 == 0:
        return "asked about, upright in the end"
    return "turned wrong" if given else "asked about, left as it lies"


def counted(model: VarsDoc, pages: list[Image.Image], lying: tuple[int, ...], shown: str) -> dict[str, int]:
    bar = tqdm(pages, desc=shown, unit="page", file=sys.stderr)
    found = Counter(outcome(model, page, lying[i % len(lying)]) for i, page in enumerate(bar))
    return {"pages": len(pages), **dict(sorted(found.items()))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("judged", nargs="+")
    parser.add_argument("--model")
    parser.add_argument("--pages", type=int, default=60)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/nano/orientation.json"))
    asked = parser.parse_args()
    model = VarsDoc.from_pretrained(asked.model)
    words = [Path(word).name if "/" in word else word for word in sys.argv[1:]]
    content: dict[str, Any] = {
        "datasets": {},
        "model_hash": model.checkpoint_hash,
        "dtype": model.compute_dtype,
        "command": shlex.join(["python", "benchmarks/nano_orientation.py", *words]),
        "machine": machine(),
        "varsdoc": __version__,
    }
    for folder in asked.judged:
        judged = read_folder(folder)
        pages = [read_image(page.image(), page.id) for page in judged.pages]
        rows = content["datasets"][judged.name] = {}
        for name, lying in LYING.items():
            some = pages[: asked.pages] if any(lying) else pages
            rows[name] = counted(model, some, lying, f"{judged.name}, {name}")
            write_json(asked.out, content)
        print(json.dumps({judged.name: rows}), flush=True)


if __name__ == "__main__":
    main()
