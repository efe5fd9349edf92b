"""Why the model misses a page: does a printed word find its cell, and does it find its page?

    python benchmarks/nano_words.py JUDGED --ocr OCR_FOLDER [--model FOLDER] [--cache FOLDER] [--out FILE]

JUDGED is a judged folder, OCR_FOLDER what scripts/ocr_words.py made of it (ocr.jsonl). Pages are taken from the
evaluation cache, where `varsdoc eval` has put them; pages that are not there are encoded. Two shares:

- found: of the tokens of runs of printed words, how many have their best cell, on their own page and in the variant
  that fits the run best, among the cells of their word; by the height of the print in pixels of the scaled page, and
  by how it runs, where the OCR folder says so (ocr_words.py --turned 90 45: titles of axes, rising labels), with
  --turned on pages that have such words alone;
- first: of printed words, each asked alone, how many rank a page first that prints them, among all pages; by the
  number of pages that print the word, and by height for words of one page, for these also in each variant alone.
  Scores are over the word's own tokens, as in a longer question.

Words are those that the engine was sure of (85 of 100) and that have four or more letters, or three or more digits.
"""

from __future__ import annotations

import argparse
import json
import random
import shlex
import sys
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from varsdoc.evaluation.cache import Cache
from varsdoc.evaluation.evaluate import encode_pages
from varsdoc.evaluation.judged import JudgedSet, read_folder
from varsdoc.evaluation.results import machine, write_json
from varsdoc.evaluation.retrievers.ours import VarsDocRetriever
from varsdoc.evaluation.retrievers.protocol import Layout
from varsdoc.evaluation.statistics import bootstrap_interval
from varsdoc.training.generator import Word
from varsdoc.training.reading.targets import Grid
from varsdoc.training.reading.words import plain, word_key

SURE = 85
RUN = 24  # words of a run
HEIGHTS = (8.0, 11.0, 15.0)  # pixels, borders of the groups
PRINTED_ON = (1, 4, 16)  # pages, upper borders of the groups


@dataclass(frozen=True)
class Read:
    """A page with what an engine read on it and what the model made of it."""

    words: list[Word]
    grid: Grid
    vectors: Tensor  # (K, M, d)
    layout: Layout


def telling(text: str) -> bool:
    """Whether a word is worth asking for.

    >>> [telling(word) for word in ("income", "the", "1987", "12")]
    [True, False, True, False]
    """
    return sum(c.isdigit() for c in text) >= 3 or (text.isalpha() and len(text) >= 4)


def read_pages(judged: JudgedSet, ocr: Path, retriever: VarsDocRetriever, cache: Cache) -> list[Read]:
    lines = map(json.loads, (ocr / "ocr.jsonl").read_text().splitlines())
    words = {str(line["_id"]): line["words"] for line in lines}
    keys = encode_pages(retriever, judged, cache)
    cell = retriever.model.config.cell_size
    pages = []
    for page, vectors in zip(judged.pages, cache.arrays(retriever.identity.space, keys), strict=True):
        layout = retriever.layout(page.image(), vectors.shape[1])
        height, width = layout.rows * cell, layout.cols * cell
        sides = np.array([width, height, width, height])
        found = []
        for text, *numbers in words.get(page.id, []):
            box, sure, run = numbers[:4], numbers[4], numbers[5:]
            where = tuple((run * sides).tolist()) if run else None
            found.append(Word(text, tuple((box * sides).tolist()), str(sure), 0, 0, where))
        grid = Grid(layout.rows, layout.cols, height, width)
        pages.append(Read(found, grid, torch.from_numpy(vectors).float(), layout))
    return pages


def with_turned(judged: JudgedSet, ocr: Path) -> JudgedSet:
    """Of the set, the pages with a turned word that the engine was sure of."""
    lines = map(json.loads, (ocr / "ocr.jsonl").read_text().splitlines())
    having = {str(line["_id"]) for line in lines if any(w[6:] and w[5] >= SURE for w in line["words"])}
    return replace(judged, pages=[page for page in judged.pages if page.id in having])


def group(value: float, borders: tuple[float, ...]) -> str:
    """
    >>> [group(v, (1, 4)) for v in (1, 3, 9)]
    ['to 1', 'to 4', 'over 4']
    """
    return next((f"to {border:g}" for border in borders if value <= border), f"over {borders[-1]:g}")


def height_of(word: Word) -> float:
    return min(word.box[3] - word.box[1], word.box[2] - word.box[0])


def direction(word: Word) -> str:
    """
    >>> direction(Word("Share", (0, 0, 9, 90), "", 0, 0, (4, 90, 5, 0)))
    'upright'
    """
    if word.run is None:
        return "level"
    return "upright" if abs(word.run[2] - word.run[0]) < 0.3 * abs(word.run[3] - word.run[1]) else "slanted"


def share(hits: list[bool]) -> dict[str, Any]:
    low, high = bootstrap_interval([float(hit) for hit in hits], 2000) if hits else (0.0, 0.0)
    return {"share": round(float(np.mean(hits)), 4) if hits else None, "of": len(hits), "interval_95": [low, high]}


def found_share(pages: list[Read], retriever: VarsDocRetriever, runs: int, rng: random.Random) -> dict[str, Any]:
    """Tokens of runs of printed words that find their word's cells on their own page."""
    config, tokenizer = retriever.model.config, retriever.model.processor.tokenizer
    full = [page for page in pages if len(page.words) >= RUN]
    chosen = rng.sample(full, min(runs, len(full)))
    by_height: dict[str, list[bool]] = defaultdict(list)
    by_direction: dict[str, list[bool]] = defaultdict(list)
    for page in chosen:
        begin = rng.randrange(len(page.words) - RUN + 1)
        run = page.words[begin : begin + RUN]
        text = " ".join(plain(word.text) for word in run)
        (query,) = retriever.encode_queries([text])
        offsets = tokenizer.encode(config.query_prefix + text, add_special_tokens=False).offsets
        similarity = torch.from_numpy(query).float() @ page.vectors.transpose(1, 2)  # (K, T, M)
        cells = page.layout.led_back(similarity.numpy())
        best = cells[cells.max(2).sum(1).argmax()].argmax(1)
        place = len(config.query_prefix)
        for word in run:
            end = place + len(plain(word.text))
            if int(float(word.role)) >= SURE and telling(plain(word.text)):
                same = [other for other in page.words if word_key(other.text) == word_key(word.text)]
                wanted = {cell for other in same for cell in page.grid.cells(other)}
                for token, (low, high) in enumerate(offsets):
                    if low < end and high > place:
                        hit = int(best[token]) in wanted
                        by_direction[direction(word)].append(hit)
                        if word.run is None:
                            by_height[group(height_of(word), HEIGHTS)].append(hit)
            place = end + 1
    return {
        "all": share([hit for some in by_direction.values() for hit in some]),
        "by height": {name: share(by_height[name]) for name in sorted(by_height)},
        "by direction": {name: share(by_direction[name]) for name in sorted(by_direction)},
    }


def first_share(pages: list[Read], retriever: VarsDocRetriever, words: int, rng: random.Random) -> dict[str, Any]:
    """Printed words, each asked alone, that rank a page first on which they stand."""
    where: dict[int, set[int]] = defaultdict(set)  # all that is printed, sure or not
    sure: dict[int, Word] = {}
    for i, page in enumerate(pages):
        for word in page.words:
            key = word_key(word.text)
            where[key].add(i)
            if int(float(word.role)) >= SURE and telling(plain(word.text)):
                sure.setdefault(key, word)
    groups: dict[str, list[int]] = defaultdict(list)
    for key in sorted(sure):
        groups[group(len(where[key]), PRINTED_ON)].append(key)
    asked = {name: rng.sample(keys, min(words, len(keys))) for name, keys in groups.items()}
    keys = [key for name in sorted(asked) for key in asked[name]]
    best, alone = best_pages([plain(sure[key].text) for key in keys], pages, retriever)
    hits = {key: bool(best[i] in where[key]) for i, key in enumerate(keys)}
    once = asked.get(f"to {PRINTED_ON[0]:g}", [])
    asked_once = set(once)
    by_height: dict[str, list[bool]] = defaultdict(list)
    for key in once:
        by_height[group(height_of(sure[key]), HEIGHTS)].append(hits[key])
    return {
        "by pages that print it": {name: share([hits[key] for key in asked[name]]) for name in sorted(asked)},
        "one page, by height": {name: share(by_height[name]) for name in sorted(by_height)},
        "one page, each variant alone": {
            str(k + 1): share([bool(found[i] in where[key]) for i, key in enumerate(keys) if key in asked_once])
            for k, found in enumerate(alone)
        },
    }


def best_pages(texts: list[str], pages: list[Read], retriever: VarsDocRetriever) -> tuple[np.ndarray, np.ndarray]:
    """The page on which each word's own tokens score best: in its best variant (N,), and in each alone (K, N)."""
    config, tokenizer = retriever.model.config, retriever.model.processor.tokenizer
    own: list[Tensor] = []
    for text, query in zip(texts, retriever.encode_queries(texts), strict=True):
        offsets = tokenizer.encode(config.query_prefix + text, add_special_tokens=False).offsets
        chosen = [i for i, (_, high) in enumerate(offsets) if high > len(config.query_prefix)]
        own.append(torch.from_numpy(query[chosen]).float())
    together, lengths = torch.cat(own), [len(tokens) for tokens in own]
    scores = np.empty((len(pages[0].vectors), len(texts), len(pages)))
    for p, page in enumerate(pages):
        best = (together @ page.vectors.transpose(1, 2)).amax(2)  # (K, tokens)
        scores[:, :, p] = torch.stack([part.mean(1) for part in best.split(lengths, dim=1)], 1).numpy()
    return scores.max(0).argmax(1), scores.argmax(2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("judged")
    parser.add_argument("--ocr", type=Path, required=True)
    parser.add_argument("--model")
    parser.add_argument("--cache")
    parser.add_argument("--turned", action="store_true", help="only pages on which turned words were read")
    parser.add_argument("--pages", type=int, help="only the first of the set")
    parser.add_argument("--words", type=int, default=300, help="asked per group")
    parser.add_argument("--runs", type=int, default=150, help="runs of printed words")
    parser.add_argument("--out")
    asked = parser.parse_args()
    judged = read_folder(asked.judged)
    judged = with_turned(judged, asked.ocr) if asked.turned else judged
    judged = judged.limited(asked.pages) if asked.pages else judged
    retriever = VarsDocRetriever(asked.model)
    with torch.inference_mode():
        pages = read_pages(judged, asked.ocr, retriever, Cache(asked.cache))
        content = {
            "set": judged.name,
            "pages": len(pages),
            "found": found_share(pages, retriever, asked.runs, random.Random(0)),
            "first": first_share(pages, retriever, asked.words, random.Random(0)),
        }
    words = [Path(word).name if "/" in word else word for word in sys.argv[1:]]
    content |= {
        "model_hash": retriever.identity.hash,
        "command": shlex.join(["python", "benchmarks/nano_words.py", *words]),
        "machine": machine(),
    }
    if asked.out:
        write_json(asked.out, content)
    print(json.dumps({name: content[name] for name in ("set", "found", "first")}, indent=1))


if __name__ == "__main__":
    main()
