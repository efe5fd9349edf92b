"""Similarities as a picture over the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from PIL import Image

# Dark blue, magenta, orange, yellow: ordered in brightness too, so it reads without colour.
_COLOURS = np.array([[13, 8, 135], [156, 23, 158], [237, 121, 83], [240, 249, 33]], np.float32)
_STRENGTH = 0.65


def scaled(cells: np.ndarray) -> np.ndarray:
    """(rows, cols) to 0..1: 0 at the page's median, 1 at its peak.

    >>> scaled(np.array([[0.25, 0.25, 0.25], [0.25, 0.5, 0.75]])).tolist()
    [[0.0, 0.0, 0.0], [0.0, 0.5, 1.0]]
    """
    background = float(np.median(cells))
    height = float(cells.max()) - background
    return np.clip((cells - background) / height, 0, 1) if height > 1e-9 else np.zeros_like(cells)


def overlay(page: Image.Image, cells: np.ndarray) -> Image.Image:
    """The page with a map (rows, cols) in 0..1 over it; where the map is 0 the page shows unchanged."""
    from PIL import Image

    flat = Image.fromarray((np.clip(cells, 0, 1) * 255).astype(np.uint8))
    smooth = np.asarray(flat.resize(page.size, Image.Resampling.BICUBIC), np.float32)[..., None] / 255  # (H, W, 1)
    paper = np.asarray(page.convert("RGB"), np.float32)
    mixed = paper + (_colours(smooth[..., 0]) - paper) * smooth * _STRENGTH
    return Image.fromarray(mixed.round().clip(0, 255).astype(np.uint8))


def tinted(cells: np.ndarray, size: tuple[int, int]) -> Image.Image:
    """The map alone, as wide and high as told: colours whose opacity is what `overlay` mixes in; 0 is clear."""
    from PIL import Image

    flat = Image.fromarray((np.clip(cells, 0, 1) * 255).astype(np.uint8))
    smooth = np.asarray(flat.resize(size, Image.Resampling.BICUBIC), np.float32) / 255  # (H, W)
    colours = np.concatenate([_colours(smooth), 255 * smooth[..., None] * _STRENGTH], -1)  # (H, W, 4)
    return Image.fromarray(colours.round().clip(0, 255).astype(np.uint8))


def _colours(values: np.ndarray) -> np.ndarray:
    """(H, W) in 0..1 to RGB, by straight lines between the stops."""
    stops = np.linspace(0, 1, len(_COLOURS))
    return np.stack([np.interp(values, stops, _COLOURS[:, channel]) for channel in range(3)], -1).astype(np.float32)
