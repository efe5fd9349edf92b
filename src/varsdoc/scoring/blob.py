"""The blob in which one page's packed variants are kept: how its bytes are laid out, written and checked.

Little-endian, self-describing, no pickle:

    header   "VDPC", version, codec, flags, bytes of a reference, K, D, M (vectors of a variant), N (vectors stored),
             cells (vectors of a variant before pooling)
    codes    N x bytes of one vector: 2 D (float16), D (int8), ceil(D / 2) (int4), ceil(D / 8) (binary: a positive
             number is 1). int4: a byte's low four bits are a number of the vector's first half, its high four the
             one half a vector further on; n in two's complement stands for 2 n + 1 scales
    scales   N float16, int8 and int4 only
    sharing  one bit per (variant, token): stored here for the first time? Then, for those that are not, one bit: the
             same as variant 0's token at this place? Then, for the rest, the number of the stored vector.
    pooling  references: which vector of its variant stands for a cell, cells of them, or K x cells where variants were
             pooled apart (earlier versions)
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

from varsdoc.errors import InputError

MAGIC = b"VDPC"
VERSION = 1
HEADER = struct.Struct("<4sBBBBHHIII")
CODECS = ("float16", "int8", "binary", "int4")  # a blob holds the place in this list: new ones go to its end
SCALED = ("int8", "int4")  # these keep a scale for each vector
SHARED, POOLED_APART, POOLED = 1, 2, 4
LARGEST_SCALE = {name: int(np.float16(1.02 / top).view(np.uint16)) for name, top in (("int8", 127), ("int4", 15))}
_REFERENCES: dict[int, np.dtype] = {2: np.dtype("<u2"), 4: np.dtype("<u4")}


def code_bytes(codec: str, dim: int) -> int:
    """Bytes of one vector's code, without its scale."""
    return {"float16": 2 * dim, "int8": dim, "int4": (dim + 1) // 2, "binary": (dim + 7) // 8}[codec]


@dataclass(frozen=True, eq=False)
class Blob:
    """One page's packed variants, taken apart. The arrays may be views of the bytes they came from."""

    codec: str
    variants: int  # K
    tokens: int  # M, vectors of each variant
    dim: int
    codes: np.ndarray  # (N, bytes of a code) uint8
    scales: np.ndarray | None = None  # (N,) float16, int8 and int4 only
    places: np.ndarray | None = None  # (K, M) int32: the stored vector of each token; None: all stored, in order
    pooling: np.ndarray | None = None  # (1 or K, cells) int32: the token that stands for a cell; None: cells are tokens

    @property
    def cells(self) -> int:
        return self.tokens if self.pooling is None else self.pooling.shape[1]

    def cells_of(self, variant: int) -> np.ndarray | None:
        """(cells,) the token of this variant that stands for each cell; None: cells are tokens."""
        return None if self.pooling is None else self.pooling[variant if len(self.pooling) > 1 else 0]

    def to_bytes(self) -> bytes:
        flags = SHARED if self.places is not None else 0
        if self.pooling is not None:
            flags |= POOLED if len(self.pooling) == 1 else POOLED_APART
        width = 2 if max(len(self.codes), self.tokens) <= 1 << 16 else 4
        head = HEADER.pack(
            MAGIC, VERSION, CODECS.index(self.codec), flags, width, self.variants, self.dim, self.tokens,
            len(self.codes), self.cells,
        )  # fmt: skip
        parts = [head, self.codes.tobytes()]
        if self.scales is not None:
            parts.append(self.scales.astype("<f2").tobytes())
        if self.places is not None:
            parts.append(_write_places(self.places, _REFERENCES[width]))
        if self.pooling is not None:
            parts.append(self.pooling.astype(_REFERENCES[width]).tobytes())
        return b"".join(parts)

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview) -> Blob:
        """Take bytes apart without copying the codes; anything that is not a whole blob is one clear error."""
        view = memoryview(data)
        codec, flags, width, k, dim, m, n, cells = _read_header(view)
        reader = _Reader(view, HEADER.size)
        codes = reader.take(n * code_bytes(codec, dim)).reshape(n, -1)
        scales = reader.take(2 * n).view(np.dtype("<f2")) if codec in SCALED else None
        # Bits of positive float16 numbers are ordered like the numbers; a sign, an infinity or a NaN is above all.
        if scales is not None and int(scales.view(np.uint16).max()) > LARGEST_SCALE[codec]:
            raise InputError("A packed page is damaged: a scale that no unit vector has; index the page again.")
        places = _read_places(reader, k, m, n, _REFERENCES[width]) if flags & SHARED else None
        pooling = None
        if flags & (POOLED | POOLED_APART):
            maps = 1 if flags & POOLED else k
            pooling = reader.take(maps * cells * width).view(_REFERENCES[width]).astype(np.int32).reshape(maps, cells)
            if pooling.size and pooling.max() >= m:
                raise InputError("A packed page is damaged: a cell points past its vectors; index the page again.")
        reader.finish()
        return cls(codec, k, m, dim, codes, scales, places, pooling)


class _Reader:
    def __init__(self, view: memoryview, start: int) -> None:
        self.view, self.at = view, start

    def take(self, size: int) -> np.ndarray:
        if self.at + size > len(self.view):
            raise InputError(
                f"A packed page is cut short: {len(self.view)} bytes, more than {self.at + size - 1} expected; "
                "index the page again."
            )
        self.at += size
        return np.frombuffer(self.view, np.uint8, size, self.at - size)

    def finish(self) -> None:
        if self.at != len(self.view):
            raise InputError(
                f"A packed page is damaged: {len(self.view) - self.at} bytes too many; index the page again."
            )


def _read_header(view: memoryview) -> tuple[str, int, int, int, int, int, int, int]:
    if len(view) < HEADER.size or bytes(view[:4]) != MAGIC:
        raise InputError("These bytes are no packed page of varsdoc; index the page again.")
    _, version, codec, flags, width, k, dim, m, n, cells = HEADER.unpack_from(view)
    if version != VERSION:
        raise InputError(f"A packed page has format {version}, this varsdoc reads {VERSION}; index the page again.")
    pooled = flags & (POOLED | POOLED_APART)
    whole = codec < len(CODECS) and flags <= 7 and width in _REFERENCES and min(k, dim, m, n, cells) > 0
    whole = whole and pooled != POOLED | POOLED_APART and (pooled or cells == m)
    if not whole or n > k * m or (not flags & SHARED and n != k * m):
        raise InputError("A packed page is damaged: its header contradicts itself; index the page again.")
    return CODECS[codec], flags, width, k, dim, m, n, cells


def _write_places(places: np.ndarray, reference: np.dtype) -> bytes:
    """Stored vectors are numbered by first use, so "first time" is where a number exceeds all before it."""
    flat = places.reshape(-1)
    before = np.concatenate([[-1], np.maximum.accumulate(flat)[:-1]])
    fresh = flat > before
    rest = ~fresh
    twin = (places == places[:1]).reshape(-1)
    twin[: places.shape[1]] = False  # variant 0 has no other to agree with
    other = flat[rest & ~twin].astype(reference)
    return np.packbits(fresh).tobytes() + np.packbits(twin[rest]).tobytes() + other.tobytes()


def _read_places(reader: _Reader, k: int, m: int, n: int, reference: np.dtype) -> np.ndarray:
    fresh = np.unpackbits(reader.take((k * m + 7) // 8), count=k * m).astype(bool)
    rest = np.flatnonzero(~fresh)
    twin = np.unpackbits(reader.take((len(rest) + 7) // 8), count=len(rest)).astype(bool)
    other = reader.take(int((~twin).sum()) * reference.itemsize).view(reference)
    places = np.empty(k * m, np.int32)
    places[fresh] = np.arange(int(fresh.sum()))
    places[rest[~twin]] = other
    places[rest[twin]] = places[rest[twin] % m]
    if int(fresh.sum()) != n or (twin & (rest < m)).any() or places.max() >= n:
        raise InputError("A packed page is damaged: its map of shared vectors is wrong; index the page again.")
    return places.reshape(k, m)
