"""How people type: tokens with links to printed words, and what happens to them (case, typos, inflection, synonyms)."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from .lexicon import gerund, load_lexicon, past, plural
from .page import Query, Span

TRIM = " .,:;()[]{}\"'*?!\u201c\u201d\u2018\u2019"
# The keys around each key, for slips of the finger.
KEYS = dict(
    pair.split(":")
    for pair in [
        "a:qsz",
        "b:vgn",
        "c:xvd",
        "d:sfe",
        "e:wrd",
        "f:dgr",
        "g:fht",
        "h:gjy",
        "i:uok",
        "j:hku",
        "k:jli",
        "l:kop",
        "m:nk",
        "n:bmh",
        "o:ipl",
        "p:ol",
        "q:wa",
        "r:etf",
        "s:adw",
        "t:ryg",
        "u:yij",
        "v:cbf",
        "w:qes",
        "x:zcs",
        "y:tuh",
        "z:xa",
    ]
)


@dataclass(frozen=True)
class Token:
    """A word of a query and the index of the printed word it means, if any."""

    text: str
    word: int | None = None


def tokens_of(span: Span) -> list[Token]:
    """The words of a printed span, each linked to its place; words that were only named (no indices) stay unlinked."""
    texts = span.text.split()
    places: Sequence[int | None] = span.words if len(span.words) == len(texts) else [None] * len(texts)
    trimmed = [Token(text.strip(TRIM), place) for text, place in zip(texts, places, strict=True)]
    return [token for token in trimmed if token.text]


def fill(template: str, **slots: Span | str) -> list[Token]:
    """A template's words, with {name} replaced by the tokens of a span (or by plain words).

    >>> [(t.text, t.word) for t in fill("What was {a}?", a=Span("Net income", (4, 5)))]
    [('What', None), ('was', None), ('Net', 4), ('income?', 5)]
    """
    out: list[Token] = []
    for piece in template.split():
        found = re.search(r"\{(\w+)\}", piece)
        if found is None:
            out.append(Token(piece))
            continue
        value = slots[found[1]]
        inner = tokens_of(value) if isinstance(value, Span) else [Token(text) for text in value.split()]
        before, after = piece[: found.start()], piece[found.end() :]
        for place, token in enumerate(inner):
            text = (before if place == 0 else "") + token.text + (after if place == len(inner) - 1 else "")
            out.append(Token(text, token.word))
    return out


def typo(text: str, rng: random.Random) -> str:
    """One slip of the finger inside a word."""
    if len(text) < 4 or not text.isascii():
        return text
    place = rng.randrange(1, len(text) - 1)
    kind = rng.randrange(4)
    if kind == 0:
        return text[:place] + text[place + 1] + text[place] + text[place + 2 :]
    if kind == 1:
        return text[:place] + text[place + 1 :]
    if kind == 2:
        return text[:place] + text[place] + text[place:]
    near = KEYS.get(text[place].lower())
    return text[:place] + rng.choice(near) + text[place + 1 :] if near else text


def inflect(text: str, rng: random.Random) -> str:
    """Another form of a lower-case word."""
    if not (text.isalpha() and text.islower() and len(text) > 3):
        return text
    if text.endswith("s") and not text.endswith("ss"):
        return text[:-1]
    if text.endswith(("ing", "ed")):
        return text
    return rng.choice((plural, plural, past, gerund))(text)


def reword(tokens: list[Token], rng: random.Random, free: bool) -> list[Token]:
    """Apply the slips of one query. `free`: words may be inflected, as in keywords; questions keep their grammar."""
    synonyms = load_lexicon().synonyms
    out = []
    mistyped = rng.randrange(len(tokens)) if tokens and rng.random() < 0.12 else -1
    for place, token in enumerate(tokens):
        text = token.text
        if place == mistyped:
            text = typo(text, rng)
        elif token.word is not None and rng.random() < 0.06:
            others = synonyms.get(text.lower())
            text = rng.choice(others) if others else text
        elif free and token.word is not None and rng.random() < 0.08:
            text = inflect(text, rng)
        out.append(Token(text, token.word))
    return out


def cased(tokens: list[Token], rng: random.Random) -> list[Token]:
    kind = rng.random()
    if kind < 0.35:
        return [Token(t.text.lower(), t.word) for t in tokens]
    if kind < 0.38:
        return [Token(t.text.upper(), t.word) for t in tokens]
    return tokens


def compose(tokens: list[Token], kind: str, answer: Sequence[int], rng: random.Random, free: bool = False) -> Query:
    """The query: its text after all slips, its links, and as evidence the answer and the words it names."""
    tokens = [token for token in cased(reword(tokens, rng, free), rng) if token.text]
    if tokens and tokens[-1].text.endswith("?"):
        end = rng.random()
        if end < 0.12:
            tokens[-1] = Token(tokens[-1].text[:-1], tokens[-1].word)
        elif end < 0.17:
            tokens[-1] = Token(tokens[-1].text[:-1] + rng.choice(("??", " ?")), tokens[-1].word)
    text, links = "", []
    for token in tokens:
        text += " " if text else ""
        if token.word is not None:
            links.append((len(text), len(text) + len(token.text.rstrip("? ")), token.word))
        text += token.text
    evidence = dict.fromkeys([*answer, *(word for _, _, word in links)])
    return Query(text, kind, tuple(evidence), tuple(links), tuple(answer))
