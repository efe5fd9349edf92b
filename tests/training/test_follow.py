"""All variants learn what one of them learnt alone."""

from __future__ import annotations

import pytest
import torch
from PIL import Image

import tiny
from tiny import moved
from varsdoc.errors import ConfigError
from varsdoc.model import VarsDoc
from varsdoc.training.follow import follow
from varsdoc.training.reading.start import keep_variant


def begun(variant: int, probe: bool = True) -> VarsDoc:
    """A piece of its own, as it begins."""
    piece = moved(tiny.model(3, 2), 1)
    keep_variant(piece, variant, probe)
    return piece


def test_the_first_variant_becomes_what_it_was_in_its_piece() -> None:
    """The first alone: a later probe sees the probes before it, which are not there when it stands alone."""
    several, piece = moved(tiny.model(3, 2), 1), moved(begun(0), 2, 0.1)
    page = Image.effect_noise((84, 84), 80).convert("RGB")
    [alone] = piece.encode_pages([page])
    [together] = follow(several, piece).encode_pages([page])
    torch.testing.assert_close(together.variants[0], alone.variants[0], atol=1e-5, rtol=0)


def test_the_others_move_as_far_and_stay_as_far_apart() -> None:
    before, several, piece = (moved(tiny.model(3, 2), 1) for _ in range(3))
    keep_variant(piece, 1, probe=True)
    moved(piece, 2, 0.1)
    follow(several, piece, 1, share=0.5)
    learnt = piece.head(0).weight - before.head(1).weight
    for k in range(3):
        torch.testing.assert_close(several.head(k).weight, before.head(k).weight + 0.5 * learnt)
        torch.testing.assert_close(several.probes[k] - several.probes[1], before.probes[k] - before.probes[1])


def test_nothing_learnt_changes_nothing() -> None:
    several, before = (moved(tiny.model(3, 2), 1) for _ in range(2))
    for name, tensor in follow(several, begun(1), 1).state_dict().items():
        torch.testing.assert_close(tensor, before.state_dict()[name], rtol=0, atol=0)


def test_a_piece_without_a_probe_leaves_the_probes() -> None:
    several, before = (moved(tiny.model(3, 2), 1) for _ in range(2))
    follow(several, moved(begun(0, probe=False), 2), 0)
    assert torch.equal(several.probes, before.probes)
    assert not torch.equal(several.head(0).weight, before.head(0).weight)


def test_what_cannot_be_followed_is_refused() -> None:
    with pytest.raises(ConfigError, match="no variant 3"):
        follow(tiny.model(3, 2), tiny.model(1, 2), 3)
    with pytest.raises(ConfigError, match="one variant"):
        follow(tiny.model(3, 2), tiny.model(2, 2))
    other = tiny.model(1, 2)
    other.heads[0] = torch.nn.Linear(3, 4)
    with pytest.raises(ConfigError, match=r"differ in heads\.0\.weight"):
        follow(tiny.model(3, 2), other)
