"""Pages of PDFs with text layers as packs for the reading stage: page image and word boxes, no OCR.

    python scripts/pdf_words.py SOURCE=FOLDER... --into TARGET [--pages 800] [--per-document 6] [--slice-mib 40]

Each SOURCE=FOLDER names where the PDFs come from (it stands in the manifest, with --licence SOURCE=TEXT) and a folder
of them. At most --per-document pages of a file and --pages of a source are taken, files in an order that does not
depend on the machine. Left out are pages with fewer than 25 words, rotated ones, those whose text layer does not fit
their ink, and those whose words are nearly those of a page already taken. TARGET/SOURCE-00, -01, ... are packs of at
most --slice-mib. A source that has been packed is left alone: run it again after an interruption, or with more sources.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import random
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pypdfium2
from PIL import Image
from tqdm import tqdm

from varsdoc.training.generator import Word
from varsdoc.training.generator.pdf_words import read_page
from varsdoc.training.reading.packs import PackedPage, PackWriter, Printed
from varsdoc.training.reading.words import word_key

FEWEST_WORDS = 25
LONG_SIDE = 1040  # of the picture: a little more than a page of training has, for views that come nearer
BANDS = 12  # of the sketch that finds near-duplicates: two pages that share half of it are one


def sketch(words: Sequence[Word]) -> list[int]:
    """The smallest hashes of the page's word pairs: pages of nearly the same text share most of them."""
    keys = [word_key(word.text) for word in words]
    pairs = {hashlib.blake2b(f"{a} {b}".encode(), digest_size=6).digest() for a, b in pairwise(keys)}
    return [int.from_bytes(pair, "big") for pair in sorted(pairs)[:BANDS]]


def fits_ink(image: np.ndarray, words: Sequence[Word]) -> bool:
    """Whether the boxes lie on ink: a text layer may be shifted, invisible, or belong to nothing on the page."""
    hits = []
    for word in words[:: max(1, len(words) // 60)]:
        x0, y0, x1, y1 = (round(side) for side in word.box)
        part = image[max(0, y0) : y1 + 1, max(0, x0) : x1 + 1]
        hits.append(part.size > 0 and int(part.max()) - int(part.min()) > 60)
    return float(np.mean(hits)) > 0.9


def pages_of(path: Path, most: int, seed: int) -> Iterator[tuple[int, Image.Image, list[Word]]]:
    """Up to `most` usable pages of a file, the first and then others at random."""
    try:
        document = pypdfium2.PdfDocument(path)
    except (pypdfium2.PdfiumError, OSError):
        return
    try:
        count = len(document)
        order = [0, *random.Random(f"{path.name} {seed}").sample(range(1, count), min(count - 1, 4 * most))]
        taken = 0
        for number in order if count else []:
            try:
                image, words, _ = read_page(document[number], LONG_SIDE, grey=False)
            except (pypdfium2.PdfiumError, ValueError, OSError):
                continue
            grey = np.asarray(Image.fromarray(image).convert("L"))
            if len(words) < FEWEST_WORDS or not fits_ink(grey, words):
                continue
            coloured = (np.ptp(image[::4, ::4].astype(np.int16), axis=2) > 24).mean() > 0.01
            yield number, Image.fromarray(image if coloured else grey), words
            taken += 1
            if taken == most:
                return
    finally:
        document.close()


def pack_page(name: str, image: Image.Image, words: Sequence[Word], quality: int) -> PackedPage:
    data = io.BytesIO()
    image.save(data, "WEBP", quality=quality, method=2)
    width, height = image.size
    printed = [
        Printed(word.text, (x0 / width, y0 / height, x1 / width, y1 / height))
        for word in words
        for x0, y0, x1, y1 in (word.box,)
    ]
    return PackedPage(name, data.getvalue(), printed)


def pack_source(source: str, folder: Path, licence: str, options: argparse.Namespace) -> int:
    """Pack one source, unless that has been done; returns the number of its pages."""
    done = options.into / f"{source}.json"
    if done.is_file():
        return int(json.loads(done.read_text())["pages"])
    files = sorted(folder.rglob("*.[pP][dD][fF]"), key=lambda path: hashlib.sha256(path.name.encode()).digest())
    facts = {"source": source, "licence": licence, "made by": "scripts/pdf_words.py"}
    writer = PackWriter(options.into, source, options.slice_mib * 1024**2, facts)
    seen: dict[int, int] = {}  # band of a sketch -> page
    taken = 0
    with tqdm(total=options.pages, desc=source, unit="page", file=sys.stderr) as bar:
        for path in files:
            for number, image, words in pages_of(path, options.per_document, options.seed):
                bands = sketch(words)
                like = [seen[band] for band in bands if band in seen]
                if like and max(like.count(page) for page in set(like)) >= BANDS // 2:
                    continue
                seen.update(dict.fromkeys(bands, taken))
                writer.add(pack_page(f"{source}/{path.relative_to(folder)}/{number}", image, words, options.quality))
                taken += 1
                bar.update()
                if taken == options.pages:
                    break
            if taken == options.pages:
                break
    writer.flush()
    done.write_text(json.dumps({**facts, "files": len(files), "pages": taken, "packs": len(writer.written)}) + "\n")
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+", metavar="SOURCE=FOLDER")
    parser.add_argument("--into", type=Path, required=True)
    parser.add_argument("--licence", action="append", default=[], metavar="SOURCE=TEXT")
    parser.add_argument("--pages", type=int, default=800, help="of a source, at most")
    parser.add_argument("--per-document", type=int, default=6)
    parser.add_argument("--slice-mib", type=int, default=40)
    parser.add_argument("--quality", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    options.into.mkdir(parents=True, exist_ok=True)
    licences = dict(item.split("=", 1) for item in options.licence)
    for item in options.sources:
        source, folder = item.split("=", 1)
        if not Path(folder).is_dir():
            parser.error(f"{folder} is not a folder")
        print(source, pack_source(source, Path(folder), licences.get(source, "see the source"), options), "pages")


if __name__ == "__main__":
    main()
