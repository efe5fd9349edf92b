"""Fonts: find the usable ones in a folder, tell their kind, and hold some families out.

Usable means: FreeType opens the file, and every printable ASCII letter and digit is drawn, with different shapes (a
font that lacks them draws the same empty box for each). The train/held-out split is by a hash of the family name, so
the faces of one family stay on one side and the split is the same on every machine.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import ImageFont

LATIN = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
SCRIPT = re.compile(
    r"hand|script|kristi|breip|klaver|ruf|dancing|kaushan|lobster|leckerli|summersby|purisa|comic|humor|tomson|ecolier|"
    r"klaudia|dkg|chancery|chorus|joscelyn|jim|cherry|lemonada",
    re.IGNORECASE,
)
DISPLAY = re.compile(
    r"bebas|display|isabella|gotico|blackletter|roadgeek|league|spartan|ubuntu-title|museum|aenigma|rustik|balker|cactus|dustin|"
    r"solide|stencil|initial|swash|poster|3270|atari|glass|libfinal|engadget|fantasma|black|heavy|thin|hairline|ultra|kaffee",
    re.IGNORECASE,
)


# Families whose files do not share a first word.
HOUSES = {
    "cmun": "computer modern",
    "ptf": "pt serif",
    "pts": "pt sans",
    "ptm": "pt mono",
    "ptn": "pt sans",
    "ptz": "pt serif",
    "lmroman": "latin modern",
    "lmsans": "latin modern sans",
    "lmmono": "latin modern mono",
    "dkg": "dkg",
    "ocra": "ocr",
    "ocrb": "ocr",
    "linlibertine": "libertine",
    "linbiolinum": "biolinum",
    "millimetre": "millimetre",
}
SYMBOLS = re.compile(r"^[ds]050000l|ding|symbol|icon|math", re.IGNORECASE)


@dataclass(frozen=True)
class Face:
    """One font file and what it is good for. `path` is empty for the font that Pillow carries."""

    name: str
    path: str
    family: str
    kind: str  # text, mono, script or display
    bold: bool
    italic: bool

    def load(self, size: int) -> ImageFont.FreeTypeFont:
        if not self.path:
            font = ImageFont.load_default(size)
            assert isinstance(font, ImageFont.FreeTypeFont)
            return font
        # The basic engine draws the same everywhere; raqm is not on every host.
        return ImageFont.truetype(self.path, size, layout_engine=ImageFont.Layout.BASIC)


def family_of(name: str) -> str:
    """The family a file name stands for, without its style.

    >>> family_of("LiberationSans-BoldItalic"), family_of("texgyretermes-regular"), family_of("lmroman10-bold")
    ('liberationsans', 'texgyretermes', 'latin modern')
    """
    for prefix, house in HOUSES.items():
        if name.lower().startswith(prefix):
            return house
    stem = re.split(r"[-_ ]", name)[0]
    stem = re.sub(r"(?<=[a-z])(Bold|Italic|Regular|Oblique|BoldItalic|BoldOblique)+$", "", stem)
    return re.sub(r"\d+$", "", stem).lower() or name.lower()


def held_out(family: str, share: float = 0.1) -> bool:
    """Whether a family belongs to the fonts that training never sees.

    >>> sum(held_out(f"family{i}") for i in range(1000))
    113
    """
    number = int.from_bytes(hashlib.sha256(family.encode()).digest()[:4], "big")
    return number / 2**32 < share


def inspect(path: Path | None) -> Face | None:
    """The face in a file, or None if it is broken, symbolic or not Latin."""
    name = path.stem if path else "pillow-default"
    if SYMBOLS.search(name):
        return None
    face = Face(name, str(path) if path else "", family_of(name), "text", False, False)
    try:
        font = face.load(24)
        shapes = {bytes(font.getmask(letter)) for letter in LATIN}
        widths = {font.getlength(letter) for letter in "iWm.0"}
        height = font.getbbox("x")[3] - font.getbbox("x")[1]
    except (OSError, ValueError, TypeError):
        return None
    # Small-capital and all-capital faces repeat 26 shapes at most; icon fonts and empty boxes repeat nearly all.
    if len(shapes) < 34 or not 5 <= height <= 24:
        return None
    low = name.lower()
    # Small capitals have no ascenders: nobody sets a page in them.
    tall = font.getbbox("h")[3] - font.getbbox("h")[1]
    kind = (
        "mono"
        if len(widths) == 1
        else "script"
        if SCRIPT.search(low)
        else "display"
        if DISPLAY.search(low) or tall < 1.15 * height
        else "text"
    )
    bold = bool(re.search(r"bold|black|heavy|bd\b|-b$|demi", low))
    return Face(name, face.path, face.family, kind, bold, bool(re.search(r"ital|obli|slant|-i$", low)))


def find_fonts(folder: str | Path | None = None) -> list[Face]:
    """Usable faces of a folder, sorted by name; without one, what Pillow and an installed matplotlib carry."""
    if folder is not None:
        files = sorted(p for p in Path(folder).rglob("*") if p.suffix.lower() in (".ttf", ".otf"))
        faces = [face for face in map(inspect, files) if face is not None]
        if not faces:
            raise ValueError(
                f"No usable Latin font (.ttf, .otf) in {folder}: give another folder, or none for the built-in font."
            )
        return sorted(faces, key=lambda face: (face.name, face.path))
    files = []
    spec = importlib.util.find_spec("matplotlib")
    if spec is not None and spec.origin is not None:
        files = sorted((Path(spec.origin).parent / "mpl-data/fonts/ttf").glob("DejaVu*.ttf"))
    faces = [face for face in map(inspect, [None, *files]) if face is not None]
    return sorted(faces, key=lambda face: (face.name, face.path))


def split(faces: Sequence[Face], share: float = 0.1) -> tuple[list[Face], list[Face]]:
    """(training faces, held-out faces); with so few fonts that one side would be empty, both are all of them."""
    kept = [face for face in faces if not held_out(face.family, share)]
    out = [face for face in faces if held_out(face.family, share)]
    return (kept or list(faces)), (out or list(faces))
