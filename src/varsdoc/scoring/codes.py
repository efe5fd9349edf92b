"""Vectors as codes, and back: the arithmetic of each codec."""

from __future__ import annotations

import numpy as np

from varsdoc.scoring.blob import Blob

CUTS = (1.0, 0.9, 0.8, 0.7)  # of a vector's largest number, where int4 codes may end


def encode(codec: str, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """(N, D) float32 -> codes (N, bytes) uint8 and, for int8 and int4, scales (N,) float16."""
    if codec == "float16":
        return vectors.astype("<f2").view(np.uint8), None
    if codec == "binary":
        return np.packbits(vectors > 0, axis=-1), None
    if codec == "int4":
        return _encode_int4(vectors)
    scales = (np.abs(vectors).max(-1) / 127).astype(np.float16)
    # Divided by the scale that is kept, not by the exact one: float16's rounding is then no error of the product.
    steps = np.maximum(scales.astype(np.float32), np.float32(1e-7))[:, None]
    return np.clip(np.rint(vectors / steps), -127, 127).astype(np.int8).view(np.uint8), scales


def _encode_int4(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of several steps for each vector the one whose codes point its way best, and the scale that fits those codes.

    A step that reaches the largest number is too coarse for the others: cutting that one costs less.
    """
    largest = np.maximum(np.abs(vectors).max(-1, keepdims=True), np.float32(1e-6)) / 15
    codes = np.zeros(vectors.shape, np.int8)
    best = np.full(len(vectors), -np.inf, np.float32)
    scales = np.zeros(len(vectors), np.float32)
    for cut in CUTS:
        tried = np.clip(np.floor(vectors / (2 * cut * largest)), -8, 7).astype(np.int8)
        odd = 2 * tried.astype(np.float32) + 1
        product, square = (odd * vectors).sum(-1), (odd * odd).sum(-1)
        cosine = product / np.sqrt(square)  # times the vector's length
        better = cosine > best * (1 + 1e-6)
        best[better], codes[better], scales[better] = cosine[better], tried[better], (product / square)[better]
    return _join_halves(codes), scales.astype(np.float16)


def decode(codec: str, codes: np.ndarray, scales: np.ndarray | None, dim: int) -> np.ndarray:
    """Codes (N, bytes) -> (N, D) float32."""
    if codec == "float16":
        return np.ascontiguousarray(codes).view("<f2").astype(np.float32)
    if codec == "binary":
        bits = np.unpackbits(codes, axis=-1, count=dim).astype(np.float32)
        return (2 * bits - 1) / np.float32(np.sqrt(dim))
    assert scales is not None
    if codec == "int4":
        return (eighths(codes)[:, :dim].astype(np.float32) / 8) * scales.astype(np.float32)[:, None]
    return codes.view(np.int8).astype(np.float32) * scales.astype(np.float32)[:, None]


def _join_halves(numbers: np.ndarray) -> np.ndarray:
    """(N, D) int8 from -8 to 7 -> (N, ceil(D / 2)) uint8: the first half in the low bits, the second in the high."""
    half = (numbers.shape[1] + 1) // 2
    bits = np.pad(numbers, ((0, 0), (0, -numbers.shape[1] % 2))).view(np.uint8)
    return (bits[:, :half] & 15) | (bits[:, half:] << 4)


def eighths(codes: np.ndarray) -> np.ndarray:
    """int4 codes (N, bytes) -> (N, 2 * bytes) int8: eight times the odd number from -15 to 15 that each half byte is.

    Shifted to the top of its byte a half byte has its sign, and the bit below it makes the number odd: no table.

    >>> eighths(np.array([[0x08, 0x7F]], np.uint8)).tolist()  # low halves -8 and -1, high halves 0 and 7
    [[-120, -8, 8, 120]]
    """
    out = np.empty((len(codes), 2 * codes.shape[1]), np.uint8)
    low, high = out[:, : codes.shape[1]], out[:, codes.shape[1] :]
    np.left_shift(codes, 4, out=low)
    np.bitwise_and(codes, 0xF0, out=high)
    out |= 8
    return out.view(np.int8)


def unpack(blob: Blob) -> np.ndarray:
    """All vectors of a blob: (K, M, D) float32."""
    vectors = decode(blob.codec, blob.codes, blob.scales, blob.dim)
    if blob.places is not None:
        vectors = vectors[blob.places.reshape(-1)]
    return vectors.reshape(blob.variants, blob.tokens, blob.dim)
