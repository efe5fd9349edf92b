"""BM25 over the text of pages (bm25s, Lucene's formula), with or without stemming."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from varsdoc.errors import InputError

Floats = NDArray[np.float32]


def bm25_scores(texts: Sequence[str], queries: Sequence[str], stemming: bool = True) -> Floats:
    """(queries, pages) BM25 scores.

    A page without a word of the query scores 0; so does every page where the query has no known word, and then the
    order is that of ties, by id.
    """
    try:
        import bm25s
        import Stemmer
    except ImportError as error:
        raise InputError("BM25 needs bm25s and PyStemmer; pip install 'varsdoc[baselines]'.") from error
    stemmer = Stemmer.Stemmer("english") if stemming else None

    def words(items: Sequence[str]) -> Any:
        return bm25s.tokenize(
            list(items), stopwords="en", stemmer=stemmer, show_progress=False, return_ids=False, lower=True
        )

    corpus = words(texts)
    if not any(corpus):
        raise InputError("No page has any text; BM25 has nothing to search (is the OCR language right?).")
    index = bm25s.BM25()
    index.index(corpus, show_progress=False)
    known = index.vocab_dict
    rows = []
    for tokens in words(queries):
        kept = [token for token in tokens if token in known]
        rows.append(index.get_scores(kept) if kept else np.zeros(len(texts)))
    return np.asarray(rows, np.float32)
