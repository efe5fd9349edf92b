"""Upright RGB page -> the patches that the vision tower reads, equal to transformers' `Qwen2VLImageProcessorPil`.

Two choices differ from the stock processor in form, never in value:
- patches stay uint8 until they are on the device, and
- the second, identical "frame" of a still image is not stored: the tower adds the two halves of its kernel instead.
A page of 1,000 cells then travels as 2.4 MB rather than 19 MB. `pixel_values` gives the stock form back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from PIL import Image

from varsdoc.model.config import VarsConfig


@dataclass(frozen=True)
class Patches:
    """One page, cut up: `pixels` (rows * cols, 3 * patch * patch) uint8 in the tower's order, four patches a cell.

    levelled  of the cells below the page (model.levelling): the page's cell that each repeats, or -1
    turns     quarter turns, anticlockwise, that the page was given before it was cut (model.orientation)
    others    the same page otherwise turned; whoever encodes it keeps what the model reads best
    """

    pixels: np.ndarray
    rows: int
    cols: int
    levelled: tuple[int, ...] = ()
    turns: int = 0
    others: tuple[Patches, ...] = ()

    def grid(self, merge: int) -> tuple[int, int]:
        """Rows and columns of the page's own cells, as the page came."""
        rows, cols = self._cut_grid(merge)
        return (cols, rows) if self.turns % 2 else (rows, cols)

    def order(self, merge: int) -> np.ndarray:
        """Row by row of the page as it came: which of the cells stands there."""
        rows, cols = self._cut_grid(merge)
        return np.ascontiguousarray(np.rot90(np.arange(rows * cols).reshape(rows, cols), -self.turns)).reshape(-1)

    def _cut_grid(self, merge: int) -> tuple[int, int]:
        cols = self.cols // merge
        return self.rows // merge - len(self.levelled) // cols, cols


def target_size(height: int, width: int, factor: int, min_pixels: int, max_pixels: int) -> tuple[int, int]:
    """Qwen's `smart_resize`: both sides multiples of `factor`, the area within bounds, the shape nearly kept.

    >>> target_size(1000, 773, 28, 4 * 28 * 28, 768 * 28 * 28)
    (868, 672)
    >>> target_size(1, 1, 28, 4 * 28 * 28, 768 * 28 * 28)
    (56, 56)
    """
    rows, cols = round(height / factor), round(width / factor)
    if rows * cols * factor * factor > max_pixels:
        shrink = math.sqrt(height * width / max_pixels)
        rows = max(1, math.floor(height / shrink / factor))
        cols = max(1, math.floor(width / shrink / factor))
    elif rows * cols * factor * factor < min_pixels:
        grow = math.sqrt(min_pixels / (height * width))
        rows, cols = math.ceil(height * grow / factor), math.ceil(width * grow / factor)
    return rows * factor, cols * factor


def cut(image: Image.Image, config: VarsConfig) -> Patches:
    """Scale an upright RGB page to whole cells and cut it into patches."""
    return patches_of(in_cells(image, config), config)


def in_cells(image: Image.Image, config: VarsConfig) -> Image.Image:
    """The page, scaled to whole cells."""
    cell = config.cell_size
    area = cell * cell
    size = target_size(
        image.height, image.width, cell, config.min_visual_tokens * area, config.max_visual_tokens * area
    )
    return scaled(image, size)


def scaled(image: Image.Image, size: tuple[int, int]) -> Image.Image:
    """To a height and width."""
    height, width = size
    return image if image.size == (width, height) else image.resize((width, height), Image.Resampling.BICUBIC)


def patches_of(image: Image.Image, config: VarsConfig) -> Patches:
    """The patches of a picture of whole cells."""
    patch, merge = config.patch_size, config.merge_size
    rows, cols = image.height // patch, image.width // patch
    pixels = np.asarray(image).reshape(rows // merge, merge, patch, cols // merge, merge, patch, 3)
    pixels = pixels.transpose(0, 3, 1, 4, 6, 2, 5)  # (cell row, cell col, row in cell, col in cell, channel, y, x)
    return Patches(np.ascontiguousarray(pixels).reshape(rows * cols, 3 * patch * patch), rows, cols)


def pixel_values(patches: Patches, config: VarsConfig) -> np.ndarray:
    """The stock processor's float32 array (patches, channel * frame * y * x), for comparison and for stock towers."""
    table = (np.arange(256, dtype=np.float64) / 255).astype(np.float32)
    mean, std = (np.array(x, dtype=np.float32) for x in (config.image_mean, config.image_std))
    pixels = patches.pixels.reshape(len(patches.pixels), 3, 1, -1)
    values = (table[pixels] - mean[:, None, None]) / std[:, None, None]
    frames = int(config.backbone.vision_config.temporal_patch_size)
    return np.repeat(values, frames, axis=2).reshape(len(values), -1)
