"""An answer: a page, how well each reading of it fits, and where on it the evidence is."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from varsdoc.errors import ConfigError
from varsdoc.index.asking import Query
from varsdoc.index.heatmap import overlay, scaled
from varsdoc.index.region import Region, evidence, region
from varsdoc.index.tables import Value

if TYPE_CHECKING:
    from PIL import Image

    from varsdoc.index.explaining import WordEvidence
    from varsdoc.scoring.blob import Blob


class PageSource(Protocol):
    """Where a hit gets the rest of its page from, when asked."""

    def page_blob(self, page_id: str) -> Blob: ...
    def page_jpeg(self, page_id: str) -> bytes: ...
    def page_text(self, page_id: str) -> str | None: ...


@dataclass(frozen=True, eq=False)
class Hit:
    """One page that was found. Heatmap, region and picture are made when they are first asked for."""

    id: str
    document: str
    page: int  # 1-based
    score: float
    score_normalised: float
    variant: int
    variant_scores: tuple[float, ...]
    metadata: Mapping[str, Value] = field(default_factory=dict)
    fused_score: float | None = None  # hybrid search only
    document_id: str = ""
    pages: int = 0  # of the document
    version: str = ""  # of the document: names the bytes and the encoder behind this answer
    width: int = 0
    height: int = 0
    _grid: tuple[int, int] = field(default=(0, 0), repr=False)
    _image_start: int = field(default=0, repr=False)
    _levelled: bytes = field(default=b"", repr=False)
    _query: Query | None = field(default=None, repr=False)
    _source: PageSource | None = field(default=None, repr=False)

    def _similarity(self, variant: int) -> np.ndarray:
        """(T, M) of one variant; made anew each time: kept, a long answer's would fill the memory."""
        from varsdoc.index.levelled import led_back
        from varsdoc.index.similarity import variant_similarity

        assert self._query is not None
        assert self._source is not None
        found = variant_similarity(self._query.vectors, self._source.page_blob(self.id), variant)
        return led_back(found, self._levelled, self._image_start, self._grid[0] * self._grid[1])

    @cached_property
    def region(self) -> Region | None:
        """The box of the evidence, [x0, y0, x1, y1] as fractions of the page; None where no image cell matched."""
        from varsdoc.index.levelled import count

        assert self._query is not None
        similarity, below = self._similarity(self.variant), count(self._levelled)
        return region(evidence(similarity, self._grid, self._image_start, self._query.content, below))

    def explain(self) -> list[WordEvidence]:
        """For each word of the question: what it added to the score of every variant, and where on the page."""
        from varsdoc.index.explaining import word_evidence

        assert self._query is not None
        each = [self._similarity(variant) for variant in range(len(self.variant_scores))]
        return word_evidence(self._query.words, each, self.variant, self._grid, self._image_start)

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of cells."""
        return self._grid

    def similarity(self, variant: int | None = None, token: int | Sequence[int] | None = None) -> np.ndarray:
        """(rows, cols): how well each cell fits one query token, or the mean over several, or over all words."""
        assert self._query is not None
        chosen = self.variant if variant is None else variant
        if not 0 <= chosen < len(self.variant_scores):
            raise ConfigError(f"There is no variant {variant}; this page has 0 to {len(self.variant_scores) - 1}.")
        tokens = None if token is None else [token] if isinstance(token, int) else [*token]
        if tokens is not None and not (tokens and all(0 <= one < len(self._query.vectors) for one in tokens)):
            raise ConfigError(f"There is no query token {token}; the query has 0 to {len(self._query.vectors) - 1}.")
        rows, cols = self._grid
        cells = self._similarity(chosen)[:, self._image_start : self._image_start + rows * cols]  # (T, cells)
        return cells[self._query.content if tokens is None else tokens].mean(0).reshape(rows, cols)

    def heatmap(self, variant: int | None = None, token: int | Sequence[int] | None = None) -> Image.Image:
        """The page with its similarities over it: of the winning variant and all words, unless told otherwise."""
        return overlay(self.image(), scaled(self.similarity(variant, token)))

    def image(self) -> Image.Image:
        """The page's picture, as it was encoded."""
        from PIL import Image

        with Image.open(io.BytesIO(self.jpeg())) as opened:
            return opened.convert("RGB")

    def jpeg(self) -> bytes:
        """The picture's own bytes."""
        assert self._source is not None
        return self._source.page_jpeg(self.id)

    def text(self) -> str | None:
        """The page's stored text layer, of the version that was found; None where it has none."""
        assert self._source is not None
        return self._source.page_text(self.id)

    def to_json(self) -> dict[str, Any]:
        box = self.region
        facts: dict[str, Any] = {
            "id": self.id,
            "document": self.document,
            "page": self.page,
            "score": self.score,
            "score_normalised": self.score_normalised,
            "variant": self.variant,
            "variant_scores": list(self.variant_scores),
            "region": None if box is None else [round(x, 4) for x in box],
            "metadata": dict(self.metadata),
        }
        return facts if self.fused_score is None else facts | {"fused_score": self.fused_score}
