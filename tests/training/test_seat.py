"""A variant that was trained alone among several."""

from __future__ import annotations

import pytest
import torch

import tiny
from varsdoc.errors import ConfigError
from varsdoc.model import VarsDoc
from varsdoc.training.seat import seat


def moved(variants: int, branch_layers: int, seed: int) -> VarsDoc:
    model = tiny.model(variants, branch_layers)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for head in model.heads:
            for parameter in head.parameters():
                parameter.add_(torch.randn(parameter.shape, generator=generator))
        model.probes.add_(torch.randn(model.probes.shape, generator=generator))
    return model


@pytest.mark.parametrize("instead_of", [0, 1, 2])
def test_it_stands_first_and_the_others_keep_their_order(instead_of: int) -> None:
    several, single = moved(3, 2, 1), moved(1, 2, 2)
    heads = [head.weight.clone() for head in several.heads]
    probes = several.probes.clone()
    kept = [k for k in range(3) if k != instead_of]
    seat(several, single, instead_of)
    for head, wanted in zip(several.heads, [single.head(0).weight, *(heads[k] for k in kept)], strict=True):
        assert torch.equal(head.weight, wanted)
    assert torch.equal(several.probes, torch.cat([single.probes, probes[kept]]))


def test_its_vectors_are_those_it_had_alone() -> None:
    from PIL import Image

    several, single = moved(3, 2, 1), moved(1, 2, 2)
    single.backbone.load_state_dict(several.backbone.state_dict())
    page = Image.effect_noise((84, 84), 80).convert("RGB")
    [alone] = single.encode_pages([page])
    [among] = seat(several, single, 1).encode_pages([page])
    torch.testing.assert_close(among.variants[0], alone.variants[0], atol=1e-5, rtol=0)


def test_what_cannot_be_seated_is_refused() -> None:
    with pytest.raises(ConfigError, match="no variant 3"):
        seat(moved(3, 2, 1), moved(1, 2, 2), 3)
    with pytest.raises(ConfigError, match="branched layers"):
        seat(moved(3, 2, 1), moved(1, 0, 2), 1)
