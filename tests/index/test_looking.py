"""What serving builds on: encoded questions, documents by id, facts of pages, one page under a question, watchers."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from index.papers import pdf, picture, tiff
from varsdoc import Index, VarsDoc
from varsdoc.errors import FilterError, FingerprintError, MissingError
from varsdoc.index.asking import encode_questions
from varsdoc.index.codecs import get_codec, similarities
from varsdoc.index.facts import document_id
from varsdoc.index.heatmap import overlay, scaled, tinted
from varsdoc.index.similarity import variant_similarity
from varsdoc.pages import Document, find
from varsdoc.scoring.blob import Blob

QUESTIONS = ["valve", "Which pressure  is too high?", "ümläute\tund 漢字 too", "x" * 900 + " tail"]


@pytest.fixture(scope="module")
def index(model: VarsDoc, tmp_path_factory: pytest.TempPathFactory) -> Index:
    base = tmp_path_factory.mktemp("looking")
    pdf(base / "papers" / "words.pdf", ["valve pressure", "expense claim", "annual growth"])
    tiff(base / "papers" / "squares.tiff", [1, 2])
    index = Index.open(base / "index", model)
    assert index.add(base / "papers").added == 5
    return index


def test_questions_encoded_together_are_those_encoded_alone(model: VarsDoc) -> None:
    together = encode_questions(model, QUESTIONS)
    for text, query in zip(QUESTIONS, together, strict=True):
        (alone,) = encode_questions(model, [text])
        assert query.vectors == pytest.approx(alone.vectors, abs=1e-5)
        assert (query.content == alone.content).all()
        assert (query.words, query.text) == (alone.words, text)


@pytest.mark.parametrize("prefix", ["", "Query: ", "q:"])
def test_words_are_the_tokens_that_spell_them(model: VarsDoc, prefix: str) -> None:
    before = model.config
    model.reconfigure(before.with_(query_prefix=prefix))
    try:
        for text in QUESTIONS:
            (query,) = encode_questions(model, [text])
            ids = model.processor.query_ids(text)
            decode = model.processor.tokenizer.decode
            assert [word.text for word in query.words] == text.split()
            for word in query.words:
                if word.tokens and word.tokens[-1] < len(ids) - before.query_augmentation - 1:  # not cut
                    spelt = decode([ids[token] for token in word.tokens], skip_special_tokens=False)
                    assert spelt.strip() == word.text
            told = {token for word in query.words for token in word.tokens}
            assert told == set(np.flatnonzero(query.content).tolist())
            assert max(told) < len(ids) - before.query_augmentation
    finally:
        model.reconfigure(before)


def test_an_encoded_question_finds_what_the_text_finds(index: Index, model: VarsDoc) -> None:
    (query,) = encode_questions(model, ["valve pressure"], index.fingerprint.hash)
    for hybrid in (False, True):
        ours, theirs = (index.search(asked, k=5, hybrid=hybrid) for asked in (query, "valve pressure"))
        assert [hit.to_json() for hit in ours] == [hit.to_json() for hit in theirs]
    with pytest.raises(FingerprintError):
        index.search(replace(query, encoder="another"))


def test_documents_have_ids_and_can_be_chosen(index: Index) -> None:
    squares, words = index.documents()
    assert (squares.document, words.document, words.pages) == ("squares.tiff", "words.pdf", 3)
    assert words.id == document_id(words.source)
    assert {hit.document_id for hit in index.search("valve", k=9, documents=[words.id])} == {words.id}
    assert len(index.search("valve", k=9, where="page = 1", documents=[words.id, squares.id])) == 2
    assert index.search("valve", documents=["none"]) == []
    assert index.page(words.cover).page == 1


def test_a_page_knows_its_neighbours_text_and_version(index: Index) -> None:
    hit = index.search("valve", k=1, where="document = 'words.pdf' AND page = 2")[0]
    page = index.page(hit.id)
    assert (page.page, page.pages, page.document_id) == (2, 3, hit.document_id)
    assert (page.version, page.width, page.height) == (hit.version, hit.width, hit.height)
    assert [index.page(one).page for one in (page.previous, page.next) if one] == [1, 3]
    assert index.page_text(hit.id) == "expense claim"
    assert index.page_picture(hit.id) == (hit.version, hit.jpeg())
    with pytest.raises(MissingError):
        index.page("none-0")
    with pytest.raises(MissingError):
        index.remove("none")


def test_a_page_under_a_question_is_the_hit_of_a_search(index: Index) -> None:
    for hit in index.search("annual growth", k=5):
        looked = index.look("annual growth", hit.id)
        assert looked.to_json() == hit.to_json()
        assert (looked.similarity(0) == hit.similarity(0)).all()


def test_words_explain_a_score(index: Index) -> None:
    hit = index.search("annual growth", k=1)[0]
    words = hit.explain()
    assert len(words) == 2
    tokens = sorted(token for word in hit._query.words for token in word.tokens)
    for variant, score in enumerate(hit.variant_scores):
        each = hit._similarity(variant).max(1)
        rest = np.delete(each, tokens).sum()
        # Scores quantise the question too.
        assert sum(word.scores[variant] for word in words) + rest == pytest.approx(score, abs=0.05)
    joined = [token for word in hit._query.words for token in word.tokens]
    assert hit.similarity(token=joined) == pytest.approx(hit.similarity())


@pytest.mark.parametrize("codec", ["float16", "int8", "binary"])
@pytest.mark.parametrize("options", [{}, {"share": True}, {"pool": 2}, {"share": True, "pool": 2}])
def test_one_variants_similarities_are_those_of_all(codec: str, options: dict) -> None:
    random = np.random.default_rng(0)
    page = random.normal(size=(3, 12, 16)).astype(np.float32)
    page[1, :4] = page[0, :4]
    page /= np.linalg.norm(page, axis=-1, keepdims=True)
    blob = get_codec(codec, **options).pack(page)
    query = random.normal(size=(5, 16)).astype(np.float32)
    whole = similarities(query, blob)
    for variant in range(3):
        one = variant_similarity(query, Blob.from_bytes(blob), variant)
        assert one == pytest.approx(whole[variant], abs=1e-5)


def test_a_transparent_heatmap_over_the_page_is_the_burnt_one(index: Index) -> None:
    from PIL import Image

    hit = index.search("valve", k=1)[0]
    cells = scaled(hit.similarity())
    clear = tinted(cells, hit.image().size)
    laid = Image.alpha_composite(hit.image().convert("RGBA"), clear).convert("RGB")
    burnt = overlay(hit.image(), cells)
    assert np.abs(np.asarray(laid, int) - np.asarray(burnt, int)).max() <= 2


@pytest.mark.parametrize(
    "where",
    [
        "repeat('x', 1000000000) = 'x'",
        "`repeat`('x', 3) = 'x'",
        "\"repeat\"('x', 3) = 'x'",
        "RePeAt  ('x', 3) = 'x'",
        "repeat/**/('x', 3) = 'x'",
        "page = 1 -- comment",
        "lpad('x', 1000000000) = 'x'",
        "E'\\'' || repeat('x', 3) || 'a' = 'b'",
        "document = 'a",
        "pages" + "::int" * 1500 + " = 1",
        "document = 'a'" + " || 'a'" * 1200,
        "page = 1 OR " * 2000 + "page = 2",
    ],
)
def test_a_filter_that_could_hurt_is_refused(index: Index, where: str) -> None:
    for look in (lambda: index.search("valve", where=where), lambda: index.list(where)):
        with pytest.raises(FilterError):
            look()


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("lower(document) LIKE 'w%' AND (page = 1 OR page IN (2, 3))", 3),
        ("NOT (pages = 3)", 2),
        ("document = 'it''s (repeat(x))'", 0),
        ("starts_with(document, 'squ')", 2),
        ("`document` = 'words.pdf' AND length(document) = 9", 3),
        ("page IN (" + ", ".join(["1"] * 1500) + ")", 2),
        (" OR ".join(["page = 1"] * 120), 2),
    ],
)
def test_a_plain_filter_is_not(index: Index, where: str, expected: int) -> None:
    assert len(index.search("valve", k=9, where=where)) == expected


class Heard:
    def __init__(self) -> None:
        self.pages, self.total, self.names = 0, 0, []

    def opened(self, document: Document, pages: int) -> None:
        self.total += pages

    def encoded(self, pages: int) -> None:
        self.pages += pages

    def shown(self, document: Document) -> None:
        self.names.append(document.name)
        if document.path:
            shutil.move(document.path, document.source)


def test_a_document_may_wait_elsewhere_and_replace_its_predecessor(tmp_path: Path, model: VarsDoc) -> None:
    """As an upload does: identity and name are given, the file comes home when the commit has shown it."""
    index, home = Index.open(tmp_path / "index", model), str(tmp_path / "home.png")
    versions = []
    for seed in (1, 2, 2):
        (found,) = find([picture(tmp_path / "waiting" / "new.png", seed)])
        assert isinstance(found, Document)
        heard = Heard()
        done = index.add(replace(found, source=home, name="Report.png", path=found.source), watch=heard)
        assert (heard.pages, heard.total, heard.names) == (1, 1, ["Report.png"])
        assert not os.path.exists(found.source)
        (document,) = index.documents()
        assert (document.document, document.source) == ("Report.png", home)
        versions.append((done.added, done.replaced, done.unchanged, index.page(document.cover).version))
    assert [one[:3] for one in versions] == [(1, 0, 0), (0, 1, 0), (0, 0, 1)]
    assert versions[0][3] != versions[1][3] == versions[2][3]
    gone = []
    assert index.remove(document.id, after=lambda one: gone.append(one.source)) == 1
    assert gone == [home]
