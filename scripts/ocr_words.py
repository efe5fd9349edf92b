"""Make a judged folder ready for the reading stage: pages as small WebP, and what Tesseract reads on them.

    python scripts/ocr_words.py JUDGED_FOLDER TARGET [--psm 3|11] [--quality 45] [--sure 50]

TARGET is a judged folder of the pages on which at least four words were read, with `words.jsonl` beside them (see
varsdoc.training.reading.real). psm 3 suits documents, 11 (scattered text) charts. Pages are enlarged twice before they
are read. It can be stopped and started again. Needs `tesseract`; one process, a second or two a page.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import subprocess
from pathlib import Path
from typing import Any

from PIL import Image
from tqdm import tqdm

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


def read_all(source: Path, target: Path, psm: int) -> dict[str, list[list[Any]]]:
    """Words of every page, kept in TARGET/ocr.jsonl as they come."""
    path = target / "ocr.jsonl"
    lines = path.read_text().splitlines() if path.is_file() else []
    words = {line["_id"]: line["words"] for line in map(json.loads, lines)}
    pages = [json.loads(line) for line in (source / "corpus.jsonl").read_text().splitlines()]
    with path.open("a") as file:
        for page in tqdm([page for page in pages if page["_id"] not in words], unit="page"):
            with Image.open(source / page["image"]) as image:
                words[page["_id"]] = read_page(image, psm) or []
            file.write(json.dumps({"_id": page["_id"], "words": words[page["_id"]]}) + "\n")
            file.flush()
    return words


def write_folder(source: Path, target: Path, words: dict[str, list[list[Any]]], quality: int, sure: int) -> int:
    """The pages with four or more sure words, their questions and judgements."""
    kept = {
        page: [word for word in found if word[5] >= sure and any(c.isalnum() for c in word[0])]
        for page, found in words.items()
    }
    kept = {page: found for page, found in kept.items() if len(found) >= 4}
    (target / "images").mkdir(exist_ok=True)
    (target / "qrels").mkdir(exist_ok=True)
    corpus = []
    for line in (source / "corpus.jsonl").read_text().splitlines():
        page = json.loads(line)
        if page["_id"] in kept:
            picture = target / "images" / (Path(page["image"]).stem + ".webp")
            if not picture.is_file():
                with Image.open(source / page["image"]) as image:
                    image.save(picture, "WEBP", quality=quality, method=4)
            corpus.append({**page, "image": f"images/{picture.name}"})
    header, *judged = (source / "qrels" / "test.tsv").read_text().splitlines()
    judged = [line for line in judged if line.split("\t")[1] in kept]
    asked = {line.split("\t")[0] for line in judged}
    queries = [q for q in (source / "queries.jsonl").read_text().splitlines() if json.loads(q)["_id"] in asked]
    found_lines = [json.dumps({"_id": page, "words": [word[:5] for word in kept[page]]}) for page in kept]
    (target / "corpus.jsonl").write_text("\n".join(map(json.dumps, corpus)) + "\n")
    (target / "qrels" / "test.tsv").write_text("\n".join([header, *judged]) + "\n")
    (target / "queries.jsonl").write_text("\n".join(queries) + "\n")
    (target / "words.jsonl").write_text("\n".join(found_lines) + "\n")
    return len(corpus)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--psm", type=int, default=3)
    parser.add_argument("--quality", type=int, default=45)
    parser.add_argument("--sure", type=int, default=50, help="Tesseract's confidence below which a word is dropped")
    options = parser.parse_args()
    options.target.mkdir(parents=True, exist_ok=True)
    words = read_all(options.source, options.target, options.psm)
    print(write_folder(options.source, options.target, words, options.quality, options.sure), "pages")


if __name__ == "__main__":
    main()
