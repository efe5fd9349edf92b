"""A collection of a few pages on disk, with the tiny checkpoint that its encoder is loaded from."""

from __future__ import annotations

from pathlib import Path

import tiny
from index.papers import pdf, tiff
from varsdoc import Index

WORDS = ["valve pressure manual", "travel expense claim", "annual revenue growth"]


def make_collection(place: Path) -> Path:
    """`place`/papers with words.pdf (three pages with text) and squares.tiff (two without), indexed."""
    model = tiny.model(variants=3, max_visual_tokens=24)
    model.reconfigure(model.config.with_(trained=True))  # random, but not to be warned about
    model.save_pretrained(place / "model")
    pdf(place / "papers" / "words.pdf", WORDS)
    tiff(place / "papers" / "squares.tiff", [1, 2])
    index = Index.open(place / "index", place / "model", codec="int4")  # a dozen cells: pooled, nothing is left
    assert index.add(place / "papers", metadata={"year": 2021}).added == 5
    return place / "index"
