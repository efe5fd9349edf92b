"""Make a judged folder ready for the reading stage: pages as small WebP, and what Tesseract reads on them.

    python scripts/ocr_words.py JUDGED_FOLDER TARGET [--psm 3|11] [--quality 40] [--sure 50] [--slice-mib 40]

TARGET/ocr.jsonl holds what was read; TARGET/NAME-00, -01, ... are packs (varsdoc.training.reading.packs) of the pages
on which at least four words were read, with the questions that name what is printed. psm 3 suits documents, 11
(scattered text) charts. Pages are enlarged twice before they are read. It can be stopped and started again, and
--pack-only packs what has been read so far. Needs `tesseract`, which reads a page in half a second to two on one core;
--workers pages are read at a time (default: one for each core).
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from PIL import Image
from tqdm import tqdm

from varsdoc.training.generator.queries import SMALL
from varsdoc.training.reading.packs import PackedPage, PackWriter, Printed
from varsdoc.training.reading.words import plain, word_key
from varsdoc.training.sources import read_lines, read_qrels

SECONDS = 60  # a page that takes longer is left out


def read_page(image: Image.Image, psm: int) -> list[list[Any]] | None:
    """[text, x0, y0, x1, y1, confidence], boxes as fractions of the page; None where the engine gave up."""
    grey = image.convert("L")
    width, height = grey.width * 2, grey.height * 2
    png = io.BytesIO()
    grey.resize((width, height), Image.Resampling.BICUBIC).save(png, "PNG", compress_level=1)
    command = ["tesseract", "-", "-", "--psm", str(psm), "tsv"]
    environment = {**os.environ, "OMP_THREAD_LIMIT": "1"}
    try:
        done = subprocess.run(command, input=png.getvalue(), capture_output=True, env=environment, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return None
    words = []
    table = io.StringIO(done.stdout.decode("utf8", "replace"))
    for row in csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE):
        text = (row["text"] or "").strip()
        if row["level"] == "5" and text:
            x, y, w, h = (int(row[name]) for name in ("left", "top", "width", "height"))
            box = [x / width, y / height, (x + w) / width, (y + h) / height]
            words.append([text, *(round(side, 4) for side in box), round(float(row["conf"]))])
    return words


def read_all(source: Path, target: Path, psm: int, workers: int | None = None) -> dict[str, list[list[Any]]]:
    """Words of every page, kept in TARGET/ocr.jsonl as they come; with 0 workers those that are there."""
    path = target / "ocr.jsonl"
    lines = path.read_text().splitlines() if path.is_file() else []
    words = {line["_id"]: line["words"] for line in map(_parsed, lines) if line}
    pages = [json.loads(line) for line in (source / "corpus.jsonl").read_text().splitlines()]
    left = [page for page in pages if page["_id"] not in words] if workers != 0 else []

    def read(page: dict[str, Any]) -> list[list[Any]]:
        with Image.open(source / page["image"]) as image:
            return read_page(image, psm) or []

    with path.open("a") as file, ThreadPoolExecutor(workers or os.cpu_count()) as pool:
        for page, found in zip(left, tqdm(pool.map(read, left), total=len(left), unit="page"), strict=True):
            words[page["_id"]] = found
            file.write(json.dumps({"_id": page["_id"], "words": found}) + "\n")
            file.flush()
    return words


def _parsed(line: str) -> dict[str, Any]:
    """A line, or nothing where the machine stopped while it was written."""
    try:
        return dict(json.loads(line))
    except ValueError:
        return {}


def questions_of(source: Path, words: dict[str, list[list[Any]]]) -> dict[str, list[str]]:
    """The questions of each page that name two or more of its words and would not fit many other pages.

    "What is the date of the letter?" names two printed words and fits every letter: as a positive it teaches nothing
    and as a negative it teaches wrongly.
    """
    keys = {page: {word_key(word[0]) for word in found} for page, found in words.items()}
    printing: dict[int, set[str]] = {}
    for page, known in keys.items():
        for key in known:
            printing.setdefault(key, set()).add(page)
    texts = {str(q["_id"]): str(q["text"]) for q in read_lines(source / "queries.jsonl")}
    asked: dict[str, list[str]] = {}
    for query, page, score in read_qrels(source):
        if score <= 0 or page not in keys:
            continue
        found = {word_key(name) for name in texts[query].split() if plain(name) not in SMALL}
        named = found & keys[page]
        fitting = set.intersection(*(printing[key] for key in named)) if named else set()
        if len(named) >= 2 and len(fitting) <= max(2, len(keys) // 100):
            asked.setdefault(page, []).append(texts[query])
    return asked


def write_packs(source: Path, target: Path, words: dict[str, list[list[Any]]], options: argparse.Namespace) -> int:
    """The pages with four or more sure words, as packs."""
    asked = questions_of(source, words)
    facts = {"source": source.name, "licence": options.licence, "made by": "scripts/ocr_words.py (Tesseract)"}
    writer = PackWriter(target, target.name, options.slice_mib * 1024**2, facts)
    count = 0
    for page in map(json.loads, (source / "corpus.jsonl").read_text().splitlines()):
        found = words.get(page["_id"], [])
        printed = [
            Printed(w[0], (w[1], w[2], w[3], w[4]), w[5] >= options.sure)
            for w in found
            if any(c.isalnum() for c in w[0])
        ]
        if sum(word.sure for word in printed) < 4:
            continue
        data = io.BytesIO()
        with Image.open(source / page["image"]) as image:
            image.save(data, "WEBP", quality=options.quality, method=2)
        name = f"{source.name}/{page['_id']}"
        writer.add(PackedPage(name, data.getvalue(), printed, asked.get(page["_id"], [])))
        count += 1
    writer.flush()
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--psm", type=int, default=3)
    parser.add_argument("--quality", type=int, default=40)
    parser.add_argument("--slice-mib", type=int, default=40)
    parser.add_argument("--licence", default="see the set's README")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--pack-only", action="store_true", help="read nothing more")
    parser.add_argument("--sure", type=int, default=50, help="Tesseract's confidence below which a word is dropped")
    options = parser.parse_args()
    options.target.mkdir(parents=True, exist_ok=True)
    words = read_all(options.source, options.target, options.psm, 0 if options.pack_only else options.workers)
    print(write_packs(options.source, options.target, words, options), "pages")


if __name__ == "__main__":
    main()
