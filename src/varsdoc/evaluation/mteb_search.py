"""A retriever behind MTEB's SearchProtocol: pages to the cache, scores from our own scoring.

MTEB's encoder path pads all pages of a corpus to one float32 tensor in memory, which K=5 does not survive. Here pages
are on disk and pass through scoring a few at a time.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from varsdoc.errors import InputError
from varsdoc.evaluation.cache import Cache, content_key
from varsdoc.evaluation.evaluate import How, encode_pages, encode_queries
from varsdoc.evaluation.judged import JudgedSet, Page
from varsdoc.evaluation.metrics import ranking
from varsdoc.evaluation.progress import Progress
from varsdoc.evaluation.retrievers.protocol import Retriever
from varsdoc.evaluation.scorer import Scored, score_cached


@dataclass(frozen=True)
class DatasetPage:
    """A row of a Hugging Face data set, its picture undecoded."""

    id: str
    rows: Any
    row: int

    def _bytes(self) -> bytes:
        stored = self.rows[self.row]["image"]
        if isinstance(stored, dict) and stored.get("bytes"):
            return bytes(stored["bytes"])
        if isinstance(stored, dict) and stored.get("path"):
            with open(stored["path"], "rb") as file:
                return file.read()
        raise InputError(f"Page {self.id} has no image.")

    def key(self) -> str:
        return content_key(self._bytes())

    def image(self) -> Any:
        from varsdoc.image import read_image

        return read_image(self._bytes(), self.id)

    def text_layer(self) -> str | None:
        return None


def dataset_pages(corpus: Any) -> list[Page]:
    """The pages of an MTEB corpus."""
    from datasets import Image

    if "image" not in corpus.column_names:
        raise InputError("This task's corpus has no images; varsdoc evaluates page images.")
    rows = corpus.select_columns(["id", "image"])
    if isinstance(rows.features["image"], Image):
        rows = rows.cast_column("image", Image(decode=False))
        return [DatasetPage(str(name), rows, i) for i, name in enumerate(rows["id"])]
    return [_picture(str(row["id"]), row["image"]) for row in rows]


def _picture(name: str, image: Any) -> Page:
    """A picture that the data set gives decoded."""
    data = io.BytesIO()
    image.save(data, "PNG")
    return DatasetPage(name, [{"image": {"bytes": data.getvalue()}}], 0)


@dataclass(frozen=True)
class Searched:
    """One search as it was done: MTEB's names, the pages and their keys in the cache, the questions, the scores."""

    task: str
    split: str
    subset: str
    pages: Sequence[Page]
    keys: list[str]
    query_ids: list[str]
    texts: list[str]
    scored: Scored


Observer = Callable[[Searched], None]


class SearchModel:
    """index() and search() as MTEB calls them. The corpus of the last index() is kept as keys only."""

    def __init__(
        self, retriever: Retriever, cache: Cache, how: How | None = None, observe: Observer | None = None
    ) -> None:
        self.retriever, self.cache = retriever, cache
        self.how = how or How()
        self.observe = observe
        self.pages: Sequence[Page] = []
        self.keys: list[str] = []

    @property
    def mteb_model_meta(self) -> Any:
        from mteb.models.model_meta import ModelMeta

        identity = self.retriever.identity
        name = identity.name if identity.name.count("/") == 1 else f"local/{identity.name}"
        return ModelMeta.create_empty(
            overwrites={
                "name": "".join(c if c.isalnum() or c in "/._-" else "-" for c in name),
                "revision": identity.hash,
                "modalities": ["image", "text"],
                "model_type": ["late-interaction"],
                "experiment_kwargs": {
                    "variants": identity.variants,
                    "codec": self.how.codec,
                    "aggregation": self.how.aggregation,
                    "token_cap": identity.token_cap,
                },
            }
        )

    def index(self, corpus: Any, *, task_metadata: Any, hf_split: str, hf_subset: str, **_: Any) -> None:
        self.pages = dataset_pages(corpus)
        where = JudgedSet(f"{task_metadata.name} {hf_subset}", self.pages, [], {})
        self.keys = encode_pages(self.retriever, where, self.cache, self.how.shown)

    def search(
        self,
        queries: Any,
        *,
        task_metadata: Any,
        hf_split: str,
        hf_subset: str,
        top_k: int,
        top_ranked: Any = None,
        **_: Any,
    ) -> dict[str, dict[str, float]]:
        names, texts = [str(name) for name in queries["id"]], [str(text) for text in queries["text"]]
        vectors = encode_queries(self.retriever, texts, self.cache, self.how.shown)
        identity = self.retriever.identity
        with Progress(len(self.keys), f"{task_metadata.name} {hf_subset}: scoring", self.how.shown) as bar:
            scored = score_cached(
                vectors, self.cache, identity.space, self.keys, self.how.codec, device=identity.device, done=bar
            )
        if self.observe is not None:
            self.observe(Searched(task_metadata.name, hf_split, hf_subset, self.pages, self.keys, names, texts, scored))
        total = scored.total(self.how.aggregation)
        return {
            name: self._best(total[i], top_k, top_ranked.get(name) if top_ranked else None)
            for i, name in enumerate(names)
        }

    def _best(self, scores: np.ndarray, top_k: int, allowed: Sequence[str] | None) -> dict[str, float]:
        ids = [page.id for page in self.pages]
        kept = set(allowed) if allowed is not None else None
        order = [row for row in ranking(scores, ids).tolist() if kept is None or ids[row] in kept]
        return {ids[row]: float(scores[row]) for row in order[:top_k]}
