"""Questions on their way to a search: encoded many at a time, each with the words that its tokens stand for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from varsdoc.model import VarsDoc


@dataclass(frozen=True)
class Word:
    """A word of a question as it was typed, and the query tokens that it became; none where the text was cut."""

    text: str
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class Query:
    """What was asked, encoded."""

    vectors: np.ndarray  # (T, dim)
    content: np.ndarray  # (T,) which tokens stand for words
    words: tuple[Word, ...] = ()  # of a question in words
    text: str | None = None
    encoder: str | None = None  # the hash of the checkpoint that encoded it


def encode_questions(model: VarsDoc, texts: Sequence[str], encoder: str | None = None) -> list[Query]:
    """Questions in one call of the model, whose hash is `encoder`; each comes out as it would alone."""
    vectors = model.encode_queries(texts, progress=False)
    return [
        Query(v.float().numpy(), *_content(model, text, len(v)), text, encoder)
        for text, v in zip(texts, vectors, strict=True)
    ]


def _content(model: VarsDoc, text: str, count: int) -> tuple[np.ndarray, tuple[Word, ...]]:
    """Which of `count` tokens stand for words: the prefix and the augmentation take part in scores, but point at
    nothing."""
    config = model.config
    kept = count - config.query_augmentation
    tokenizer = model.processor.tokenizer
    tokenizer.encode_special_tokens = True  # as `Processor.query_ids` does
    spans = tokenizer.encode(config.query_prefix + text, add_special_tokens=False).offsets[:kept]
    words = _words(text, len(config.query_prefix), spans)
    content = np.zeros(count, bool)
    content[[token for word in words for token in word.tokens]] = True
    return (content if content.any() else np.ones(count, bool)), words


def _words(text: str, before: int, spans: Sequence[tuple[int, int]]) -> tuple[Word, ...]:
    """Tokens by where they stand in the text; `before` characters of it are the prefix.

    >>> _words("net income", 2, [(0, 2), (2, 5), (5, 8), (8, 12)])
    (Word(text='net', tokens=(1,)), Word(text='income', tokens=(2, 3)))
    """
    found = []
    for match in re.finditer(r"\S+", text):
        start, stop = match.start() + before, match.end() + before
        tokens = tuple(i for i, (a, b) in enumerate(spans) if a < stop and b > start)
        found.append(Word(match.group(), tokens))
    return tuple(found)
