"""Where on the page the evidence is: one box from the similarities of the question's words with the page's cells.

The rule, for the variant that won:
1. Words only. The prefix and the augmentation tokens, which stand for no word, are left out (`content`).
2. A word's background on this page is the median of its similarities with all cells. A word counts where its best cell
   stands above it by more than what the page's own spread explains (`_PEAK` median deviations), and where no token of
   the prompt's text fits better than every cell; otherwise it points at nothing.
3. A word marks its best cell and every cell nearly as good (within `_NEAR` of the peak's height), with the height above
   the background as weight, shared among the cells it marks. A word that fits many cells equally well weighs little in
   each.
4. Marks that touch (within `_REACH` cells, also diagonally) are one cluster: a line of text is broken by blank cells.
5. The heaviest cluster's bounding box, grown by `_MARGIN` cells and cut at the page, is the region, in fractions.
No word counts: no region.
"""

from __future__ import annotations

import numpy as np

Region = tuple[float, float, float, float]

_PEAK = 4.0
_NEAR = 0.1
_REACH = 2
_MARGIN = 0.5


def evidence(
    similarity: np.ndarray,
    grid: tuple[int, int],
    image_start: int,
    content: np.ndarray | None = None,
    below: int = 0,
) -> np.ndarray:
    """Weights (rows, cols) that the words put on cells; all zero where nothing stands out.

    similarity  (T, M) of one variant: query tokens against all document tokens, the prompt's text included
    below       tokens behind the page's cells that repeat turned print (index.levelled): they were led back to it
    """
    rows, cols = grid
    words = similarity if content is None else similarity[content]
    cells = words[:, image_start : image_start + rows * cols]  # (T, rows * cols)
    others = np.concatenate([words[:, :image_start], words[:, image_start + rows * cols + below :]], 1)
    peaks, backgrounds = cells.max(1), np.median(cells, 1)  # (T,); all words at once: this is done for every hit
    spreads = 1.4826 * np.median(np.abs(cells - backgrounds[:, None]), 1)
    heights = peaks - backgrounds
    counts = heights > np.maximum(_PEAK * spreads, 1e-6)
    if others.shape[1]:
        counts &= others.max(1) <= peaks
    weights = np.zeros(rows * cols, np.float64)
    for word in np.flatnonzero(counts):
        marked = cells[word] >= peaks[word] - _NEAR * heights[word]
        weights[marked] += heights[word] / marked.sum()
    return weights.reshape(rows, cols)


def region(weights: np.ndarray) -> Region | None:
    """The box [x0, y0, x1, y1] of the heaviest cluster, as fractions of the page.

    Two words in neighbouring cells outweigh one elsewhere; the box has half a cell of margin:

    >>> weights = np.zeros((4, 8)); weights[1, 2] = weights[1, 3] = 0.5; weights[3, 7] = 0.6
    >>> region(weights)
    (0.1875, 0.125, 0.5625, 0.625)
    """
    rows, cols = weights.shape
    clusters = _clusters(weights > 0)
    if not clusters:
        return None
    best = max(clusters, key=lambda cells: sum(weights[cell] for cell in cells))
    top, left = min(r for r, _ in best), min(c for _, c in best)
    bottom, right = max(r for r, _ in best) + 1, max(c for _, c in best) + 1
    return (
        max(0.0, (left - _MARGIN) / cols),
        max(0.0, (top - _MARGIN) / rows),
        min(1.0, (right + _MARGIN) / cols),
        min(1.0, (bottom + _MARGIN) / rows),
    )


def _clusters(marked: np.ndarray) -> list[list[tuple[int, int]]]:
    """Cells that touch within the reach, by flooding."""
    left = {(int(r), int(c)) for r, c in np.argwhere(marked)}
    found = []
    while left:
        cluster = [left.pop()]
        for r, c in cluster:
            near = [
                (r + dr, c + dc)
                for dr in range(-_REACH, _REACH + 1)
                for dc in range(-_REACH, _REACH + 1)
                if (r + dr, c + dc) in left
            ]
            left.difference_update(near)
            cluster.extend(near)
        found.append(cluster)
    return found
