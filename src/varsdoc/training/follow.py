"""What one variant learnt in a piece of its own, all variants of the checkpoint that it came from learn too.

A step with one variant takes three fifths of the time of a step with five, and most of what a piece learns is reading,
which the trunk does for all variants. So the trunk moves as it moved in the piece, and every head and probe by as much
as the piece's one moved: variants stay as far apart as they were. Unlike the average of both (average.py) this neither
halves what was learnt nor draws variants together; `share` of it may be taken.
"""

from __future__ import annotations

import re

import torch
from torch import Tensor

from varsdoc.errors import ConfigError
from varsdoc.model import VarsDoc


@torch.no_grad()
def follow(several: VarsDoc, piece: VarsDoc, variant: int = 0, share: float = 1.0) -> VarsDoc:
    """`several` in place, moved by `share` of what `piece` learnt since it was that variant of it."""
    ours, theirs = several.config, piece.config
    if not 0 <= variant < ours.variants or ours.heads != "separate":
        raise ConfigError(f"There is no variant {variant} with a head of its own among {ours.variants}.")
    if theirs.variants != 1 or theirs.probes not in (0, ours.probes_per_variant):
        raise ConfigError(
            "Only a checkpoint with one variant, with a probe like these or without one, can be followed."
        )
    before, after = several.state_dict(), piece.state_dict()
    moved = {name: tensor + share * _learnt(name, before, after, variant) for name, tensor in before.items()}
    several.load_state_dict(moved)
    return several


def _learnt(name: str, before: dict[str, Tensor], after: dict[str, Tensor], variant: int) -> Tensor:
    if name == "probes":
        own, each = after[name], len(after[name])
        if not each:  # nothing was learnt of one
            return torch.zeros_like(before[name])
        learnt = own - before[name][variant * each : (variant + 1) * each]
        return learnt.repeat(len(before[name]) // each, 1)
    old, new = (re.sub(r"^heads\.\d+\.", f"heads.{k}.", name) for k in (variant, 0))
    if new not in after or after[new].shape != before[old].shape:
        raise ConfigError(f"The checkpoints differ in {name}: only a piece that began from this one can be followed.")
    return after[new] - before[old]
