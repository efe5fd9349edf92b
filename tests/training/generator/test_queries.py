"""Queries: their evidence is on the page, their links point at the words they name, their answers are right."""

import random

import pytest

from varsdoc.training.generator import PageStream, Wear
from varsdoc.training.generator.page import Span, Table
from varsdoc.training.generator.queries import number, table_extreme
from varsdoc.training.generator.wording import TRIM, compose, fill, inflect, reword, tokens_of, typo


@pytest.fixture(scope="module")
def samples():
    stream = PageStream(seed=12, queries=12, wear=Wear())
    return [stream[i] for i in range(45)]


def test_every_page_is_asked_in_several_ways(samples):
    assert all(len(sample.queries) >= 3 for sample in samples)
    assert sum(len({q.kind for q in sample.queries}) for sample in samples) / len(samples) > 3.5
    kinds = {query.kind for sample in samples for query in sample.queries}
    assert {"keywords", "phrase", "cloze", "title", "caption", "fact", "field", "table", "chart", "item"} <= kinds


def test_evidence_answer_and_links_exist_on_the_page(samples):
    for sample in samples:
        for query in sample.queries:
            assert query.evidence
            assert set(query.answer) <= set(query.evidence)
            assert all(0 <= i < len(sample.words) for i in query.evidence)
            for start, end, word in query.links:
                assert 0 <= start < end <= len(query.text)
                assert word in query.evidence
                assert not query.text[start:end].isspace()


def test_links_name_the_word_they_point_at(samples):
    right = total = 0
    for sample in samples:
        for query in sample.queries:
            for start, end, word in query.links:
                right += query.text[start:end].strip(TRIM).lower() == sample.words[word].text.strip(TRIM).lower()
                total += 1
    # The rest are typos, synonyms and inflections.
    assert total > 500
    assert 0.85 < right / total < 0.995


def test_queries_of_a_page_differ(samples):
    for sample in samples:
        texts = [query.text.lower() for query in sample.queries]
        assert len(set(texts)) == len(texts)


def test_table_extremes_name_the_right_row():
    header = (Span("Item", (0,)), Span("Output", (1,)))
    rows = tuple(
        (Span(name, (2 + 2 * i,)), Span(value, (3 + 2 * i,)))
        for i, (name, value) in enumerate((("A", "12"), ("B", "1,300"), ("Total", "9,999")))
    )
    table = Table(Span(""), header, rows, (False, True))
    slots = {"row": rows[0][0], "other": rows[1][0], "column": header[1], "corner": header[0]}
    asked = [table_extreme(table, 1, slots, random.Random(seed)) for seed in range(40)]
    for query in asked:
        low = query.text.lower()
        if "lowest" in low:
            assert query.answer == (2, 3)
        elif "highest" in low or "maximum" in low:
            assert query.answer == (4, 5)
    assert number("12%") == 12


def test_templates_keep_punctuation_and_links():
    tokens = fill("In {a}, what is {b}?", a=Span("Table 3.", (0, 1)), b=Span("net (gross)", (5, 6)))
    assert " ".join(token.text for token in tokens) == "In Table 3, what is net gross?"
    assert [token.word for token in tokens] == [None, 0, 1, None, None, 5, 6]


def test_composed_links_cut_the_query_text():
    rng = random.Random(0)
    for seed in range(50):
        query = compose(
            fill("What is the {a} of {b}?", a=Span("yield", (3,)), b=Span("white sugar", (7, 8))),
            "table",
            (9,),
            random.Random(seed),
        )
        assert [word for _, _, word in query.links] == [3, 7, 8]
        assert query.evidence[0] == 9
        assert "?" not in query.text[query.links[-1][0] : query.links[-1][1]]
    assert tokens_of(Span("only named"))
    assert tokens_of(Span("only named"))[0].word is None
    assert typo("department", rng) != "department"
    assert typo("cat", rng) == "cat"
    assert inflect("studies", rng) == "studie"
    assert inflect("Geneva", rng) == "Geneva"


def test_rewording_changes_some_words_but_never_their_links():
    tokens = tokens_of(Span("annual income report market price", (0, 1, 2, 3, 4)))
    changed = 0
    for seed in range(200):
        again = reword(tokens, random.Random(seed), free=True)
        assert [t.word for t in again] == [0, 1, 2, 3, 4]
        changed += [t.text for t in again] != [t.text for t in tokens]
    assert 20 < changed < 180
