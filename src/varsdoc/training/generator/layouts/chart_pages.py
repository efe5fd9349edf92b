"""Whole chart images in the manner of the houses that publish them: card, news-poll, open-data and plain plots."""

from __future__ import annotations

from dataclasses import replace

from .. import entities as e
from ..canvas import Colour, Style
from ..flow import set_lines, set_title
from ..page import Box, Span
from ..sheet import PALETTES, Sheet
from ..vocabulary import PUBLISHER
from .chart_data import KINDS, Plan, make_plan
from .chart_frame import Look
from .charts import draw_plan

GREY: Colour = (110, 110, 110)


def any_look(sheet: Sheet) -> Look:
    rng = sheet.rng
    return Look(
        grid=rng.choice(("solid", "dashed", "none")),
        values=rng.choice(("plain", "comma", "bare", "none")),
        legend=rng.choice(("bottom", "top", "right")),
        own=sheet.chance(0.15),
        rising=sheet.chance(0.1),
        axis=sheet.chance(0.75),
        bands=sheet.chance(0.2),
        inside=sheet.chance(0.4),
    )


def axis_title(sheet: Sheet, plan: Plan, form: str) -> str:
    """What the values are and their unit; half of the time in words that no list of measures has, or they would be
    known rather than read.
    """
    phrase = sheet.topic.phrase()
    counted = (f"Number of {phrase}", f"Share of {phrase}", f"Average {phrase}", phrase.capitalize())
    subject = plan.subject if sheet.chance(0.5) else sheet.rng.choice(counted)
    return form.format(subject, plan.unit) if plan.unit and (plan.unit != "%" or "(" in form) else subject


def chart_block(sheet: Sheet, box: Box, style: Style, kind: str = "", caption: bool = False) -> None:
    """A chart with its title (or a figure caption below) as part of a larger page."""
    rng, canvas = sheet.rng, sheet.canvas
    plan = make_plan(sheet, kind)
    x0, y0, x1, y1 = box
    title = Span("")
    if caption:
        text = f"{rng.choice(('Figure', 'FIGURE', 'Fig.', 'Chart'))} {rng.randint(1, 30)}. {plan.title}"
        below = y1 - style.size * 2.6
        title, _ = set_lines(sheet, text, (x0, below, x1, y1), style, "caption")
        canvas.content.captions += [title] if title else []
        y1 = below - 4
    else:
        before = len(canvas.content.titles)
        y0 = (
            set_title(
                sheet,
                plan.title,
                (x0, y0, x1, y1),
                replace(style, face=sheet.bold).sized(1.15),
                rng.choice(("left", "center")),
            )
            + 4
        )
        title = canvas.content.titles[-1] if len(canvas.content.titles) > before else title
    look = any_look(sheet)
    look.axis = look.axis or look.values == "none"
    if y1 - y0 > 60 and x1 - x0 > 80:
        draw_plan(sheet, plan, (x0, y0, x1, y1), style.sized(0.9), look, title)


def card(sheet: Sheet) -> None:
    """A statistics portal's card: no title as a rule, bold values, legend below, links at the foot."""
    rng = sheet.rng
    sheet.palette = PALETTES[0] if sheet.chance(0.7) else sheet.palette
    canvas = sheet.open(rng.choice((640, 640, 620)), rng.choice((452, 452, 480, 540, 600)), grey=False)
    width, height = canvas.width, canvas.height
    canvas.rect((3, 3, width - 4, height - 4), outline=(235, 235, 235))
    for i in range(6):
        canvas.rect((width - 38, 16 + i * 30, width - 18, 36 + i * 30), fill=(246, 246, 246))
        canvas.rect((width - 31, 23 + i * 30, width - 25, 29 + i * 30), fill=(150, 155, 165))
    plan = make_plan(sheet)
    style = sheet.style(rng.choice((9, 9, 10, 10, 11)))
    y, title = 14.0, Span("")
    if sheet.chance(0.25):
        y = set_title(sheet, plan.title, (20, y, width - 60, height), Style(sheet.bold, 14))
        title = canvas.content.titles[-1] if canvas.content.titles else title
    look = Look(
        grid=rng.choice(("dashed", "solid")),
        values="plain",
        legend="bottom",
        axis=True,
        bands=sheet.chance(0.6),
        rising=sheet.chance(0.25),
    )
    draw_plan(sheet, plan, (46, y, width - 54, height - 60), style, look, title)
    axis = axis_title(sheet, plan, "{} in {}")
    canvas.start_block()
    if plan.kind != "pie" and not plan.kind.startswith("h"):
        canvas.turned(24, height / 2 + canvas.measure(axis, style) / 2, axis, replace(style, colour=GREY), "axis")
    elif plan.kind != "pie":
        canvas.text(46, height - 52, axis, replace(style, colour=GREY), "axis", "center", width - 100)
    link = replace(style, colour=(30, 110, 190))
    canvas.start_block()
    canvas.text(22, height - 16, "Additional Information", link, "note")
    canvas.text(0, height - 16, "Show source", link, "note", "right", width - 22)
    canvas.text(
        0,
        height - 34,
        f"© {rng.choice(('Statista', 'Statista', 'DataPortal', 'StatHub'))} {rng.randint(2018, 2024)}",
        replace(style, colour=GREY),
        "note",
        "right",
        width - 22,
    )


def poll(sheet: Sheet) -> None:
    """An opinion poll's graphic: bold headline, italic line, lying or stacked bars, notes, the institute's name."""
    rng, topic = sheet.rng, sheet.topic
    sheet.palette = rng.choice((PALETTES[1], PALETTES[2], PALETTES[3], PALETTES[8], sheet.palette))
    plan = make_plan(
        sheet, rng.choice(("hbar", "hbar", "hstacked", "hstacked", "hgrouped", "pie", "line", "stacked", "grouped"))
    )
    rows = len(plan.categories) * (1 if plan.kind != "hgrouped" else len(plan.series) * 0.7)
    width = rng.choice((309, 310, 420, 420, 500, 640))
    height = int(min(640, max(300, 210 + (26 * rows if plan.kind.startswith("h") else 170))))
    canvas = sheet.open(width, height, grey=False)
    width, height = canvas.width, canvas.height
    canvas.rule(0, 2, width, 2, (60, 60, 60))
    big, small = rng.randint(14, 18), rng.randint(9, 12)
    y = set_title(sheet, plan.title, (2, 8, width - 4, height), Style(sheet.bold, big))
    title = canvas.content.titles[-1] if canvas.content.titles else Span("")
    serif = Style(rng.choice(sheet.book.italics), rng.randint(12, 14), GREY)
    sub, y = set_lines(sheet, plan.subtitle, (2, y + 4, width - 4, height), serif, "caption")
    canvas.content.captions += [sub] if sub else []
    foot = height - small * 1.25 * 4 - 8
    look = Look(
        grid="none",
        values=rng.choice(("bare", "bare", "comma")),
        legend=rng.choice(("top", "top", "right")),
        axis=plan.kind in ("line",),
        inside=sheet.chance(0.6),
    )
    if foot - y > 40:
        style = Style(sheet.body, rng.randint(10, 13))
        draw_plan(sheet, plan, (2, y + 8, width - 4, foot - 6), style, look, title)
    note = f"Note: {' '.join(topic.sentence().tokens)}"
    asked = rng.choice(("U.S. adults", "adults", "employees", "households", "voters"))
    source = f"Source: Survey of {asked} conducted {e.date(rng)}."
    tiny = Style(sheet.body, small, GREY)
    _, below = set_lines(sheet, note, (2, foot, width - 4, height - 3.2 * small), tiny, "note", leading=1.15)
    set_lines(sheet, source, (2, below, width - 4, height - 1.7 * small), tiny, "source", leading=1.15)
    canvas.start_block()
    canvas.text(2, height - 8, rng.choice((*PUBLISHER[:1], *PUBLISHER)).upper(), Style(sheet.bold, small), "source")
    canvas.rule(0, height - 3, width, height - 3, (60, 60, 60))


def open_data(sheet: Sheet) -> None:
    """An open-data site's plot: serif title, lines named at their ends, source and licence at the foot."""
    rng = sheet.rng
    sheet.palette = rng.choice((PALETTES[4], PALETTES[5], sheet.palette))
    canvas = sheet.open(640, 452, grey=False)
    width, height = canvas.width, canvas.height
    plan = make_plan(sheet, rng.choice(("line", "line", "line", "hbar", "hbar", "scatter", "hgrouped")))
    serif = Style(rng.choice(sheet.book.text), rng.randint(17, 21), (70, 70, 80))
    y = set_title(sheet, plan.title, (10, 10, width - 80, height), serif)
    title = canvas.content.titles[-1] if canvas.content.titles else Span("")
    canvas.rect((width - 66, 10, width - 10, 38), fill=(0, 33, 71))
    canvas.start_block()
    canvas.text(width - 66, 22, "Our World", Style(sheet.body, 9, (255, 255, 255)), "note", "center", 56)
    canvas.text(width - 66, 33, "in Data", Style(sheet.body, 9, (255, 255, 255)), "note", "center", 56)
    small = Style(sheet.body, rng.randint(10, 12), GREY)
    sub, y = set_lines(sheet, plan.subtitle, (10, y + 2, width - 90, height), small, "caption")
    canvas.content.captions += [sub] if sub else []
    look = Look(
        grid="dashed",
        values="none" if plan.kind in ("line", "scatter") else "plain",
        legend="direct" if plan.kind in ("line", "scatter") else "top",
        axis=True,
    )
    draw_plan(
        sheet,
        plan,
        (10, y + 8, width - 10, height - 26),
        Style(sheet.body, rng.randint(11, 13)),
        look,
        title,
    )
    canvas.start_block()
    canvas.text(10, height - 8, f"Source: {rng.choice(PUBLISHER)} ({rng.randint(2005, 2023)})", small, "source")
    canvas.text(0, height - 8, "OurWorldInData.org • CC BY", small, "source", "right", width - 10)


def indicator(sheet: Sheet) -> None:
    """A statistics office's chart: title, measure and source in one line, a pale panel, each bar in a colour of its own
    with its name rising below it.
    """
    rng = sheet.rng
    sheet.palette = rng.choice((PALETTES[4], PALETTES[5], sheet.palette))
    canvas = sheet.open(640, rng.choice((378, 378, 400, 440)), grey=False)
    width, height = canvas.width, canvas.height
    plan = make_plan(sheet, rng.choice(("bar", "bar", "bar", "line")))
    single = len(plan.series) == 1
    canvas.rule(0, 1, width, 1, (60, 60, 60))
    panel = height * rng.uniform(0.9, 0.94) if plan.kind == "line" else height * 0.88
    canvas.rect((0, 42, width, panel), fill=rng.choice(((222, 234, 242), (222, 234, 242), (236, 240, 244))))
    canvas.rule(0, 42, width, 42, (70, 150, 190))
    canvas.rule(0, height - 3, width, height - 3, (70, 150, 190))
    serif = Style(rng.choice(sheet.book.text), rng.randint(13, 16), (60, 60, 60))
    canvas.start_block()
    title = canvas.text(0, 20, plan.subject, serif, "title")
    canvas.content.titles += [title] if title else []
    tiny = Style(sheet.bold, rng.randint(8, 9), (70, 70, 70))
    ends = f"{plan.categories[0]} \u2013 {plan.categories[-1]}" if plan.kind == "line" else e.year(rng)
    unit = rng.choice((plan.unit or "Number", f"Per {rng.choice(('1 000', '100 000'))} inhabitants", "% of GDP"))
    canvas.start_block()
    canvas.text(canvas.measure(plan.subject, serif) + 10, 19, f"Total, {unit}, {ends}", tiny, "caption")
    canvas.start_block()
    canvas.text(0, 19, f"Source: {sheet.topic.title()}", tiny, "source", "right", width - 1)
    own = plan.kind == "bar" and single
    look = Look(grid="solid", values="plain" if own else "none", legend="direct", own=own, rising=plan.kind == "bar")
    draw_plan(sheet, plan, (6, 44, width - 6, height - 5), Style(sheet.body, rng.randint(8, 9)), look, title)


def plot(sheet: Sheet) -> None:
    """A plot as spreadsheets and plotting libraries make them."""
    rng = sheet.rng
    paper = rng.choice(((255, 255, 255), (255, 255, 255), (248, 248, 244), (234, 234, 242), (30, 34, 46)))
    canvas = sheet.open(rng.randint(520, 660), rng.randint(360, 480), grey=False, paper=paper)
    width, height = canvas.width, canvas.height
    ink: Colour = (235, 235, 235) if paper[0] < 80 else (20, 20, 20)
    plan = make_plan(sheet, rng.choice(KINDS))
    y = set_title(
        sheet,
        plan.title,
        (20, 10, width - 20, height),
        Style(sheet.head, rng.randint(14, 22), ink),
        rng.choice(("center", "left")),
    )
    title = canvas.content.titles[-1] if canvas.content.titles else Span("")
    style = Style(sheet.body, rng.randint(9, 13), ink)
    look = any_look(sheet)
    look.axis = look.axis or look.values == "none"
    if paper[0] < 80:
        # Grey axis text and black values vanish on a dark ground: light panel inside, as slides do.
        canvas.rect((14, y + 4, width - 14, height - 30), fill=(240, 240, 240))
        style = replace(style, colour=(20, 20, 20))
    draw_plan(sheet, plan, (34, y + 10, width - 20, height - 34), style, look, title)
    canvas.start_block()
    if plan.kind != "pie" and not plan.kind.startswith("h"):
        canvas.text(34, height - 20, plan.category_name.title(), style, "axis", "center", width - 54)
        label = axis_title(sheet, plan, "{} ({})")
        canvas.turned(28, height / 2 + canvas.measure(label, style) / 2, label, style, "axis")
    if sheet.chance(0.5):
        canvas.text(10, height - 6, f"Source: {rng.choice(PUBLISHER)}, {e.year(rng)}", style.sized(0.85), "source")
