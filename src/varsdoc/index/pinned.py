"""The pages behind an answer, read from the version of the table that was searched.

A document may be replaced while someone looks at an answer; its codes, heatmap and picture still are those that were
scored. Only when that version was cleaned away (an hour after it was replaced) does an answer say that it is too old.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

from varsdoc.errors import CollectionError
from varsdoc.index.snapshot import PageRow, Snapshot
from varsdoc.index.store import is_store_error
from varsdoc.scoring.blob import Blob
from varsdoc.scoring.packed import PackedPages

_TOGETHER = 16  # pages


class MovedOnError(CollectionError):
    """The version that was searched is gone."""


class PinnedPages:
    """Some pages of one version of the table; `moved_on` is called when that version turns out to be gone.

    resident  the snapshot's codes in memory, where they are, and each page's row in them; held weakly: an answer that
              someone keeps must not keep gigabytes of a view that was left behind
    """

    def __init__(
        self,
        table: Any,
        pages: dict[str, tuple[PageRow, int]],
        moved_on: Callable[[], None],
        resident: tuple[PackedPages, dict[str, int]] | None = None,
    ) -> None:
        self._table, self._pages = table, pages  # by id: the page, and Lance's row id
        self._moved_on = moved_on
        self._resident = None if resident is None else weakref.ref(resident[0])
        self._rows = {} if resident is None else resident[1]
        self._codes: dict[str, bytes] = {}
        self._guard = threading.Lock()

    def page_blob(self, page_id: str) -> Blob:
        """A page's codes, from memory where they are there."""
        packed = None if self._resident is None else self._resident()
        return Blob.from_bytes(self.page_codes(page_id)) if packed is None else packed.blob(self._rows[page_id])

    def page_codes(self, page_id: str) -> bytes:
        """The next few pages' codes come with it, as an object store is far; no more are kept, as k may be large."""
        with self._guard:
            if page_id not in self._codes:
                known = [*self._pages]
                start = known.index(page_id)
                ids = {self._pages[one][1]: one for one in known[start : start + _TOGETHER]}
                self._codes = {ids[row["_rowid"]]: row["codes"] for row in self._read(sorted(ids), "codes")}
            return self._codes[page_id]

    def page_jpeg(self, page_id: str) -> bytes:
        page, row_id = self._pages[page_id]
        jpeg: bytes | None = self._read([row_id], "jpeg")[0]["jpeg"]
        if jpeg is not None:
            return jpeg
        from varsdoc.index.rendering import render_again

        return render_again(page.document, page.page).jpeg

    def page_text(self, page_id: str) -> str | None:
        text: str | None = self._read([self._pages[page_id][1]], "text")[0]["text"]
        return text or None  # empty: it was looked for, and the page has none

    def _read(self, row_ids: list[int], column: str) -> list[dict[str, Any]]:
        try:
            found = self._table.take_row_ids(row_ids).select([column]).with_row_id().to_arrow().to_pylist()
        except Exception as error:
            if not is_store_error(error):
                raise
            self._moved_on()
            raise MovedOnError("The collection has moved on since this search; search again.") from error
        return list(found)


def pinned(snapshot: Snapshot, rows: list[int]) -> PinnedPages:
    table, row_ids = snapshot.at(rows)
    pages = [snapshot.pages[row] for row in rows]
    found = {page.id: (page, row_id) for page, row_id in zip(pages, row_ids, strict=True)}
    resident = None
    if snapshot.packed is not None:
        resident = snapshot.packed, {page.id: row for page, row in zip(pages, rows, strict=True)}
    return PinnedPages(table, found, snapshot.distrust, resident)
