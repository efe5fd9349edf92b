"""Where benchmarks/search_cpu.py gets its pages: generated, or judged folders' from the cache of `varsdoc eval`.

Judged folders are put together into one collection; their questions are asked of all pages. Nothing is repeated or made
up to get more of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from search_data import make_page, make_query, make_world


@dataclass(frozen=True)
class Source:
    """Pages by number, and questions about the first n of them."""

    name: str
    pages: int
    page: Callable[[int], np.ndarray]  # number -> (K, M, D) float32
    queries: Callable[[int, int], list[np.ndarray]]  # how many, about the first n pages


def generated(pages: int, variants: int, tokens: int, seed: int) -> Source:
    world = make_world(seed, variants, tokens)
    return Source(
        f"generated (benchmarks/search_data.py, seed {seed})",
        pages,
        lambda number: make_page(world, number),
        lambda count, among: [make_query(world, i, among)[0] for i in range(count)],
    )


def judged(
    folders: list[Path], queries: str | None, cache: Path | None, model: str | None, limit: int | None
) -> Source:
    """Pages and questions of judged folders; what the cache lacks is encoded, seconds a page."""
    from varsdoc.evaluation.cache import Cache
    from varsdoc.evaluation.evaluate import encode_pages, encode_queries
    from varsdoc.evaluation.judged import read_folder
    from varsdoc.evaluation.retrievers.ours import VarsDocRetriever

    retriever, kept = VarsDocRetriever(model, device="cpu"), Cache(cache)
    space, keys, asked = retriever.identity.space, [], []
    for folder in folders:
        found = read_folder(folder, queries)
        found = found if limit is None else found.limited(limit)
        keys += encode_pages(retriever, found, kept)
        asked += encode_queries(retriever, [query.text for query in found.queries], kept)
    keys = list(dict.fromkeys(keys))  # a picture that two folders hold is one page
    order = np.random.default_rng(0).permutation(len(asked))

    def page(number: int) -> np.ndarray:
        vectors = next(iter(kept.arrays(space, [keys[number]]))).astype(np.float32)
        return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)

    name = f"{' and '.join(folder.name for folder in folders)}, encoded by {retriever.identity.name}"
    return Source(name, len(keys), page, lambda count, _: [asked[i] for i in order[:count]])
