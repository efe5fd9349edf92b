"""A variant that never wins gives its place to one that was trained alone.

Among variants trained together some fall behind and win no query (docs/log.md, ninth and tenth session), while the one
variant of a K=1 checkpoint on the same trunk reads better than any of them. It becomes the first.
"""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import nn

from varsdoc.errors import ConfigError
from varsdoc.model import VarsDoc


@torch.no_grad()
def seat(several: VarsDoc, single: VarsDoc, instead_of: int) -> VarsDoc:
    """`several` in place, with the head and probe of `single` first and without its variant number `instead_of`."""
    ours, theirs = several.config, single.config
    if ours.heads != "separate" or not 0 <= instead_of < ours.variants:
        raise ConfigError(f"There is no variant {instead_of} with a head of its own among {ours.variants}.")
    if theirs.variants != 1 or (theirs.branch_layers, theirs.probes_per_variant) != (
        ours.branch_layers,
        ours.probes_per_variant,
    ):
        raise ConfigError("Only the one variant of a K=1 checkpoint with as many branched layers can take a place.")
    kept = [k for k in range(ours.variants) if k != instead_of]
    several.heads = nn.ModuleList([deepcopy(single.head(0)), *(several.heads[k] for k in kept)])
    if ours.probes:
        probes = several.probes.unflatten(0, (ours.variants, -1))[kept]
        several.probes.copy_(torch.cat([single.probes, probes.flatten(0, 1)]))
    several.fast = None
    return several
