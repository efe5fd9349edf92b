"""A page of light print on dark paper is read as the same page on light paper."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw, ImageOps

import tiny
from varsdoc.errors import ConfigError
from varsdoc.model import VarsConfig, VarsDoc
from varsdoc.model.paper import on_light_paper, paper_grey


def slide(paper: str = "white", ink: str = "black") -> Image.Image:
    page = Image.new("RGB", (280, 196), paper)
    draw = ImageDraw.Draw(page)
    for y in range(20, 180, 24):
        draw.text((20, y), "Revenue by region and quarter", ink)
    return page


def test_a_dark_slide_has_the_embeddings_of_its_inverse_and_a_light_one_its_own() -> None:
    plain, reading = tiny.model(2, 2), tiny.model(2, 2, light_paper=True)
    reading.load_state_dict(plain.state_dict())
    dark = slide("#101830", "#f0e090")
    light = slide()
    (expected,) = plain.encode_pages([ImageOps.invert(dark)], progress=False)
    (found,) = reading.encode_pages([dark], progress=False)
    assert torch.equal(found.variants, expected.variants)
    assert not torch.equal(found.variants, plain.encode_pages([dark], progress=False)[0].variants)
    assert torch.equal(
        reading.encode_pages([light], progress=False)[0].variants,
        plain.encode_pages([light], progress=False)[0].variants,
    )


def test_a_dark_picture_or_heading_on_a_light_page_changes_nothing() -> None:
    page = slide()
    page.paste((10, 10, 10), (0, 0, 280, 90))  # 45 % of it
    assert on_light_paper(page) is page


@pytest.mark.parametrize("size", [(1, 1), (3000, 2), (2, 3000)])
def test_any_size_has_a_paper(size: tuple[int, int]) -> None:
    assert paper_grey(Image.new("RGB", size, (7, 7, 7))) == 7
    assert on_light_paper(Image.new("RGB", size, (7, 7, 7))).size == size


def test_grey_paper_is_not_dark() -> None:
    assert np.array_equal(on_light_paper(slide("#707070", "white")), slide("#707070", "white"))


def test_the_setting_is_saved_and_its_absence_leaves_the_hash_of_before(tmp_path: Path) -> None:
    without = tiny.model(2, 2)
    assert "light_paper" not in without.config.settings()
    reading = tiny.model(2, 2, light_paper=True)
    reading.load_state_dict(without.state_dict())
    assert reading.checkpoint_hash != without.checkpoint_hash
    reading.save_pretrained(tmp_path / "one")
    with pytest.warns(UserWarning, match="untrained"):
        assert VarsDoc.from_pretrained(tmp_path / "one", device="cpu").config.light_paper
    with pytest.raises(ConfigError, match="light_paper must be true or false"):
        VarsConfig(tiny.backbone_config(), light_paper=1)  # type: ignore[arg-type]


def test_the_packaged_checkpoint_has_it() -> None:
    assert VarsDoc.from_pretrained(device="cpu").config.light_paper
