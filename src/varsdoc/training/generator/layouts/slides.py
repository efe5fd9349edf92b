"""Slides: few large words on a coloured ground, bullets, a chart or a table, a footer."""

from __future__ import annotations

from dataclasses import replace

from .. import entities as e
from ..canvas import Colour, Style
from ..flow import set_lines, set_title
from ..sheet import Sheet, luminance
from .chart_pages import chart_block
from .furniture import logo
from .prose_pages import bullets
from .tables import draw_table

GROUNDS: tuple[Colour, ...] = (
    (255, 255, 255),
    (255, 255, 255),
    (248, 246, 238),
    (20, 40, 80),
    (30, 30, 30),
    (0, 70, 90),
    (238, 243, 250),
    (120, 20, 30),
)


def slide(sheet: Sheet) -> None:
    rng, topic = sheet.rng, sheet.topic
    paper = rng.choice(GROUNDS)
    wide = rng.choice(((960, 540), (1000, 562), (800, 600), (960, 720)))
    canvas = sheet.open(*wide, grey=False, paper=paper)
    width, height = canvas.width, canvas.height
    ink: Colour = (245, 245, 245) if luminance(paper) < 128 else (25, 25, 30)
    accent = sheet.dark() if luminance(paper) >= 128 else (240, 190, 60)
    size = rng.randint(18, 26)
    head = Style(sheet.head, rng.randint(28, 46), ink if sheet.chance(0.5) else accent)
    if sheet.chance(0.15):
        y = set_title(sheet, topic.title(), (width * 0.1, height * 0.3, width * 0.9, height), head, "center")
        _, y = set_lines(
            sheet, topic.people[0], (60, y + 20, width - 60, height), Style(sheet.body, size, ink), "author", "center"
        )
        set_lines(
            sheet,
            f"{topic.companies[0]}, {e.date(rng)}",
            (60, y + 10, width - 60, height),
            Style(sheet.body, size - 3, ink),
            "author",
            "center",
        )
        return
    if sheet.chance(0.3):
        bar = sheet.dark()
        canvas.rect((0, 0, width, head.size * 1.9), fill=bar)
        head = replace(head, colour=(255, 255, 255))
    y = (
        set_title(
            sheet,
            topic.title(),
            (40, head.size * 0.35, width - 40, height * 0.4),
            head,
            rng.choice(("left", "left", "center")),
        )
        + size
    )
    style = Style(sheet.body, size, ink)
    bottom = height - 44
    kind = rng.random()
    if kind < 0.45:
        bullets(sheet, (60, y, width - 60, bottom), style, rng.randint(3, 7))
    elif kind < 0.75:
        half = width * rng.uniform(0.42, 0.55)
        bullets(sheet, (44, y, half - 10, bottom), style.sized(0.8), rng.randint(2, 5))
        panel = (half + 6, y - 6, width - 30, bottom)
        canvas.rect(panel, fill=(252, 252, 252))
        chart_block(sheet, (half + 16, y, width - 40, bottom - 6), Style(sheet.body, rng.randint(11, 14)))
    else:
        canvas.rect((34, y - 6, width - 34, bottom), fill=(252, 252, 252))
        draw_table(sheet, (44, y, width - 44, bottom - 4), Style(sheet.body, rng.randint(13, 18)))
    foot = Style(sheet.body, rng.randint(10, 13), ink)
    canvas.start_block()
    canvas.text(40, height - 14, topic.companies[0], foot, "note")
    canvas.text(0, height - 14, str(rng.randint(1, 60)), foot, "page number", "right", width - 30)
    if sheet.chance(0.4):
        logo(sheet, width - 60, 10, 30, accent)
