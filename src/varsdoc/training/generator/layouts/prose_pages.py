"""Pages of mostly running text: plain text, papers in two columns, reports, letters and memos."""

from __future__ import annotations

from dataclasses import replace

from .. import entities as e
from ..canvas import Style
from ..flow import set_columns, set_lines, set_paragraph, set_title
from ..page import Box, Field, Span
from ..sheet import Sheet
from ..vocabulary import JOB
from .furniture import finish, logo, margins, scribble
from .tables import draw_table


def running(sheet: Sheet) -> None:
    """A book or report page: paragraphs, perhaps a running head."""
    rng = sheet.rng
    sheet.open_scan()
    if sheet.chance(0.25):
        sheet.typed()
    box = margins(sheet)
    style = sheet.style(sheet.base_size())
    if sheet.chance(0.4):
        head = sheet.topic.title()
        align = rng.choice(("left", "center", "right"))
        set_title(
            sheet,
            head,
            (box[0], box[1] - 2.2 * style.size, box[2], box[1]),
            replace(style, case="upper"),
            align,
            "header",
        )
    y = box[1]
    if sheet.chance(0.5):
        title = Style(sheet.head, round(style.size * rng.uniform(1.3, 2.2)), case=rng.choice(("", "", "upper")))
        y = (
            set_title(sheet, sheet.topic.title(), (box[0], y, box[2], box[3]), title, rng.choice(("left", "center")))
            + style.size
        )
    heads = Style(sheet.head, round(style.size * rng.uniform(1.0, 1.3)), underline=sheet.chance(0.2))
    align = rng.choice(("justify", "left"))
    leading = rng.choice((1.15, 1.3, 1.3, 1.5, 2.0))
    bottom = box[3] if sheet.chance(0.7) else y + (box[3] - y) * rng.uniform(0.3, 1)
    columns = 1 if sheet.canvas.width < sheet.canvas.height or sheet.chance(0.4) else 2
    set_columns(
        sheet,
        (box[0], y, box[2], bottom),
        columns,
        style,
        align=align,
        leading=leading,
        headings=heads,
        indent=rng.choice((0, 0, 2)) * style.size,
    )
    finish(sheet, style)


def paper(sheet: Sheet) -> None:
    """A scientific article or magazine page: title, authors, abstract, two or three columns, a table or a caption."""
    rng, topic = sheet.rng, sheet.topic
    canvas = sheet.open_scan()
    x0, y, x1, bottom = margins(sheet)
    size = rng.choice((10, 11, 11, 12, 12, 13, 14))
    style = sheet.style(size)
    if sheet.chance(0.7):
        title = Style(sheet.head, round(size * rng.uniform(1.7, 2.6)))
        y = set_title(sheet, topic.title(), (x0, y, x1, bottom), title, "center") + size
        authors, y = set_lines(
            sheet, ", ".join(topic.people), (x0, y, x1, bottom), sheet.style(size * 1.1), "author", "center"
        )
        if authors:
            canvas.content.fields.append(Field(Span("authors"), authors))
        _, y = set_lines(
            sheet, topic.companies[0], (x0, y, x1, bottom), sheet.style(size, italic=True), "author", "center"
        )
        y += size
        if sheet.chance(0.7):
            inset = (x1 - x0) * 0.08
            canvas.start_block()
            canvas.text(x0, y + size, "Abstract", sheet.style(size, bold=True), "header", "center", x1 - x0)
            y = (
                set_paragraph(
                    sheet, topic.paragraph(rng.randint(3, 6)), (x0 + inset, y + 1.4 * size, x1 - inset, bottom), style
                )
                + size
            )
    columns = rng.choice((2, 2, 2, 3))
    gap = rng.randint(14, 30)
    width = (x1 - x0 - gap * (columns - 1)) / columns
    foot, cut = bottom, sheet.chance(0.4)
    if cut:
        bottom -= rng.uniform(0.16, 0.3) * canvas.height
    heads = Style(sheet.head, round(size * rng.uniform(1.05, 1.3)))
    set_columns(
        sheet,
        (x0, y, x1, bottom),
        columns,
        style,
        gap,
        leading=rng.uniform(1.15, 1.3),
        headings=heads,
        spread=0.3,
        indent=size,
    )
    if sheet.chance(0.3) and columns == 2:
        middle = (x0 + x1) / 2
        canvas.rule(middle, y, middle, bottom, (120, 120, 120))
    if cut:
        # A table spans the foot of one column or of the page.
        box = (x0, bottom + size, x1 if sheet.chance(0.5) else x0 + width, foot)
        draw_table(sheet, box, sheet.style(max(9, size - 1)), caption=True)
    finish(sheet, style)


def report(sheet: Sheet) -> None:
    """Numbered sections, lists, an inverse heading bar, a boxed remark."""
    rng, topic = sheet.rng, sheet.topic
    canvas = sheet.open_scan()
    x0, y, x1, bottom = margins(sheet)
    size = sheet.base_size()
    style = sheet.style(size)
    title = Style(sheet.head, round(size * rng.uniform(1.6, 3)))
    if sheet.chance(0.4):
        colour = sheet.dark()
        height = title.size * 2
        canvas.rect((x0 - 12, y, x1 + 12, y + height), fill=colour)
        set_title(
            sheet, topic.title(), (x0, y + title.size * 0.4, x1, y + height), replace(title, colour=(255, 255, 255))
        )
        y += height + size
    else:
        y = set_title(sheet, topic.title(), (x0, y, x1, bottom), title, rng.choice(("left", "center"))) + size
    section = 0
    while y + 4 * size < bottom:
        section += 1
        number = f"{section}. " if sheet.chance(0.6) else ""
        head = Style(sheet.head, round(size * 1.2), underline=sheet.chance(0.2))
        y = set_title(sheet, number + topic.title(), (x0, y, x1, bottom), head, role="header") + size * 0.4
        kind = rng.random()
        if kind < 0.3:
            y = bullets(sheet, (x0 + size, y, x1, bottom), style, rng.randint(3, 7))
        elif kind < 0.45:
            y = boxed(sheet, (x0, y, x1, bottom), style)
        elif kind < 0.6 and bottom - y > 10 * size:
            y = draw_table(sheet, (x0, y, x1, min(bottom, y + 14 * size)), style) + size
        else:
            y = set_paragraph(
                sheet, topic.paragraph(rng.randint(2, 7)), (x0, y, x1, bottom), style, rng.choice(("left", "justify"))
            )
        y += size * 0.8
    finish(sheet, style)


def boxed(sheet: Sheet, box: Box, style: Style) -> float:
    """A paragraph on a tinted or framed ground; sometimes white on black."""
    x0, y, x1, bottom = box
    height = min(bottom - y, style.size * sheet.rng.randint(5, 9))
    inverse = sheet.chance(0.3)
    fill = sheet.dark() if inverse else sheet.rng.choice(((235, 235, 235), (220, 230, 240), (255, 255, 255)))
    sheet.canvas.rect((x0, y, x1, y + height), fill=fill, outline=(0, 0, 0))
    inner = replace(style, colour=(255, 255, 255)) if inverse else style
    set_paragraph(sheet, sheet.topic.paragraph(4), (x0 + 10, y + 6, x1 - 10, y + height - 4), inner, "left")
    return y + height + style.size


def bullets(sheet: Sheet, box: Box, style: Style, count: int, role: str = "item", leading: float = 1.25) -> float:
    canvas, rng = sheet.canvas, sheet.rng
    x0, y, x1, bottom = box
    mark = rng.choice(("dot", "dash", "number", "letter"))
    for place in range(count):
        if y + style.size * 1.3 > bottom:
            break
        text = " ".join(sheet.topic.sentence().tokens) if sheet.chance(0.3) else sheet.topic.phrase()
        middle = y + style.setter.ascent * 0.65
        if mark == "dot":
            radius = max(2, style.size // 7)
            canvas.draw.ellipse((x0, middle - radius, x0 + 2 * radius, middle + radius), fill=canvas.ink(style.colour))
        elif mark == "dash":
            canvas.rule(x0, middle, x0 + style.size * 0.5, middle, style.colour, max(1, style.size // 12))
        else:
            canvas.start_block()
            canvas.text(
                x0,
                y + style.setter.ascent,
                f"{place + 1}." if mark == "number" else f"({chr(97 + place % 26)})",
                style,
                "label",
            )
        item, y = set_lines(
            sheet, text[:1].upper() + text[1:], (x0 + style.size * 2, y, x1, bottom), style, role, leading=leading
        )
        if item:
            canvas.content.items.append(item)
        y += style.size * rng.uniform(0.1, 0.5)
    return y


def letter(sheet: Sheet) -> None:
    """A letter or memo, mostly typed: letterhead, date, address, subject lines, body, signature."""
    rng, topic = sheet.rng, sheet.topic
    canvas = sheet.open_scan()
    x0, y, x1, bottom = margins(sheet)
    house = topic.companies[0]
    if sheet.chance(0.6):
        top = Style(sheet.head, rng.randint(16, 34), case=rng.choice(("", "upper")))
        align = rng.choice(("left", "center", "right"))
        if sheet.chance(0.4):
            logo(sheet, x0 - 30, y - 10, 28)
        y = set_title(sheet, house, (x0, y, x1, bottom), top, align)
        _, y = set_lines(
            sheet,
            " ".join(e.address(rng)) + "   " + e.phone(rng),
            (x0, y, x1, bottom),
            sheet.style(11),
            "address",
            align,
        )
        y += 20
    if sheet.chance(0.75):
        sheet.typed()
    style = replace(sheet.style(rng.choice((11, 12, 13, 13, 14, 15))), jitter=int(sheet.chance(0.3)))
    memo = sheet.chance(0.45)
    y = memo_head(sheet, (x0, y, x1, bottom), style) if memo else address_head(sheet, (x0, y, x1, bottom), style)
    for _ in range(rng.randint(2, 5)):
        y = set_paragraph(
            sheet,
            topic.paragraph(rng.randint(2, 5)),
            (x0, y, x1, bottom),
            style,
            "left",
            rng.choice((0, 0, 4)) * style.size,
            rng.choice((1.2, 1.3)),
        )
        y += style.size
    if y + 6 * style.size < bottom:
        canvas.start_block()
        left = x0 + rng.choice((0, 0.5)) * (x1 - x0)
        canvas.text(
            left,
            y + style.size,
            rng.choice(("Sincerely,", "Very truly yours,", "Yours faithfully,", "Best regards,")),
            style,
            "body",
        )
        scribble(sheet, left, y + 3.2 * style.size, 120)
        signed = canvas.text(left, y + 5 * style.size, topic.people[0], style, "value")
        post = canvas.text(left, y + 6.2 * style.size, rng.choice(JOB), style, "label")
        canvas.content.fields.append(Field(Span("signed by"), signed))
        canvas.content.fields.append(Field(post, signed))
    finish(sheet, style)


def address_head(sheet: Sheet, box: Box, style: Style) -> float:
    canvas, rng, topic = sheet.canvas, sheet.rng, sheet.topic
    x0, y, x1, _ = box
    step = style.size * 1.25
    canvas.start_block()
    day = canvas.text(x0, y + step, e.date(rng), style, "value", rng.choice(("left", "right")), x1 - x0)
    canvas.content.fields.append(Field(Span("date of the letter"), day))
    street, town = e.address(rng)
    y += 2.5 * step
    canvas.start_block()
    lines = [
        canvas.text(x0, y + step * i, t, style, "address")
        for i, t in enumerate((topic.people[1], topic.companies[1], street, town), 1)
    ]
    canvas.content.fields.append(Field(Span("letter addressed to"), lines[0]))
    canvas.content.fields.append(Field(Span("address of the recipient"), lines[2]))
    y += 6 * step
    canvas.start_block()
    canvas.text(x0, y, f"Dear {topic.people[1].split()[-1]}:", style, "body")
    return y + step


def memo_head(sheet: Sheet, box: Box, style: Style) -> float:
    canvas, rng, topic = sheet.canvas, sheet.rng, sheet.topic
    x0, y, x1, bottom = box
    kind = rng.choice(
        ("MEMORANDUM", "Inter-Office Correspondence", "Memorandum", "INTEROFFICE MEMO", "FAX TRANSMITTAL")
    )
    y = set_title(sheet, kind, (x0, y, x1, bottom), style.sized(1.3), rng.choice(("left", "center"))) + style.size
    values = {
        "TO": topic.people[1],
        "FROM": topic.people[0],
        "DATE": e.date(rng),
        "SUBJECT": topic.title(),
        "CC": topic.people[2],
    }
    for label, value in values.items():
        if label == "CC" and sheet.chance(0.5):
            continue
        name = label if sheet.chance(0.8) else label.title()
        canvas.start_block()
        y += style.size * 1.5
        printed = canvas.text(x0, y, f"{name}:", replace(style, face=sheet.bold), "label")
        filled = canvas.text(x0 + style.size * 6.5, y, value, style, "value")
        canvas.content.fields.append(Field(printed, filled))
    y += style.size
    canvas.rule(x0, y, x1, y, (40, 40, 40))
    return y + style.size
