"""Charts without an upright axis: lying bars and pies."""

from __future__ import annotations

from dataclasses import replace

from ..canvas import Colour, Style, join
from ..flow import break_lines
from ..page import Box, Span
from ..sheet import Sheet, luminance
from .chart_data import Plan
from .chart_frame import TEXT, Frame, Look, back, scale, tick
from .chart_marks import Marks, around


def lying(
    sheet: Sheet, plan: Plan, box: Box, style: Style, look: Look, colours: list[Colour]
) -> tuple[list[Span], list[list[Span]]]:
    """Lying bars: single, grouped or stacked, category names at the left."""
    canvas, size, rng = sheet.canvas, style.size, sheet.rng
    x0, y0, x1, y1 = box
    names = min(max(canvas.measure(c, style) for c in plan.categories) + size * 0.6, (x1 - x0) * 0.42)
    _, top, step = scale(plan, True)
    foot = size * 1.5 if look.axis else 0
    frame = Frame((x0 + names, y0 + 2, x1 - size * 3.5, y1 - foot), top if look.axis else plan.top, step, True)
    fx0, fy0, fx1, fy1 = frame.box
    if fx1 - fx0 < 20 or fy1 - fy0 < 12:
        return [Span("")] * len(plan.categories), [[Span("")] * len(plan.categories) for _ in plan.series]
    pitch = (fy1 - fy0) / len(plan.categories)
    thick, count = pitch * rng.uniform(0.5, 0.8), len(plan.series)
    marks = Marks(canvas, (x0, y0, x1, y1))
    if look.axis:
        back(marks, frame, look, pitch)
    spots: list[list[tuple[float, float, float, float]]] = [[] for _ in plan.series]
    for j in range(len(plan.categories)):
        run, middle = 0.0, fy0 + (j + 0.5) * pitch
        for i, row in enumerate(plan.values):
            stacked = plan.kind == "hstacked"
            a, b = (frame.at(run), frame.at(run + row[j])) if stacked else (fx0, frame.at(row[j]))
            top_y = middle - thick / 2 + (0 if stacked else i * thick / count)
            height = thick if stacked else thick / count
            marks.rect(a, top_y, b, top_y + height - (0 if stacked else 1), colours[i])
            spots[i].append((a, b, top_y + height / 2, height))
            run += row[j]
    marks.done()
    categories = []
    for j, text in enumerate(plan.categories):
        canvas.start_block()
        lines = break_lines(text.split(), style, names - size * 0.4)[:3]
        first = fy0 + (j + 0.5) * pitch + size * (0.35 - 0.55 * (len(lines) - 1))
        categories.append(
            join(
                canvas.text(x0, first + i * size * 1.1, " ".join(words), style, "label", "right", names - size * 0.4)
                for i, words in enumerate(lines)
            )
        )
    value = 0.0
    canvas.start_block()
    while look.axis and value <= top + step / 2:
        canvas.text(
            frame.at(value) - 40,
            fy1 + size * 1.3,
            tick(plan, value, step),
            replace(style, colour=TEXT),
            "axis",
            "center",
            80,
        )
        value += step
    return categories, [
        [
            lying_label(sheet, plan, value, spot, style, look, colours[i])
            for value, spot in zip(row, spots[i], strict=True)
        ]
        for i, row in enumerate(plan.values)
    ]


def lying_label(
    sheet: Sheet,
    plan: Plan,
    value: float,
    spot: tuple[float, float, float, float],
    style: Style,
    look: Look,
    colour: Colour,
) -> Span:
    a, b, middle, height = spot
    small = style.sized(0.95)
    if look.values == "none" or height < small.size * 0.8:
        return Span("")
    text = plan.shown(value, look.values)
    width = sheet.canvas.measure(text, small)
    baseline = middle + small.size * 0.36
    if plan.kind == "hstacked" or (look.inside and b - a > width + 8):
        if b - a < width:
            return Span("")
        small = replace(small, colour=(255, 255, 255) if luminance(colour) < 140 else (20, 20, 20))
        if plan.kind == "hstacked":
            return sheet.canvas.text(a, baseline, text, small, "value", "center", b - a)
        return sheet.canvas.text(b - width - 4, baseline, text, small, "value")
    return sheet.canvas.text(b + 4, baseline, text, small, "value")


def pie(sheet: Sheet, plan: Plan, box: Box, style: Style) -> tuple[list[Span], list[list[Span]]]:
    """A pie or ring; names and shares beside their slices, or inside the large ones."""
    canvas, size, rng = sheet.canvas, style.size, sheet.rng
    x0, y0, x1, y1 = box
    x, y = (x0 + x1) / 2, (y0 + y1) / 2
    radius = max(10.0, min((x1 - x0) * 0.27, (y1 - y0) / 2 - 2 * size))
    marks = Marks(canvas, box)
    hole, inside, angle = (
        (0.5 if sheet.chance(0.2) else 0.0),
        sheet.chance(0.4),
        rng.choice((0.0, 0.0, rng.uniform(0, 360))),
    )
    places = []
    for i, value in enumerate(plan.values[0]):
        sweep = 360 * value / max(1e-9, sum(plan.values[0]))
        marks.slice(x, y, radius, angle, angle + sweep, sheet.palette[i % len(sheet.palette)], hole)
        middle = angle + sweep / 2
        if not inside or sweep < 50:
            marks.line([around(x, y, radius, middle), around(x, y, radius + size * 0.8, middle)], (150, 150, 150), 0.7)
        places.append((middle, sweep))
        angle += sweep
    marks.done()
    categories, labels = [], []
    for i, (name, value) in enumerate(zip(plan.categories, plan.values[0], strict=True)):
        middle, sweep = places[i]
        canvas.start_block()
        shown = plan.shown(value, "plain")
        if inside and sweep >= 50 and not hole:
            px, py = around(x, y, radius * 0.6, middle)
            dark = luminance(sheet.palette[i % len(sheet.palette)]) < 140
            within = replace(style, colour=(255, 255, 255) if dark else (0, 0, 0), face=sheet.bold)
            labels.append(canvas.text(px - 60, py, shown, within, "value", "center", 120))
            categories.append(canvas.text(px - 60, py + size * 1.1, name, within, "label", "center", 120))
            continue
        named, printed = beside(sheet, name, shown, around(x, y, radius + size * 1.2, middle), middle, box, style)
        categories.append(named)
        labels.append(printed)
    return categories, [labels]


def beside(
    sheet: Sheet, name: str, shown: str, spot: tuple[float, float], angle: float, box: Box, style: Style
) -> tuple[Span, Span]:
    """Name and share of a slice outside the pie, on as many lines as the side has no room for one."""
    canvas, size = sheet.canvas, style.size
    px, py = spot
    right = angle % 360 < 180
    room = max(box[2] - px if right else px - box[0], 3.0 * size)
    lines = break_lines([*name.split(), shown], style, room)[:4]
    left = px if right else px - room
    align = "left" if right else "right"
    spans = []
    for i, words in enumerate(lines):
        baseline = py + size * (0.35 + 1.1 * (i - (len(lines) - 1) / 2))
        # The share is the last word: it is printed apart, so that it can be asked for.
        tail = words[-1] == shown and i == len(lines) - 1
        text = " ".join(words[:-1] if tail else words)
        whole = canvas.measure(" ".join(words), style)
        x = left if align == "left" else left + room - whole
        if text:
            spans.append(canvas.text(x, baseline, text, style, "label"))
        if tail:
            x += canvas.measure(text, style) + (style.setter.space if text else 0)
            return join(spans), canvas.text(x, baseline, shown, style, "value")
    return join(spans), Span("")
