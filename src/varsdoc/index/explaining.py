"""Why a page was found: what each word of the question added to each reading's score, and where it points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from varsdoc.index.asking import Word


@dataclass(frozen=True)
class WordEvidence:
    """One word. Its scores are the sums of its tokens' maxima; with the prefix and augmentation tokens' they add up to
    the page's own."""

    scores: tuple[float, ...]  # of each variant
    score: float  # in the variant that won
    cell: tuple[int, int] | None  # row and column that fit best in it; None where what is no cell of the page does


def word_evidence(
    words: Sequence[Word], similarity: Sequence[np.ndarray], winner: int, grid: tuple[int, int], image_start: int
) -> list[WordEvidence]:
    """similarity: (T, M) of each variant.

    >>> one = np.array([[0.1, 0.2, 0.9, 0.3], [0.8, 0.1, 0.2, 0.3]])
    >>> word_evidence([Word("net", (0,)), Word("of", (1,))], [one], 0, (1, 3), 1)
    [WordEvidence(scores=(0.9,), score=0.9, cell=(0, 1)), WordEvidence(scores=(0.8,), score=0.8, cell=None)]
    """
    maxima = np.stack([each.max(1) for each in similarity])  # (K, T)
    found = []
    for word in words:
        tokens = list(word.tokens)
        scores = tuple(float(x) for x in maxima[:, tokens].sum(1))
        found.append(WordEvidence(scores, scores[winner], _cell(similarity[winner][tokens], grid, image_start)))
    return found


def _cell(similarity: np.ndarray, grid: tuple[int, int], image_start: int) -> tuple[int, int] | None:
    if not len(similarity):
        return None
    mean = similarity.mean(0)  # (M,)
    cell = int(mean.argmax()) - image_start
    rows, cols = grid
    return (cell // cols, cell % cols) if 0 <= cell < rows * cols else None
