"""What stands around the content of scanned pages: page numbers, Bates numbers, stamps, archive lines, logos."""

from __future__ import annotations

from dataclasses import replace

from .. import entities as e
from ..canvas import BLACK, Colour, Style
from ..page import Box, Field, Span
from ..sheet import Sheet

STAMPS = (
    "RECEIVED",
    "CONFIDENTIAL",
    "COPY",
    "PAID",
    "DRAFT",
    "APPROVED",
    "BEST COPY",
    "FILE",
    "URGENT",
    "VOID",
    "NOT FOR PUBLICATION",
)


def margins(sheet: Sheet) -> Box:
    canvas, rng = sheet.canvas, sheet.rng
    side = rng.uniform(0.06, 0.16) * canvas.width
    return side, rng.uniform(0.05, 0.12) * canvas.height, canvas.width - side, canvas.height * rng.uniform(0.88, 0.95)


def page_number(sheet: Sheet, style: Style) -> None:
    canvas, rng = sheet.canvas, sheet.rng
    number = str(rng.randint(1, 240))
    shown = rng.choice(
        (
            number,
            f"- {number} -",
            f"Page {number}",
            f"Page {number} of {int(number) + rng.randint(0, 30)}",
            f"-{number}-",
        )
    )
    align = rng.choice(("left", "center", "right"))
    y = canvas.height - rng.randint(24, 48) if sheet.chance(0.7) else rng.randint(28, 44)
    canvas.start_block()
    printed = canvas.text(50, y, shown, style, "page number", align, canvas.width - 100)
    if printed:
        canvas.content.fields.append(Field(Span("page number"), printed))


def bates(sheet: Sheet) -> None:
    """The number that lawyers stamp on every page of a file, upright at the edge or flat in a corner."""
    canvas, rng = sheet.canvas, sheet.rng
    text = rng.choice(
        (
            f"{rng.randint(10000, 99999)} {rng.randint(1000, 9999)}",
            f"{rng.randint(500000000, 530000000)}",
            f"{rng.choice(('DWRITE', 'PM', 'TI', 'CTR', 'MNAT'))} {rng.randint(0, 999999):06d}",
        )
    )
    style = Style(sheet.mono if sheet.chance(0.4) else sheet.body, rng.randint(10, 15))
    canvas.start_block()
    if sheet.chance(0.6):
        canvas.turned(
            canvas.width - 18, canvas.height - rng.randint(30, 300), text, style, "stamp", rng.choice((90, 90, 270))
        )
    else:
        canvas.text(0, canvas.height - rng.randint(16, 60), text, style, "stamp", "right", canvas.width - 30)


def archive_line(sheet: Sheet) -> None:
    canvas = sheet.canvas
    canvas.start_block()
    style = Style(sheet.body, 12, (150, 150, 150))
    canvas.text(0, canvas.height - 5, e.archive_source(sheet.rng), style, "source", "center", canvas.width)


def stamp(sheet: Sheet) -> None:
    """A rubber stamp across whatever is there: the one thing that may cover words."""
    canvas, rng = sheet.canvas, sheet.rng
    style = Style(
        sheet.head, rng.randint(18, 36), rng.choice(((90, 90, 90), (120, 40, 40), (60, 60, 130), (130, 130, 130)))
    )
    canvas.start_block()
    x, y = rng.uniform(0.1, 0.7) * canvas.width, rng.uniform(0.1, 0.9) * canvas.height
    canvas.turned(x, y, rng.choice(STAMPS), style, "stamp", rng.uniform(-25, 35), force=True)
    if sheet.chance(0.5):
        small = replace(style, size=rng.randint(12, 16))
        canvas.turned(x, y + style.size, e.date(rng).upper(), small, "stamp", rng.uniform(-6, 6), force=True)


def logo(sheet: Sheet, x: float, y: float, size: float, colour: Colour = BLACK) -> None:
    """A mark without words: disc, ring, bars or diamond."""
    canvas, ink = sheet.canvas, sheet.canvas.ink(colour)
    box = (x, y, x + size, y + size)
    kind = sheet.rng.randrange(4)
    if kind == 0:
        canvas.draw.ellipse(box, fill=ink)
        canvas.draw.ellipse(
            (x + size * 0.3, y + size * 0.3, x + size * 0.7, y + size * 0.7), fill=canvas.ink(canvas.paper)
        )
    elif kind == 1:
        for i in range(3):
            canvas.rect((x + i * size / 3, y + i * size / 6, x + i * size / 3 + size / 5, y + size), fill=colour)
    elif kind == 2:
        canvas.draw.polygon(
            [(x + size / 2, y), (x + size, y + size / 2), (x + size / 2, y + size), (x, y + size / 2)], fill=ink
        )
    else:
        canvas.draw.ellipse(box, outline=ink, width=3)
        canvas.rule(x, y + size / 2, x + size, y + size / 2, colour, 3)


def scribble(sheet: Sheet, x: float, y: float, width: float) -> None:
    """A signature nobody can read."""
    rng, points = sheet.rng, []
    for step in range(rng.randint(10, 22)):
        points.append((x + width * step / 20 + rng.uniform(-9, 9), y - rng.uniform(-6, 16)))
    sheet.canvas.draw.line(points, fill=sheet.canvas.ink((30, 30, 60)), width=rng.choice((1, 2)), joint="curve")


def finish(sheet: Sheet, style: Style) -> None:
    """The usual marks of a scanned page, each now and then."""
    if sheet.chance(0.5):
        archive_line(sheet)
    if sheet.chance(0.35):
        page_number(sheet, style)
    if sheet.chance(0.35):
        bates(sheet)
    if sheet.chance(0.12):
        stamp(sheet)
