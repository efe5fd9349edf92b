"""Generated multi-vector pages and questions that behave like real ones, for benchmarks/search_cpu.py.

Nothing here is easy on purpose: what makes first stages fail on real embeddings is put in.
- Every vector shares a common direction (embeddings of one model are never centred) and is contextual: it leans to its
  region, its page's own direction, its document's topics.
- A text cell carries a word: words follow Zipf's law, a word covers one to three neighbouring cells, and the pages of
  one document (eight) draw from the same few dozen words: they are each other's hard negatives.
- A tenth to most of a page is blank cells, near-duplicates of one vector; four cells are the template's, the same on
  every page.
- The K variants of a cell are a base seen through K fixed lenses, by how much varies by region (cosines about .6 to
  .95); in six of ten blank cells and one of ten text cells they agree exactly.
- A question is 2 to 15 noisy copies of cells of one variant of one page, and ten augmentation tokens that lean to it
  and to a generic direction which every page answers about as well.

Set by eye so that the cosines of cells, of neighbours, and the spread of scores over pages resemble those of real
scanned pages under varsdoc-nano's first reading checkpoint (docs/search.md has both). Every page follows from its
number alone, so that nothing has to be kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

DIM = 128
TEMPLATE = 4
PAGES_OF_A_DOCUMENT = 8


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


@dataclass(frozen=True)
class World:
    """What all pages share."""

    seed: int
    variants: int
    tokens: int
    common: np.ndarray  # (D,)
    topics: np.ndarray  # (400, D)
    words: np.ndarray  # (20000, D)
    popularity: np.ndarray  # (20000,) cumulative
    lenses: np.ndarray  # (K, D, D) orthogonal
    template: np.ndarray  # (4, D)
    blank: np.ndarray  # (D,)
    augmentation: np.ndarray  # (10, D)


def make_world(seed: int = 0, variants: int = 5, tokens: int = 256) -> World:
    rng = np.random.default_rng(seed)
    normal = lambda *shape: unit(rng.standard_normal(shape, dtype=np.float32))  # noqa: E731
    common, fields = normal(DIM), normal(24, DIM)
    topics = unit(0.8 * normal(400, DIM) + fields[rng.integers(0, 24, 400)])
    words = unit(0.8 * normal(20_000, DIM) + topics[rng.integers(0, len(topics), 20_000)])
    popularity = np.cumsum(1 / np.arange(1, 20_001) ** 0.9)
    lenses = np.stack([np.linalg.qr(rng.standard_normal((DIM, DIM)))[0] for _ in range(variants)]).astype(np.float32)
    generic = normal(DIM)
    return World(
        seed, variants, tokens, common, topics, words, popularity / popularity[-1], lenses,
        unit(normal(TEMPLATE, DIM) + common), unit(0.6 * normal(DIM) + 0.9 * common),
        unit(0.6 * normal(10, DIM) + generic + 0.6 * common),
    )  # fmt: skip


def make_page(world: World, number: int) -> np.ndarray:
    """(K, M, D) float32 unit vectors."""
    rng = np.random.default_rng([world.seed, 1, number])
    document = np.random.default_rng([world.seed, 2, number // PAGES_OF_A_DOCUMENT])
    topics = world.topics[document.integers(0, len(world.topics), 5)]
    vocabulary = np.searchsorted(world.popularity, document.random(80))
    cells = world.tokens - TEMPLATE
    region, regions = _regions(rng, cells)
    own = unit(rng.standard_normal(DIM, dtype=np.float32))
    context = topics[rng.integers(0, 5, regions)] + 0.5 * own
    context = unit(context + 0.5 * unit(rng.standard_normal((regions, DIM), dtype=np.float32)))
    word = _words(rng, world, vocabulary, cells)
    noise = unit(rng.standard_normal((cells, DIM), dtype=np.float32))
    noise = unit(noise + 0.8 * np.roll(noise, 1, axis=0) + 0.5 * np.roll(noise, 2, axis=0))
    legible = rng.uniform(0.4, 1.0)  # handwriting, faint scans and pictures carry less of their words
    text = unit(0.4 * world.common + 1.0 * context[region] + legible * world.words[word] + 0.3 * noise)
    blank = _blank(rng, cells)
    base = np.where(blank[:, None], unit(world.blank + 0.2 * noise + 0.2 * own), text)
    base = np.concatenate([unit(world.template + 0.05 * noise[:TEMPLATE]), base])
    return _variants(rng, world, base, blank, rng.uniform(0.25, 0.8, regions)[region])


def _regions(rng: np.random.Generator, cells: int) -> tuple[np.ndarray, int]:
    """Cells in reading order, cut into runs: paragraphs, table rows, figures."""
    count = int(rng.integers(4, 14))
    cuts = np.sort(rng.integers(0, cells, count - 1))
    return np.searchsorted(cuts, np.arange(cells), side="right"), count


def _words(rng: np.random.Generator, world: World, vocabulary: np.ndarray, cells: int) -> np.ndarray:
    own = rng.random(cells) < 0.7
    drawn = np.where(own, rng.choice(vocabulary, cells), np.searchsorted(world.popularity, rng.random(cells)))
    lengths = rng.integers(1, 4, cells)
    return np.repeat(drawn, lengths)[:cells]


def _blank(rng: np.random.Generator, cells: int) -> np.ndarray:
    """Runs of blank cells that cover a fifth to a half."""
    field = np.convolve(rng.standard_normal(cells + 8), np.ones(9) / 9, mode="valid")
    return field < np.quantile(field, rng.uniform(0.1, 0.85))


def _variants(
    rng: np.random.Generator, world: World, base: np.ndarray, blank: np.ndarray, apart: np.ndarray
) -> np.ndarray:
    m = len(base)
    strength = np.concatenate([np.full(TEMPLATE, 0.1), np.where(blank, 0.3, apart)]).astype(np.float32)
    agree = rng.random(m) < np.concatenate([np.ones(TEMPLATE), np.where(blank, 0.6, 0.1)])
    out = np.empty((world.variants, m, DIM), np.float32)
    for k, lens in enumerate(world.lenses):
        seen = base @ lens + 0.2 * unit(rng.standard_normal((m, DIM), dtype=np.float32))
        out[k] = unit(base + strength[:, None] * seen)
    out[:, agree] = base[agree]
    return out


def make_query(world: World, number: int, pages: int) -> tuple[np.ndarray, int]:
    """A question (T, D) and the page it was made from."""
    rng = np.random.default_rng([world.seed, 3, number])
    target = int(rng.integers(0, pages))
    page = make_page(world, target)
    variant = page[rng.integers(0, world.variants)]
    text = np.flatnonzero(variant @ world.blank < 0.6)
    text = text[text >= TEMPLATE]
    start = int(rng.integers(0, len(text)))
    near = text[max(0, start - 20) : start + 20]  # a question is about one place of the page
    content = variant[rng.choice(near, int(rng.integers(2, 16)))]
    spread = rng.uniform(0.4, 1.1, (len(content), 1)).astype(np.float32)
    content = unit(content + spread * unit(rng.standard_normal(content.shape, dtype=np.float32)))
    generic = 0.5 * world.augmentation + content[rng.integers(0, len(content), 10)]
    generic = unit(generic + 0.3 * unit(rng.standard_normal(generic.shape, dtype=np.float32)))
    return np.concatenate([content, generic]).astype(np.float32), target
