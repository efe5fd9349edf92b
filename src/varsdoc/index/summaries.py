"""A page's summary: the vectors by which the first stage finds it, one for sixteen of its tokens.

Spherical k-means over the tokens of all variants together: blank cells and cells where variants agree share a centre,
and what is left of the centres goes to what the page says. In memory int8, a unit centre times 127; stored in four
bits, which costs no recall and pays for twice the vectors. One mean vector per variant was measured beside it and is no
first stage for MaxSim (docs/search.md).

Stored: "VDS2", then the int4 codes of all vectors, then their float16 scales. Collections of earlier versions hold
plain int8, forty vectors a page, and are read as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from varsdoc.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

TOKENS_A_VECTOR = 16  # a longer page has more to say: one summary vector for so many of its tokens
FEWEST = 40
MAGIC = b"VDS2"
ROUNDS = 4  # eight found the same pages on docvqa-dev, in twice the time


def summary_length(tokens: int) -> int:
    """Summary vectors of a page with so many tokens, all variants counted.

    >>> summary_length(5 * 256), summary_length(5 * 1000), summary_length(30)
    (80, 313, 30)
    """
    return min(tokens, max(FEWEST, -(-tokens // TOKENS_A_VECTOR)))


def summarise(variants: np.ndarray, vectors: int | None = None, codec: str = "binary") -> np.ndarray:
    """(K, M, D) -> (S, D) int8: unit centroids times 127; the same for the same page.

    vectors  S, at most K * M; default: `summary_length`
    codec    what the page is packed as: exact search over binary codes compares signs, so signs are what is summarised
    """
    import torch

    from varsdoc.scoring.threads import alone

    variants = np.asarray(variants, np.float32)
    if variants.ndim != 3 or 0 in variants.shape:
        raise InputError(
            f"A page to summarise has shape {variants.shape}; give (variants, tokens, dim), none of them 0."
        )
    if codec == "binary":
        variants = np.where(variants > 0, np.float32(1), np.float32(-1)) / np.float32(np.sqrt(variants.shape[-1]))
    x = torch.from_numpy(np.ascontiguousarray(variants.reshape(-1, variants.shape[-1])))
    count = summary_length(len(x)) if vectors is None else min(vectors, len(x))
    centres = alone(lambda: _centroids(x, count))
    return np.rint(centres.numpy() * 127).clip(-127, 127).astype(np.int8)


def _centroids(x: Tensor, count: int) -> Tensor:
    """Spherical k-means from evenly spaced tokens: (count, D) of unit length."""
    import torch

    centres = x[torch.linspace(0, len(x) - 1, count).long()].clone()
    for _ in range(ROUNDS):
        best, label = (x @ centres.T).max(1)
        sums = torch.zeros_like(centres).index_add_(0, label, x)
        filled = torch.bincount(label, minlength=count) > 0
        centres = torch.where(filled[:, None], sums / sums.norm(dim=1, keepdim=True).clamp_min(1e-6), centres)
        if not bool(filled.all()):  # an empty centre takes a token that is served worst
            empty = int((~filled).sum())
            centres[~filled] = x[best.argsort(stable=True)[:empty]]
    return centres


def summary_bytes(summary: np.ndarray) -> bytes:
    """(S, D) int8 -> what is stored: half of its bytes, and two for each vector's scale."""
    from varsdoc.scoring.codes import encode

    codes, scales = encode("int4", summary.astype(np.float32) / 127)
    assert scales is not None
    return MAGIC + codes.tobytes() + scales.astype("<f2").tobytes()


def summary_from_bytes(data: bytes, dim: int) -> np.ndarray:
    """(S, D) int8 from what is stored, by this version or an earlier one."""
    from varsdoc.scoring.blob import code_bytes
    from varsdoc.scoring.codes import decode

    each = code_bytes("int4", dim)
    count, rest = divmod(len(data) - len(MAGIC), each + 2)
    if data[: len(MAGIC)] == MAGIC and count > 0 and not rest:
        end = len(MAGIC) + count * each
        codes = np.frombuffer(data[len(MAGIC) : end], np.uint8).reshape(count, each)
        vectors = decode("int4", codes, np.frombuffer(data[end:], "<f2"), dim)
        if not np.isfinite(vectors).all():
            raise InputError("A page's summary is damaged; index the page again.")
        return np.rint(vectors * 127).clip(-127, 127).astype(np.int8)
    if not data or len(data) % dim:
        raise InputError(f"A page's summary has {len(data)} bytes, no multiple of {dim}; index the page again.")
    return np.frombuffer(data, np.int8).reshape(-1, dim)
