"""The vision tower with its windows batched.

transformers runs window attention as a Python loop, one call per window. Here the cells of a batch are sorted so that
windows of one size lie side by side: a block is at most nine attention calls for any mix of page sizes, and usually
one to four. The blocks themselves are the stock ones; only what they attend to is handed in (`PatchGroups`).
Equal to the stock tower within float noise (tests/model/test_vision.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from varsdoc.model.attention import PatchGroups


@dataclass(frozen=True)
class PatchLayout:
    """Where the patches of a batch of pages go, and who attends to whom."""

    order: Tensor  # (cells,) cell order inside the tower: by window size, then by page
    back: Tensor  # (cells,) its inverse
    coordinates: Tensor  # (patches, 2) row and column of each patch, in tower order
    windows: PatchGroups
    pages: PatchGroups


def encode_patches(visual: nn.Module, pixels: Tensor, grids: Sequence[tuple[int, int]], mean: Any, std: Any) -> Tensor:
    """uint8 patches of a batch of pages -> one vector per cell, pages one after the other: (cells, hidden)."""
    config: Any = visual.config
    device = pixels.device
    window = config.window_size // config.spatial_merge_size // config.patch_size
    layout = _layout_on(tuple(grids), config.spatial_merge_size, window, device)
    unit = config.spatial_merge_size**2
    pixels = pixels.view(len(layout.order), unit, -1)[layout.order].flatten(0, 1)
    hidden = _embed(visual, pixels, mean, std)
    rotary = vision_rotary(config, layout.coordinates)
    whole = torch.tensor([0, len(hidden)], dtype=torch.int32)
    blocks: Any = visual.blocks
    for i, block in enumerate(blocks):
        groups = layout.pages if i in config.fullatt_block_indexes else layout.windows
        hidden = block(hidden, cu_seqlens=whole, position_embeddings=rotary, layout=groups)
    merger: Any = visual.merger
    return merger(hidden)[layout.back]


def _embed(visual: Any, pixels: Tensor, mean: Any, std: Any) -> Tensor:
    """The patch convolution as one product. A still image repeats itself in time, so its kernel is summed over time."""
    weight = visual.patch_embed.proj.weight  # (hidden, 3, frames, patch, patch)
    mean, std = (torch.tensor(x, device=pixels.device).view(1, 3, 1) for x in (mean, std))
    values = (pixels.view(len(pixels), 3, -1).float() / 255 - mean) / std
    return F.linear(values.flatten(1).to(weight.dtype), weight.sum(2).flatten(1))


def vision_rotary(config: Any, coordinates: Tensor) -> tuple[Tensor, Tensor]:
    """Axial rotation, as `Qwen2_5_VLVisionRotaryEmbedding`: half of a head turns with the row, half with the column."""
    theta = (getattr(config, "rope_parameters", None) or {}).get("rope_theta", 10000.0)
    width = config.hidden_size // config.num_heads // 2
    speed = 1.0 / (theta ** (torch.arange(0, width, 2, dtype=torch.float, device=coordinates.device) / width))
    angle = (coordinates[:, :, None].float() * speed).flatten(1)
    angle = torch.cat([angle, angle], dim=1)
    return angle.cos(), angle.sin()


@lru_cache(maxsize=8)
def _layout_on(grids: tuple[tuple[int, int], ...], merge: int, window: int, device: torch.device) -> PatchLayout:
    """On the device, where training meets the same few batches of shapes again and again."""
    layout = patch_layout(grids, merge, window)
    pages = tuple((s, c, n, None if i is None else i.to(device)) for s, c, n, i in layout.pages.groups)
    return PatchLayout(
        layout.order.to(device),
        layout.back.to(device),
        layout.coordinates.to(device),
        layout.windows,
        PatchGroups(pages),
    )


def patch_layout(grids: tuple[tuple[int, int], ...], merge: int, window: int) -> PatchLayout:
    """Sort the cells of all pages by the size of their window. `grids` in patches, `window` in cells."""
    unit = merge * merge
    size, key, page_of, coordinates = [], [], [], []
    windows_before = 0
    for page, (rows, cols) in enumerate(grids):
        r, c = rows // merge, cols // merge
        row, col = torch.arange(r).repeat_interleave(c), torch.arange(c).repeat(r)
        window_row, window_col = row // window, col // window
        height = (r - window_row * window).clamp(max=window)
        width = (c - window_col * window).clamp(max=window)
        across = -(-c // window)
        size.append(height * width)
        key.append(windows_before + window_row * across + window_col)
        windows_before += across * -(-r // window)
        page_of.append(torch.full((r * c,), page))
        inner = torch.arange(merge)
        y = (row * merge)[:, None, None] + inner[None, :, None].expand(1, merge, merge)
        x = (col * merge)[:, None, None] + inner[None, None, :].expand(1, merge, merge)
        coordinates.append(torch.stack([y.expand(-1, merge, merge), x.expand(-1, merge, merge)], -1))
    sizes, keys = torch.cat(size), torch.cat(key)
    order = torch.argsort(sizes * windows_before + keys, stable=True)
    back = torch.argsort(order)
    return PatchLayout(
        order=order,
        back=back,
        coordinates=torch.cat(coordinates)[order].flatten(0, 2),
        windows=_window_groups(sizes[order], unit),
        pages=_page_groups(torch.cat(page_of)[order], unit),
    )


def _window_groups(sizes: Tensor, unit: int) -> PatchGroups:
    groups, start = [], 0
    for size, cells in zip(*torch.unique_consecutive(sizes, return_counts=True), strict=True):
        length = int(size) * unit
        groups.append((start, int(cells) // int(size), length, None))
        start += int(cells) * unit
    return PatchGroups(tuple(groups))


def _page_groups(page_of: Tensor, unit: int) -> PatchGroups:
    """Full attention inside a page. One page alone needs no gathering: attention does not mind the keys' order."""
    pages = int(page_of.max()) + 1
    if pages == 1:
        return PatchGroups(((0, 1, len(page_of) * unit, None),))
    patches = (torch.arange(len(page_of))[:, None] * unit + torch.arange(unit)).flatten()
    owner = page_of.repeat_interleave(unit)
    by_length: dict[int, list[Tensor]] = {}
    for page in range(pages):
        index = patches[owner == page]
        by_length.setdefault(len(index), []).append(index)
    return PatchGroups(tuple((0, len(runs), length, torch.cat(runs)) for length, runs in sorted(by_length.items())))
