"""Light print on dark paper, for models that have mostly read dark print on light paper.

Slides and screenshots are often dark. `light_paper` of a checkpoint inverts such a page before anything else looks at
it; nothing moves, so regions and heatmaps point where they did. A page is dark where its paper is, which is the median
of its greys: a dark picture or a dark heading on a light page changes nothing.
"""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageOps

DARK = 96  # of 255: paper below it; no page of docvqa-dev or chartqa-dev has such, and 2 of 4,629 training pages
SIDE = 256  # pixels are enough for a median


def on_light_paper(page: Image.Image) -> Image.Image:
    """The page, inverted if its paper is dark.

    >>> on_light_paper(Image.new("RGB", (2, 2), (20, 20, 40))).getpixel((0, 0))
    (235, 235, 215)
    >>> on_light_paper(Image.new("RGB", (2, 2), (200, 180, 160))).getpixel((0, 0))
    (200, 180, 160)
    """
    return ImageOps.invert(page) if paper_grey(page) < DARK else page


def paper_grey(page: Image.Image) -> int:
    """The grey of an RGB page's paper, 0 to 255."""
    return int(np.median(np.asarray(_sample(page).convert("L"))))


def paper_colour(page: Image.Image) -> tuple[int, ...]:
    """Red, green and blue of an RGB page's paper, each the median of its own."""
    return tuple(int(v) for v in np.median(np.asarray(_sample(page)).reshape(-1, 3), 0))


def _sample(page: Image.Image) -> Image.Image:
    return page.resize((min(SIDE, page.width), min(SIDE, page.height)), Image.Resampling.NEAREST)
