"""Charts: bars, lines, pies and points inside a box, with axes, values, legend; their values end up in the page's content."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..canvas import Colour, Style, join
from ..flow import break_lines
from ..page import Box, Chart, Series, Span
from ..sheet import Sheet, colour_name, luminance
from .chart_data import Plan
from .chart_marks import Marks, around, nice_step

GRID: Colour = (222, 222, 222)
TEXT: Colour = (70, 70, 70)


@dataclass
class Frame:
    """Where the plot lies and how values map to pixels."""

    box: Box
    top: float
    step: float
    flat: bool  # bars lie: values run along x
    low: float = 0.0

    def at(self, value: float) -> float:
        x0, y0, x1, y1 = self.box
        share = (value - self.low) / (self.top - self.low)
        return x0 + share * (x1 - x0) if self.flat else y1 - share * (y1 - y0)


@dataclass
class Look:
    """How a house draws its charts."""

    grid: str = "solid"  # solid, dashed, none
    values: str = "plain"  # plain, comma, bare; none: no value labels
    legend: str = "bottom"  # bottom, top, right, direct
    axis: bool = True
    bands: bool = False
    inside: bool = False  # values inside the bars


def draw_plan(sheet: Sheet, plan: Plan, box: Box, style: Style, look: Look, title: Span, notes: tuple[Span, ...] = ()) -> None:
    """Draw the plan into the box, legend included, and remember it as a chart."""
    colours = [sheet.palette[i % len(sheet.palette)] for i in range(max(len(plan.series), 1))]
    x0, y0, x1, y1 = box
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
    series = tuple(Series(names[i], colour_name(colours[i]), tuple(plan.values[i]), tuple(labels[i])) for i in range(len(plan.series)))
    sheet.canvas.content.charts.append(
        Chart(plan.kind, plan.subject, title, tuple(categories), series, plan.category_name, plan.unit, notes)
    )


def legend(sheet: Sheet, plan: Plan, box: Box, style: Style, look: Look, colours: list[Colour]) -> tuple[list[Span], Box]:
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


def scale(plan: Plan, zero: bool) -> tuple[float, float, float]:
    """(low, top, step) of the value axis."""
    top = plan.top
    low = min(min(row) for row in plan.values)
    low = 0.0 if zero or low < 0.6 * top else low * 0.96
    step = nice_step(top - low, 5)
    low = int(low / step) * step if low else 0.0
    return low, low + step * (int((top - low) / step) + 1), step


def tick(plan: Plan, value: float, step: float) -> str:
    text = f"{value:,.0f}" if step >= 1 else f"{value:.2f}".rstrip("0").rstrip(".")
    return text + ("%" if plan.unit == "%" else "")


def upright(sheet: Sheet, plan: Plan, box: Box, style: Style, look: Look, colours: list[Colour]) -> tuple[list[Span], list[list[Span]], list[Span]]:
    """Standing bars, lines and points."""
    canvas, size = sheet.canvas, style.size
    x0, y0, x1, y1 = box
    low, top, step = scale(plan, plan.kind not in ("line", "scatter"))
    margin = canvas.measure(tick(plan, top, step), style) + size if look.axis else size * 0.5
    right = max(canvas.measure(name, style) for name in plan.series) + size if look.legend == "direct" and len(plan.series) > 1 else size
    right = min(right, (x1 - x0) * 0.3)
    width = x1 - x0 - margin - right
    pitch = width / len(plan.categories)
    tilted = max(canvas.measure(c, style) for c in plan.categories) > 1.9 * pitch
    foot = size * (4.2 if tilted else 1.6 + 1.2 * (max(len(break_lines(c.split(), style, pitch)) for c in plan.categories) > 1))
    frame = Frame((x0 + margin, y0 + size * 1.4, x1 - right, y1 - foot), top, step, False, low)
    fx0, fy0, fx1, fy1 = frame.box
    if fx1 - fx0 < 20 or fy1 - fy0 < 20:
        return [Span("")] * len(plan.categories), [[Span("")] * len(plan.categories) for _ in plan.series], [Span("")] * len(plan.series)
    marks = Marks(canvas, (x0, y0, x1, y1))
    back(marks, frame, look, pitch)
    centres = [fx0 + (i + 0.5) * pitch for i in range(len(plan.categories))]
    spots = stand(sheet, marks, plan, frame, centres, pitch, colours)
    if look.axis:
        marks.line([(fx0, fy1), (fx1, fy1)], (90, 90, 90), 1)
    marks.done()
    canvas.start_block()
    value = low
    while look.axis and value <= top + step / 2:
        canvas.text(x0, frame.at(value) + size * 0.35, tick(plan, value, step), replace(style, colour=TEXT), "axis", "right", margin - size * 0.5)
        value += step
    ends = []
    if look.legend == "direct" and len(plan.series) > 1:
        for i, name in enumerate(plan.series):
            ends.append(canvas.text(fx1 + 3 - pitch / 2, spots[i][-1][1] + size * 0.3, name, replace(style, colour=colours[i]), "legend"))
    labels = stand_labels(sheet, plan, spots, style, look, colours)
    categories = [category(sheet, c, x, fy1 + 4, pitch, style, tilted) for c, x in zip(plan.categories, centres, strict=True)]
    return categories, labels, ends


def back(marks: Marks, frame: Frame, look: Look, pitch: float) -> None:
    """Bands and grid lines behind the marks."""
    x0, y0, x1, y1 = frame.box
    if look.bands and not frame.flat:
        x = x0
        while x + pitch <= x1 + 1:
            marks.rect(x, y0, x + pitch, y1, (247, 247, 247))
            x += 2 * pitch
    value = frame.low
    while look.grid != "none" and value <= frame.top + frame.step / 2:
        at = frame.at(value)
        if frame.flat:
            marks.line([(at, y0), (at, y1)], GRID, 0.6)
        elif look.grid == "dashed":
            marks.dashed(x0, at, x1, GRID)
        else:
            marks.line([(x0, at), (x1, at)], GRID, 0.6)
        value += frame.step


def stand(sheet: Sheet, marks: Marks, plan: Plan, frame: Frame, centres: list[float], pitch: float, colours: list[Colour]) -> list[list[tuple[float, float, float]]]:
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
                marks.rect(left + 0.5, base, left + thick / count - 0.5, y, colours[i])
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


def stand_labels(sheet: Sheet, plan: Plan, spots: list[list[tuple[float, float, float]]], style: Style, look: Look, colours: list[Colour]) -> list[list[Span]]:
    small = replace(style.sized(0.92), face=sheet.bold if look.values == "plain" else style.face)
    labels = []
    for i, row in enumerate(plan.values):
        line = []
        for (x, y, middle), value in zip(spots[i], row, strict=True):
            if look.values == "none":
                line.append(Span(""))
                continue
            within = plan.kind == "stacked"
            colour = (255, 255, 255) if within and luminance(colours[i]) < 140 else (30, 30, 30)
            at = middle + small.size * 0.35 if within else y - 4
            text = plan.shown(value, look.values)
            if within and abs(middle - y) * 2 < small.size * 0.9:
                line.append(Span(""))
                continue
            line.append(sheet.canvas.text(x - 50, at, text, replace(small, colour=colour), "value", "center", 100))
        labels.append(line)
    return labels


def category(sheet: Sheet, text: str, x: float, y: float, pitch: float, style: Style, tilted: bool) -> Span:
    canvas = sheet.canvas
    grey = replace(style, colour=TEXT)
    canvas.start_block()
    if tilted:
        length = canvas.measure(text, grey)
        return canvas.turned(x - length * 0.7, y + style.size * 0.6 + length * 0.7, text, grey, "label", 45)
    lines = break_lines(text.split(), grey, pitch - 2)
    return join(canvas.text(x - pitch, y + style.size * (1 + 1.1 * i), " ".join(words), grey, "label", "center", 2 * pitch)
                for i, words in enumerate(lines[:3]))


def lying(sheet: Sheet, plan: Plan, box: Box, style: Style, look: Look, colours: list[Colour]) -> tuple[list[Span], list[list[Span]]]:
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
        categories.append(join(canvas.text(x0, first + i * size * 1.1, " ".join(words), style, "label", "right", names - size * 0.4)
                               for i, words in enumerate(lines)))
    value = 0.0
    canvas.start_block()
    while look.axis and value <= top + step / 2:
        canvas.text(frame.at(value) - 40, fy1 + size * 1.3, tick(plan, value, step), replace(style, colour=TEXT), "axis", "center", 80)
        value += step
    return categories, [[lying_label(sheet, plan, value, spot, style, look, colours[i]) for value, spot in zip(row, spots[i], strict=True)]
                        for i, row in enumerate(plan.values)]


def lying_label(sheet: Sheet, plan: Plan, value: float, spot: tuple[float, float, float, float], style: Style, look: Look, colour: Colour) -> Span:
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
    hole, inside, angle = (0.5 if sheet.chance(0.2) else 0.0), sheet.chance(0.4), rng.choice((0.0, 0.0, rng.uniform(0, 360)))
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
        px, py = around(x, y, radius + size * 1.2, middle)
        length = canvas.measure(f"{name} {shown}", style)
        left = px if middle % 360 < 180 else px - length
        left = min(max(left, x0), x1 - length)
        categories.append(canvas.text(left, py + size * 0.3, name, style, "label"))
        labels.append(canvas.text(left + canvas.measure(name, style) + style.setter.space, py + size * 0.3, shown, style, "value"))
    return categories, [labels]
