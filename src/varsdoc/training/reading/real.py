"""Real pages and what is asked about them, as an endless stream of views.

`pairs` of a config names packs (packs.py; scripts/ocr_words.py and scripts/pdf_words.py write them) and judged folders.
Packs know their words, so real pages teach all that generated ones do: questions are linked to the words they name, and
titles, sentences and runs of words become queries. A judged folder without words teaches by contrast alone.
"""

from __future__ import annotations

import hashlib
import io
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from varsdoc.image import ImageLike, read_image
from varsdoc.model.config import VarsConfig
from varsdoc.training.generator import Word
from varsdoc.training.generator.page import Box
from varsdoc.training.generator.pdf_words import in_lines, page_content
from varsdoc.training.generator.queries import SMALL, make_queries
from varsdoc.training.judge import Judged, read_judged
from varsdoc.training.reading.packs import Pack, PackedPage, is_pack, source_of
from varsdoc.training.reading.pages import QUERIES, Page, cut_to_shape, nearest_shape
from varsdoc.training.reading.views import new_view
from varsdoc.training.reading.words import plain, word_key
from varsdoc.training.sources import DataError, page_image

Links = list[tuple[int, int, int]]


class JudgedPages:
    """The pages of a judged folder that have a question, as a pack whose words nobody read."""

    def __init__(self, folder: str) -> None:
        judged = read_judged(folder)
        asked: dict[int, list[str]] = {}
        for text, grades in zip(judged.queries, judged.grades, strict=True):
            for page in grades:
                asked.setdefault(page, []).append(text)
        self.folder, self.judged, self.asked = Path(folder), judged, list(asked.items())

    def __len__(self) -> int:
        return len(self.asked)

    def __getitem__(self, i: int) -> PackedPage:
        page, questions = self.asked[i]
        picture = io.BytesIO()
        read_image(page_image(self.judged.folder, self.judged.pages[page])).save(picture, "PNG", compress_level=0)
        name = f"{self.folder.name}/{self.judged.pages[page]['_id']}"
        return PackedPage(name, picture.getvalue(), (), questions)


@lru_cache(maxsize=64)
def open_pages(folder: str) -> Pack | JudgedPages:
    """A pack or a judged folder, opened once per process; open it before workers are forked and they share it."""
    return Pack(folder) if is_pack(folder) else JudgedPages(folder)


def find_pages(folders: Sequence[str]) -> tuple[str, ...]:
    """Packs and judged folders: those named, and the packs inside a named folder that is neither."""
    found: list[str] = []
    for folder in folders:
        if is_pack(folder) or (Path(folder) / "corpus.jsonl").is_file():
            found.append(folder)
            continue
        inside = sorted(str(path.parent) for path in Path(folder).glob("**/pack.npz"))
        if not inside:
            raise DataError(f"{folder} is neither a pack nor a judged folder and holds no packs; see docs/training.md.")
        found += inside
    for folder in found:
        if is_pack(folder) and source_of(folder).endswith("-dev"):
            raise DataError(f"{folder} holds pages of {source_of(folder)}, which is kept for judging; take it away.")
    return tuple(found)


@dataclass(frozen=True)
class RealStream:
    """Views of all pages of the folders, in another order every round, each page once in it or as `often` as is said
    of its source.
    """

    folders: tuple[str, ...]
    seed: int = 0
    often: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return sum(len(open_pages(folder)) for folder in self.folders)

    def part(self, worker: int, workers: int, start: int) -> Iterator[Page]:
        times = {folder: self.often.get(source_of(folder), 1) if is_pack(folder) else 1 for folder in self.folders}
        every = [
            (folder, i, again)
            for folder in self.folders
            for i in range(len(open_pages(folder)))
            for again in range(times[folder])
        ]
        turn = 0
        while True:
            order = random.Random(f"varsdoc round {self.seed} {start} {turn}").sample(every, len(every))
            for folder, i, again in order[worker::workers]:
                rng = random.Random(f"varsdoc view {self.seed} {start} {turn} {folder} {i} {again}")
                yield view_page(open_pages(folder)[i], rng)
            turn += 1


def view_page(page: PackedPage, rng: random.Random) -> Page:
    """One view of a page with its queries. The words it can still show are what is asked about."""
    picture = page.image()
    picture = read_image(picture) if picture.mode not in ("L", "RGB") else picture
    width, height = picture.size
    sides = (width, height, width, height)

    def pixels(box: Box) -> Box:
        x0, y0, x1, y1 = (share * side for share, side in zip(box, sides, strict=True))
        return x0, y0, x1, y1

    words = [
        Word(w.text, pixels(w.box), "sure" if w.sure else "unsure", 0, 0, None if w.run is None else pixels(w.run))
        for w in page.words
    ]
    view = new_view(picture, words, rng)
    taught = in_lines([word for word in view.words if word.role == "sure"])
    also = frozenset(word_key(word.text) for word in (*view.cut, *view.words))
    queries = choose_queries(page.questions, taught, rng)
    return Page(view.image, taught, queries, page_number(page.name), also, rng.random())


def page_number(name: str) -> int:
    """A number far from those of generated pages.

    >>> page_number("a") == page_number("a") != page_number("b")
    True
    """
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:7], "big") | 1 << 55


def links(text: str, words: Sequence[Word]) -> Links:
    """Which characters of a question name a printed word: content words that stand on the page.

    >>> links("What was the income?", [Word("Income:", (0, 0, 1, 1), "ocr", 0, 0)])
    [(13, 20, 0)]
    """
    where: dict[int, int] = {}
    for i, word in enumerate(words):
        where.setdefault(word_key(word.text), i)
    found: Links = []
    for match in re.finditer(r"\S+", text):
        name = plain(match.group())
        if name and name not in SMALL and word_key(name) in where:
            found.append((match.start(), match.end(), where[word_key(name)]))
    return found


def choose_queries(asked: Sequence[str], words: Sequence[Word], rng: random.Random) -> list[tuple[str, Links]]:
    """Up to QUERIES texts: questions that name what is printed, then what the generator asks, then runs of words.

    Many questions of such sets fit any page ("What is the value of the longest bar?"); as a positive they teach
    nothing and as a negative they teach wrongly. A page without words keeps all its questions.
    """
    real = [(text, links(text, words)) for text in asked]
    content = [i for i, word in enumerate(words) if len(plain(word.text)) > 2 and plain(word.text) not in SMALL]
    if len(content) < 5:
        return real if not words else []
    named = [pair for pair in real if len(pair[1]) >= 2]
    chosen = (rng.sample(named, len(named)) * 2)[: QUERIES // 2]
    sizes = [word.box[3] - word.box[1] for word in words]
    made = make_queries(page_content(words, sizes), words, rng, QUERIES - 2 - len(chosen))
    chosen += [(query.text, list(query.links)) for query in made]
    while len(chosen) < QUERIES:
        chosen.append(_run(content, words, rng))
    return chosen


def _run(content: Sequence[int], words: Sequence[Word], rng: random.Random) -> tuple[str, Links]:
    """Three to seven printed words one after the other, sometimes shuffled."""
    begin = rng.randrange(len(content))
    picked = list(content[begin : begin + rng.randint(3, 7)])
    if rng.random() < 0.3:
        rng.shuffle(picked)
    text, places = "", []
    for i in picked:
        name = plain(words[i].text)
        places.append((len(text), len(text) + len(name), i))
        text += name + " "
    return text.rstrip(), places


def cut_pages(judged: Judged, config: VarsConfig, workers: int) -> Iterator[tuple[int, np.ndarray]]:
    """Shape and patches of every page of a judged set, in its order."""
    images = [page_image(judged.folder, page) for page in judged.pages]
    with ThreadPoolExecutor(max(1, workers)) as pool:  # decoding and scaling leave the interpreter free
        yield from pool.map(partial(_cut, config=config), images)


def _cut(image: ImageLike, config: VarsConfig) -> tuple[int, np.ndarray]:
    picture = read_image(image)
    shape = nearest_shape(picture.height, picture.width)
    return shape, cut_to_shape(picture, shape, config)
