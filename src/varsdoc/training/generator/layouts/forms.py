"""Forms, filled by hand, typed or printed; receipts and invoices; lists of names."""

from __future__ import annotations

from dataclasses import replace

from .. import entities as e
from ..canvas import Style
from ..flow import set_lines, set_title
from ..page import Box, Field, Span, Table
from ..sheet import Sheet
from ..vocabulary import JOB
from .form_fields import LABELS
from .furniture import finish, logo, margins, scribble

FORM_NAMES = (
    "Check Request",
    "Application Form",
    "Request for Change",
    "Registration Form",
    "Data Sheet",
    "Purchase Order",
    "Expense Report",
    "Health Examination",
    "Travel Authorization",
    "Order Blank",
    "Contract Summary",
    "Inspection Record",
    "Sample Analysis Request",
    "Budget Request",
    "Membership Application",
    "Personnel Action Form",
    "Call Report",
    "Biographical Sketch",
)
CHECKS = (
    "Addition",
    "Deletion",
    "Emergency",
    "Urgent",
    "Routine",
    "Approved",
    "Rejected",
    "Yes",
    "No",
    "New",
    "Renewal",
    "Cash",
    "Check",
    "Credit card",
    "Full time",
    "Part time",
    "Married",
    "Single",
    "Male",
    "Female",
    "Domestic",
    "Export",
)


def hand_of(sheet: Sheet, size: int) -> Style:
    """How the form was filled in: by hand (larger, uneven), typewriter or printer."""
    kind = sheet.rng.random()
    if kind < 0.45:
        ink = sheet.rng.choice(((20, 20, 20), (30, 40, 110), (60, 60, 60)))
        return Style(sheet.hand, round(size * sheet.rng.uniform(1.15, 1.6)), ink, jitter=2)
    if kind < 0.75:
        return Style(sheet.mono, size, (40, 40, 40), jitter=1, case="upper" if sheet.chance(0.3) else "")
    return Style(sheet.bold if sheet.chance(0.3) else sheet.body, size)


def form_field(sheet: Sheet, label: str, value: str, box: Box, style: Style, hand: Style, look: str) -> None:
    """One label with its value: on a line, in a cell under its label, or after a colon."""
    canvas = sheet.canvas
    x0, y, x1, y1 = box
    canvas.start_block()
    if look == "cell":
        canvas.rect(box, outline=(0, 0, 0))
        printed = canvas.text(x0 + 4, y + style.size, label, style.sized(0.85), "label")
        baseline, x = y1 - max(4, hand.setter.descent), x0 + 10
    else:
        baseline = y1 - hand.setter.descent - 2
        printed = canvas.text(x0, baseline, label + (":" if look == "colon" else ""), style, "label")
        x = x0 + canvas.measure(label, style) + style.size
        if look == "line":
            canvas.rule(x - 4, baseline + 3, x1 - 8, baseline + 3, (60, 60, 60))
        elif look == "dots":
            canvas.dotted(x - 4, x1 - 8, baseline + 2)
    if sheet.chance(0.1):  # left blank, as forms are
        return
    words = value.split()
    while len(words) > 1 and canvas.measure(" ".join(words), hand) > x1 - x - 6:
        words.pop()
    filled = canvas.text(x, baseline, " ".join(words), hand, "value", rng=sheet.rng)
    if printed and filled:
        canvas.content.fields.append(Field(printed, filled))


def checkboxes(sheet: Sheet, box: Box, style: Style) -> float:
    canvas, rng = sheet.canvas, sheet.rng
    x0, y, x1, bottom = box
    size = style.size * 0.8
    per_row = max(1, int((x1 - x0) / (style.size * 10)))
    for place, name in enumerate(rng.sample(CHECKS, rng.randint(2, 8))):
        x = x0 + (place % per_row) * (x1 - x0) / per_row
        top = y + (place // per_row) * style.size * 1.7
        if top + style.size * 1.5 > bottom:
            break
        ticked = sheet.chance(0.35)
        canvas.rect((x, top, x + size, top + size), outline=(0, 0, 0))
        if ticked:
            canvas.rule(x, top, x + size, top + size, (20, 20, 60), 2)
            canvas.rule(x, top + size, x + size, top, (20, 20, 60), 2)
        canvas.start_block()
        item = canvas.text(x + size * 1.6, top + size, name, style, "label")
        if item and ticked:
            canvas.content.items.append(item)
    return y + (place // per_row + 1) * style.size * 1.7


def form(sheet: Sheet) -> None:
    rng, topic = sheet.rng, sheet.topic
    canvas = sheet.open_scan()
    x0, y, x1, bottom = margins(sheet)
    size = rng.choice((10, 11, 12, 12, 13, 14, 16))
    style, hand = sheet.style(size, bold=sheet.chance(0.4)), hand_of(sheet, size)
    if sheet.chance(0.6):
        y = set_title(
            sheet, topic.companies[0], (x0, y, x1, bottom), Style(sheet.head, round(size * 1.5), case="upper"), "center"
        )
    name = rng.choice(FORM_NAMES) if sheet.chance(0.7) else topic.title() + " Form"
    y = (
        set_title(
            sheet,
            name,
            (x0, y, x1, bottom),
            Style(sheet.head, round(size * 1.3), case=rng.choice(("", "upper"))),
            "center",
        )
        + size
    )
    if sheet.chance(0.4):
        # A small print number in the corner.
        canvas.start_block()
        printed = canvas.text(x0, y, "Form No. " + e.identifier(rng), style.sized(0.8), "value")
        if printed:
            canvas.content.fields.append(Field(Span("form number"), printed))
        y += size
    look = rng.choice(("cell", "line", "colon", "dots"))
    pitch = max(size, hand.size) * rng.uniform(1.5, 2.4) + (size * 0.8 if look == "cell" else 0)
    labels = rng.sample(LABELS, rng.randint(8, 30))
    while labels and y + pitch < bottom - 3 * size:
        across = min(rng.choice((1, 1, 2, 2, 3)), len(labels), max(1, int((x1 - x0) / (size * 14))))
        cuts = [x0 + (x1 - x0) * i / across for i in range(across + 1)]
        for i in range(across):
            label, make = labels.pop()
            form_field(sheet, label, make(sheet), (cuts[i], y, cuts[i + 1], y + pitch), style, hand, look)
        y += pitch
        if sheet.chance(0.12):
            y = section(sheet, (x0, y, x1, bottom), style)
        elif sheet.chance(0.08):
            y = checkboxes(sheet, (x0, y + 6, x1, bottom - 3 * size), style) + 6
    if y + 3 * size < bottom:
        signature(sheet, (x0, y, x1, bottom), style)
    finish(sheet, style)


def section(sheet: Sheet, box: Box, style: Style) -> float:
    """A heading across the form, on a black or grey bar."""
    x0, y, x1, bottom = box
    height = style.size * 1.6
    black = sheet.chance(0.5)
    sheet.canvas.rect((x0, y + 3, x1, y + 3 + height), fill=(0, 0, 0) if black else (210, 210, 210))
    text = replace(style, face=sheet.bold, colour=(255, 255, 255) if black else (0, 0, 0), case="upper")
    set_title(sheet, sheet.topic.title(), (x0 + 6, y + 3 + style.size * 0.2, x1, bottom), text, role="header")
    return y + height + 8


def signature(sheet: Sheet, box: Box, style: Style) -> None:
    canvas = sheet.canvas
    x0, y, x1, _ = box
    half = x0 + (x1 - x0) * 0.55
    y += 2 * style.size
    canvas.rule(x0, y, half - 20, y)
    canvas.rule(half, y, x1, y)
    scribble(sheet, x0 + 20, y - 4, 120)
    canvas.start_block()
    canvas.text(x0, y + style.size * 1.1, "Signature", style.sized(0.85), "label")
    label = canvas.text(half, y + style.size * 1.1, "Date", style.sized(0.85), "label")
    day = canvas.text(half + 10, y - 4, e.date(sheet.rng), hand_of(sheet, style.size), "value")
    canvas.content.fields.append(Field(label, day))


def receipt(sheet: Sheet) -> None:
    """A receipt, invoice or account: items with quantities and amounts, totals at the foot."""
    rng, topic = sheet.rng, sheet.topic
    narrow = sheet.chance(0.4)
    canvas = sheet.open(rng.randint(400, 560), rng.randint(700, 1000)) if narrow else sheet.open_scan()
    if sheet.chance(0.6):
        sheet.typed()
    x0, y, x1, bottom = margins(sheet)
    size = rng.choice((11, 12, 13, 14, 15))
    style = sheet.style(size)
    if sheet.chance(0.3):
        logo(sheet, x0, y - 8, 30)
    y = set_title(sheet, topic.companies[0], (x0, y, x1, bottom), Style(sheet.head, round(size * 1.6)), "center")
    for line in (*e.address(rng), "Tel. " + e.phone(rng)):
        _, y = set_lines(sheet, line, (x0, y, x1, bottom), style, "address", "center")
    y += size
    for label, value in (
        ("Invoice No.", e.identifier(rng)),
        ("Date", e.date(rng)),
        ("Customer", topic.people[0]),
        ("Terms", f"Net {rng.choice((10, 30, 60))} days"),
    ):
        if sheet.chance(0.75):
            canvas.start_block()
            y += size * 1.4
            canvas.content.fields.append(
                Field(
                    canvas.text(x0, y, label + ":", style, "label"),
                    canvas.text(x0 + size * 9, y, value, hand_of(sheet, size), "value"),
                )
            )
    y = items(sheet, (x0, y + size, x1, bottom - 4 * size), style)
    if sheet.chance(0.6):
        set_lines(
            sheet,
            rng.choice(
                (
                    "Thank you for your business",
                    "All bills due when rendered",
                    "Please remit payment within 30 days",
                    "We hope your visit was pleasant",
                )
            ),
            (x0, y + size, x1, bottom),
            style,
            "note",
            "center",
        )
    finish(sheet, style)


def items(sheet: Sheet, box: Box, style: Style) -> float:
    """Item lines and totals of a receipt."""
    canvas, rng, topic = sheet.canvas, sheet.rng, sheet.topic
    x0, y, x1, bottom = box
    pitch = style.size * rng.uniform(1.3, 1.8)
    heads = ("Description", "Qty", "Price", "Amount")
    lefts = [x0 + (x1 - x0) * share for share in (0, 0.5, 0.64, 0.8, 1)]

    def row(texts: tuple[str, ...], role: str, bold: bool = False) -> tuple[Span, ...]:
        canvas.start_block()
        face = replace(style, face=sheet.bold) if bold else style
        return tuple(
            canvas.text(
                lefts[i],
                y + style.size,
                t,
                face,
                "label" if i == 0 and role == "cell" else role,
                "right" if i else "left",
                lefts[i + 1] - lefts[i] - 4,
            )
            for i, t in enumerate(texts)
        )

    header = row(heads, "header", True)
    y += pitch
    canvas.rule(x0, y, x1, y)
    body, total = [], 0.0
    for _ in range(rng.randint(2, 14)):
        if y + 5 * pitch > bottom:
            break
        count, price = rng.randint(1, 40), round(10 ** rng.uniform(0, 2.6), 2)
        total += count * price
        words = topic.phrase().split()[:3] if sheet.chance(0.6) else rng.choice(topic.trade.rows).split()
        body.append(row((" ".join(words).capitalize(), str(count), f"{price:,.2f}", f"{count * price:,.2f}"), "cell"))
        y += pitch
    canvas.rule(lefts[2], y, x1, y)
    tax = total * rng.choice((0.04, 0.07, 0.2))
    for label, value in (("Subtotal", total), ("Tax", tax), ("TOTAL", total + tax)):
        canvas.start_block()
        y += pitch
        name = canvas.text(lefts[2], y, label, replace(style, face=sheet.bold), "label")
        printed = canvas.text(lefts[3], y, f"${value:,.2f}", style, "value", "right", x1 - lefts[3] - 4)
        canvas.content.fields.append(Field(name, printed))
    canvas.content.tables.append(Table(Span(""), header, tuple(body), (False, True, True, True)))
    return y


def listing(sheet: Sheet) -> None:
    """A directory, programme or table of contents: names, dotted leaders, numbers."""
    rng, topic = sheet.rng, sheet.topic
    canvas = sheet.open_scan()
    if sheet.chance(0.4):
        sheet.typed()
    x0, y, x1, bottom = margins(sheet)
    size = sheet.base_size()
    style = sheet.style(size)
    heading = rng.choice(
        ("Table of Contents", "List of Members", "Agenda", "Directory", "Programme", "Distribution List", topic.title())
    )
    y = (
        set_title(
            sheet,
            heading,
            (x0, y, x1, bottom),
            Style(sheet.head, round(size * 1.6), underline=sheet.chance(0.2)),
            "center",
        )
        + size
    )
    kind = rng.choice(("contents", "people", "agenda"))
    pitch = size * rng.uniform(1.5, 2.4)
    hour = rng.randint(7, 10) * 60
    while y + pitch < bottom and len(canvas.content.fields) < rng.randint(12, 60):
        canvas.start_block()
        baseline = y + size
        hour += rng.choice((15, 30, 45, 60))
        left = topic.title() if kind != "people" else e.person(rng)
        words = left.split()[:7]
        right = {
            "contents": str(rng.randint(1, 300)),
            "people": rng.choice(JOB),
            "agenda": f"{hour // 60}:{hour % 60:02d}",
        }[kind]
        if kind == "agenda":
            value = canvas.text(x0, baseline, right, style, "value")
            label = canvas.text(x0 + 6 * size, baseline, " ".join(words), style, "label")
        else:
            label = canvas.text(x0, baseline, " ".join(words), style, "label")
            value = canvas.text(x0, baseline, right, style, "value", "right", x1 - x0)
            if kind == "contents":
                canvas.dotted(
                    x0 + canvas.measure(" ".join(words), style) + 8,
                    x1 - canvas.measure(right, style) - 8,
                    baseline,
                    step=6,
                )
        if label and value:
            canvas.content.fields.append(Field(label, value))
        y += pitch
    finish(sheet, style)
