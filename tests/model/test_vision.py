"""The vision tower with batched windows against the stock one."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tiny
from varsdoc.model.patches import pixel_values
from varsdoc.model.vision import encode_patches, patch_layout

SIZES = {
    "one page": ((140, 224),),
    "two alike": ((280, 140), (280, 140)),
    "mixed, partial windows": ((140, 224), (280, 140), (84, 84), (56, 308), (112, 112)),
    "one cell row": ((28, 280),),
}


@pytest.mark.parametrize("name", SIZES)
def test_equals_the_stock_tower(name: str) -> None:
    model = tiny.model()
    pages = [model.processor.page(tiny.page(h, w, i)) for i, (h, w) in enumerate(SIZES[name])]
    batch = model.processor.pages(pages)
    visual = model.backbone.visual
    values = torch.from_numpy(np.concatenate([pixel_values(page, model.config) for page in pages]))
    grids = torch.tensor([(1, page.rows, page.cols) for page in pages])
    with torch.no_grad():
        ours = encode_patches(visual, batch.pixels, batch.grids, model.config.image_mean, model.config.image_std)
        stock = tiny.stock_copy(model).visual(values, grid_thw=grids).pooler_output
    assert len(ours) == len(batch.pixels) // 4
    torch.testing.assert_close(ours, stock, atol=1e-5, rtol=1e-5)


def test_gradients_equal_the_stock_tower() -> None:
    model = tiny.model()
    pages = [model.processor.page(tiny.page(h, w, i)) for i, (h, w) in enumerate(SIZES["mixed, partial windows"])]
    batch = model.processor.pages(pages)
    stock = tiny.stock_copy(model)
    values = torch.from_numpy(np.concatenate([pixel_values(page, model.config) for page in pages]))
    grids = torch.tensor([(1, page.rows, page.cols) for page in pages])
    visual = model.backbone.visual
    encode_patches(
        visual, batch.pixels, batch.grids, model.config.image_mean, model.config.image_std
    ).square().sum().backward()
    stock.visual(values, grid_thw=grids).pooler_output.square().sum().backward()
    for (name, ours), theirs in zip(visual.named_parameters(), stock.visual.parameters(), strict=True):
        assert ours.grad is not None
        assert theirs.grad is not None
        scale = theirs.grad.abs().max().clamp(min=1e-3)
        torch.testing.assert_close(ours.grad / scale, theirs.grad / scale, atol=1e-4, rtol=0, msg=name)


def test_windows_of_one_size_share_a_call_whatever_the_mix_of_pages() -> None:
    layout = patch_layout(((10, 16), (20, 10), (6, 6), (4, 22)), merge=2, window=4)
    lengths = [length for _, _, length, _ in layout.windows.groups]
    assert len(lengths) == len(set(lengths)) <= 9
    covered = sum(count * length for _, count, length, _ in layout.windows.groups)
    assert covered == sum(rows * cols for rows, cols in ((10, 16), (20, 10), (6, 6), (4, 22)))
    assert torch.equal(layout.order[layout.back], torch.arange(len(layout.order)))
