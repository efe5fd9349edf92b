"""The endless stream of pages: page i of seed s is always the same, whoever makes it and however many help.

    stream = PageStream(seed=1, fonts="fonts/")
    sample = stream[42]                       # any page, in any order, in any process
    for sample in stream.part(worker=3, workers=16): ...

A `PageStream` pickles as its few settings; fonts and texts are read again where it lands.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from .degrade import Wear, degrade, draw_wear
from .fonts import find_fonts, split
from .layouts import LAYOUTS, WEIGHTS
from .page import Sample
from .prose import read_texts
from .queries import make_queries
from .sheet import FontBook, Sheet


@lru_cache(maxsize=8)
def _book(folder: str | None, held_out: bool) -> FontBook:
    return FontBook(split(find_fonts(folder))[int(held_out)])


@lru_cache(maxsize=2)
def _texts(folder: str | None) -> tuple[str, ...]:
    return read_texts(folder) if folder is not None else ()


@dataclass(frozen=True)
class PageStream:
    """`fonts` and `texts` are folders (None: built-in fonts, made sentences only); `held_out` uses the unseen font
    families.

    `layouts` gives the weight of each layout (those left out never come); `wear` fixes the degradation of every page.
    """

    seed: int = 0
    fonts: str | None = None
    texts: str | None = None
    held_out: bool = False
    layouts: Mapping[str, float] = field(default_factory=lambda: dict(WEIGHTS))
    queries: int = 10
    wear: Wear | None = None
    size: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        unknown = sorted(set(self.layouts) - set(LAYOUTS))
        if unknown or not self.layouts:
            raise ValueError(f"Unknown layouts {unknown}: choose from {sorted(LAYOUTS)}.")
        if self.fonts is not None and not Path(self.fonts).is_dir():
            raise ValueError(
                f"The font folder {self.fonts} does not exist: make it with scripts/collect_fonts.sh, or give none."
            )

    def __getitem__(self, index: int) -> Sample:
        # A string seeds through SHA-512: neighbours share nothing, and no platform differs.
        rng = random.Random(f"varsdoc page {self.seed} {index}")
        names = sorted(self.layouts)
        layout = rng.choices(names, [self.layouts[name] for name in names])[0]
        sheet = Sheet(rng, _book(self.fonts, self.held_out), _texts(self.texts), self.size)
        LAYOUTS[layout](sheet)
        canvas = sheet.canvas
        wear = draw_wear(rng, canvas.grey) if self.wear is None else self.wear
        image, words = degrade(canvas.image, canvas.words, wear, rng)
        queries = make_queries(canvas.content, words, rng, self.queries)
        return Sample(image, words, canvas.content, queries, layout, index)

    def part(self, worker: int = 0, workers: int = 1, start: int = 0) -> Iterator[Sample]:
        """Pages start + worker, start + worker + workers, ... without end."""
        if not 0 <= worker < workers:
            raise ValueError(f"Worker {worker} of {workers} does not exist: count from 0.")
        index = start + worker
        while True:
            yield self[index]
            index += workers
