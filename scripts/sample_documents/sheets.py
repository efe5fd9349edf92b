"""Two kinds of paper with one set of pens: `PdfSheet` writes PDF operators (with a text layer), `PictureSheet` pixels.

Lengths are points, the origin is the top left corner. Text is measured with Pillow's own font on both, so lines break
alike; Helvetica and Times are no wider.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal, Protocol

from PIL import Image, ImageDraw, ImageFont

Colour = tuple[int, int, int]
Face = Literal["plain", "bold", "serif", "serif bold", "typed"]
BLACK, GREY, LIGHT, WHITE = (20, 20, 20), (110, 110, 110), (225, 228, 232), (255, 255, 255)
BLUE, TEAL, RED, GOLD, GREEN = (32, 82, 149), (20, 130, 130), (176, 48, 48), (214, 158, 46), (70, 130, 60)
PALETTE = (BLUE, GOLD, TEAL, RED, GREEN, GREY)
A4, SLIDE = (595, 842), (720, 405)
_PDF_FONTS: dict[Face, str] = {
    "plain": "Helvetica",
    "bold": "Helvetica-Bold",
    "serif": "Times-Roman",
    "serif bold": "Times-Bold",
    "typed": "Courier",
}


class Sheet(Protocol):
    """What a page is drawn with. Text stands on its top left corner."""

    width: float
    height: float

    def text(
        self, x: float, y: float, words: str, size: float = 11, face: Face = "plain", ink: Colour = BLACK
    ) -> None: ...
    def line(self, x0: float, y0: float, x1: float, y1: float, ink: Colour = BLACK, width: float = 0.8) -> None: ...
    def box(
        self, x: float, y: float, w: float, h: float, fill: Colour | None = None, ink: Colour | None = None
    ) -> None: ...
    def shape(self, points: Sequence[tuple[float, float]], fill: Colour) -> None: ...


@lru_cache
def _font(size: float) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)


def width_of(words: str, size: float, face: Face = "plain") -> float:
    """How wide a line is, in points."""
    if face == "typed":
        return 0.6 * size * len(words)
    return _font(100).getlength(words) * size / 100 * (1.06 if "bold" in face else 1.0)


class PdfSheet:
    """A page of a PDF."""

    def __init__(self, size: tuple[float, float] = A4) -> None:
        self.width, self.height = size
        self._operators: list[str] = []

    def text(self, x: float, y: float, words: str, size: float = 11, face: Face = "plain", ink: Colour = BLACK) -> None:
        escaped = words.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
        name = list(_PDF_FONTS).index(face)
        base = self.height - y - 0.8 * size
        self._put(f"BT {_rgb(ink)} rg /F{name} {size:g} Tf {x:.2f} {base:.2f} Td ({escaped}) Tj ET")

    def line(self, x0: float, y0: float, x1: float, y1: float, ink: Colour = BLACK, width: float = 0.8) -> None:
        h = self.height
        self._put(f"{_rgb(ink)} RG {width:g} w {x0:.2f} {h - y0:.2f} m {x1:.2f} {h - y1:.2f} l S")

    def box(
        self, x: float, y: float, w: float, h: float, fill: Colour | None = None, ink: Colour | None = None
    ) -> None:
        colours = (f"{_rgb(fill)} rg " if fill else "") + (f"{_rgb(ink)} RG 0.8 w " if ink else "")
        paint = {(True, True): "B", (True, False): "f", (False, True): "S"}[(fill is not None, ink is not None)]
        self._put(f"{colours}{x:.2f} {self.height - y - h:.2f} {w:.2f} {h:.2f} re {paint}")

    def shape(self, points: Sequence[tuple[float, float]], fill: Colour) -> None:
        path = [f"{x:.2f} {self.height - y:.2f} {'l' if i else 'm'}" for i, (x, y) in enumerate(points)]
        self._put(f"{_rgb(fill)} rg {' '.join(path)} h f")

    def _put(self, operators: str) -> None:
        self._operators.append(operators)

    @property
    def stream(self) -> bytes:
        return "\n".join(self._operators).encode("latin-1")


class PictureSheet:
    """A page as a picture, for scans, photographs and PDFs without text."""

    def __init__(self, size: tuple[float, float] = A4, scale: float = 1.4) -> None:
        self.width, self.height = size
        self.scale = scale
        self.image = Image.new("RGB", (round(size[0] * scale), round(size[1] * scale)), "white")
        self._pen = ImageDraw.Draw(self.image)

    def text(self, x: float, y: float, words: str, size: float = 11, face: Face = "plain", ink: Colour = BLACK) -> None:
        font, at = _font(round(size * self.scale)), (x * self.scale, y * self.scale)
        if face == "typed":
            for i, letter in enumerate(words):
                self._pen.text((at[0] + (i + 0.3) * 0.6 * size * self.scale, at[1]), letter, ink, font, anchor="ma")
            return
        self._pen.text(at, words, ink, font)
        if "bold" in face:  # the one font has no bold: it is struck twice
            self._pen.text((at[0] + max(1, size * self.scale / 24), at[1]), words, ink, font)

    def line(self, x0: float, y0: float, x1: float, y1: float, ink: Colour = BLACK, width: float = 0.8) -> None:
        self._pen.line(self._pixels((x0, y0), (x1, y1)), ink, max(1, round(width * self.scale)))

    def box(
        self, x: float, y: float, w: float, h: float, fill: Colour | None = None, ink: Colour | None = None
    ) -> None:
        self._pen.rectangle(self._pixels((x, y), (x + w, y + h)), fill, ink)

    def shape(self, points: Sequence[tuple[float, float]], fill: Colour) -> None:
        self._pen.polygon(self._pixels(*points), fill)

    def _pixels(self, *points: tuple[float, float]) -> list[tuple[float, float]]:
        return [(x * self.scale, y * self.scale) for x, y in points]


def pdf_bytes(sheets: Sequence[PdfSheet], title: str) -> bytes:
    """A PDF of these pages, written by hand: the same bytes each time."""
    fonts = " ".join(f"/F{i} {3 + i} 0 R" for i in range(len(_PDF_FONTS)))
    first = 3 + len(_PDF_FONTS)
    kids = " ".join(f"{first + 2 * i} 0 R" for i in range(len(sheets)))
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", f"<< /Type /Pages /Count {len(sheets)} /Kids [{kids}] >>".encode()]
    for name in _PDF_FONTS.values():
        objects.append(
            f"<< /Type /Font /Subtype /Type1 /BaseFont /{name} /Encoding /WinAnsiEncoding >>".encode("latin-1")
        )
    for i, sheet in enumerate(sheets):
        packed = zlib.compress(sheet.stream, 9)
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {sheet.width:g} {sheet.height:g}] "
            f"/Resources << /Font << {fonts} >> >> /Contents {first + 2 * i + 1} 0 R >>".encode()
        )
        objects.append(f"<< /Length {len(packed)} /Filter /FlateDecode >>\nstream\n".encode() + packed + b"\nendstream")
    objects.append(f"<< /Title ({title}) /Producer (varsdoc scripts/make_samples.py) >>".encode("latin-1"))
    return _with_table(objects)


def _with_table(objects: Sequence[bytes]) -> bytes:
    out, offsets = bytearray(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n"), []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n".encode() + body + b"\nendobj\n"
    start = len(out)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode()
    out += b"".join(f"{offset:010d} 00000 n \n".encode() for offset in offsets)
    out += f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R /Info {len(objects)} 0 R >>\n".encode()
    return bytes(out + f"startxref\n{start}\n%%EOF\n".encode())


def _rgb(colour: Colour) -> str:
    return " ".join(f"{part / 255:.3f}" for part in colour)


def paragraph(
    sheet: Sheet, x: float, y: float, width: float, words: str, size: float = 11, face: Face = "plain"
) -> float:
    """Lines broken at a width; where the next thing may stand."""
    line = ""
    for word in [*words.split(), None]:
        longer = f"{line} {word}".strip()
        if word is None or width_of(longer, size, face) > width:
            sheet.text(x, y, line, size, face)
            y += size * 1.42
            line = word or ""
        else:
            line = longer
    return y + size * 0.5


def table(
    sheet: Sheet, x: float, y: float, columns: Sequence[float], rows: Iterable[Sequence[str]], size: float = 11
) -> float:
    """The first row is the head; numbers stand where their column begins."""
    step, width = size * 1.95, sum(columns)
    for i, row in enumerate(rows):
        if i == 0:
            sheet.box(x, y, width, step, fill=LIGHT)
        at = x
        for cell, column in zip(row, columns, strict=True):
            sheet.text(at + 5, y + size * 0.4, cell, size, "bold" if i == 0 else "plain")
            at += column
        y += step
        sheet.line(x, y, x + width, y, GREY, 0.5)
    return y + size


def bars(
    sheet: Sheet, x: float, y: float, w: float, h: float, values: dict[str, float], unit: str = "", size: float = 10.5
) -> None:
    """A bar chart: labels below, values on top."""
    top, step = max(values.values()), w / len(values)
    sheet.line(x, y, x, y + h)
    sheet.line(x, y + h, x + w, y + h)
    for i, (label, value) in enumerate(values.items()):
        high, left = (h - 18) * value / top, x + step * (i + 0.18)
        sheet.box(left, y + h - high, step * 0.64, high, fill=PALETTE[0])
        shown = f"{value:g}{unit}"
        middle = left + step * 0.32
        sheet.text(middle - width_of(shown, size) / 2, y + h - high - size * 1.3, shown, size)
        sheet.text(middle - width_of(label, size) / 2, y + h + 5, label, size)


def curve(
    sheet: Sheet, x: float, y: float, w: float, h: float, points: dict[str, float], ink: Colour = RED, size: float = 10
) -> None:
    """A line chart."""
    top, step = max(points.values()) * 1.1, w / (len(points) - 1)
    sheet.line(x, y, x, y + h)
    sheet.line(x, y + h, x + w, y + h)
    before: tuple[float, float] | None = None
    for i, (label, value) in enumerate(points.items()):
        here = (x + i * step, y + h - h * value / top)
        if before:
            sheet.line(*before, *here, ink, 1.6)
        sheet.box(here[0] - 2, here[1] - 2, 4, 4, fill=ink)
        sheet.text(here[0] - 8, here[1] - 16, f"{value:g}", size)
        sheet.text(here[0] - width_of(label, size) / 2, y + h + 5, label, size)
        before = here


def pie(sheet: Sheet, x: float, y: float, radius: float, shares: dict[str, float], size: float = 12) -> None:
    """A pie with its legend on the right."""
    angle, total = -90.0, sum(shares.values())
    for i, (label, share) in enumerate(shares.items()):
        sweep = 360 * share / total
        rim = [math.radians(angle + sweep * j / 24) for j in range(25)]
        sheet.shape([(x, y), *((x + radius * math.cos(a), y + radius * math.sin(a)) for a in rim)], PALETTE[i])
        angle += sweep
        at = y - radius + 8 + i * size * 2
        sheet.box(x + radius + 24, at, size, size, fill=PALETTE[i])
        sheet.text(x + radius + 24 + size * 1.6, at - 1, f"{label}: {share:g} %", size)
