"""Codecs: a page's variants (K, M, D) as bytes, and back.

- `float16`: 2 bytes a number.
- `int8`: 1 byte a number and a float16 scale per vector. One fixed scale would waste two bits: the largest number
  of a unit vector of 128 is about 0.3.
- `int4`: 4 bits a number and a float16 scale per vector: odd multiples of it from -15 to 15, so that all sixteen
  codes are used and none is zero; the scale of four that loses least.
- `binary`: 1 bit a number, the sign. A vector reads back as +-1/sqrt(D), of unit length, and is scored against the
  float query.

Options: `pool=n` keeps ceil(M / n) vectors of each variant (scoring.pooling); `share=True` stores equal codes of a page
once - blank cells, cells where variants agree - and loses nothing; `share=0.95` first makes cells alike whose cosine is
at least that (the variants' to variant 0's at the same place, and a page's blank cells), which does lose.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from varsdoc.errors import ConfigError, InputError
from varsdoc.scoring.blob import CODECS, Blob
from varsdoc.scoring.codes import decode, encode, unpack
from varsdoc.scoring.pooling import pool_tokens
from varsdoc.scoring.sharing import make_alike, share_codes

OPTIONS = ("share", "pool")


class Codec(Protocol):
    """Packs one page's variants and unpacks them."""

    @property
    def name(self) -> str: ...

    def pack(self, variants: np.ndarray) -> bytes:
        """(K, M, D) float32 unit vectors -> a blob that says what it is."""

    def unpack(self, blob: bytes) -> np.ndarray:
        """The blob's vectors, (K, M, D) float32; M is the pooled count where the codec pools."""


@dataclass(frozen=True)
class PageCodec:
    """One of the codes with its options; reads every blob of its own code, whatever the options were."""

    name: str
    share: bool | float = False
    pool: int = 1

    def pack(self, variants: np.ndarray) -> bytes:
        variants = _checked(variants)
        pooling = None
        if self.pool > 1:
            variants, where = pool_tokens(variants, self.pool)
            pooling = where[None]
        if self.share is not True and self.share:
            variants = make_alike(variants, float(self.share))
        k, m, d = variants.shape
        codes, scales = encode(self.name, variants.reshape(k * m, d))
        places = None
        if self.share:
            codes, scales, places = share_codes(codes, scales, k, m)
        return Blob(self.name, k, m, d, codes, scales, places, pooling).to_bytes()

    def unpack(self, blob: bytes) -> np.ndarray:
        read = Blob.from_bytes(blob)
        if read.codec != self.name:
            raise InputError(f"This page is packed as {read.codec}, not {self.name}; use get_codec({read.codec!r}).")
        return unpack(read)


def get_codec(name: str, *, share: bool | float = False, pool: int = 1) -> Codec:
    """A codec by name: "float16", "int8", "int4" or "binary".

    >>> page = np.array([[[0.6, 0.8, 0.0], [0.0, -1.0, 0.0]]], np.float32)
    >>> get_codec("int8").unpack(get_codec("int8").pack(page)).round(2).tolist()
    [[[0.6..., 0.8..., 0.0], [0.0, -1.0, 0.0]]]
    """
    if name not in CODECS:
        raise ConfigError(f"There is no codec {name!r}; use {', '.join(CODECS)}.")
    if not isinstance(share, bool) and not (isinstance(share, float) and 0 < share <= 1):
        raise ConfigError(f"share must be true, false or a cosine between 0 and 1, not {share!r}.")
    if isinstance(pool, bool) or not isinstance(pool, int) or pool < 1:
        raise ConfigError(f"pool must be a whole number of at least 1, not {pool!r}.")
    return PageCodec(name, share, pool)


def similarities(query: np.ndarray, blob: bytes) -> np.ndarray:
    """What a heatmap needs: query (T, D) against every cell of one page, (K, T, cells) float32.

    Cells are those of the page that was packed: under pooling each shows the vector that stands for it.
    """
    read = Blob.from_bytes(blob)
    query = np.asarray(query, np.float32)
    if query.ndim != 2 or query.shape[1] != read.dim:
        raise InputError(f"The query has shape {query.shape}; give (tokens, {read.dim}), from the page's own encoder.")
    stored = query @ decode(read.codec, read.codes, read.scales, read.dim).T  # (T, N)
    places = np.arange(read.variants * read.tokens).reshape(read.variants, -1) if read.places is None else read.places
    return np.ascontiguousarray(stored[:, np.take_along_axis(places, _maps(read), 1)].transpose(1, 0, 2))


def cell_map(blob: bytes) -> np.ndarray:
    """(K, cells): which of the variant's M packed vectors stands for each cell; the identity without pooling."""
    return _maps(Blob.from_bytes(blob)).copy()


def _maps(read: Blob) -> np.ndarray:
    maps = np.arange(read.tokens, dtype=np.int32) if read.pooling is None else read.pooling
    return np.broadcast_to(maps, (read.variants, read.cells))


def _checked(variants: np.ndarray) -> np.ndarray:
    variants = np.asarray(variants)
    if variants.ndim != 3 or 0 in variants.shape:
        raise InputError(f"A page to pack has shape {variants.shape}; give (variants, tokens, dim), none of them 0.")
    variants = np.ascontiguousarray(variants, np.float32)
    if not np.isfinite(variants).all():
        raise InputError("A page to pack has numbers that are not finite; encode it again, in float32.")
    longest = float(np.sqrt((variants * variants).sum(-1).max()))
    if longest > 1.01:  # the integer kernels count on it
        raise InputError(f"A page to pack has a vector of length {longest:.3g}; give vectors of unit length.")
    return variants
