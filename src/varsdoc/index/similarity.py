"""Similarities of one reading of one page: what regions, heatmaps and explanations are made of.

`codecs.similarities` is the plain form, for all variants; here only the vectors that are asked for are unpacked, as a
region is made for every hit of every search. A test holds them equal.
"""

from __future__ import annotations

import numpy as np
import torch

from varsdoc.scoring.blob import Blob
from varsdoc.scoring.codes import decode
from varsdoc.scoring.threads import alone


def variant_similarity(query: np.ndarray, page: Blob, variant: int) -> np.ndarray:
    """(T, cells) of one variant, the prompt's text tokens included."""
    if page.places is None:
        chosen: slice | np.ndarray = slice(variant * page.tokens, (variant + 1) * page.tokens)
    else:
        chosen = page.places[variant]
    scales = None if page.scales is None else page.scales[chosen]
    vectors = decode(page.codec, page.codes[chosen], scales, page.dim)  # (M, D)
    # numpy's BLAS splits even this small product, and on a busy machine its threads wait 9 ms for each other.
    found: np.ndarray = alone(lambda: (torch.from_numpy(query) @ torch.from_numpy(vectors).T).numpy())  # (T, M)
    cells = page.cells_of(variant)
    return found if cells is None else found[:, cells]
