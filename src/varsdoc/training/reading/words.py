"""When two words are the same, and which words a page prints.

Every loss of the reading stage asks one of two things: where is this word printed, and is it printed at all. Both mean
the same by "this word": case, outer punctuation and a plural s aside. A page's words are a bitmap of hashes, so that
"is it there" is one look-up and no list is ever too short; two words share a bit once in some ten thousand pairs, and
then a page merely does not count as a wrong answer.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

BITS = 1 << 15
NONE = -1
TRIM = ".,;:!?()[]{}'\"\u201c\u201d\u2018\u2019"  # the last four: typographic quotes


def plain(text: str) -> str:
    """
    >>> plain("(Income,"), plain("12.5%")
    ('income', '12.5%')
    """
    return text.strip(TRIM).lower()


def stem(text: str) -> str:
    """A plain word without its plural or genitive s; words with digits stay as they are.

    >>> [stem(word) for word in ("reports", "companies", "company's", "analysis", "glass", "bus", "2000s")]
    ['report', 'company', 'company', 'analysis', 'glass', 'bus', '2000s']
    """
    if text.endswith(("'s", "\u2019s")):
        text = text[:-2]
    if len(text) < 4 or not text.isalpha() or not text.endswith("s") or text.endswith(("ss", "us", "is")):
        return text
    return text[:-3] + "y" if text.endswith("ies") and len(text) > 4 else text[:-1]


def word_key(text: str) -> int:
    """A number that equal words share; NONE for what says nothing.

    >>> word_key("Reports,") == word_key("report"), word_key("...")
    (True, -1)
    """
    name = stem(plain(text))
    return zlib.crc32(name.encode()) & 0x7FFFFFFF if name else NONE


def presence(keys: Iterable[int]) -> np.ndarray:
    """The words of a page as (BITS / 8,) bytes."""
    known = np.fromiter((key % BITS for key in keys if key >= 0), dtype=np.int64)
    bits = np.zeros(BITS, dtype=np.uint8)
    bits[known] = 1
    return np.packbits(bits, bitorder="little")


def prints(present: Tensor, keys: Tensor) -> Tensor:
    """Which pages print which words: present (P, BITS / 8), keys (...) -> (..., P) bool; False for NONE.

    >>> page = torch.from_numpy(presence([word_key("income"), word_key("total")]))[None]
    >>> prints(page, torch.tensor([word_key("Income"), word_key("expense"), -1])).flatten().tolist()
    [True, False, False]
    """
    bit = keys.long().clamp(min=0) % BITS
    byte = present.T[bit // 8]  # (..., P)
    there = (byte >> (bit % 8).to(torch.uint8)[..., None]) & 1
    return there.bool() & (keys >= 0)[..., None]
