"""Make a judged folder ready for the reading stage: pages as small WebP, and what Tesseract reads on them.

    python scripts/ocr_words.py JUDGED_FOLDER TARGET [--psm 3|11] [--turned 90 45] [--quality 40] [--sure 50]

TARGET/ocr.jsonl holds what was read; TARGET/NAME-00, -01, ... are packs (varsdoc.training.reading.packs) of the pages
on which at least four words were read, with the questions that name what is printed. psm 3 suits documents, 11
(scattered text) charts. --turned 90 45 also reads what runs upwards (the title of an axis) or rises (labels below bars
too narrow for them), which is all that says what many charts are about; --titles corrects the former by a list. Pages
are enlarged twice before they are read. It can be stopped and started again, and --pack-only packs what has been read
so far. Needs `tesseract`, which reads a page in half a second to two on one core; --workers pages are read at a time
(default: one for each core).
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import math
import os
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from scipy import ndimage
from tqdm import tqdm

from known_titles import KnownTitles, apart
from varsdoc.training.generator.queries import SMALL
from varsdoc.training.reading.packs import PackedPage, PackWriter, Printed
from varsdoc.training.reading.words import plain, word_key
from varsdoc.training.sources import read_lines, read_qrels

SECONDS = 60  # a page that takes longer is left out
# Of 100. Bars and letters seen from the side look like short words, and print this small is often misread.
LIKELY, TURNED_SURE = 60, 80  # that a word of a turned line must reach for the line to count; from where it is taught
# Of turned print, in pixels of the page at twice its size.
FAINTEST, GAP, PAD, LEAST_HIGH, MOST_HIGH = 32, 15, 3, 10, 36
Sides = tuple[float, float, float, float]


@dataclass(frozen=True)
class Found:
    """A word as the engine gives it: its box in pixels of the picture that it saw."""

    text: str
    box: tuple[int, int, int, int]
    sure: float  # of 100
    line: tuple[str, ...]

    @property
    def letters(self) -> int:
        return sum(c.isalnum() for c in self.text)


def tesseract(grey: Image.Image, psm: int) -> list[Found]:
    png = io.BytesIO()
    grey.save(png, "PNG", compress_level=1)
    command = ["tesseract", "-", "-", "--psm", str(psm), "tsv"]
    environment = {**os.environ, "OMP_THREAD_LIMIT": "1"}
    done = subprocess.run(command, input=png.getvalue(), capture_output=True, env=environment, timeout=SECONDS)
    words = []
    table = io.StringIO(done.stdout.decode("utf8", "replace"))
    for row in csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE):
        text = (row["text"] or "").strip()
        if row["level"] == "5" and text:
            x, y, w, h = (int(row[name]) for name in ("left", "top", "width", "height"))
            line = tuple(row[name] for name in ("block_num", "par_num", "line_num"))
            words.append(Found(text, (x, y, x + w, y + h), float(row["conf"]), line))
    return words


def read_page(image: Image.Image, psm: int, turned: Sequence[float] = ()) -> list[list[Any]] | None:
    """[text, x0, y0, x1, y1, confidence], boxes as fractions of the page; None where the engine gave up.

    Words that are `turned` by so many degrees, anticlockwise, have four numbers more: from where to where they run.
    """
    grey = image.convert("L")
    grey = grey.resize((grey.width * 2, grey.height * 2), Image.Resampling.BICUBIC)
    try:
        level = tesseract(grey, psm)
        lines = [line for angle in turned for line in read_turned(grey, angle)]
    except subprocess.TimeoutExpired:
        return None
    over = [box for line in lines for _, box, _ in line]
    # What an engine makes of a line that it sees from the side is no word.
    words = [row(word, word.box, grey.size) for word in level if not any(inside(word.box, box) for box in over)]
    return words + [row(word, box, grey.size, run) for line in lines for word, box, run in line]


def row(word: Found, box: Sides, size: tuple[int, int], run: Sides | None = None) -> list[Any]:
    def shares(sides: Sides) -> list[float]:
        return [round(v / size[i % 2], 4) for i, v in enumerate(sides)]

    return [word.text, *shares(box), round(word.sure), *(shares(run) if run else ())]


def inside(box: Sides, other: Sides) -> bool:
    """Whether the middle of a box lies in another."""
    x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    return other[0] <= x <= other[2] and other[1] <= y <= other[3]


def read_turned(grey: Image.Image, angle: float) -> list[list[tuple[Found, Sides, Sides]]]:
    """Lines of words that run at `angle`, each word with its upright box and its run, in pixels of the page.

    The page is turned, what looks like a line of small print is cut out and enlarged, and all these lines are read at
    once: an engine that is shown the whole page does not see words this small among bars and words that lie.
    """
    paper = int(np.median(np.asarray(grey)))
    seen = grey.rotate(-angle, Image.Resampling.BICUBIC, expand=True, fillcolor=paper)
    strips = lines_of_print(np.asarray(seen), paper)
    if not strips:
        return []
    height = 2 * (MOST_HIGH + 4 * PAD)  # of a row of the sheet
    sheet = Image.new("L", (2 * max(x1 - x0 for x0, _, x1, _ in strips) + 8 * PAD, height * len(strips)), paper)
    for i, (x0, y0, x1, y1) in enumerate(strips):
        cut = seen.crop((x0, y0, x1, y1)).resize((2 * (x1 - x0), 2 * (y1 - y0)), Image.Resampling.LANCZOS)
        sheet.paste(cut, (4 * PAD, height * i + 4 * PAD))
    lines: list[list[tuple[Found, Sides, Sides]]] = [[] for _ in strips]
    for word in tesseract(sheet, 6):
        i = min(int((word.box[1] + word.box[3]) / 2 / height), len(strips) - 1)
        left, top = strips[i][0] - 2 * PAD, strips[i][1] - 2 * PAD - height * i / 2
        if word.letters:
            begin, above, end, below = (v / 2 for v in word.box)
            box = (begin + left, above + top, end + left, below + top)
            lines[i].append((word, *turned_back(box, seen.size, grey.size, angle)))
    return [line for line in lines if is_text([word for word, _, _ in line])]


def is_text(line: Sequence[Found]) -> bool:
    """One word of four letters or digits that is likely, or two of three.

    >>> from functools import partial
    >>> word = partial(Found, box=(0, 0, 1, 1), line=())
    >>> [is_text([word(text, sure=70.0) for text in texts.split()]) for texts in ("2014", "SoG", "Net pay", "of in")]
    [True, False, True, False]
    """
    likely = [word.letters for word in line if word.sure >= LIKELY]
    return any(letters >= 4 for letters in likely) or sum(letters == 3 for letters in likely) >= 2


def lines_of_print(page: np.ndarray, paper: int) -> list[tuple[int, int, int, int]]:
    """Boxes of what may be a level line of small print on a page at twice its size, with some air around."""
    ink = np.abs(page.astype(int) - paper) > FAINTEST
    joined = ndimage.binary_closing(ink, np.ones((1, GAP)))
    found = []
    for rows, cols in ndimage.find_objects(ndimage.label(joined)[0]):
        high, wide = rows.stop - rows.start, cols.stop - cols.start
        if LEAST_HIGH <= high <= MOST_HIGH and wide >= 2 * high and 0.1 < ink[rows, cols].mean() < 0.75:
            right, bottom = min(page.shape[1], cols.stop + PAD), min(page.shape[0], rows.stop + PAD)
            found.append((max(0, cols.start - PAD), max(0, rows.start - PAD), right, bottom))
    return found


def turned_back(box: Sides, seen: tuple[int, int], page: tuple[int, int], angle: float) -> tuple[Sides, Sides]:
    """Upright box and run, on the page, of a box on the page turned clockwise by `angle`.

    >>> turned_back((0, 10, 40, 20), (200, 100), (100, 200), 90)
    ((10.0, 160.0, 20.0, 200.0), (15.0, 200.0, 15.0, 160.0))
    """
    cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))

    def back(u: float, v: float) -> tuple[float, float]:
        u, v = u - seen[0] / 2, v - seen[1] / 2
        return round(page[0] / 2 + u * cos + v * sin, 2), round(page[1] / 2 - u * sin + v * cos, 2)

    x0, y0, x1, y1 = box
    xs, ys = zip(*(back(x, y) for x in (x0, x1) for y in (y0, y1)), strict=True)
    middle = (y0 + y1) / 2
    return (min(xs), min(ys), max(xs), max(ys)), (*back(x0, middle), *back(x1, middle))


def read_all(
    source: Path, target: Path, psm: int, workers: int | None = None, turned: Sequence[float] = ()
) -> dict[str, list[list[Any]]]:
    """Words of every page, kept in TARGET/ocr.jsonl as they come; with 0 workers those that are there."""
    path = target / "ocr.jsonl"
    lines = path.read_text().splitlines() if path.is_file() else []
    words = {line["_id"]: line["words"] for line in map(_parsed, lines) if line}
    pages = [json.loads(line) for line in (source / "corpus.jsonl").read_text().splitlines()]
    left = [page for page in pages if page["_id"] not in words] if workers != 0 else []

    def read(page: dict[str, Any]) -> list[list[Any]]:
        with Image.open(source / page["image"]) as image:
            return read_page(image, psm, turned) or []

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
    titles = KnownTitles(options.titles.read_text().splitlines()) if options.titles else None
    words = {page: apart(found) for page, found in words.items()}
    words = {page: titles.correct(found) for page, found in words.items()} if titles else words
    asked = questions_of(source, words)
    facts = {"source": source.name, "licence": options.licence, "made by": "scripts/ocr_words.py (Tesseract)"}
    writer = PackWriter(target, target.name, options.slice_mib * 1024**2, facts)
    count = 0
    for page in map(json.loads, (source / "corpus.jsonl").read_text().splitlines()):
        found = words.get(page["_id"], [])
        printed = [
            Printed(
                w[0], (w[1], w[2], w[3], w[4]), w[5] >= (TURNED_SURE if w[6:] else options.sure), tuple(w[6:10]) or None
            )
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
    parser.add_argument(
        "--turned", type=float, nargs="*", default=[], help="degrees at which words are looked for, too"
    )
    parser.add_argument("--titles", type=Path, help="known titles of upright axes, a line each (chart_pages.py)")
    options = parser.parse_args()
    options.target.mkdir(parents=True, exist_ok=True)
    workers = 0 if options.pack_only else options.workers
    words = read_all(options.source, options.target, options.psm, workers, options.turned)
    print(write_packs(options.source, options.target, words, options), "pages")


if __name__ == "__main__":
    main()
