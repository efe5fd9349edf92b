"""The average of checkpoints that share a start: what training's noise moved one way in one and another way in the next
cancels, what all of them learnt stays (Wortsman et al. 2022, "model soups").

One with a single variant takes part in every variant of the others, with its head and, where it has one, its probe.
With `own`, those with another number of variants take part in what variants share alone: a head that takes part in
every variant draws them together, and the mean of a K=5 and two K=1 checkpoints has variants that read almost alike
(docs/log.md, eighth session).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch
from torch import Tensor

from varsdoc.errors import ConfigError
from varsdoc.model import VarsDoc


@torch.no_grad()
def average(models: Sequence[VarsDoc], own: bool = False) -> VarsDoc:
    """The first model with the mean of all weights, in place; with `own`, heads and probes of those like it alone."""
    first = models[0]
    for other in models[1:]:
        if not own and other.config.variants not in (1, first.config.variants):
            raise ConfigError(
                f"A checkpoint with {other.config.variants} variants cannot be averaged with one of "
                f"{first.config.variants}: it must have one variant or as many."
            )
    states = [model.state_dict() for model in models]
    alike = [
        state for model, state in zip(models, states, strict=True) if model.config.variants == first.config.variants
    ]
    mean = {}
    for name, tensor in states[0].items():
        taking_part = alike if own and re.match(r"heads\.|probes$", name) else states
        parts = [_part(state, name, tensor) for state in taking_part if tensor.numel() and _has(state, name)]
        mean[name] = torch.stack(parts).mean(0) if parts else tensor
    first.load_state_dict(mean)
    return first


def _own_name(state: dict[str, Tensor], name: str) -> str:
    return name if name in state else re.sub(r"^heads\.\d+\.", "heads.0.", name)


def _has(state: dict[str, Tensor], name: str) -> bool:
    """A model without a probe has no part in the average of probes."""
    return not (name == "probes" and state["probes"].numel() == 0)


def _part(state: dict[str, Tensor], name: str, like: Tensor) -> Tensor:
    found = state.get(_own_name(state, name))
    if found is None or (found.shape != like.shape and name != "probes"):
        raise ConfigError(f"The checkpoints differ in {name}: only those of one architecture can be averaged.")
    return found.float().expand(like.shape)
