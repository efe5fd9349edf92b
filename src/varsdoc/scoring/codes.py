"""Vectors as codes, and back: the arithmetic of each codec."""

from __future__ import annotations

import numpy as np

from varsdoc.scoring.blob import Blob


def encode(codec: str, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """(N, D) float32 -> codes (N, bytes) uint8 and, for int8, scales (N,) float16."""
    if codec == "float16":
        return vectors.astype("<f2").view(np.uint8), None
    if codec == "binary":
        return np.packbits(vectors > 0, axis=-1), None
    scales = (np.abs(vectors).max(-1) / 127).astype(np.float16)
    # Divided by the scale that is kept, not by the exact one: float16's rounding is then no error of the product.
    steps = np.maximum(scales.astype(np.float32), np.float32(1e-7))[:, None]
    return np.clip(np.rint(vectors / steps), -127, 127).astype(np.int8).view(np.uint8), scales


def decode(codec: str, codes: np.ndarray, scales: np.ndarray | None, dim: int) -> np.ndarray:
    """Codes (N, bytes) -> (N, D) float32."""
    if codec == "float16":
        return np.ascontiguousarray(codes).view("<f2").astype(np.float32)
    if codec == "binary":
        bits = np.unpackbits(codes, axis=-1, count=dim).astype(np.float32)
        return (2 * bits - 1) / np.float32(np.sqrt(dim))
    assert scales is not None
    return codes.view(np.int8).astype(np.float32) * scales.astype(np.float32)[:, None]


def unpack(blob: Blob) -> np.ndarray:
    """All vectors of a blob: (K, M, D) float32."""
    vectors = decode(blob.codec, blob.codes, blob.scales, blob.dim)
    if blob.places is not None:
        vectors = vectors[blob.places.reshape(-1)]
    return vectors.reshape(blob.variants, blob.tokens, blob.dim)
