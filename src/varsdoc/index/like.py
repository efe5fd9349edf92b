"""A page or a picture as the query.

A page has K readings of hundreds of cells; as a query that is thousands of tokens, most of them blank paper that fits
everywhere. So each variant's cells are averaged over the blocks of a coarse grid (at most `_BLOCKS` a side, in the
page's own proportions) and scaled to unit length, and all variants' blocks together are the query's tokens. The score is
MaxSim with the aggregation "fused": a block of one reading may be answered by any reading of the page. The sum is
divided by the number of tokens in `score_normalised`, as ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from varsdoc.model import PageEmbedding, VarsDoc

_BLOCKS = 6


def page_query(model: VarsDoc, image: Any) -> np.ndarray:
    """Tokens (T, dim) that ask for pages like this one."""
    return pool_page(model.encode_pages([image], progress=False)[0])


def pool_page(page: PageEmbedding) -> np.ndarray:
    """Block means of every variant's cells, (K * blocks, dim)."""
    rows, cols = page.grid
    cells = page.cells.float().numpy()  # (K, rows * cols, dim)
    cells = cells.reshape(len(cells), rows, cols, -1)
    tokens = [
        cells[:, top:bottom, left:right].mean((1, 2))
        for top, bottom in _cuts(rows, max(rows, cols))
        for left, right in _cuts(cols, max(rows, cols))
    ]
    stacked = np.concatenate(tokens)
    norms = np.linalg.norm(stacked, axis=1, keepdims=True)
    return (stacked / np.maximum(norms, 1e-6)).astype(np.float32)


def _cuts(size: int, longest: int) -> list[tuple[int, int]]:
    """Blocks of one side.

    >>> _cuts(12, 12), _cuts(5, 12), _cuts(1, 1)
    ([(0, 2), (2, 4), (4, 6), (6, 8), (8, 10), (10, 12)], [(0, 2), (2, 5)], [(0, 1)])
    """
    count = max(1, min(size, round(_BLOCKS * size / longest)))
    edges = [round(i * size / count) for i in range(count + 1)]
    return list(zip(edges[:-1], edges[1:], strict=True))
