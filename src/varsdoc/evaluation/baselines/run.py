"""Text baselines on a judged set, as results like any retriever's: the same queries, metrics, intervals."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from varsdoc.errors import ConfigError
from varsdoc.evaluation.baselines.bm25 import bm25_scores
from varsdoc.evaluation.baselines.ocr import Ocr, read_texts
from varsdoc.evaluation.cache import Cache, content_key
from varsdoc.evaluation.evaluate import How, Result, result_of
from varsdoc.evaluation.judged import JudgedSet
from varsdoc.evaluation.progress import Progress
from varsdoc.evaluation.retrievers.protocol import Identity
from varsdoc.evaluation.scorer import Scored

METHODS = ("bm25", "bm25-plain", "minilm")


@dataclass(frozen=True)
class TextBaseline:
    """How a page becomes text, and how the text is searched.

    method  bm25 (English stemming), bm25-plain (words as they are), minilm (dense)
    """

    method: str = "bm25"
    ocr: Ocr = field(default_factory=Ocr)
    minilm: str | None = None  # folder or hub id; default: the PyPI package

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ConfigError(f"There is no baseline {self.method!r}; use {', '.join(METHODS)}.")

    @property
    def name(self) -> str:
        said = {"bm25": "BM25, stemming", "bm25-plain": "BM25, plain", "minilm": "MiniLM dense"}[self.method]
        source = "text layer" if self.ocr.engine == "text-layer" else f"{self.ocr.engine} x{self.ocr.scale:g}"
        return f"{source} + {said}"


def run_baseline(baseline: TextBaseline, judged: JudgedSet, cache: Cache, shown: bool = True) -> Result:
    """Read, index, search, measure."""
    keys = [page.key() for page in judged.pages]
    with Progress(len(keys), f"{judged.name}: {baseline.ocr.engine}", shown) as bar:
        texts = read_texts(judged.pages, keys, baseline.ocr, cache, bar)
    queries = [query.text for query in judged.queries]
    if baseline.method == "minilm":
        from varsdoc.evaluation.baselines.minilm import MiniLM, dense_scores

        encoder = MiniLM(baseline.minilm)
        model_hash = encoder.hash
        with Progress(len(set(texts)), f"{judged.name}: MiniLM", shown) as bar:
            scores = dense_scores(texts, queries, encoder, cache, bar)
    else:
        model_hash = content_key(baseline.ocr.space, baseline.method)[:16]
        scores = bm25_scores(texts, queries, stemming=baseline.method == "bm25")
    sizes = np.array([len(text.encode()) for text in texts])
    identity = Identity(baseline.name, baseline.method, model_hash, 0, None, "float32", "cpu", baseline.ocr.space)
    how = How(codec="text", aggregation="max", shown=shown)
    return result_of(Scored(scores, page_bytes=sizes), judged, identity, how, keys)
