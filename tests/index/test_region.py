"""The rule of the evidence box, on similarities whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from varsdoc.index.heatmap import overlay, scaled
from varsdoc.index.region import evidence, region

GRID = (10, 8)
START = 3
TOKENS = START + 80 + 2  # template before and after the cells


def flat(words: int, seed: int = 0) -> np.ndarray:
    """Words that fit nothing: noise of 0.01 around 0.2."""
    return 0.2 + 0.01 * np.random.default_rng(seed).standard_normal((words, TOKENS)).clip(-2, 2)


def put(similarity: np.ndarray, word: int, row: int, col: int, value: float) -> None:
    similarity[word, START + row * GRID[1] + col] = value


def box(similarity: np.ndarray, content: np.ndarray | None = None) -> tuple[float, ...] | None:
    return region(evidence(similarity, GRID, START, content))


def test_words_that_agree_give_the_box_around_their_cells() -> None:
    similarity = flat(3)
    for word, col in enumerate((2, 3, 4)):
        put(similarity, word, 6, col, 0.8)
    assert box(similarity) == pytest.approx((1.5 / 8, 5.5 / 10, 5.5 / 8, 7.5 / 10))


def test_the_heavier_cluster_wins_and_a_gap_of_one_cell_joins() -> None:
    similarity = flat(4)
    put(similarity, 0, 1, 1, 0.6)
    put(similarity, 1, 1, 3, 0.6)
    put(similarity, 2, 9, 7, 0.9)
    assert box(similarity) == pytest.approx((0.5 / 8, 0.5 / 10, 4.5 / 8, 2.5 / 10))


def test_no_cell_stands_out_means_no_region() -> None:
    assert box(flat(5)) is None
    assert box(np.full((2, TOKENS), 0.3)) is None


def test_augmentation_tokens_and_the_prefix_point_at_nothing() -> None:
    similarity = flat(3)
    put(similarity, 0, 2, 2, 0.9)
    put(similarity, 1, 8, 6, 0.5)
    put(similarity, 2, 2, 2, 0.9)
    content = np.array([False, True, False])
    assert box(similarity, content) == pytest.approx((5.5 / 8, 7.5 / 10, 7.5 / 8, 9.5 / 10))


def test_a_word_that_fits_the_prompt_better_than_the_page_is_left_out() -> None:
    similarity = flat(1)
    put(similarity, 0, 2, 2, 0.6)
    assert box(similarity) is not None
    similarity[0, 0] = 0.7
    assert box(similarity) is None


def test_a_word_that_fits_many_cells_weighs_less_than_one_that_fits_one() -> None:
    similarity = flat(2)
    for col in range(8):
        put(similarity, 0, 0, col, 0.8)
    put(similarity, 1, 9, 0, 0.5)
    weights = evidence(similarity, GRID, START)
    assert weights[9, 0] > weights[0].max()


def test_the_box_stays_on_the_page() -> None:
    similarity = flat(1)
    put(similarity, 0, 0, 0, 0.9)
    assert box(similarity) == pytest.approx((0, 0, 1.5 / 8, 1.5 / 10))


def test_an_overlay_colours_the_peak_and_leaves_the_background() -> None:
    from PIL import Image

    cells = np.zeros((4, 4), np.float32)
    cells[1, 2] = 0.5
    shown = np.asarray(overlay(Image.new("RGB", (80, 80), "white"), scaled(cells))).astype(int)
    assert np.abs(shown[70, 5] - 255).max() <= 2
    assert np.abs(shown[30, 50] - 255).max() > 60
