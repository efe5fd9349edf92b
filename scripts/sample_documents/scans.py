"""What a scanner does to a page: skew, grey paper, noise, a soft lens. Seeded, so each run gives the same picture."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageFilter


def scanned(page: Image.Image, seed: int, skew: float, noise: float = 5.0, paper: int = 243) -> Image.Image:
    """A grey scan of a page, turned by `skew` degrees."""
    turned = page.convert("L").rotate(skew, Image.Resampling.BICUBIC, fillcolor=255)
    soft = np.asarray(turned.filter(ImageFilter.GaussianBlur(0.45)), np.float32) * (paper / 255)
    rng = np.random.default_rng(seed)
    height, width = soft.shape
    shade = np.linspace(0, -9, width, dtype=np.float32)[None] + np.linspace(3, -3, height, dtype=np.float32)[:, None]
    grain = rng.normal(0, noise, soft.shape).astype(np.float32)
    return Image.fromarray(np.clip(soft + shade + grain, 0, 255).astype(np.uint8))
