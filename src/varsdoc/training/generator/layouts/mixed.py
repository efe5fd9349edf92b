"""Pages that mix text, a chart and a table, as annual reports, brochures and old technical reports do."""

from __future__ import annotations

from dataclasses import replace

from ..canvas import Style
from ..flow import set_columns, set_paragraph, set_title
from ..sheet import PALETTES, Sheet
from .chart_pages import chart_block
from .furniture import finish, margins
from .prose_pages import boxed, bullets
from .tables import draw_table


def mixed(sheet: Sheet) -> None:
    rng, topic = sheet.rng, sheet.topic
    grey = sheet.chance(0.7)
    if grey:
        canvas = sheet.open_scan()
        sheet.palette = PALETTES[7] if sheet.chance(0.6) else sheet.palette
    else:
        canvas = sheet.open(
            rng.randint(740, 800),
            rng.randint(960, 1010),
            grey=False,
            paper=rng.choice(((255, 255, 255), (252, 250, 244))),
        )
    x0, y, x1, bottom = margins(sheet)
    size = rng.choice((10, 11, 12, 13, 14))
    style = sheet.style(size)
    title = Style(sheet.head, round(size * rng.uniform(1.6, 2.8)), sheet.dark())
    y = set_title(sheet, topic.title(), (x0, y, x1, bottom), title, rng.choice(("left", "center"))) + size
    for kind in rng.sample(("text", "chart", "table", "columns", "bullets", "box", "chart and text"), 5):
        room = bottom - y
        if room < 12 * size:
            break
        part = min(room, rng.uniform(0.2, 0.36) * canvas.height)
        box = (x0, y, x1, y + part)
        if kind == "text":
            y = set_paragraph(sheet, topic.paragraph(rng.randint(3, 7)), box, style)
        elif kind == "chart":
            chart_block(sheet, box, style, caption=sheet.chance(0.6))
            y += part
        elif kind == "table":
            y = draw_table(sheet, box, style, caption=sheet.chance(0.6))
        elif kind == "columns":
            set_columns(sheet, box, 2, style, headings=replace(style, face=sheet.bold))
            y += part
        elif kind == "bullets":
            y = bullets(sheet, (x0 + size, y, x1, y + part), style, rng.randint(3, 6))
        elif kind == "box":
            y = boxed(sheet, box, style)
        else:
            half = (x0 + x1) / 2
            chart_block(sheet, (x0, y, half - 8, y + part), style.sized(0.9), caption=sheet.chance(0.5))
            set_paragraph(sheet, topic.paragraph(6), (half + 8, y, x1, y + part), style, "left")
            y += part
        y += size * 1.2
    finish(sheet, style)
