"""Where benchmarks/search_cpu.py gets its pages: generated, from a file of embeddings, or encoded from a judged folder.

A file of embeddings is an .npz: `vectors` (all, D) float16, page after page, variant after variant; `tokens` (P,),
vectors of each variant; `variants` ();  `queries` (all, D), `query_tokens` (Q,).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


def from_file(path: Path) -> Source:
    read = np.load(path)
    k, tokens = int(read["variants"]), read["tokens"]
    vectors, starts = read["vectors"], np.concatenate([[0], np.cumsum(tokens.astype(np.int64) * k)])
    queries = np.split(read["queries"].astype(np.float32), np.cumsum(read["query_tokens"])[:-1])
    order = np.random.default_rng(0).permutation(len(queries))

    def page(number: int) -> np.ndarray:
        flat = vectors[starts[number] : starts[number + 1]].astype(np.float32)
        flat /= np.linalg.norm(flat, axis=-1, keepdims=True)
        return flat.reshape(k, -1, flat.shape[-1])

    return Source(f"embeddings of {path.name}", len(tokens), page, lambda n, _: [queries[i] for i in order[:n]])


def encode(folder: Path, model: str | None, save: Path, batch: int = 4) -> Path:
    """Encode a judged folder's pages and queries into a file of embeddings."""
    from varsdoc.model import VarsDoc

    encoder = VarsDoc.from_pretrained(model, dtype="int8") if model else VarsDoc.from_pretrained(dtype="int8")
    vectors, tokens, variants, held = [], [], 1, []

    def flush() -> None:
        nonlocal variants
        for each in encoder.encode_pages(held):
            variants = each.variants.shape[0]
            tokens.append(each.variants.shape[1])
            vectors.append(each.variants.float().numpy().astype(np.float16).reshape(-1, each.variants.shape[-1]))
        held.clear()

    for image in _images(folder):
        held.append(image)
        if len(held) == batch:
            flush()
    if held:
        flush()
    texts = [json.loads(line)["text"] for line in (folder / "queries.jsonl").read_text().splitlines() if line.strip()]
    queries = [each.float().numpy().astype(np.float16) for each in encoder.encode_queries(texts)]
    np.savez(
        save, vectors=np.concatenate(vectors), tokens=np.array(tokens), variants=np.array(variants),
        queries=np.concatenate(queries), query_tokens=np.array([len(each) for each in queries]),
    )  # fmt: skip
    return save


def _images(folder: Path) -> Iterator[Any]:
    from PIL import Image

    for line in (folder / "corpus.jsonl").read_text().splitlines():
        if not line.strip():
            continue
        entry = json.loads(line)
        if "image" in entry:
            yield Image.open(folder / entry["image"]).convert("RGB")
        else:
            import pypdfium2

            document = pypdfium2.PdfDocument(folder / entry["pdf"])
            yield document[entry["page"]].render(scale=2).to_pil().convert("RGB")
            document.close()
