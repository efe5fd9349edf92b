"""What travels out of the page generator: words with their boxes, structured content, queries, the finished sample.

A `Span` is a piece of text that was printed: its word indices point into `Sample.words`, so whoever builds a query
from a table cell or a legend entry knows where on the page it stands. Degradations move boxes but never change indices.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Word:
    """One printed word: its text as printed, its ink box in pixels (x0, y0, x1, y1), what it is and where it
    belongs.

    run   of a turned word (an upright axis title, a label that rises): from where to where it is read, (x0, y0, x1, y1)
          through the middle of its letters; None: from left to right. Its box is upright all the same.
    """

    text: str
    box: Box
    role: str
    block: int
    line: int
    run: Box | None = None


@dataclass(frozen=True)
class Span:
    """Printed text and the indices of its words. A span whose words did not all fit on the page is not `whole`."""

    text: str
    words: tuple[int, ...] = ()
    whole: bool = True

    def __bool__(self) -> bool:
        return self.whole and bool(self.words)


@dataclass(frozen=True)
class Field:
    """A label and what was filled in: a form line, a letter's date line, a receipt's total."""

    label: Span
    value: Span


@dataclass(frozen=True)
class Table:
    """Header cells, then rows whose first cell names the row. `numeric` says which columns hold numbers."""

    title: Span
    header: tuple[Span, ...]
    rows: tuple[tuple[Span, ...], ...]
    numeric: tuple[bool, ...]


@dataclass(frozen=True)
class Series:
    """One bar colour, line or pie: its legend entry, the name of its colour, and its value (and printed label) per
    category.
    """

    name: Span
    colour: str
    values: tuple[float, ...]
    labels: tuple[Span, ...]


@dataclass(frozen=True)
class Chart:
    kind: str
    subject: str
    title: Span
    categories: tuple[Span, ...]
    series: tuple[Series, ...]
    category_name: str
    unit: str


@dataclass(frozen=True)
class Fact:
    """A statement printed in running text, as a question: `question` has {a}, {b} ... for `slots`; `answer` is its
    evidence.
    """

    question: str
    slots: tuple[Span, ...]
    answer: Span


@dataclass
class Content:
    """What the page says, for query making. Lists are in reading order."""

    titles: list[Span] = field(default_factory=list)
    captions: list[Span] = field(default_factory=list)
    sentences: list[Span] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    fields: list[Field] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)
    items: list[Span] = field(default_factory=list)


@dataclass(frozen=True)
class Query:
    """A search text with its intent (`kind`), the words that are its evidence, and which query characters name which
    word.

    `links` holds (start, end, word index): query[start:end] means that printed word, even if it was inflected, misspelt
    or replaced by a synonym. A reading loss can teach the alignment from it. `answer` are the words,
    among the evidence, that
    the query asks for; a keyword query asks for nothing.
    """

    text: str
    kind: str
    evidence: tuple[int, ...]
    links: tuple[tuple[int, int, int], ...] = ()
    answer: tuple[int, ...] = ()


@dataclass
class Sample:
    """Page `index` of stream `seed`: image (h, w) or (h, w, 3) uint8, its words in reading order, content and
    queries.
    """

    image: np.ndarray
    words: list[Word]
    content: Content
    queries: list[Query]
    layout: str
    index: int
