"""What a reader sees: the latest commit, kept and brought up to date before each use."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from varsdoc.index.store import Store, is_store_error

if TYPE_CHECKING:
    import numpy as np

    from varsdoc.index.snapshot import Snapshot

T = TypeVar("T")


class View:
    """One thread at a time works on it; those that waited share what the first one looked up."""

    def __init__(self, store: Store, memory: int, lists: bool, hold: str | None) -> None:
        self._store, self._memory, self._lists, self._hold = store, memory, lists, hold
        self.snapshot: Snapshot | None = None
        self._filter: tuple[Any, Any] | None = None
        self._looked = -math.inf  # when the last look for a newer commit began
        self.guard = threading.RLock()

    def run(self, work: Callable[[Snapshot], T]) -> T:
        """Work on the latest commit. If its files were cleaned away meanwhile, once more on a fresh view."""
        from varsdoc.index.pinned import MovedOnError

        called = time.monotonic()
        with self.guard:
            try:
                if self.snapshot is None:
                    self.snapshot = self._take()
                elif self._looked < called:  # else another thread looked while this one waited: that is late enough
                    self._looked = time.monotonic()
                    self.snapshot.refresh()
                return work(self.snapshot)
            except Exception as error:
                if not is_store_error(error) and not isinstance(error, MovedOnError):
                    raise
            with self._store.reading():
                self.forget()
                self.snapshot = self._take()
                return work(self.snapshot)

    def _take(self) -> Snapshot:
        from varsdoc.index.snapshot import Snapshot

        return Snapshot(self._store, self._memory, self._lists, self._hold)

    def forget(self) -> None:
        """Begin anew at the next use."""
        with self.guard:
            self.snapshot, self._looked = None, -math.inf

    def mask(self, snapshot: Snapshot, where: str) -> np.ndarray:
        """The rows that pass a filter; pages are laid out for it once a commit."""
        from varsdoc.index.where import Filter

        if self._filter is None or self._filter[0] is not snapshot.pages:
            rows = snapshot.live_rows.tolist()
            self._filter = (snapshot.pages, Filter(rows, [snapshot.pages[row] for row in rows]))
        mask: np.ndarray = self._filter[1].mask(where, len(snapshot.alive))
        return mask

    @property
    def pages(self) -> int:
        """Pages that the last use could find."""
        with self.guard:
            return 0 if self.snapshot is None else int(self.snapshot.alive.sum())
