"""Charts inside a box, with axes, values and legend; what they show ends up in the page's content."""

from __future__ import annotations

import math
from dataclasses import replace

from ..canvas import Colour, Style, join
from ..flow import break_lines
from ..page import Box, Chart, Series, Span
from ..sheet import Sheet, colour_name, luminance
from .chart_data import Plan
from .chart_flat import lying, pie
from .chart_frame import TEXT, Frame, Look, back, scale, tick
from .chart_marks import Marks


def draw_plan(sheet: Sheet, plan: Plan, box: Box, style: Style, look: Look, title: Span) -> None:
    """Draw the plan into the box, legend included, and remember it as a chart."""
    look = replace(look, own=look.own and len(plan.series) == 1)
    many = max(len(plan.series), len(plan.categories) if look.own else 1)
    colours = [sheet.palette[i % len(sheet.palette)] for i in range(many)]
    names = [Span("")] * len(plan.series)
    if len(plan.series) > 1 and look.legend != "direct":
        names, box = legend(sheet, plan, box, style, look, colours)
    if plan.kind == "pie":
        categories, labels = pie(sheet, plan, box, style)
    elif plan.kind.startswith("h"):
        categories, labels = lying(sheet, plan, box, style, look, colours)
    else:
        categories, labels, ends = upright(sheet, plan, box, style, look, colours)
        names = ends if look.legend == "direct" and len(plan.series) > 1 else names
    series = tuple(
        Series(names[i], colour_name(colours[i]), tuple(plan.values[i]), tuple(labels[i]))
        for i in range(len(plan.series))
    )
    sheet.canvas.content.charts.append(
        Chart(plan.kind, plan.subject, title, tuple(categories), series, plan.category_name, plan.unit)
    )


def legend(
    sheet: Sheet, plan: Plan, box: Box, style: Style, look: Look, colours: list[Colour]
) -> tuple[list[Span], Box]:
    """Legend entries with their swatches; what is left of the box."""
    canvas = sheet.canvas
    x0, y0, x1, y1 = box
    size = style.size
    bold = replace(style, face=sheet.bold)
    widths = [canvas.measure(name, bold) + 2.6 * size for name in plan.series]
    canvas.start_block()
    names = []
    if look.legend == "right":
        left = x1 - min(max(widths), (x1 - x0) * 0.35)
        spots = [(left, y0 + (i + 1) * size * 1.7) for i in range(len(widths))]
        rest: Box = (x0, y0, left - size, y1)
    else:
        spots, x, row = [], x0, 0
        for width in widths:
            if x + width > x1 and x > x0:
                x, row = x0, row + 1
            spots.append((x, row * size * 1.6))
            x += width
        height = (row + 1) * size * 1.6 + size * 0.6
        shift = max(0.0, (x1 - x) / 2) if row == 0 else 0.0
        top = y0 if look.legend == "top" else y1 - height + size * 0.6
        spots = [(a + shift, top + b + size) for a, b in spots]
        rest = (x0, y0 + height, x1, y1) if look.legend == "top" else (x0, y0, x1, y1 - height)
    for (x, y), name, colour in zip(spots, plan.series, colours, strict=True):
        ink = canvas.ink(colour)
        if sheet.palette[0][0] % 2:
            canvas.draw.ellipse((x, y - size * 0.75, x + size * 0.75, y), fill=ink)
        else:
            canvas.draw.rectangle((x, y - size * 0.75, x + size * 0.75, y), fill=ink)
        names.append(canvas.text(x + size * 1.1, y, name, bold, "legend"))
    return names, rest


def upright(
    sheet: Sheet, plan: Plan, box: Box, style: Style, look: Look, colours: list[Colour]
) -> tuple[list[Span], list[list[Span]], list[Span]]:
    """Standing bars, lines and points."""
    canvas, size = sheet.canvas, style.size
    x0, y0, x1, y1 = box
    low, top, step = scale(plan, plan.kind not in ("line", "scatter"))
    margin = canvas.measure(tick(plan, top, step), style) + size if look.axis else size * 0.5
    right = (
        max(canvas.measure(name, style) for name in plan.series) + size
        if look.legend == "direct" and len(plan.series) > 1
        else size
    )
    right = min(right, (x1 - x0) * 0.3)
    width = x1 - x0 - margin - right
    pitch = width / len(plan.categories)
    angle = slant(sheet, plan, style, pitch, look.rising)
    foot = label_room(sheet, plan, style, pitch, angle, (y1 - y0) * 0.45)
    frame = Frame((x0 + margin, y0 + size * 1.4, x1 - right, y1 - foot), top, step, False, low)
    fx0, fy0, fx1, fy1 = frame.box
    if fx1 - fx0 < 20 or fy1 - fy0 < 20:
        return (
            [Span("")] * len(plan.categories),
            [[Span("")] * len(plan.categories) for _ in plan.series],
            [Span("")] * len(plan.series),
        )
    marks = Marks(canvas, (x0, y0, x1, y1))
    back(marks, frame, look, pitch)
    centres = [fx0 + (i + 0.5) * pitch for i in range(len(plan.categories))]
    spots = stand(sheet, marks, plan, frame, centres, pitch, colours, look.own)
    if look.axis:
        marks.line([(fx0, fy1), (fx1, fy1)], (90, 90, 90), 1)
    marks.done()
    canvas.start_block()
    value = low
    while look.axis and value <= top + step / 2:
        canvas.text(
            x0,
            frame.at(value) + size * 0.35,
            tick(plan, value, step),
            replace(style, colour=TEXT),
            "axis",
            "right",
            margin - size * 0.5,
        )
        value += step
    ends = []
    if look.legend == "direct" and len(plan.series) > 1:
        for i, name in enumerate(plan.series):
            ends.append(
                canvas.text(
                    fx1 + 3 - pitch / 2, spots[i][-1][1] + size * 0.3, name, replace(style, colour=colours[i]), "legend"
                )
            )
    labels = stand_labels(sheet, plan, spots, style, look, colours)
    inks = [colours[j] if look.own else TEXT for j in range(len(centres))]
    categories = [
        category(sheet, c, x, fy1 + 4, pitch, replace(style, colour=ink), angle)
        for c, x, ink in zip(plan.categories, centres, inks, strict=True)
    ]
    return categories, labels, ends


def slant(sheet: Sheet, plan: Plan, style: Style, pitch: float, rising: bool) -> float:
    """The angle at which names stand below the marks: level where they fit, mostly."""
    widest = max(sheet.canvas.measure(c, style) for c in plan.categories)
    must, crowded = widest > 1.9 * pitch, widest > 0.9 * pitch
    if not (must or rising or sheet.chance(0.5 if crowded else 0.08)):
        return 0.0
    angle = 45.0 if rising or sheet.chance(0.6) else float(sheet.rng.choice((90, 90, 60, 30, -45)))
    # Slanted lines stand closer to each other than their marks do.
    return angle if pitch * abs(math.sin(math.radians(angle))) > 1.15 * style.size else 90.0


def label_room(sheet: Sheet, plan: Plan, style: Style, pitch: float, angle: float, most: float) -> float:
    """Height of the names below the marks, in pixels."""
    if angle:
        widest = max(sheet.canvas.measure(c, style) for c in plan.categories)
        return min(most, widest * abs(math.sin(math.radians(angle))) + style.size * 1.8)
    lines = max(len(break_lines(c.split(), style, pitch)) for c in plan.categories)
    return style.size * (1.6 + 1.2 * (lines > 1))


def stand(
    sheet: Sheet,
    marks: Marks,
    plan: Plan,
    frame: Frame,
    centres: list[float],
    pitch: float,
    colours: list[Colour],
    own: bool = False,
) -> list[list[tuple[float, float, float]]]:
    """Draw the marks; for each series and category the place (x, y above, y middle) of a value label."""
    base, count = frame.at(max(0.0, frame.low)), len(plan.series)
    spots: list[list[tuple[float, float, float]]] = []
    tops = [0.0] * len(centres)
    thick = sheet.rng.uniform(0.5, 0.85) * pitch
    for i, row in enumerate(plan.values):
        place = []
        for j, (x, value) in enumerate(zip(centres, row, strict=True)):
            y = frame.at(value)
            if plan.kind == "stacked":
                low, y = frame.at(tops[j]), frame.at(tops[j] + value)
                tops[j] += value
                marks.rect(x - thick / 2, low, x + thick / 2, y, colours[i])
                place.append((x, y, (low + y) / 2))
            elif plan.kind in ("bar", "grouped"):
                left = x - thick / 2 + i * thick / count
                marks.rect(left + 0.5, base, left + thick / count - 0.5, y, colours[j if own else i])
                place.append((left + thick / count / 2, y, (y + base) / 2))
            else:
                place.append((x, y, y))
        if plan.kind == "line":
            marks.line([(x, y) for x, y, _ in place], colours[i], sheet.rng.choice((1.2, 2, 2.5)))
        if plan.kind == "scatter" or (plan.kind == "line" and len(centres) < 20 and sheet.palette[0][1] % 2):
            for x, y, _ in place:
                marks.disc(x, y, 3, colours[i])
        spots.append(place)
    return spots


def stand_labels(
    sheet: Sheet,
    plan: Plan,
    spots: list[list[tuple[float, float, float]]],
    style: Style,
    look: Look,
    colours: list[Colour],
) -> list[list[Span]]:
    small = replace(style.sized(0.92), face=sheet.bold if look.values == "plain" else style.face)
    labels = []
    for i, row in enumerate(plan.values):
        line = []
        for j, ((x, y, middle), value) in enumerate(zip(spots[i], row, strict=True)):
            if look.values == "none":
                line.append(Span(""))
                continue
            within = plan.kind == "stacked"
            colour = (255, 255, 255) if within and luminance(colours[i]) < 140 else (30, 30, 30)
            colour = colours[j] if look.own else colour
            at = middle + small.size * 0.35 if within else y - 4
            text = plan.shown(value, look.values)
            if within and abs(middle - y) * 2 < small.size * 0.9:
                line.append(Span(""))
                continue
            line.append(sheet.canvas.text(x - 50, at, text, replace(small, colour=colour), "value", "center", 100))
        labels.append(line)
    return labels


def category(sheet: Sheet, text: str, x: float, y: float, pitch: float, style: Style, angle: float) -> Span:
    """The name of a mark at x; a rising one ends below it, a falling one begins there."""
    canvas = sheet.canvas
    canvas.start_block()
    if angle:
        cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
        length = canvas.measure(text, style) if angle > 0 else 0.0
        half = 0.35 * style.size  # from the baseline to the middle of the letters
        left, top = x - length * cos + half * sin, y + style.size * 0.6 + length * sin
        return canvas.turned(left, top, text, style, "label", angle)
    lines = break_lines(text.split(), style, pitch - 2)
    return join(
        canvas.text(x - pitch, y + style.size * (1 + 1.1 * i), " ".join(words), style, "label", "center", 2 * pitch)
        for i, words in enumerate(lines[:3])
    )
