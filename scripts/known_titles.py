"""Titles of upright axes as charts' tables have them, to correct what an engine read of them.

Print of eight pixels that runs upwards is read as "Num ber of licensed vehicles". Statista's tables name their columns
as its charts name their axes, ten thousand titles in all, so a line that is nearly one of them is that one.

    titles = KnownTitles(["Number of licensed vehicles", "Share of respondents"])
    titles.correct(words)         # rows of ocr_words.py; those of upright lines that it knows are replaced
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Any

from varsdoc.training.generator import Word
from varsdoc.training.generator.pdf_words import goes_on

ALIKE = 0.88  # of letters that a line shares with the title that it is taken for; from .8 wrong words come in
WORD = 3  # letters that one of the two has and the other lacks, from which it has another word
SHORTEST = 6  # letters
BESIDE = 0.012  # of the page's width, that words of one upright line lie apart at most
CLEAR = 92  # of 100: a line whose words were all read so well is right
KNOWN = 95  # the certainty of a corrected word, of 100
Row = list[Any]  # text, box, certainty, run: as ocr_words.py has it


def letters(text: str) -> str:
    """
    >>> letters("Num ber of (U.S.)")
    'numberofus'
    """
    return "".join(c for c in text.lower() if c.isalnum())


def trigrams(text: str) -> set[str]:
    return {text[i : i + 3] for i in range(len(text) - 2)}


def whole(match: SequenceMatcher[str]) -> bool:
    """Whether neither side has a word that the other lacks: titles of many words are alike without one.

    >>> a = "salespricein"
    >>> [whole(SequenceMatcher(None, a, b)) for b in ("salesprkein", "salesin", "salespriceinusd")]
    [True, False, False]
    """
    return all(abs((b - a) - (d - c)) < WORD for kind, a, b, c, d in match.get_opcodes() if kind != "equal")


class KnownTitles:
    def __init__(self, titles: Iterable[str]) -> None:
        usable = {title.strip() for title in titles}
        self.titles = sorted(title for title in usable if len(letters(title)) >= SHORTEST and not title[0].isdigit())
        self.letters = [letters(title) for title in self.titles]
        self.having: dict[str, list[int]] = defaultdict(list)
        for i, name in enumerate(self.letters):
            for part in trigrams(name):
                self.having[part].append(i)

    def nearest(self, text: str) -> str | None:
        """
        >>> known = KnownTitles(["Number of employees", "Number of enterprises", "Share of respondents"])
        >>> known.nearest("Nurn ber of employees"), known.nearest("Shane of respondents"), known.nearest("Net sales")
        ('Number of employees', 'Share of respondents', None)
        """
        name = letters(text)
        parts = trigrams(name)
        shared = Counter(i for part in parts for i in self.having.get(part, ()))
        # By the share of trigrams, not by their number: longer titles have them all.
        likely = sorted(shared, key=lambda i: shared[i] / (len(parts) + len(self.letters[i])), reverse=True)[:12]
        rated = [(SequenceMatcher(None, name, self.letters[i]), self.titles[i]) for i in likely]
        # Of titles that differ in case and brackets alone, the one that stands there.
        fitting = [
            (match.ratio(), SequenceMatcher(None, text, title).ratio(), title)
            for match, title in rated
            if match.ratio() >= ALIKE and whole(match)
        ]
        return max(fitting)[2] if fitting else None

    def correct(self, words: Sequence[Row]) -> list[Row]:
        """Words of which those in upright lines that are nearly a known title have its text, spread along the line."""
        out: list[Row] = []
        for line in lines_of(words):
            doubtful = is_upright(line) and min(row[5] for row in line) < CLEAR
            title = self.nearest(" ".join(row[0] for row in line)) if doubtful else None
            out += line if title is None else spread(title, line)
        return out


def apart(words: Sequence[Row]) -> list[Row]:
    """Upright words that end where the next one of their line begins: an engine often gives the first word of a line
    the box of the whole.

    >>> net = ["Net", 0.1, 0.2, 0.12, 0.9, 95, 0.11, 0.9, 0.11, 0.2]
    >>> pay = ["pay", 0.1, 0.2, 0.12, 0.5, 95, 0.11, 0.5, 0.11, 0.2]
    >>> [(row[2], row[4], row[9]) for row in apart([net, pay])]
    [(0.5, 0.9, 0.5), (0.2, 0.5, 0.2)]
    """
    kept = [list(row) for row in words]
    for row, after in pairwise(kept):
        if is_upright([row, after]) and abs(row[6] - after[6]) < BESIDE:
            low, high = sorted((row[7], row[9]))
            if low < after[7] < high:
                row[9] = after[7]
                row[2], row[4] = sorted((row[7], row[9]))
    return kept


def lines_of(words: Sequence[Row]) -> list[list[Row]]:
    """Turned words that follow each other as one line; every level word by itself."""
    lines: list[list[Row]] = []
    for row in words:
        if row[6:] and lines and lines[-1][-1][6:] and goes_on(as_word(lines[-1][-1]), as_word(row)):
            lines[-1].append(row)
        else:
            lines.append([row])
    return lines


def as_word(row: Row) -> Word:
    return Word(row[0], tuple(row[1:5]), "", 0, 0, tuple(row[6:10]))


def is_upright(line: Sequence[Row]) -> bool:
    return all(len(row) == 10 and abs(row[6] - row[8]) < 0.1 * abs(row[7] - row[9]) for row in line)


def spread(title: str, line: Sequence[Row]) -> list[Row]:
    """The title's words along the line, each as long as its share of the letters.

    >>> line = [["Un", .1, .5, .14, .9, 60, .12, .9, .12, .5], ["its", .1, .1, .14, .4, 60, .12, .4, .12, .1]]
    >>> [(row[0], row[2], row[4]) for row in spread("Unit sold", line)]
    [('Unit', 0.5444, 0.9), ('sold', 0.1, 0.4556)]
    """
    (x, begin), end = line[0][6:8], line[-1][9]
    left, right = min(row[1] for row in line), max(row[3] for row in line)
    rows: list[Row] = []
    place = 0
    for text in title.split():
        low, high = (begin + (end - begin) * at / len(title) for at in (place, place + len(text)))
        top, bottom = sorted((low, high))
        rows.append([text, left, round(top, 4), right, round(bottom, 4), KNOWN, x, round(low, 4), x, round(high, 4)])
        place += len(text) + 1
    return rows
