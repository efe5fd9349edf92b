"""Hierarchical pooling is Ward's method on the vectors themselves."""

from __future__ import annotations

import time

import numpy as np
import pytest

from varsdoc.errors import ConfigError
from varsdoc.scoring.pooling import pool_tokens, ward_labels


def unit(*shape: int, seed: int) -> np.ndarray:
    x = np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def same_partition(a: np.ndarray, b: np.ndarray) -> bool:
    return len(set(zip(a.tolist(), b.tolist(), strict=True))) == len(set(a.tolist())) == len(set(b.tolist()))


@pytest.mark.parametrize(("m", "count"), [(2, 1), (7, 3), (60, 20), (200, 67), (200, 5)])
def test_clusters_are_those_of_scipy(m: int, count: int) -> None:
    hierarchy = pytest.importorskip("scipy.cluster.hierarchy")
    vectors = unit(m, 16, seed=m)
    theirs = hierarchy.fcluster(hierarchy.linkage(vectors.astype(np.float64), "ward"), count, "maxclust")
    assert same_partition(ward_labels(vectors, count), theirs)


def test_it_is_not_the_clustering_of_the_rows_of_a_distance_matrix() -> None:
    """The well-known mistake gives another partition: this test would catch a relapse."""
    hierarchy = pytest.importorskip("scipy.cluster.hierarchy")
    vectors = unit(80, 16, seed=3)
    with np.errstate(all="ignore"):
        wrong = hierarchy.linkage(1 - vectors.astype(np.float64) @ vectors.T, "ward")
    assert not same_partition(ward_labels(vectors, 27), hierarchy.fcluster(wrong, 27, "maxclust"))


def test_variants_of_a_token_stay_together_as_scipy_clusters_them_end_to_end() -> None:
    hierarchy = pytest.importorskip("scipy.cluster.hierarchy")
    variants = unit(3, 50, 16, seed=5)
    ends = np.concatenate(list(variants), axis=1).astype(np.float64)
    pooled, where = pool_tokens(variants, 2)
    assert pooled.shape == (3, 25, 16)
    assert same_partition(where, hierarchy.fcluster(hierarchy.linkage(ends, "ward"), 25, "maxclust"))


def test_equal_tokens_fall_together() -> None:
    vectors = np.repeat(unit(2, 5, 8, seed=1), 4, axis=1)
    pooled, where = pool_tokens(vectors, 4)
    assert where.tolist() == np.repeat(np.arange(5), 4).tolist()
    np.testing.assert_allclose(pooled, vectors[:, ::4], atol=1e-6)


@pytest.mark.parametrize("noise", [0, 1e-8, 1e-4])
def test_a_page_of_nearly_equal_cells_takes_no_longer_than_another(noise: float) -> None:
    blank = unit(1, 1, 64, seed=1) + noise * unit(1, 900, 64, seed=2)
    started = time.perf_counter()
    pooled, where = pool_tokens(blank.astype(np.float32), 2)
    assert time.perf_counter() - started < 2  # one merge a round would take a minute
    assert pooled.shape == (1, 450, 64)
    assert set(where.tolist()) == set(range(450))


def test_pooled_vectors_are_unit_means_of_their_tokens() -> None:
    vectors = unit(2, 31, 8, seed=2)
    pooled, where = pool_tokens(vectors, 3)
    assert pooled.shape == (2, 11, 8)
    for i in range(11):
        mean = vectors[:, where == i].mean(1)
        np.testing.assert_allclose(pooled[:, i], mean / np.linalg.norm(mean, axis=-1, keepdims=True), atol=1e-5)


def test_opposite_tokens_leave_a_unit_vector() -> None:
    pooled, _ = pool_tokens(np.array([[[1, 0], [-1, 0]]], np.float32), 2)
    assert np.linalg.norm(pooled) == pytest.approx(1)


def test_factor_one_changes_nothing_and_zero_is_refused() -> None:
    vectors = unit(1, 4, 8, seed=4)
    np.testing.assert_allclose(pool_tokens(vectors, 1)[0], vectors, atol=1e-6)
    with pytest.raises(ConfigError, match="pooling factor"):
        pool_tokens(vectors, 0)
