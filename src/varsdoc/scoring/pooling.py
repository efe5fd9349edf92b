"""Token pooling: fewer vectors per variant, by hierarchical clustering, done right.

Ward's method on the Euclidean distance of unit vectors (whose square is twice the cosine distance). A well-known
implementation hands a square distance matrix to scipy's `linkage`, which then clusters the *rows of that matrix*;
here the vectors themselves are clustered, and a test holds the result to scipy's on the vectors.
A token of a page is one place, so its variants stay together: their vectors are clustered end to end, once, in a fifth
of the time that K clusterings take, and one map says which vector stands for a cell.
A few dozen rounds, each of O(M^2) for the M that are left.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch

from varsdoc.errors import ConfigError
from varsdoc.scoring.threads import alone


def pool_tokens(variants: np.ndarray, factor: int) -> tuple[np.ndarray, np.ndarray]:
    """(K, M, D) unit vectors -> (K, ceil(M / factor), D) unit means, and for each of the M which stands for it.

    Clusters are numbered by their first member, so that the order of tokens is kept where it can be.

    >>> pooled, where = pool_tokens(np.array([[[1, 0], [0, 1], [0.8, 0.6], [0, 1]]], np.float32), 2)
    >>> where
    array([0, 1, 0, 1], dtype=int32)
    >>> pooled.round(3)
    array([[[0.949, 0.316],
            [0.   , 1.   ]]], dtype=float32)
    """
    if not isinstance(factor, int) or factor < 1:
        raise ConfigError(f"The pooling factor must be a whole number of at least 1, not {factor!r}.")
    k, m, d = variants.shape
    count = -(-m // factor)
    ends = np.ascontiguousarray(variants.transpose(1, 0, 2)).reshape(m, k * d)  # a token's variants end to end
    labels = ward_labels(ends, count)
    sums = np.zeros((count, k * d), np.float32)
    np.add.at(sums, labels, ends.astype(np.float32))
    firsts = ends[np.unique(labels, return_index=True)[1]].reshape(count, k, d)
    sums = sums.reshape(count, k, d)
    norms = np.linalg.norm(sums, axis=-1, keepdims=True)
    pooled = np.where(norms > 1e-6, sums / np.maximum(norms, 1e-6), firsts)  # opposite vectors can cancel
    return np.ascontiguousarray(pooled.transpose(1, 0, 2), np.float32), labels


def ward_labels(vectors: np.ndarray, count: int) -> np.ndarray:
    """Ward's clustering cut at `count` clusters: (M,) int32 labels, numbered by first member."""
    m = len(vectors)
    if count >= m:
        return np.arange(m, dtype=np.int32)
    merges = _ward_merges(np.asarray(vectors))
    parent = np.arange(m)

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    order = np.argsort([height for _, _, height in merges], kind="stable")
    for i in order[: m - count]:
        a, b, _ = merges[i]
        a, b = root(a), root(b)
        parent[max(a, b)] = min(a, b)  # the root is the first member
    roots = np.array([root(i) for i in range(m)])
    return np.unique(roots, return_inverse=True)[1].reshape(-1).astype(np.int32)


def _ward_merges(x: np.ndarray) -> list[tuple[int, int, float]]:
    """All M - 1 merges as (a member, a member, squared height); of the two clusters the first comes first.

    In rounds: clusters that are nearest to each other merge, all such pairs at once. Under Ward's distance no merge
    brings anything nearer, so these are the merges that taking the nearest pair of all, one by one, would find.
    """
    norms = (x * x).sum(-1)
    # numpy's BLAS would split this product among threads, which wait for each other on a busy machine.
    products: np.ndarray = alone(lambda: (torch.from_numpy(x) @ torch.from_numpy(x).T).numpy())
    distance = norms[:, None] + norms[None] - 2 * products  # squared; Lance-Williams updates it
    distance = np.maximum((distance + distance.T) / 2, 0) + _unlike(len(x))  # exactly symmetric, or no pair is mutual
    np.fill_diagonal(distance, np.inf)
    size, member = np.ones(len(x)), np.arange(len(x))
    merges: list[tuple[int, int, float]] = []
    while len(distance) > 1:
        near = distance.argmin(1)  # the nearest pair of all is always mutual
        rows = np.arange(len(near))
        first = rows[(near[near] == rows) & (rows < near)]
        second = near[first]
        heights = distance[first, second]
        merges += zip(member[first].tolist(), member[second].tolist(), heights.tolist(), strict=True)
        distance, size, member = _joined(distance, size, member, first, second, heights)
    return merges


def _unlike(count: int) -> np.ndarray:
    """Less than any distance that matters: so that a page of equal cells has many mutual pairs, not one a round."""
    return _symmetric(-(-count // 512) * 512)[:count, :count]


@lru_cache(maxsize=4)
def _symmetric(count: int) -> np.ndarray:
    numbers = np.random.default_rng(0).random((count, count))
    return 1e-12 * (numbers + numbers.T)


def _joined(
    distance: np.ndarray, size: np.ndarray, member: np.ndarray, a: np.ndarray, b: np.ndarray, heights: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Clusters a[i] and b[i] become one, in the place of a[i]."""
    both = size[a] + size[b]
    to_old = (size[a, None] + size) * distance[a] + (size[b, None] + size) * distance[b] - heights[:, None] * size
    to_old /= both[:, None] + size  # (pairs, clusters)
    to_new = (size[a] + both[:, None]) * to_old[:, a] + (size[b] + both[:, None]) * to_old[:, b]
    to_new = (to_new - both[:, None] * heights) / (both + both[:, None])  # (pairs, pairs)
    distance[a], distance[:, a] = to_old, to_old.T
    distance[np.ix_(a, a)] = (to_new + to_new.T) / 2
    distance[a, a] = np.inf
    size[a] = both
    left = np.ones(len(size), bool)
    left[b] = False
    return distance[np.ix_(left, left)], size[left], member[left]
