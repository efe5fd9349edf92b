"""Storing equal vectors of a page once: blank cells, and cells where the variants agree."""

from __future__ import annotations

import numpy as np


def share_codes(
    codes: np.ndarray, scales: np.ndarray | None, k: int, m: int
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
    """Codes (K * M, bytes) -> the distinct ones in order of first use, their scales, and places (K, M) int32."""
    keys = codes if scales is None else np.concatenate([codes, scales.view(np.uint8).reshape(len(codes), 2)], axis=1)
    keys = np.ascontiguousarray(keys)
    _, first, inverse = np.unique(keys.view(f"V{keys.shape[1]}").reshape(-1), return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order))
    kept = first[order]
    return codes[kept], None if scales is None else scales[kept], rank[inverse.reshape(-1)].reshape(k, m)


def make_alike(variants: np.ndarray, cosine: float) -> np.ndarray:
    """Replace vectors that nearly agree by one of them, so that they can be stored once. This loses a little.

    First a page's blank cells: in variant 0, the token with the most others within `cosine` stands for those others.
    Then a variant's token takes variant 0's at the same place where the two are that close.
    """
    out = variants.copy()
    base = out[0]
    near = base @ base.T >= cosine
    blank = int(near.sum(1).argmax())
    base[near[blank]] = base[blank].copy()
    for variant in out[1:]:
        agree = (variant * base).sum(-1) >= cosine
        variant[agree] = base[agree]
    return out
