"""Every query against every page from cached embeddings, through a codec, a few pages at a time.

One pass yields the score of each variant and the fused score, so max, mean and fused cost no second encoding and no
second pass. Only scores are kept: K=5 on thousands of pages needs queries x pages x K x 4 bytes and one chunk of pages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from varsdoc.errors import ConfigError
from varsdoc.evaluation.cache import Cache, batches
from varsdoc.evaluation.codec_names import open_codec
from varsdoc.evaluation.retrievers.protocol import Vectors

Floats = NDArray[np.float32]
CHUNK = 64
PRODUCTS = 16 * 1024**2  # of query and page tokens at a time, 64 MB
AGGREGATIONS = ("max", "mean", "fused")


@dataclass(frozen=True)
class Scored:
    """Scores of a whole set.

    variants      (Q, P, K); None for a system that has no vectors (BM25)
    fused         (Q, P) every query token takes the best token of all variants
    query_tokens  (Q,)
    page_bytes    (P,) what the codec stores for a page
    """

    fused: Floats
    variants: Floats | None = None
    query_tokens: NDArray[np.int64] | None = None
    page_bytes: NDArray[np.int64] | None = None

    def total(self, aggregation: str = "max") -> Floats:
        """(Q, P) the score that pages are ranked by."""
        if aggregation not in AGGREGATIONS:
            raise ConfigError(f"There is no aggregation {aggregation!r}; use max, mean or fused.")
        if self.variants is None or aggregation == "fused":
            return self.fused
        return self.variants.max(-1) if aggregation == "max" else self.variants.mean(-1, dtype=np.float32)

    @property
    def mean_bytes(self) -> float | None:
        return None if self.page_bytes is None else float(self.page_bytes.mean())


def score_cached(
    queries: Sequence[Vectors],
    cache: Cache,
    space: str,
    keys: Sequence[str],
    codec: str = "float16",
    variants: int | None = None,
    device: str = "cpu",
    done: Callable[[int], None] = lambda count: None,
) -> Scored:
    """Score cached pages.

    codec     pages are packed by it and scored from its codes, as an index would
    variants  only the first so many of each page
    """
    packer = open_codec(codec)
    parts: list[tuple[Floats, Floats]] = []
    sizes: list[int] = []
    score = _on_gpu if device == "cuda" else _on_cpu
    for chunk in batches(keys, CHUNK):
        blobs = _pack(packer, [page[:variants] for page in cache.arrays(space, chunk)])
        sizes.extend(len(blob) for blob in blobs)
        parts.append(score(queries, blobs, packer))
        done(len(chunk))
    return Scored(
        np.concatenate([fused for fused, _ in parts], 1),
        np.concatenate([each for _, each in parts], 1),
        np.array([len(query) for query in queries]),
        np.array(sizes),
    )


def _pack(packer: Any, pages: Sequence[Vectors]) -> list[bytes]:
    """Some codecs take longer than scoring does."""
    from varsdoc.scoring.threads import for_each

    blobs = [b""] * len(pages)

    def work(i: int) -> None:
        blobs[i] = packer.pack(pages[i].astype(np.float32))

    for_each(work, range(len(pages)))
    return blobs


def mean_bytes(cache: Cache, space: str, keys: Sequence[str], codec: str, variants: int) -> float:
    """What a page's first variants take, without scoring them."""
    packer = open_codec(codec)
    chunks = ([page[:variants] for page in cache.arrays(space, chunk)] for chunk in batches(keys, CHUNK))
    return float(np.mean([len(blob) for pages in chunks for blob in _pack(packer, pages)]))


def _on_cpu(queries: Sequence[Vectors], blobs: list[bytes], packer: Any) -> tuple[Floats, Floats]:
    from varsdoc.scoring.packed import PackedPages, score_packed

    if packer.name == "float16":
        return score_floats(queries, [packer.unpack(blob) for blob in blobs])
    scores = score_packed(queries, PackedPages.from_blobs(blobs), aggregation="fused")
    return scores.total.numpy(), scores.variants.numpy()


def score_floats(queries: Sequence[Vectors], pages: Sequence[Floats]) -> tuple[Floats, Floats]:
    """All queries against each page in one product: fused (Q, P) and variants (Q, P, K).

    `score_packed` goes query by query in floats, so that a search's result depends on nothing else; for hundreds of
    queries at a time that leaves most of a processor idle.
    """
    import torch

    lengths = torch.tensor([len(query) for query in queries])
    owner = torch.arange(len(queries)).repeat_interleave(lengths)
    tokens = torch.from_numpy(np.concatenate(queries).astype(np.float32, copy=False))
    fused, each = [], []
    for page in pages:
        k, m, dim = page.shape
        vectors = torch.from_numpy(page).reshape(k * m, dim).T
        rows = max(1, PRODUCTS // (k * m))
        best = torch.cat([(part @ vectors).view(-1, k, m).amax(-1) for part in tokens.split(rows)])  # (tokens, K)
        each.append(torch.zeros(len(queries), k).index_add_(0, owner, best))
        fused.append(torch.zeros(len(queries)).index_add_(0, owner, best.amax(1)))
    return torch.stack(fused, 1).numpy(), torch.stack(each, 1).numpy()


def _on_gpu(queries: Sequence[Vectors], blobs: list[bytes], packer: Any) -> tuple[Floats, Floats]:
    """The codes read back, scored where matrix products are cheap."""
    import torch

    from varsdoc.scoring import score_pages

    pages = [torch.from_numpy(packer.unpack(blob)).cuda() for blob in blobs]
    asked = [torch.from_numpy(query).cuda() for query in queries]
    scores = score_pages(asked, pages, aggregation="fused", memory_budget=4 * 1024**3)
    return scores.total.cpu().numpy(), scores.variants.cpu().numpy()
