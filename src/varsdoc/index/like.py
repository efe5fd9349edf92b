"""A page or a picture as the query.

A page has K readings of hundreds of cells; as a query that is thousands of tokens, most of them blank paper that fits
everywhere. So each variant speaks through a few dozen of its own cells, chosen one after the other so that each is as
unlike those before it as can be: blank paper is said once, and everything that is different on the page is said. Real
cells, not averages: a page asked for with its own picture finds every token on itself, and so scores highest.
The score is MaxSim with the aggregation "fused": a cell of one reading may be answered by any reading of the page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from varsdoc.model import VarsDoc

TOKENS = 24  # of each variant


def page_query(model: VarsDoc, image: Any) -> np.ndarray:
    """Tokens (K * at most TOKENS, dim) that ask for pages like this one."""
    cells = model.encode_pages([image], progress=False)[0].cells.float().numpy()  # (K, cells, dim)
    return np.concatenate([distinct(variant) for variant in cells])


def distinct(vectors: np.ndarray, count: int = TOKENS) -> np.ndarray:
    """Unit vectors that cover the others: each the least like those before it; equal ones are taken once.

    >>> distinct(np.array([[1, 0], [1, 0], [0.8, 0.6], [0, 1]], np.float32), 2).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    nearest = vectors @ vectors.mean(0)  # begin with what is least like the page as a whole
    chosen: list[int] = []
    while len(chosen) < min(count, len(vectors)):
        pick = int(nearest.argmin())
        if chosen and nearest[pick] > 1 - 1e-4:
            break
        similarity = vectors @ vectors[pick]
        nearest = np.maximum(nearest, similarity) if chosen else similarity
        chosen.append(pick)
    return np.ascontiguousarray(vectors[chosen])
