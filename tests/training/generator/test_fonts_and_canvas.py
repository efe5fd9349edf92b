"""Fonts and canvas: what is usable, how families are split, and that a word is drawn exactly where it is said to be."""

import random

import numpy as np
import pytest
from PIL import Image, ImageDraw

from varsdoc.training.generator.canvas import Canvas, Style, inked
from varsdoc.training.generator.fonts import Face, family_of, find_fonts, held_out, inspect, split
from varsdoc.training.generator.prose import Topic
from varsdoc.training.generator.sheet import FontBook

FACE = inspect(None)


def face(name, kind="text"):
    return Face(name, "", family_of(name), kind, "Bold" in name, "Italic" in name)


def test_the_built_in_font_is_always_there():
    assert any(found.path == "" for found in find_fonts())


def test_broken_files_are_not_fonts_and_an_empty_folder_is_an_error(tmp_path):
    (tmp_path / "broken.ttf").write_bytes(b"not a font at all")
    assert inspect(tmp_path / "broken.ttf") is None
    with pytest.raises(ValueError, match="No usable Latin font"):
        find_fonts(tmp_path)


def test_families_stay_on_one_side_of_the_split():
    faces = [
        face(f"Family{chr(65 + i % 26)}{'xyz'[i % 3]}-{style}") for i in range(60) for style in ("Regular", "Bold")
    ]
    train, unseen = split(faces, 0.3)
    assert len(train) + len(unseen) == len(faces)
    assert not {f.family for f in train} & {f.family for f in unseen}
    assert split([FACE]) == ([FACE], [FACE])
    assert held_out("liberationsans") == held_out("liberationsans")


def test_the_book_finds_siblings_and_never_runs_empty():
    regular, bold = face("Serif-Regular"), face("Serif-Bold")
    book = FontBook([regular, bold])
    assert book.sibling(regular, bold=True) == bold
    assert book.sibling(regular, italic=True) == regular
    assert book.mono
    assert book.script
    assert book.heads
    with pytest.raises(ValueError, match="at least one face"):
        FontBook([])


def test_a_word_is_where_its_box_says_and_looks_like_itself():
    canvas = Canvas(300, 80)
    span = canvas.text(20, 50, "Revenue", Style(FACE, 28), "title")
    x0, y0, x1, y1 = map(int, canvas.words[span.words[0]].box)
    page = np.asarray(canvas.image)
    assert (page[y0:y1, x0:x1] < 128).any(1).all() or (page[y0:y1, x0:x1] < 250).any(1).all()
    outside = page.copy()
    outside[y0:y1, x0:x1] = 255
    assert (outside == 255).all()
    plain = Image.new("L", (300, 80), 255)
    ImageDraw.Draw(plain).text((20, 50), "Revenue", fill=0, font=FACE.load(28), anchor="ls")
    # Kerning apart, the same word through Pillow's own text drawing.
    assert np.abs(page.astype(int) - np.asarray(plain)).mean() < 6


@pytest.mark.parametrize("angle", [90, 270, 45, -20])
def test_turned_words_lie_in_their_boxes(angle):
    canvas = Canvas(400, 400)
    span = canvas.turned(200, 200, "Share of respondents", Style(FACE, 18), "axis", angle)
    assert span
    assert len(span.words) == 3
    outside = np.asarray(canvas.image).copy()
    centres = []
    for word in canvas.words:
        x0, y0, x1, y1 = map(int, word.box)
        assert (outside[y0:y1, x0:x1] < 128).any()
        outside[y0:y1, x0:x1] = 255
        centres.append(((x0 + x1) / 2, (y0 + y1) / 2))
    assert (outside == 255).all()
    moved = np.subtract(centres[2], centres[0])
    towards = np.array([np.cos(np.radians(angle)), -np.sin(np.radians(angle))])
    assert moved @ towards > 0.95 * np.linalg.norm(moved)


@pytest.mark.parametrize("angle", [90, 60, 45, -45, -90])
def test_a_turned_word_runs_through_the_middle_of_its_letters(angle):
    canvas = Canvas(400, 400)
    canvas.turned(200, 200, "Unemployment", Style(FACE, 18), "axis", angle)
    (word,) = canvas.words
    begin, end = np.array(word.run[:2]), np.array(word.run[2:])
    towards = np.array([np.cos(np.radians(angle)), -np.sin(np.radians(angle))])
    length = (end - begin) @ towards
    assert length == pytest.approx(np.linalg.norm(end - begin))
    ink = np.argwhere(np.asarray(canvas.image) < 128)[:, ::-1] + 0.5 - begin  # x, y
    along, across = ink @ towards, ink @ np.array([towards[1], -towards[0]])
    assert along.min() == pytest.approx(0, abs=2)
    assert along.max() == pytest.approx(length, abs=2)
    assert np.abs(across).max() < 12
    assert abs(across.min() + across.max()) < 3, "as far on one side as on the other"


def test_slanted_words_stand_side_by_side_and_not_on_each_other():
    canvas = Canvas(300, 200)
    style = Style(FACE, 14)
    first = canvas.turned(40, 160, "Switzerland", style, "label", 45)
    beside = canvas.turned(70, 160, "Luxembourg", style, "label", 45)
    across = canvas.turned(44, 162, "Denmark", style, "label", 45)
    level = canvas.text(60, 130, "Portugal", style, "label")
    assert first
    assert beside, "though the boxes of the two overlap"
    assert not across
    assert not level


def test_a_hairline_has_ink_too():
    faint = Image.new("L", (40, 40), 0)
    ImageDraw.Draw(faint).line((5, 35, 35, 5), fill=60)
    rows, cols = inked(faint, 8, 0)
    assert len(rows) >= 8
    assert rows.max() <= 9
    assert cols.min() >= 3


def test_what_does_not_fit_or_would_cover_is_not_printed():
    canvas = Canvas(100, 60)
    style = Style(FACE, 20)
    first = canvas.text(5, 40, "Income", style, "body")
    again = canvas.text(7, 41, "Income", style, "body")
    off = canvas.text(80, 20, "Income", style, "body")
    stamp = canvas.text(7, 41, "PAID", style, "stamp", force=True)
    assert first
    assert not again
    assert not off
    assert stamp
    assert len(canvas.words) == 2


def test_statements_answer_their_question():
    topic = Topic(random.Random(4))
    for _ in range(60):
        sentence = topic.statement()
        ((question, slots, (start, stop)),) = sentence.facts
        assert question.endswith("?")
        assert question.count("{") == len(slots)
        assert 0 <= start < stop <= len(sentence.tokens)


def test_topics_differ_and_repeat():
    first, second = Topic(random.Random(1)), Topic(random.Random(1))
    assert [first.sentence().tokens for _ in range(5)] == [second.sentence().tokens for _ in range(5)]
    assert Topic(random.Random(2)).nouns != first.nouns
