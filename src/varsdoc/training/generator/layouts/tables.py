"""Tables: ruled, striped, boxed or borderless, with units, totals, groups and a title."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from .. import entities as e
from ..canvas import Style, join
from ..flow import break_lines, set_lines, set_title
from ..page import Box, Span, Table
from ..sheet import Sheet
from ..vocabulary import COUNTRY, REGION
from .furniture import finish, margins

LOOKS = ("ruled", "striped", "open", "boxed", "booktabs", "dotted")


@dataclass
class Grid:
    """The text of a table before it is printed."""

    header: list[str]
    rows: list[list[str]]
    numeric: list[bool]


def number(rng: random.Random, scale: float, decimals: int) -> str:
    if rng.random() < 0.04:
        return rng.choice(("-", "n/a", "—", "NA", "..."))
    value = scale * rng.lognormvariate(0, 0.7)
    text = f"{value:,.{decimals}f}"
    return f"({text})" if rng.random() < 0.03 else text


def make_grid(sheet: Sheet, columns: int, rows: int) -> Grid:
    rng, topic = sheet.rng, sheet.topic
    names = row_names(sheet, rows)
    kind = rng.random()
    if kind < 0.35:  # one measure over years
        year = e.year(rng)
        header = [str(year - i) for i in range(columns - 1)]
        if sheet.chance(0.5):
            header.reverse()
    elif kind < 0.75:  # several measures
        picked = rng.sample(topic.trade.measures, min(columns - 1, len(topic.trade.measures)))
        header = [f"{name} ({unit})" if unit and sheet.chance(0.5) else name for name, unit in picked]
    else:
        pool = rng.choice((REGION, COUNTRY, tuple(topic.phrase().title() for _ in range(columns))))
        header = rng.sample(list(pool), min(columns - 1, len(pool)))
    scales = [(10 ** rng.uniform(0, 5), rng.choice((0, 0, 1, 2))) for _ in header]
    cells = [[number(rng, scale, decimals if scale < 1e4 else 0) for scale, decimals in scales] for _ in names]
    numeric = [True] * len(header)
    if sheet.chance(0.3):  # a column of words, dates or codes
        place = rng.randrange(len(header))
        make = rng.choice((e.date, e.person, e.identifier, lambda _: topic.phrase()))
        header[place] = {e.date: "Date", e.person: "Name", e.identifier: "Code"}.get(make, "Remarks")
        numeric[place] = False
        for row in cells:
            row[place] = make(rng)
    corner = rng.choice(
        ("", "", "Item", "Description", "Group", "Particulars", "Type", "Category", topic.nouns[0].title())
    )
    return Grid([corner, *header], [[name, *row] for name, row in zip(names, cells, strict=True)], [False, *numeric])


def row_names(sheet: Sheet, count: int) -> list[str]:
    rng, topic = sheet.rng, sheet.topic
    pool: list[str] = list(rng.choice((topic.trade.rows, topic.trade.rows, COUNTRY, REGION)))
    pool += [topic.phrase().capitalize() for _ in range(max(4, count // 2))]
    if sheet.chance(0.15):
        pool = [e.person(rng) for _ in range(count)]
    pool = list(dict.fromkeys(pool))
    names = rng.sample(pool, min(count, len(pool)))
    if sheet.chance(0.3):
        names[-1] = rng.choice(("Total", "Total", "Average", "Grand total"))
    return names


def widths(sheet: Sheet, grid: Grid, style: Style, room: float) -> list[float]:
    """Column widths: what the cells need, shrunk or spread to the room."""
    measure = sheet.canvas.measure
    need = [max(measure(row[i], style) for row in grid.rows) + style.size for i in range(len(grid.header))]
    need = [
        max(n, min(measure(h, style), 5.5 * style.size) + style.size) for n, h in zip(need, grid.header, strict=True)
    ]
    need[0] = min(need[0], room * 0.45)
    spare = room - sum(need)
    if spare < 0:
        return [n * room / sum(need) for n in need]
    spread = spare * sheet.rng.choice((0.0, 0.5, 1.0)) / len(need)
    return [n + spread for n in need]


def draw_table(
    sheet: Sheet, box: Box, style: Style, caption: bool = False, look: str = "", plan: tuple[int, int] | None = None
) -> float:
    """A table as large as the box allows (or of `plan` columns and rows); the y below it."""
    rng, canvas = sheet.rng, sheet.canvas
    x0, y, x1, y1 = box
    pitch = style.size * rng.uniform(1.35, 2.0)
    titled = Span("")
    if caption or sheet.chance(0.5):
        label = (
            f"{rng.choice(('Table', 'TABLE', 'Exhibit'))} {rng.randint(1, 19)}. "
            if caption or sheet.chance(0.4)
            else ""
        )
        head = replace(
            style, face=sheet.bold if sheet.chance(0.6) else style.face, case="upper" if sheet.chance(0.2) else ""
        )
        text = label + sheet.topic.title()
        if label:
            titled, y = set_lines(sheet, text, (x0, y, x1, y1), head, "caption", rng.choice(("left", "center")))
            if titled:
                canvas.content.captions.append(titled)
        else:
            before = len(canvas.content.titles)
            y = set_title(sheet, text, (x0, y, x1, y1), head.sized(1.15), rng.choice(("left", "center")))
            titled = canvas.content.titles[-1] if len(canvas.content.titles) > before else titled
        y += style.size * 0.5
    room = int((y1 - y) / pitch) - 2
    columns, rows = plan or (rng.randint(2, max(2, min(8, int((x1 - x0) / (style.size * 7))))), rng.randint(3, 26))
    if room < 2 or x1 - x0 < 8 * style.size:
        return y
    grid = make_grid(sheet, columns, min(rows, room))
    y, header, body = print_grid(sheet, grid, (x0, y, x1, y1), style, pitch, look or rng.choice(LOOKS))
    canvas.content.tables.append(Table(titled, tuple(header), tuple(body), tuple(grid.numeric)))
    if sheet.chance(0.3):
        note = rng.choice(("Source: ", "Note: ", "* ", "")) + " ".join(sheet.topic.sentence().tokens)
        _, y = set_lines(sheet, note, (x0, y + 4, x1, y1), style.sized(0.85), "note")
    return y


def print_grid(
    sheet: Sheet, grid: Grid, box: Box, style: Style, pitch: float, look: str
) -> tuple[float, list[Span], list[tuple[Span, ...]]]:
    canvas, rng = sheet.canvas, sheet.rng
    x0, y, x1, y1 = box
    cols = widths(sheet, grid, style, x1 - x0)
    lefts = [x0 + sum(cols[:i]) for i in range(len(cols) + 1)]
    bold = replace(style, face=sheet.bold)
    inverse = look in ("striped", "boxed") and sheet.chance(0.4)
    if inverse:
        bold = replace(bold, colour=(255, 255, 255))
    # Header cells wrap: the head is as tall as the tallest.
    wrapped = [break_lines(h.split(), bold, w - 6) for h, w in zip(grid.header, cols, strict=True)]
    tall = max(len(lines) for lines in wrapped) * style.size * 1.2 + pitch - style.size * 1.2
    top = y
    if inverse:
        canvas.rect((x0, y, lefts[-1], y + tall), fill=sheet.dark())
    align = rng.choice(("right", "right", "center", "left"))
    header = []
    for left, width, lines, numeric in zip(lefts, cols, wrapped, grid.numeric, strict=False):
        canvas.start_block()
        side = align if numeric else "left"
        header.append(
            join(
                canvas.text(left + 3, y + (i + 1) * style.size * 1.2, " ".join(words), bold, "header", side, width - 8)
                for i, words in enumerate(lines)
            )
        )
    y += tall
    head_y, body, edges = y, [], [y]
    baseline = pitch - (pitch - style.size) / 2 - style.setter.descent * 0.6
    for place, row in enumerate(grid.rows):
        if y + pitch > y1:
            break
        if look == "striped" and place % 2 == 0:
            canvas.rect((x0, y, lefts[-1], y + pitch), fill=(228, 232, 238))
        canvas.start_block()
        total = row[0].lower().endswith(("total", "average"))
        if total:
            canvas.rule(lefts[1], y, lefts[-1], y)
        body.append(
            tuple(
                cell(
                    sheet,
                    text,
                    lefts[i] + 3,
                    y + baseline,
                    cols[i] - 8,
                    bold if total and not inverse else style,
                    align if grid.numeric[i] else "left",
                    "header" if i == 0 else "cell",
                )
                for i, text in enumerate(row)
            )
        )
        if look == "dotted" and body[-1][0]:
            canvas.dotted(lefts[0] + 6 + canvas.measure(row[0], style), lefts[1], y + baseline)
        y += pitch
        edges.append(y)
    rules(sheet, look, (x0, top, lefts[-1], y), head_y, lefts, edges)
    return y, header, body


def cell(sheet: Sheet, text: str, x: float, baseline: float, width: float, style: Style, align: str, role: str) -> Span:
    """One cell on one line, cut to its column by leaving words away."""
    words = text.split()
    while len(words) > 1 and sheet.canvas.measure(" ".join(words), style) > width:
        words.pop()
    return sheet.canvas.text(x, baseline, " ".join(words), style, role, align, width)


def rules(sheet: Sheet, look: str, box: Box, head: float, lefts: list[float], edges: list[float]) -> None:
    canvas = sheet.canvas
    x0, top, x1, bottom = box
    colour = sheet.rng.choice(((0, 0, 0), (0, 0, 0), (90, 90, 90), (160, 160, 160)))
    if look in ("ruled", "boxed", "booktabs"):
        for y in (top, head, bottom):
            canvas.rule(x0, y, x1, y, colour, 2 if look == "booktabs" and y != head else 1)
    if look in ("ruled", "boxed"):
        for y in edges:
            canvas.rule(x0, y, x1, y, colour)
    if look == "boxed":
        for x in lefts:
            canvas.rule(x, top, x, bottom, colour)
    if look == "dotted":
        canvas.rule(x0, head, x1, head, colour)


def table_page(sheet: Sheet) -> None:
    """A page that is one large table, or two, with a title and a little text."""
    rng = sheet.rng
    sheet.open_scan()
    if sheet.chance(0.3):
        sheet.typed()
    x0, y, x1, bottom = margins(sheet)
    style = sheet.style(rng.choice((9, 10, 11, 12, 12, 13, 14, 16)))
    if sheet.chance(0.6):
        y = set_title(
            sheet, sheet.topic.title(), (x0, y, x1, bottom), Style(sheet.head, round(style.size * 1.5)), "center"
        )
        if sheet.chance(0.4):
            _, y = set_lines(sheet, e.date(rng), (x0, y + 4, x1, bottom), style, "label", "center")
        y += style.size
    if sheet.chance(0.3):
        half = y + (bottom - y) * rng.uniform(0.35, 0.6)
        y = draw_table(sheet, (x0, y, x1, half), style) + 2 * style.size
    draw_table(sheet, (x0, y, x1, bottom), style)
    finish(sheet, style)
