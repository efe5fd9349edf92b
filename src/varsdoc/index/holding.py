"""A collection's codes on a device: whether they fit, and taking them there; its first stage there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from varsdoc.index.first_stage import FirstStage
from varsdoc.scoring.device import HELD_AS, SEGMENT_BYTES, DevicePages
from varsdoc.scoring.packed import PackedPages

SPARE = 2 << 30  # bytes of a GPU left to scores, the encoder's activations and the last segment's empty room
FEWEST = 1 << 20  # bytes of a segment on a CPU, where nothing is gained by large ones


class NoRoomError(Exception):
    """The device ran out of memory although there seemed to be room: laid out, shared codes take more than stored."""


def fits(device: str, codec: str, stored: int, held: DevicePages | None) -> bool:
    """Whether so many bytes of codes, those that are there included, fit on the device. On a CPU they do."""
    if torch.device(device).type != "cuda":
        return True
    needed = 2 * stored if codec in HELD_AS else stored
    free, _ = torch.cuda.mem_get_info(torch.device(device))
    # What torch keeps for reuse is free to us as well.
    free += torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return needed + SPARE <= free + (0 if held is None else held.nbytes)


def upload(device: str, held: DevicePages | None, blobs: Sequence[bytes]) -> DevicePages | None:
    """Add pages to those that are there; None as long as there are none at all. Raises NoRoomError."""
    packed = PackedPages.from_blobs(blobs)
    if not len(packed):
        return held
    size = _segment_bytes(device)
    try:
        if held is None:
            return DevicePages.of(packed, device, segment_bytes=size)
        held.extend(packed)
    except torch.cuda.OutOfMemoryError as error:
        raise NoRoomError from error
    return held


def _segment_bytes(device: str) -> int:
    return SEGMENT_BYTES if torch.device(device).type == "cuda" else FEWEST


class HeldSummaries:
    """The first stage of a collection on a device: every summary scored, no lists. Rows are those of the collection."""

    def __init__(self, device: str, dim: int) -> None:
        self.device, self.dim = device, dim
        self.pages = self._none()
        self.full = False  # it has been tried

    def _none(self) -> DevicePages:
        size = _segment_bytes(self.device)
        return DevicePages("int8", variants=1, dim=self.dim, device=self.device, segment_bytes=size)

    def follow(self, stage: FirstStage) -> bool:
        """Take what was added since; False where it does not fit on the device."""
        if len(self.pages) == len(stage) and not self.full:
            return True
        if self.full or not fits(self.device, "int8", stage.shelf_bytes, self.pages):
            self.pages = self._none()
            return False
        scale = torch.tensor(1 / 127, dtype=torch.float16)
        try:
            for row in range(len(self.pages), len(stage)):
                summary = torch.from_numpy(stage.summary(row))
                self.pages.add_codes(summary, scale.expand(len(summary)), len(summary))
        except torch.cuda.OutOfMemoryError:  # although there seemed to be room
            self.pages, self.full = self._none(), True
            return False
        return True

    def search(self, query: np.ndarray, n: int, allowed: np.ndarray) -> np.ndarray:
        """The n allowed rows of the best summaries, rising."""
        rows = None if allowed.all() else np.flatnonzero(allowed)
        return np.sort(self.pages.best(query, n, rows))
