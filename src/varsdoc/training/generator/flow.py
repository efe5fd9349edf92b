"""Running text: words broken into lines, lines set left, justified, centred or ragged, sentences and facts
remembered.
"""

from __future__ import annotations

from collections.abc import Sequence

from .canvas import Canvas, Style, join, span
from .page import Box, Fact, Span
from .prose import Sentence
from .sheet import Sheet


def break_lines(words: Sequence[str], style: Style, width: float, indent: float = 0.0) -> list[list[str]]:
    """Greedy line breaking; a word wider than the line gets a line of its own."""
    face = style.setter
    lines: list[list[str]] = [[]]
    room = width - indent
    for word in words:
        needed = face.word(style.shown(word)).advance + face.space
        if lines[-1] and needed - face.space > room:
            lines.append([])
            room = width
        lines[-1].append(word)
        room -= needed
    return lines


def set_lines(
    sheet: Sheet, text: str, box: Box, style: Style, role: str, align: str = "left", leading: float = 1.2
) -> tuple[Span, float]:
    """A short text (title, caption, note) in a column; its span and the y below it. New block."""
    canvas = sheet.canvas
    canvas.start_block()
    x0, y, x1, y1 = box
    spans: list[Span] = []
    for words in break_lines(text.split(), style, x1 - x0):
        if y + style.size > y1 and spans:
            spans.append(Span("", (), whole=False))
            break
        spans.append(canvas.text(x0, y + style.setter.ascent, " ".join(words), style, role, align, x1 - x0, sheet.rng))
        y += style.size * leading
    return join(spans), y


def set_title(sheet: Sheet, text: str, box: Box, style: Style, align: str = "left", role: str = "title") -> float:
    """Set a title or heading and remember it."""
    printed, y = set_lines(sheet, text, box, style, role, align, 1.15)
    if printed:
        sheet.canvas.content.titles.append(printed)
    return y


def set_paragraph(
    sheet: Sheet,
    sentences: Sequence[Sentence],
    box: Box,
    style: Style,
    align: str = "justify",
    indent: float = 0.0,
    leading: float = 1.3,
    role: str = "body",
) -> float:
    """Set sentences as one paragraph as far as the box reaches; the y below it."""
    canvas = sheet.canvas
    canvas.start_block()
    x0, y, x1, bottom = box
    face = style.setter
    words = [token for sentence in sentences for token in sentence.tokens]
    lines = break_lines(words, style, x1 - x0, indent)
    indices: list[int | None] = []
    for place, line in enumerate(lines):
        if y + face.ascent + face.descent > bottom:
            break
        canvas.start_line()
        x = x0 + (indent if place == 0 else 0)
        slack = x1 - x - sum(face.word(style.shown(word)).advance for word in line)
        space = face.space
        if align == "justify" and place < len(lines) - 1 and len(line) > 1:
            # Very loose lines look wrong: leave them ragged.
            space = min(slack / (len(line) - 1), 3 * face.space)
        elif align in ("center", "right"):
            rest = slack - face.space * (len(line) - 1)
            x += rest / 2 if align == "center" else rest
        indices += canvas.print_words(line, x, y + face.ascent, style, role, max(space, 1.0), sheet.rng)
        y += style.size * leading
    remember(canvas, sentences, indices)
    return y


def remember(canvas: Canvas, sentences: Sequence[Sentence], indices: list[int | None]) -> None:
    """Keep the sentences that were printed whole, and their facts, in the page's content."""
    start = 0
    for sentence in sentences:
        here = indices[start : start + len(sentence.tokens)]
        start += len(sentence.tokens)
        if len(here) < len(sentence.tokens):
            return
        whole = span(sentence.tokens, here)
        if not whole:
            continue
        canvas.content.sentences.append(whole)
        for question, slots, (a, b) in sentence.facts:
            cut = [span(sentence.tokens[i:j], here[i:j]) for i, j in slots]
            canvas.content.facts.append(Fact(question, tuple(cut), span(sentence.tokens[a:b], here[a:b])))


def set_columns(
    sheet: Sheet,
    box: Box,
    columns: int,
    style: Style,
    gap: float = 24,
    align: str = "justify",
    leading: float = 1.3,
    headings: Style | None = None,
    spread: float = 0.5,
    indent: float = 0.0,
) -> None:
    """Fill columns with paragraphs, with a heading now and then."""
    x0, y0, x1, y1 = box
    width = (x1 - x0 - gap * (columns - 1)) / columns
    number = 1
    for column in range(columns):
        left, y = x0 + column * (width + gap), y0
        while y + 2 * style.size < y1:
            if headings is not None and sheet.chance(0.3):
                label = f"{number}. " if sheet.chance(0.3) else ""
                number += 1
                y = set_title(
                    sheet,
                    label + sheet.topic.title(),
                    (left, y + style.size * 0.4, left + width, y1),
                    headings,
                    role="header",
                )
                y += style.size * 0.3
            below = set_paragraph(
                sheet,
                sheet.topic.paragraph(sheet.rng.randint(2, 6)),
                (left, y, left + width, y1),
                style,
                align,
                indent,
                leading,
            )
            y = max(below, y + style.size) + style.size * spread
