"""A sheet in the making: canvas, topic and the fonts chosen for one page, shared by the layouts.

`FontBook` groups the faces of a process by use; `Sheet` picks a body and a heading face and keeps them for the page,
as real documents do. Everything random comes from the sheet's own generator.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from .canvas import BLACK, WHITE, Canvas, Colour, Style
from .fonts import Face
from .prose import Topic

PALETTES: tuple[tuple[Colour, ...], ...] = (
    ((40, 117, 221), (15, 40, 63), (186, 186, 186), (166, 9, 13), (132, 187, 36), (234, 179, 38), (109, 57, 158)),
    ((165, 128, 42), (234, 220, 176), (213, 160, 48), (130, 100, 35), (192, 192, 192), (90, 90, 90)),
    ((31, 73, 125), (85, 142, 213), (198, 217, 241), (148, 150, 153), (55, 96, 146)),
    ((148, 154, 60), (208, 211, 161), (117, 121, 40), (230, 231, 210), (100, 100, 100)),
    ((191, 58, 42), (63, 111, 144), (44, 132, 101), (108, 69, 117), (190, 140, 70), (0, 40, 80)),
    ((76, 114, 176), (221, 132, 82), (85, 168, 104), (196, 78, 82), (129, 114, 179), (147, 120, 96)),
    ((31, 119, 180), (255, 127, 14), (44, 160, 44), (214, 39, 40), (148, 103, 189), (140, 86, 75)),
    ((60, 60, 60), (130, 130, 130), (190, 190, 190), (95, 95, 95), (220, 220, 220)),
    ((162, 83, 33), (228, 183, 140), (96, 60, 30), (205, 133, 63), (120, 120, 120)),
)
NAMED: tuple[tuple[str, Colour], ...] = (
    ("blue", (40, 110, 210)),
    ("dark blue", (15, 45, 90)),
    ("light blue", (160, 200, 240)),
    ("red", (190, 30, 30)),
    ("green", (60, 150, 70)),
    ("light green", (190, 215, 140)),
    ("yellow", (235, 190, 50)),
    ("orange", (240, 130, 40)),
    ("purple", (115, 70, 155)),
    ("brown", (140, 90, 50)),
    ("gray", (150, 150, 150)),
    ("black", (30, 30, 30)),
    ("olive", (140, 145, 55)),
    ("beige", (232, 218, 178)),
    ("light gray", (205, 205, 205)),
    ("dark brown", (100, 65, 30)),
)


COMMON = re.compile(
    r"liberation|dejavu|lato|roboto|opensans|notos|texgyre(termes|heros|pagella|schola|bonum)|nimbus|carlito|caladea|cmunrm|lmroman|"
    r"arimo|tinos|freese|freesans|inter|c059|p052|stix|libertine|gothic",
    re.IGNORECASE,
)


def colour_name(colour: Colour) -> str:
    """
    >>> colour_name((31, 119, 180)), colour_name((250, 130, 20))
    ('blue', 'orange')
    """
    return min(NAMED, key=lambda named: sum((a - b) ** 2 for a, b in zip(named[1], colour, strict=True)))[0]


def luminance(colour: Colour) -> float:
    return 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2]


class FontBook:
    """Faces by use; every list is non-empty as long as there is one face."""

    def __init__(self, faces: Sequence[Face]) -> None:
        if not faces:
            raise ValueError("A font book needs at least one face: pass what find_fonts() returns.")
        self.faces = list(faces)
        plain = [f for f in faces if not f.bold and not f.italic]
        self.text = [f for f in plain if f.kind == "text"] or plain or self.faces
        self.common = [f for f in self.text if COMMON.search(f.name)] or self.text
        self.mono = [f for f in plain if f.kind == "mono"] or self.text
        self.script = [f for f in faces if f.kind == "script"] or self.text
        self.heads = [f for f in faces if f.kind == "display" or (f.bold and f.kind == "text")] or self.text
        self.italics = [f for f in faces if f.italic and f.kind == "text"] or self.text
        self.families: dict[str, list[Face]] = {}
        for face in faces:
            self.families.setdefault(face.family, []).append(face)

    def sibling(self, face: Face, bold: bool = False, italic: bool = False) -> Face:
        """The face of the same family in another style, or the face itself."""
        kin = [f for f in self.families.get(face.family, [face]) if f.bold == bold and f.italic == italic]
        return kin[0] if kin else face


class Sheet:
    def __init__(
        self, rng: random.Random, book: FontBook, texts: tuple[str, ...] = (), size: tuple[int, int] | None = None
    ) -> None:
        self.rng, self.book, self.size = rng, book, size
        self.topic = Topic(rng, texts=texts)
        # Half of the pages in the faces of most documents; the other half keeps the model from relying on them.
        self.body = rng.choice(book.common if rng.random() < 0.5 else book.text)
        self.bold = book.sibling(self.body, bold=True)
        self.italic = book.sibling(self.body, italic=True)
        self.head = self.bold if rng.random() < 0.6 else rng.choice(book.heads)
        self.hand = rng.choice(book.script)
        self.mono = rng.choice(book.mono)
        self.palette = rng.choice(PALETTES)
        self.canvas = Canvas(8, 8)

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def open(self, width: int, height: int, grey: bool = True, paper: Colour = WHITE) -> Canvas:
        if self.size is not None:
            width, height = self.size
        self.canvas = Canvas(width, height, paper, grey)
        return self.canvas

    def open_scan(self) -> Canvas:
        """A grey page of about 1000 px, upright (mostly) or landscape, as archives deliver them."""
        long, short = self.rng.randint(960, 1010), self.rng.randint(740, 800)
        return self.open(short, long) if self.chance(0.88) else self.open(long, short)

    def typed(self) -> None:
        """From here on the page is typed: one monospaced face for everything."""
        self.body = self.bold = self.italic = self.head = self.mono

    def style(self, size: float, bold: bool = False, italic: bool = False, colour: Colour = BLACK) -> Style:
        face = self.bold if bold else self.italic if italic else self.body
        return Style(face, max(8, round(size)), colour)

    def base_size(self) -> int:
        """Body sizes of scanned pages: words as tall as on real ones (median 10.6 px), sometimes large print."""
        return self.rng.choice((9, 10, 11, 12, 12, 13, 13, 14, 14, 15, 15, 16, 17, 18, 20, 23))

    def dark(self) -> Colour:
        """A colour that can be read on white."""
        dark = [c for c in self.palette if luminance(c) < 120]
        return self.rng.choice(dark) if dark else BLACK
