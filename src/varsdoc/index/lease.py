"""One writer for a collection on an object store: a lease with expiry, kept in a LanceDB table of one row.

There is no lock on an object store that dies with its holder, so a lease is taken for a while and renewed.

Its choices:
- Compare-and-swap is a Lance update: `set holder where holder = <the one I saw>`. Lance commits a manifest with a
  conditional put (put-if-absent, which S3, GCS, Azure and MinIO have) and runs a lost update again on the new rows,
  where it then changes nothing. Exactly one of several takers changes a row. No other client library is needed.
- A thread renews every third of the term. A holder that was killed is waited for at most one term.
- A holder that could not renew in time stops by itself before it commits (`check`). Terms are compared by the wall
  clock, so machines that share a collection must agree on the time to a few seconds.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from varsdoc.errors import BusyError

TABLE = "lease"
TERM_SECONDS = 60.0
_POLL_SECONDS = 1.0
_FREE = "free"


class Lease:
    """A lease that is held; `check` before every commit."""

    def __init__(self, table: Any, token: str, term: float, until: float) -> None:
        self._table, self._token, self._term = table, token, term
        self._until = until  # what the store says, not a term from now: taking it may have been slow
        self._lost = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._renew_for_ever, name="varsdoc-lease", daemon=True)
        self._thread.start()

    def check(self) -> None:
        if self._lost or time.time() > self._until:
            raise BusyError(
                "This writer lost its lease on the collection (the store was out of reach for too long, or the machine "
                "slept); nothing half-done is visible. Run the same command again to go on."
            )

    def release(self) -> None:
        self._stop.set()
        self._thread.join()
        self._swap(_FREE, 0.0)
        with contextlib.suppress(Exception):  # every renewal was a commit; tidying up is no one's worry
            self._table.optimize(cleanup_older_than=timedelta(hours=1))

    def _renew_for_ever(self) -> None:
        while not self._stop.wait(self._term / 3):
            until = time.time() + self._term
            try:
                if self._swap(self._token, until):
                    self._until = until
                else:
                    self._lost = True
                    return
            except Exception:  # the store is out of reach: try again until the term is over
                continue

    def _swap(self, token: str, until: float) -> bool:
        return swap(self._table, self._token, token, until)


def swap(table: Any, seen: str, token: str, until: float) -> bool:
    """Set the holder if it is still the one that was seen."""
    table.checkout_latest()
    done = table.update(where=f"holder = '{seen}'", values={"holder": token, "until": until})
    return bool(done.rows_updated)


@contextmanager
def lease(
    open_table: Callable[[], Any], where: str, wait: float = 0.0, term: float = TERM_SECONDS
) -> Iterator[Callable[[], None]]:
    """Hold the collection for writing; yields the check that every commit makes first."""
    table = open_table()
    deadline = time.time() + wait
    name = "".join(c for c in f"{socket.gethostname()}-{os.getpid()}" if c.isalnum() or c in "-._")
    token = f"{name}-{uuid.uuid4().hex[:8]}"
    while True:
        table.checkout_latest()
        row = table.to_arrow().to_pylist()[0]
        left, until = row["until"] - time.time(), time.time() + term
        if (row["holder"] == _FREE or left <= 0) and swap(table, row["holder"], token, until):
            break
        if time.time() >= deadline:
            raise BusyError(
                f"{where} is being written by {row['holder']}; wait for it (its lease ends in {max(1, round(left))} s "
                "unless it renews it)."
            )
        time.sleep(_POLL_SECONDS)
    held = Lease(table, token, term, until)
    try:
        yield held.check
    finally:
        held.release()


def empty_rows() -> Any:
    """The one row that a new lease table has."""
    import pyarrow as pa

    return pa.table({"holder": [_FREE], "until": pa.array([0.0], pa.float64())})
