"""Real PDFs with a text layer: page image, words with boxes, and simple queries, through pypdfium2.

Broken, locked and scanned files are no reason to stop: whatever cannot be used goes to `skipped` with its reason.
Words are the runs between spaces of the text layer; a box is the union of its characters' boxes, turned to pixels of
the rendered page.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from .page import Box, Content, Sample, Span, Word
from .queries import keywords, make_queries

FEWEST_WORDS = 8


@dataclass
class PdfReader:
    """Iterates over the pages of PDFs as samples. `long_side` is the size of the image in pixels.

    >>> PdfReader([]).skipped
    []
    """

    paths: Sequence[str | Path]
    long_side: int = 1000
    queries: int = 8
    seed: int = 0
    grey: bool = False
    skipped: list[tuple[str, str]] = field(default_factory=list)

    def __iter__(self) -> Iterator[Sample]:
        import pypdfium2

        for path in self.paths:
            try:
                document = pypdfium2.PdfDocument(str(path))
            except (pypdfium2.PdfiumError, OSError) as reason:
                self.skipped.append((str(path), f"cannot be opened: {reason}"))
                continue
            try:
                for number in range(len(document)):
                    sample = self._page(document, number, str(path))
                    if sample is not None:
                        yield sample
            finally:
                document.close()

    def _page(self, document: Any, number: int, path: str) -> Sample | None:
        import pypdfium2

        where = f"{path} page {number + 1}"
        try:
            page = document[number]
            image, words, sizes = read_page(page, self.long_side, self.grey)
        except (pypdfium2.PdfiumError, ValueError, OSError) as reason:
            self.skipped.append((where, f"cannot be read: {reason}"))
            return None
        if len(words) < FEWEST_WORDS:
            self.skipped.append((where, f"only {len(words)} words in its text layer"))
            return None
        rng = random.Random(f"varsdoc pdf {self.seed} {Path(path).name} {number}")
        content = page_content(words, sizes)
        made = make_queries(content, words, rng, self.queries) or [q for q in [keywords(content, words, rng)] if q]
        return Sample(image, words, content, made, "pdf", number)


def read_page(page: Any, long_side: int, grey: bool) -> tuple[np.ndarray, list[Word], list[float]]:
    """The rendered page, its words, and the height of each word's letters."""
    width, height = page.get_size()
    if min(width, height) <= 1:
        raise ValueError(f"its size is {width} x {height} points")
    scale = long_side / max(width, height)
    bitmap = page.render(scale=scale, grayscale=grey)
    image = np.asarray(bitmap.to_pil().convert("L" if grey else "RGB")).copy()
    text = page.get_textpage()
    try:
        runs = word_runs(text)
        frame = (image.shape[1], image.shape[0])
        boxes = [(characters, pixels(page, parts, scale, frame)) for characters, parts in runs]
        words = in_lines([Word(characters, box, "body", 0, 0) for characters, box in boxes if box is not None])
    finally:
        text.close()
    return image, words, [word.box[3] - word.box[1] for word in words]


def in_lines(words: Sequence[Word]) -> list[Word]:
    """Words in reading order with the line and block that their boxes put them in.

    >>> boxes = [(0, 0, 9, 10), (12, 1, 20, 10), (0, 14, 9, 24), (0, 80, 9, 90)]
    >>> [(w.line, w.block) for w in in_lines([Word("a", box, "body", 0, 0) for box in boxes])]
    [(0, 0), (0, 0), (1, 0), (2, 1)]
    """
    placed: list[Word] = []
    block = line = 0
    for word in words:
        if placed and (word.run or placed[-1].run):
            apart_from = not goes_on(placed[-1], word)
            line, block = line + apart_from, block + apart_from
        elif placed:
            before = placed[-1].box
            apart, tall = word.box[1] - before[1], max(before[3] - before[1], 4)
            if abs(apart) > 0.6 * tall:
                line += 1
                # A new block begins after a gap, or where the text jumps back up to another column.
                block += int(apart > 2.2 * tall or apart < -tall)
        placed.append(replace(word, block=block, line=line))
    return placed


def goes_on(before: Word, word: Word) -> bool:
    """Whether a turned word begins where the one before it ends, two letters apart at most.

    >>> share, of = ((2.0, 99.0, 2.0, 60.0), (2.0, 55.0, 2.0, 40.0))
    >>> words = [Word("Share", (0, 60, 4, 99), "", 0, 0, share), Word("of", (0, 40, 4, 55), "", 0, 0, of)]
    >>> goes_on(*words), goes_on(*reversed(words))
    (True, False)
    """
    if before.run is None or word.run is None:
        return False
    letter = math.dist(before.run[:2], before.run[2:]) / max(1, len(before.text))
    return math.dist(before.run[2:], word.run[:2]) <= 2 * letter


def word_runs(text: Any) -> list[tuple[str, list[Box]]]:
    """Runs of characters without a space, each with its characters' boxes in PDF points."""
    count = text.count_chars()
    # One call per page; control marks of the library stand where lines are broken.
    characters = text.get_text_range(0, count) if count else ""
    if len(characters) != count:  # characters beyond the basic plane, or none for a glyph: ask one by one
        characters = "".join((text.get_text_range(i, 1) or " ")[:1] for i in range(count))
    runs: list[tuple[str, list[Box]]] = []
    current = ""
    boxes: list[Box] = []
    for index, letter in enumerate(characters):
        if letter.isspace() or not letter.isprintable():
            if current:
                runs.append((current, boxes))
            current, boxes = "", []
            continue
        current += letter
        boxes.append(text.get_charbox(index))
    if current:
        runs.append((current, boxes))
    return runs


def pixels(page: Any, boxes: Sequence[Box], scale: float, frame: tuple[int, int]) -> Box | None:
    """The union of character boxes (points, origin at the lower left of the crop box) in image pixels, or None if
    off the page.
    """
    left, _, _, top = page.get_bbox()
    rotation = page.get_rotation()
    if rotation != 0:
        # Character boxes do not follow the page's rotation; rotated pages are rare enough to leave their words out.
        return None
    x0, y0 = min(b[0] for b in boxes), max(b[3] for b in boxes)
    x1, y1 = max(b[2] for b in boxes), min(b[1] for b in boxes)
    box = ((x0 - left) * scale, (top - y0) * scale, (x1 - left) * scale, (top - y1) * scale)
    inside = box[0] >= -1 and box[1] >= -1 and box[2] <= frame[0] + 1 and box[3] <= frame[1] + 1
    return box if inside and box[2] > box[0] and box[3] > box[1] else None


def page_content(words: Sequence[Word], sizes: Sequence[float]) -> Content:
    """Titles (lines printed clearly larger than most) and sentences, so that the usual query makers work."""
    content = Content()
    usual = float(np.median(sizes))
    lines: dict[int, list[int]] = {}
    for i, word in enumerate(words):
        lines.setdefault(word.line, []).append(i)
    for members in lines.values():
        text = " ".join(words[i].text for i in members)
        size = float(np.mean([sizes[i] for i in members]))
        if size > 1.35 * usual and 1 < len(members) <= 14 and any(c.isalpha() for c in text):
            content.titles.append(Span(text, tuple(members)))
        elif text.lower().startswith(("figure ", "fig. ", "table ", "exhibit ")) and len(members) > 2:
            content.captions.append(Span(text, tuple(members)))
    start = 0
    for i, word in enumerate(words):
        last = i + 1 == len(words) or words[i + 1].block != word.block
        if word.text.endswith((".", "?", "!")) or last:
            if 5 <= i + 1 - start <= 40:
                content.sentences.append(
                    Span(" ".join(w.text for w in words[start : i + 1]), tuple(range(start, i + 1)))
                )
            start = i + 1
    return content
