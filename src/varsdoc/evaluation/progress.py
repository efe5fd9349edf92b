"""A bar on stderr: where stderr is a terminal, else a line now and then, so that a log shows life."""

from __future__ import annotations

import sys
import time
from types import TracebackType

QUIET_S = 20.0


class Progress:
    """Call it with how many items are done. As a context manager it ends its line."""

    def __init__(self, total: int, what: str, shown: bool = True) -> None:
        self.total, self.what, self.shown = total, what, shown and total > 0
        self.count = 0
        self.began = self.spoke = time.monotonic()
        self.bar = None
        if self.shown and sys.stderr.isatty():
            from tqdm import tqdm

            self.bar = tqdm(total=total, desc=what, file=sys.stderr)

    def __call__(self, count: int) -> None:
        self.count += count
        if self.bar is not None:
            self.bar.update(count)
        elif self.shown and time.monotonic() - self.spoke > QUIET_S:
            self.spoke = time.monotonic()
            print(f"{self.what}: {self.count} of {self.total}, {self.spoke - self.began:.0f} s", file=sys.stderr)

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bar is not None:
            self.bar.close()
