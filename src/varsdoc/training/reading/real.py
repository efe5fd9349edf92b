"""Real pages and questions in the shapes of the reading stage.

A judged folder may hold `words.jsonl`, what an OCR engine read: lines {"_id", "words": [[text, x0, y0, x1, y1, ...]]}
with boxes as fractions of the page (`scripts/ocr_words.py` writes it). Then real pages teach reading as generated ones
do: their printed tokens are known, questions are linked to the words they name, and runs of words become queries.
Without it contrast alone teaches them.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image
from tokenizers import Tokenizer

from varsdoc.image import ImageLike, read_image
from varsdoc.model.config import VarsConfig
from varsdoc.training.generator import Word
from varsdoc.training.generator.queries import SMALL
from varsdoc.training.judge import Judged, read_judged
from varsdoc.training.reading.pages import QUERIES, SHAPES, Chunk, cut_to_shape, nearest_shape
from varsdoc.training.reading.printed import Speller, printed_tokens
from varsdoc.training.reading.targets import CELLS, TOKENS, Grid, occurrences, plain, token_targets, tokenise
from varsdoc.training.sources import page_image, read_lines

Links = list[tuple[int, int, int]]
Job = tuple[ImageLike, list[Word], int, int]  # picture, words, number of the page, number of the view
UNIT = 1000  # word boxes of a real page are in thousandths, whatever its size


def real_pages(folder: str, config: VarsConfig, tokenizer: Tokenizer, workers: int, views: int = 1) -> Iterator[Chunk]:
    """Every page of a judged folder that has a question, one page a chunk; `views` times, moved and scaled a little."""
    judged = read_judged(folder)
    asked: dict[int, list[str]] = {}
    for text, grades in zip(judged.queries, judged.grades, strict=True):
        for page in grades:
            asked.setdefault(page, []).append(text)
    words = read_words(judged.folder)
    jobs = [
        (page_image(judged.folder, judged.pages[page]), words.get(str(judged.pages[page]["_id"]), []), page, view)
        for view in range(views)
        for page in asked
    ]
    name = Path(folder).name
    with ThreadPoolExecutor(max(1, workers)) as pool:  # decoding and scaling leave the interpreter free
        cut = pool.map(partial(_cut, config=config, name=name), jobs)
        speller = Speller(tokenizer)
        for (shape, pixels, moved), (_, _, page, view) in zip(cut, jobs, strict=True):
            rng = random.Random(f"{name} {page} {view}")
            grid = Grid(*SHAPES[shape], UNIT, UNIT)
            texts = choose_queries(asked[page], moved, rng)
            ids, targets = _teach(texts, moved, grid, config, tokenizer)
            key = hashlib.sha256(f"{name}/{page}".encode()).digest()[:7]
            printed = printed_tokens(moved, grid, speller, rng.random())
            yield Chunk(
                shape, pixels[None], ids[None], targets[None], np.array([int.from_bytes(key, "big")]), printed[None]
            )


def read_words(folder: Path) -> dict[str, list[Word]]:
    """Words of each page, boxes in thousandths of its sides; nothing where the folder has no words.jsonl."""
    path = folder / "words.jsonl"
    if not path.is_file():
        return {}
    return {
        str(line["_id"]): [
            Word(str(w[0]), (w[1] * UNIT, w[2] * UNIT, w[3] * UNIT, w[4] * UNIT), "ocr", 0, 0) for w in line["words"]
        ]
        for line in read_lines(path)
    }


def links(text: str, words: Sequence[Word]) -> Links:
    """Which characters of a question name a printed word: content words that stand on the page.

    >>> links("What was the income?", [Word("Income:", (0, 0, 1, 1), "ocr", 0, 0)])
    [(13, 20, 0)]
    """
    where = occurrences(words)
    found: Links = []
    for match in re.finditer(r"\S+", text):
        name = plain(match.group())
        if name and name not in SMALL and name in where:
            found.append((match.start(), match.end(), where[name][0]))
    return found


def choose_queries(asked: Sequence[str], words: Sequence[Word], rng: random.Random) -> list[tuple[str, Links]]:
    """QUERIES texts: the questions that name what is printed, then runs of printed words.

    Many questions of such sets fit any page ("What is the value of the longest bar?"); as a positive they teach
    nothing and as a negative they teach wrongly. A page without words keeps all its questions.
    """
    real = [(text, links(text, words)) for text in asked]
    named = [pair for pair in real if len(pair[1]) >= 2]
    content = [i for i, word in enumerate(words) if len(plain(word.text)) > 2 and plain(word.text) not in SMALL]
    if len(content) < 5:
        return [real[i % len(real)] for i in range(QUERIES)]
    chosen = (named * 2)[: QUERIES - 2]
    while len(chosen) < QUERIES:
        begin = rng.randrange(len(content))
        picked = content[begin : begin + rng.randint(3, 7)]
        if rng.random() < 0.3:
            picked = rng.sample(picked, len(picked))
        text, places = "", []
        for i in picked:
            name = plain(words[i].text)
            places.append((len(text), len(text) + len(name), i))
            text += name + " "
        chosen.append((text.rstrip(), places))
    return chosen


def _teach(
    texts: Sequence[tuple[str, Links]], words: Sequence[Word], grid: Grid, config: VarsConfig, tokenizer: Tokenizer
) -> tuple[np.ndarray, np.ndarray]:
    ids = np.full((QUERIES, TOKENS), -1, dtype=np.int16)
    targets = np.full((QUERIES, TOKENS, CELLS), -1, dtype=np.int16)
    for q, (text, where) in enumerate(texts):
        ids[q], offsets = tokenise(tokenizer, text, config)
        if where:
            targets[q, : len(offsets)] = token_targets(words, where, grid, offsets, len(config.query_prefix))
    return ids, targets


def _cut(job: Job, config: VarsConfig, name: str) -> tuple[int, np.ndarray, list[Word]]:
    image, words, page, view = job
    picture = read_image(image)
    if view:
        picture, words = move(picture, words, random.Random(f"move {name} {page} {view}"))
    shape = nearest_shape(picture.height, picture.width)
    return shape, cut_to_shape(picture, shape, config), words


def cut_pages(judged: Judged, config: VarsConfig, workers: int) -> Iterator[tuple[int, np.ndarray]]:
    """Shape and patches of every page of a judged set, in its order."""
    jobs: list[Job] = [(page_image(judged.folder, page), [], i, 0) for i, page in enumerate(judged.pages)]
    with ThreadPoolExecutor(max(1, workers)) as pool:
        for shape, pixels, _ in pool.map(partial(_cut, config=config, name=""), jobs):
            yield shape, pixels


def move(page: Image.Image, words: Sequence[Word], rng: random.Random) -> tuple[Image.Image, list[Word]]:
    """The page a little smaller, somewhere on a sheet of its own size and corner colour, with its words."""
    sx, sy = rng.uniform(0.85, 1.0), rng.uniform(0.85, 1.0)
    width, height = max(1, int(page.width * sx)), max(1, int(page.height * sy))
    x, y = rng.randint(0, page.width - width), rng.randint(0, page.height - height)
    sheet = Image.new(page.mode, page.size, page.getpixel((0, 0)))
    sheet.paste(page.resize((width, height), Image.Resampling.BICUBIC), (x, y))
    fx, fy = x / page.width * UNIT, y / page.height * UNIT
    moved = [
        replace(w, box=(fx + w.box[0] * sx, fy + w.box[1] * sy, fx + w.box[2] * sx, fy + w.box[3] * sy)) for w in words
    ]
    return sheet, moved
