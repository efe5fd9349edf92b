"""Several queries per page, of different intents, each with the words that are its evidence.

Every maker yields a query for something that was printed whole; the page's queries are drawn in turn from the makers
that have something to ask, so one page asks in different ways. Slips (typos, case, synonyms, inflection) come last,
in wording.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from . import templates as t
from .lexicon import plural
from .page import Chart, Content, Field, Query, Span, Table, Word
from .wording import TRIM, Token, compose, fill, tokens_of

Maker = Callable[[Content, Sequence[Word], random.Random], "Query | None"]
SMALL = frozenset(
    [
        "the",
        "a",
        "an",
        "of",
        "in",
        "on",
        "at",
        "to",
        "by",
        "for",
        "from",
        "with",
        "and",
        "or",
        "but",
        "is",
        "are",
        "was",
        "were",
        "be",
        "been",
        "has",
        "have",
        "had",
        "it",
        "its",
        "this",
        "that",
        "these",
        "those",
        "as",
        "not",
        "no",
        "will",
        "may",
        "must",
        "can",
        "should",
        "do",
        "does",
        "did",
        "which",
        "who",
        "what",
        "when",
        "where",
        "how",
        "than",
        "then",
        "there",
        "their",
        "they",
        "we",
        "you",
        "our",
        "more",
        "most",
    ]
)


def content_words(words: Sequence[Word], roles: frozenset[str] | None = None) -> list[int]:
    """Indices of words worth searching for."""
    return [
        i
        for i, w in enumerate(words)
        if len(w.text.strip(TRIM)) > 3
        and w.text.strip(TRIM).lower() not in SMALL
        and (roles is None or w.role in roles)
    ]


def keywords(content: Content, words: Sequence[Word], rng: random.Random) -> Query | None:
    """Two to five words from one block, or from anywhere, in any order."""
    pool = content_words(words)
    if len(pool) < 4:
        return None
    block = words[rng.choice(pool)].block
    near = [i for i in pool if abs(words[i].block - block) <= 1]
    source = near if len(near) >= 3 and rng.random() < 0.7 else pool
    picked = rng.sample(source, min(len(source), rng.randint(2, 5)))
    if rng.random() < 0.5:
        picked.sort()
    return compose([Token(words[i].text.strip(TRIM), i) for i in picked], "keywords", (), rng, free=True)


def phrase(content: Content, words: Sequence[Word], rng: random.Random) -> Query | None:
    """Three to eight neighbouring words, as printed."""
    if len(words) < 4:
        return None
    start = rng.randrange(len(words) - 2)
    stop = start
    while stop < min(len(words), start + rng.randint(3, 8)) and words[stop].block == words[start].block:
        stop += 1
    if stop - start < 2:
        return None
    span = Span(" ".join(words[i].text for i in range(start, stop)), tuple(range(start, stop)))
    tokens = fill(rng.choice(t.SENTENCE), phrase=span) if rng.random() < 0.3 else tokens_of(span)
    return compose(tokens, "phrase", (), rng) if len(tokens) > 1 else None


def cloze(content: Content, words: Sequence[Word], rng: random.Random) -> Query | None:
    """A sentence, or a piece of it, with a word left out."""
    if not content.sentences:
        return None
    tokens = tokens_of(rng.choice(content.sentences))
    if len(tokens) < 5:
        return None
    length = rng.randint(5, 11)
    start = rng.randrange(max(1, len(tokens) - length))
    tokens = tokens[start : start + length]
    gaps = [i for i, token in enumerate(tokens) if len(token.text) > 3]
    if not gaps:
        return None
    gap = rng.choice(gaps)
    hidden = tokens[gap].word
    tokens[gap] = Token(rng.choice(("___", "...", "", "what")))
    return compose(tokens, "cloze", () if hidden is None else (hidden,), rng)


def title(content: Content, words: Sequence[Word], rng: random.Random) -> Query | None:
    if not content.titles:
        return None
    span = rng.choice(content.titles)
    return compose(fill(rng.choice(t.TITLE), title=span), "title", span.words, rng)


def caption(content: Content, words: Sequence[Word], rng: random.Random) -> Query | None:
    if not content.captions:
        return None
    span = rng.choice(content.captions)
    return compose(fill(rng.choice(t.CAPTION), title=span), "caption", span.words, rng)


def fact(content: Content, words: Sequence[Word], rng: random.Random) -> Query | None:
    known = [f for f in content.facts if f.answer and all(f.slots)]
    if not known:
        return None
    found = rng.choice(known)
    slots = dict(zip("abcdef", found.slots, strict=False))
    return compose(fill(found.question, **slots), "fact", found.answer.words, rng)


def a_title(content: Content, rng: random.Random, otherwise: str = "document") -> Span:
    return rng.choice(content.titles) if content.titles and rng.random() < 0.6 else Span(otherwise)


def field(content: Content, words: Sequence[Word], rng: random.Random) -> Query | None:
    known = [f for f in content.fields if f.value and f.label.whole and f.label.text]
    if not known:
        return None
    found = rng.choice(known)
    if rng.random() < 0.25:
        return compose(fill(rng.choice(t.FIELD_VALUE), label=found.label, value=found.value), "field value", (), rng)
    place = a_title(content, rng)
    tokens = fill(field_question(found, rng, bool(content.titles)), label=lowered(found.label, rng), title=place)
    return compose(tokens, "field", found.value.words, rng)


def field_question(found: Field, rng: random.Random, titled: bool) -> str:
    label = found.label.text.lower().strip(TRIM)
    special = next((forms for key, forms in t.SPECIAL.items() if label == key or label.endswith(" " + key)), None)
    if special and rng.random() < 0.5:
        return rng.choice(special)
    if titled and rng.random() < 0.35:
        return rng.choice(t.PLACE_FIELD)
    if any(
        w in label for w in ("director", "manager", "president", "secretary", "investigator", " by", "grower", "name")
    ):
        return rng.choice(t.PERSON_FIELD)
    return rng.choice(t.FIELD)


def lowered(span: Span, rng: random.Random) -> Span:
    return Span(span.text.lower(), span.words, span.whole) if rng.random() < 0.5 else span


def table(content: Content, words: Sequence[Word], rng: random.Random) -> Query | None:
    """A look-up in a table: by row and column, by value, or the extreme of a column."""
    known = [found for found in content.tables if len(found.rows) > 1]
    if not known:
        return None
    found = rng.choice(known)
    column = rng.randrange(1, len(found.header))
    rows = [row for row in found.rows if row[0] and row[column]]
    if len(rows) < 2 or not found.header[column]:
        return None
    row, other = rng.sample(rows, 2)
    slots = {
        "row": lowered(row[0], rng),
        "other": other[0],
        "column": lowered(found.header[column], rng),
        "value": row[column],
        "title": found.title,
        "corner": found.header[0] if found.header[0] else Span(rng.choice(("row", "item", "one"))),
    }
    kind = rng.random()
    if kind < 0.15 and found.numeric[column]:
        return table_extreme(found, column, slots, rng)
    if kind < 0.25:
        return compose(fill(rng.choice(t.TABLE_REVERSE), **slots), "table reverse", row[0].words, rng)
    forms = t.TABLE_TITLED if found.title and rng.random() < 0.5 else t.TABLE
    return compose(fill(rng.choice(forms), **slots), "table", row[column].words, rng)


def number(text: str) -> float | None:
    """
    >>> number("1,234.5"), number("(12)"), number("n/a")
    (1234.5, -12.0, None)
    """
    plain = text.replace(",", "").replace("$", "").replace("%", "")
    negative = plain.startswith("(") and plain.endswith(")")
    try:
        return -float(plain[1:-1]) if negative else float(plain)
    except ValueError:
        return None


def table_extreme(found: Table, column: int, slots: dict[str, Span], rng: random.Random) -> Query | None:
    values = [(v, row) for row in found.rows if row[0] and (v := number(row[column].text)) is not None]
    values = [(v, row) for v, row in values if not row[0].text.lower().endswith(("total", "average"))]
    if len(values) < 2:
        return None
    form = rng.choice(t.TABLE_MOST)
    pick = min if "lowest" in form else max
    best = pick(values, key=lambda pair: pair[0])[1]
    answer = best[0].words + best[column].words if "{row}" not in form else slots["row"].words + slots["other"].words
    return compose(fill(form, **slots), "table extreme", answer, rng)


def chart(content: Content, words: Sequence[Word], rng: random.Random) -> Query | None:
    """A question as people ask about charts, mostly naming what the chart is about."""
    if not content.charts:
        return None
    found = rng.choice(content.charts)
    places = [i for i, category in enumerate(found.categories) if category]
    if len(places) < 2:
        return None
    i, j = rng.sample(places, 2)
    many = len(found.series) > 1
    s = rng.randrange(len(found.series))
    series, rival = found.series[s], found.series[s - 1]
    about: Span | str = found.title if found.title and rng.random() < 0.35 else found.subject
    slots: dict[str, Span | str] = {
        "subject": about if isinstance(about, Span) else rng.choice((about, about.lower())),
        "category": found.categories[i],
        "other": found.categories[j],
        "last": found.categories[places[-1]],
        "kind": found.category_name,
        "kinds": plural(found.category_name),
        "colour": series.colour,
        "series": series.name,
        "rival": rival.name,
        "title": found.title if found.title else found.subject,
    }
    named = many and bool(series.name) and bool(rival.name)
    form, answer = pick_chart_form(found, s, i, j, places, named, rng)
    return compose(fill(form, **slots), "chart", answer, rng)


def pick_chart_form(
    found: Chart, s: int, i: int, j: int, places: list[int], named: bool, rng: random.Random
) -> tuple[str, tuple[int, ...]]:
    """A template and the words of its answer."""

    def at(place: int) -> tuple[int, ...]:
        return found.categories[place].words + found.series[s].labels[place].words

    kind = rng.random()
    if named and kind < 0.35:
        return rng.choice(t.CHART_MANY), found.series[s].labels[i].words
    if named and kind < 0.5:
        return rng.choice(t.CHART_SERIES), found.series[s].name.words
    if not named and kind < 0.4:
        return rng.choice(t.CHART_ONE), found.series[s].labels[i].words
    if kind < 0.72:
        pick, forms = (max, t.CHART_MOST) if rng.random() < 0.7 else (min, t.CHART_LEAST)
        return rng.choice(forms), at(pick(places, key=lambda place: found.series[s].values[place]))
    if kind < 0.86:
        return rng.choice(t.CHART_PAIR), at(i) + at(j)
    return rng.choice(t.CHART_ABOUT), found.title.words


def item(content: Content, words: Sequence[Word], rng: random.Random) -> Query | None:
    if not content.items:
        return None
    found = rng.choice(content.items)
    return compose(
        fill(rng.choice(t.ITEM), phrase=found, title=a_title(content, rng, "list")), "item", found.words, rng
    )


# Look-ups twice: few pages can be asked them, and they are what people ask.
MAKERS: tuple[Maker, ...] = (
    keywords,
    phrase,
    title,
    table,
    chart,
    field,
    fact,
    table,
    chart,
    field,
    cloze,
    caption,
    item,
)


def printed_once(words: Sequence[Word]) -> dict[str, int]:
    """Where each word stands that the page prints exactly once."""
    once: dict[str, int] = {}
    for i, word in enumerate(words):
        key = word.text.strip(TRIM).lower()
        once[key] = -1 if key in once else i
    return {key: i for key, i in once.items() if i >= 0 and len(key) > 3 and key not in SMALL}


def link_rest(query: Query, once: dict[str, int]) -> Query:
    """Link query words that a template supplied in plain text but that the page prints exactly once."""
    linked = {start for start, _, _ in query.links}
    extra, start = [], 0
    for text in query.text.split(" "):
        index = once.get(text.strip(TRIM).lower())
        if index is not None and start not in linked:
            extra.append((start, start + len(text), index))
        start += len(text) + 1
    if not extra:
        return query
    evidence = tuple(dict.fromkeys([*query.evidence, *(i for _, _, i in extra)]))
    return Query(query.text, query.kind, evidence, tuple(sorted([*query.links, *extra])), query.answer)


def make_queries(content: Content, words: Sequence[Word], rng: random.Random, count: int) -> list[Query]:
    """Up to `count` queries with different texts, the intents in turn."""
    makers, once = list(MAKERS), printed_once(words)
    rng.shuffle(makers)
    queries: dict[str, Query] = {}
    for attempt in range(3 * count):
        if len(queries) >= count:
            break
        made = makers[attempt % len(makers)](content, words, rng)
        if made is not None and made.evidence and len(made.text) > 2:
            queries.setdefault(made.text.lower(), link_rest(made, once))
    return list(queries.values())
