"""Real pages and questions in the shapes of the reading stage: contrast teaches them, their words are not known."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from varsdoc.image import ImageLike, read_image
from varsdoc.model.config import VarsConfig
from varsdoc.training.judge import read_judged
from varsdoc.training.reading.pages import QUERIES, Chunk, cut_to_shape, nearest_shape
from varsdoc.training.reading.targets import CELLS, TOKENS, tokenise
from varsdoc.training.sources import page_image


def real_pages(folder: str, config: VarsConfig, tokenizer: Tokenizer, workers: int) -> Iterator[Chunk]:
    """Every page of a judged folder that has a question, one page a chunk."""
    judged = read_judged(folder)
    asked: dict[int, list[str]] = {}
    for text, grades in zip(judged.queries, judged.grades, strict=True):
        for page in grades:
            asked.setdefault(page, []).append(text)
    images = [page_image(judged.folder, judged.pages[i]) for i in asked]
    with ThreadPoolExecutor(max(1, workers)) as pool:  # decoding and scaling leave the interpreter free
        cut = pool.map(partial(_cut, config=config), images)
        for (shape, pixels), (page, texts) in zip(cut, asked.items(), strict=True):
            ids = np.stack([tokenise(tokenizer, texts[q % len(texts)], config)[0] for q in range(QUERIES)])[None]
            key = hashlib.sha256(f"{Path(folder).name}/{page}".encode()).digest()[:7]
            targets = np.full((1, QUERIES, TOKENS, CELLS), -1, dtype=np.int16)
            yield Chunk(shape, pixels[None], ids, targets, np.array([int.from_bytes(key, "big")]))


def _cut(image: ImageLike, config: VarsConfig) -> tuple[int, np.ndarray]:
    page = read_image(image)
    shape = nearest_shape(page.height, page.width)
    return shape, cut_to_shape(page, shape, config)
