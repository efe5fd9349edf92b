"""A collection's codes on a device: whether they fit, and taking them there."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from varsdoc.errors import ConfigError
from varsdoc.scoring.device import SEGMENT_BYTES, DevicePages
from varsdoc.scoring.packed import PackedPages

SPARE = 2 << 30  # bytes of a GPU left to scores, the encoder's activations and the last segment's empty room
FEWEST = 1 << 20  # bytes of a segment on a CPU, where nothing is gained by large ones


def fits(device: str, needed: int, held: DevicePages | None) -> bool:
    """Whether so many bytes of codes, those that are there included, fit on the device. On a CPU they do."""
    if torch.device(device).type != "cuda":
        return True
    free, _ = torch.cuda.mem_get_info(torch.device(device))
    # What torch keeps for reuse is free to us as well.
    free += torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return needed + SPARE <= free + (0 if held is None else held.nbytes)


def upload(device: str, held: DevicePages | None, blobs: Sequence[bytes]) -> DevicePages | None:
    """Add pages to those that are there; None as long as there are none at all."""
    packed = PackedPages.from_blobs(blobs)
    if not len(packed):
        return held
    size = SEGMENT_BYTES if torch.device(device).type == "cuda" else FEWEST
    try:
        if held is None:
            return DevicePages.of(packed, device, segment_bytes=size)
        held.extend(packed)
    except torch.cuda.OutOfMemoryError as error:
        raise ConfigError(
            f"The codes of this collection do not fit on {device}; open it without hold, or with a smaller codec."
        ) from error
    return held
