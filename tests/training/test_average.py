"""Averages of checkpoints."""

from __future__ import annotations

import pytest
import torch

import tiny
from varsdoc.errors import ConfigError
from varsdoc.model import VarsDoc
from varsdoc.training.average import average


def moved(variants: int, branch_layers: int, seed: int) -> VarsDoc:
    return tiny.moved(tiny.model(variants, branch_layers), seed)


def state(model: VarsDoc) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def test_the_average_of_two_is_halfway() -> None:
    one, two = moved(3, 2, 1), moved(3, 2, 2)
    before = state(one)
    for name, tensor in average([one, two]).state_dict().items():
        torch.testing.assert_close(tensor, (before[name] + two.state_dict()[name]) / 2)


@pytest.mark.parametrize("branch_layers", [0, 2])
def test_a_single_variant_takes_part_in_every_variant(branch_layers: int) -> None:
    several, single = moved(3, 2, 1), moved(1, branch_layers, 2)
    before, other = state(several), state(single)
    mean = average([several, single]).state_dict()
    for k in range(3):
        wanted = (before[f"heads.{k}.weight"] + other["heads.0.weight"]) / 2
        torch.testing.assert_close(mean[f"heads.{k}.weight"], wanted)
        probe = (before["probes"][k] + other["probes"][0]) / 2 if branch_layers else before["probes"][k]
        torch.testing.assert_close(mean["probes"][k], probe)


def test_variants_may_keep_their_own_heads_and_probes() -> None:
    several, again, single = moved(3, 2, 1), moved(3, 2, 2), moved(1, 2, 3)
    states = [state(model) for model in (several, again, single)]
    mean = average([several, again, single], own=True).state_dict()
    for name in ("heads.0.weight", "heads.2.weight", "probes"):
        torch.testing.assert_close(mean[name], (states[0][name] + states[1][name]) / 2)
    name = "backbone.language_model.norm.weight"
    torch.testing.assert_close(mean[name], sum(state[name] for state in states) / 3)


@pytest.mark.parametrize("branch_layers", [0, 2])
def test_a_single_variant_may_take_the_trunk_of_several(branch_layers: int) -> None:
    first, second, several = moved(1, branch_layers, 1), moved(1, 2 - branch_layers, 2), moved(3, 2, 3)
    states = [state(model) for model in (first, second, several)]
    mean = average([first, second, several], own=True).state_dict()
    torch.testing.assert_close(mean["heads.0.weight"], (states[0]["heads.0.weight"] + states[1]["heads.0.weight"]) / 2)
    torch.testing.assert_close(mean["probes"], states[0]["probes"])  # the second has none, or the first has none
    name = "backbone.language_model.norm.weight"
    torch.testing.assert_close(mean[name], sum(state[name] for state in states) / 3)


def test_other_variants_and_other_sizes_are_refused() -> None:
    with pytest.raises(ConfigError, match="one variant or as many"):
        average([tiny.model(3, 2), tiny.model(2, 2)])
    one, two = tiny.model(1, 0), tiny.model(1, 0)
    two.heads[0] = torch.nn.Linear(3, 4)
    with pytest.raises(ConfigError, match=r"differ in heads\.0\.weight"):
        average([one, two])
