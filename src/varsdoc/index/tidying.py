"""When a table is worth rewriting, and which of its old versions may go.

Lance never gives back a byte by itself: what was deleted lies in files that older versions name, until these versions
are dropped. Dropping comes with merging small files, which rewrites pictures and codes, so both come when they pay.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

# A reader goes on with a version for this long after a writer made a newer one.
KEEP_VERSIONS = timedelta(hours=1)
_MOST_EXPIRED = 64  # versions, where bytes cannot be counted (object stores)


def needs_compaction(table: Any) -> bool:
    """Many small files beside the largest, or a quarter of the rows outside it, or deleted: then it is paid back.

    A rewrite touches every row, so it may only come when the table has grown, or lost, a share of itself; each row is
    then rewritten a bounded number of times, however large the table becomes.
    """
    stats = table.stats()
    fragments = stats["fragment_stats"]
    latest = max(table.list_versions(), key=lambda version: version["version"])
    written = int(latest["metadata"]["total_data_file_rows"])
    if (written - stats["num_rows"]) * 4 >= written > 0:
        return True
    if fragments["num_fragments"] <= 16:
        return False
    outside = stats["num_rows"] - fragments["lengths"]["max"]
    return bool(outside * 4 >= stats["num_rows"] or fragments["num_fragments"] > 1000)


def needs_cleanup(table: Any, keep: timedelta) -> bool:
    """Whether versions that no reader may still use hold a quarter of what is in use."""
    if expiry(table, keep) is None:
        return False
    data = Path(table.uri) / "data"
    if not data.is_dir():
        return len(table.list_versions()) > _MOST_EXPIRED
    stored = sum(path.stat().st_size for path in data.iterdir())
    live = int(table.stats()["total_bytes"])
    return (stored - live) * 4 >= stored > 0


def expiry(table: Any, keep: timedelta) -> timedelta | None:
    """The age beyond which a version was out of use for `keep`; None where none was.

    Lance counts from when a version was made. It may be made a year ago and replaced now, with readers on it: the last
    that is older than `keep` was the latest until less than `keep` ago, so it stays, and what came before it goes.
    """
    now = datetime.now()
    old = sorted(v["timestamp"] for v in table.list_versions() if now - v["timestamp"] >= keep)
    return None if len(old) < 2 else now - old[-1] + keep / 10  # Lance looks at the clock again, later


def optimize(table: Any, keep: timedelta, exclusive: bool) -> None:
    table.checkout_latest()
    age = expiry(table, keep) if keep else keep
    # Without an age Lance would take its own, a week.
    table.optimize(cleanup_older_than=timedelta(days=3650) if age is None else age, delete_unverified=exclusive)
