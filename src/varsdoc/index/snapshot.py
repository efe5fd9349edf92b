"""What a reader has in memory: the visible pages at one moment, their summaries, and their codes where they fit.

Its choices:
- A snapshot follows the documents table alone. Staging moves the pages table many times and changes nothing here.
- A refresh reads only what is new. Rows keep their numbers; gone ones are marked, and everything is read anew when most
  rows are gone.
- A document is taken whole or not at all: if its pages are not all there (a writer replaced it between the two reads),
  the documents are read again.
- Codes are resident up to a budget; beyond it those of the candidates are taken from Lance. Both give the same scores.
- With `hold`, codes lie on that device instead (scoring.device) as long as they fit there, and every page is scored;
  summaries go there too when a search first asks for candidates.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from varsdoc.errors import CollectionError, MissingError
from varsdoc.index.first_stage import FirstStage, summary_from_bytes
from varsdoc.index.store import Store, read_state
from varsdoc.index.tables import COLLECTION, State, StoredDocument, read_document
from varsdoc.index.tidying import KEEP_VERSIONS
from varsdoc.scoring.packed import PackedPages

if TYPE_CHECKING:
    from varsdoc.index.holding import HeldSummaries
    from varsdoc.scoring.device import DevicePages

logger = logging.getLogger(__name__)
_LIGHT = ["version", "page", "id", "rows", "cols", "image_start", "width", "height"]
_LATER = ["levelled"]  # columns that tables of earlier versions lack
_ATTEMPTS = 8
_BATCH_ROWS = 256
_OLD_SECONDS = KEEP_VERSIONS.total_seconds() / 2


@dataclass(frozen=True)
class PageRow:
    """One page that can be found."""

    document: StoredDocument
    page: int  # 0-based
    id: str
    grid: tuple[int, int]
    image_start: int
    width: int
    height: int
    levelled: bytes = b""


class Snapshot:
    """A reader's view. `refresh` moves it to the latest commit; everything else looks at one moment."""

    def __init__(self, store: Store, memory: int, lists: bool = True, hold: str | None = None) -> None:
        store.require()
        self._lists = lists
        self._hold = hold
        self.memory = memory
        self._store = store
        self._collection = store.open(COLLECTION)
        self.state: State = read_state(self._collection)
        self._documents: Any = None
        self._seen: tuple[int, int] | None = None
        self._taken = time.monotonic()
        self._clear()
        self.refresh()

    def _clear(self) -> None:
        self.documents: dict[str, StoredDocument] = {}  # by version
        self.pages: list[PageRow] = []
        self.alive = np.zeros(0, bool)
        never = {} if self._lists else {"clustered_from": sys.maxsize}
        self.first_stage = FirstStage(self.state.fingerprint.dim, **never)
        self.packed: PackedPages | None = PackedPages()
        self.held: DevicePages | None = None
        self.held_summaries: HeldSummaries | None = None
        self._place = ""  # of the codes: device, memory or store
        self._row_ids = np.zeros(0, np.int64)  # Lance's, valid in the version of `_pages`
        self._rows: dict[tuple[str, int], int] = {}
        self._ids: dict[str, int] = {}
        self._pages: Any = None

    def distrust(self) -> None:
        """Files of this view are gone: the next refresh takes it anew."""
        self._seen = None

    def refresh(self) -> None:
        """Move to the latest commit, if there is one that was not seen, or if this view has grown old.

        A writer may have rewritten the pages without changing a document, and will drop what it replaced.
        """
        self._collection.checkout_latest()
        if self._documents is None or self._collection.version != (self._seen or (0, 0))[0]:
            state = read_state(self._collection)
            if self._documents is None or state.generation != self.state.generation:
                self.state = state
                self._clear()
                self._documents = self._store.open(f"documents_{state.generation}")
            self.state = state
        self._documents.checkout_latest()
        seen = (self._collection.version, self._documents.version)
        if seen != self._seen or time.monotonic() - self._taken > _OLD_SECONDS:
            self._load(seen)

    def _load(self, seen: tuple[int, int]) -> None:
        for attempt in range(_ATTEMPTS):
            pages = self._store.open(f"pages_{self.state.generation}")  # its latest version, and it stays there
            rows = self._documents.to_arrow().to_pylist()
            wanted = {document.version: document for document in map(read_document, rows)}
            try:
                complete = self._take(pages, wanted)
            except BaseException:  # half-moved: begin from nothing next time
                self._clear()
                self._seen = None
                raise
            if complete:
                self._seen, self._taken = seen, time.monotonic()
                return
            time.sleep(0.02 * 2**attempt)
            self._documents.checkout_latest()
            seen = (seen[0], self._documents.version)
        raise CollectionError(
            f"{self._store.uri} names a document whose pages are not there; it was damaged from outside. "
            "Index the documents again into a new folder."
        )

    def _take(self, pages: Any, wanted: dict[str, StoredDocument]) -> bool:
        """Move to these documents; False where a page of one is not in the table, and then nothing has changed."""
        found = pages.search().select(["version", "page"]).with_row_id(True).to_arrow()
        row_ids: dict[tuple[str, int], int] = {}
        counts = dict.fromkeys(wanted, 0)
        columns = (found[name].to_pylist() for name in ("version", "page", "_rowid"))
        for version, page, row_id in zip(*columns, strict=True):
            document = wanted.get(version)
            if document is not None and page not in document.missing and (version, page) not in row_ids:
                row_ids[version, page] = row_id
                counts[version] += 1
        if any(counts[version] != document.pages for version, document in wanted.items()):
            return False
        gone = [row for key, row in self._rows.items() if key not in row_ids]
        if len(gone) * 2 > len(self._rows) or self._place_for(wanted) not in (self._place, "store"):
            self._clear()
            gone = []
        self._drop(gone)
        self.documents = wanted
        new = [key for key in row_ids if key not in self._rows]
        self._pages = pages
        if not self._add(new, row_ids):
            return self._take(pages, wanted)
        self._row_ids = np.array([row_ids.get((p.document.version, p.page), -1) for p in self.pages], np.int64)
        self.pages = [_renewed(p, wanted) for p in self.pages]
        return True

    def _fits(self, documents: dict[str, StoredDocument]) -> bool:
        return sum(document.code_bytes for document in documents.values()) <= self.memory

    def _place_for(self, documents: dict[str, StoredDocument]) -> str:
        if self._hold is not None:
            from varsdoc.index.holding import fits

            stored = sum(document.code_bytes for document in documents.values())
            if fits(self._hold, self.state.fingerprint.codec, stored, self.held):
                return "device"
        return "memory" if self._fits(documents) else "store"

    def _drop(self, rows: list[int]) -> None:
        if rows:
            self.alive[rows] = False
            self.first_stage.remove(np.array(rows))
            self._rows = {key: row for key, row in self._rows.items() if self.alive[row]}
            self._ids = {page_id: row for page_id, row in self._ids.items() if self.alive[row]}

    def _add(self, new: list[tuple[str, int]], row_ids: dict[tuple[str, int], int]) -> bool:
        """False where the device had no room after all: nothing is here then, and all must be taken anew."""
        self._place = self._place_for(self.documents)
        if self._place != "memory":
            self.packed = None
        if self._place != "device":
            self.held = self.held_summaries = None
        columns = [*_LIGHT, "summary", *([] if self._place == "store" else ["codes"])]
        columns += [name for name in _LATER if name in self._pages.schema.names]
        dim = self.state.fingerprint.dim
        summaries: list[np.ndarray] = []  # added together: each adding may build inverted lists anew
        for start in range(0, len(new), _BATCH_ROWS):
            rows = self._fetch([row_ids[key] for key in new[start : start + _BATCH_ROWS]], columns)
            for row in rows:
                self._rows[row["version"], row["page"]] = self._ids[row["id"]] = len(self.pages)
                self.pages.append(_page_row(row, self.documents[row["version"]]))
                summaries.append(summary_from_bytes(row["summary"], dim))
                if self.packed is not None:
                    self.packed.append(row["codes"])
            if self._place == "device":
                from varsdoc.index.holding import NoRoomError, upload

                assert self._hold is not None
                try:
                    self.held = upload(self._hold, self.held, [row["codes"] for row in rows])
                except NoRoomError:
                    self._without_room(everything=len(new) == len(row_ids))
                    return False
        if new:
            self.first_stage.add(summaries)
            self.alive = np.concatenate([self.alive, np.ones(len(new), bool)])
        return True

    def _without_room(self, everything: bool) -> None:
        """Begin anew, on the device if codes of pages that are gone lay there too, else without it."""
        if everything:
            logger.warning("the codes of this collection do not fit on %s; search goes on without it", self._hold)
            self._hold = None
        self._clear()

    def _fetch(self, row_ids: Sequence[int], columns: list[str]) -> list[dict[str, Any]]:
        """Rows in the order asked for; Lance gives each once, in its own order."""
        if not row_ids:
            return []
        table = self._pages.take_row_ids(sorted(set(row_ids))).select(columns).with_row_id().to_arrow()
        by_id = {row["_rowid"]: row for row in table.to_pylist()}
        return [by_id[row_id] for row_id in row_ids]

    def read(self, rows: Sequence[int], columns: list[str]) -> list[dict[str, Any]]:
        """Stored columns of some rows, from the version of the table that this snapshot was taken of."""
        return self._fetch(self._row_ids[np.asarray(rows, np.int64)].tolist(), columns)

    def codes(self, rows: np.ndarray) -> tuple[PackedPages, np.ndarray]:
        """Packed pages and the numbers that these rows have among them."""
        if self.packed is not None:
            return self.packed, rows
        return PackedPages.from_blobs([row["codes"] for row in self.read(rows.tolist(), ["codes"])]), np.arange(
            len(rows)
        )

    def candidates(self, query: np.ndarray, n: int, allowed: np.ndarray) -> np.ndarray:
        """The n allowed rows whose summaries fit a query best, rising; from the device where the codes lie there."""
        if self.held is not None:
            from varsdoc.index.holding import HeldSummaries

            assert self._hold is not None
            self.held_summaries = self.held_summaries or HeldSummaries(self._hold, self.first_stage.dim)
            if self.held_summaries.follow(self.first_stage):
                return self.held_summaries.search(query, n, allowed)
        return np.sort(self.first_stage.search(query, n, allowed))

    def row(self, version: str, page: int) -> int | None:
        return self._rows.get((version, page))

    def row_of_id(self, page_id: str) -> int | None:
        """The visible row of a page id."""
        return self._ids.get(page_id)

    def require_row(self, page_id: str) -> int:
        row = self.row_of_id(page_id)
        if row is None:
            raise MissingError(f"There is no page {page_id} in this collection (any more).")
        return row

    def rows_of(self, document_ids: Iterable[str]) -> np.ndarray:
        """(rows,) true on the pages of these documents."""
        wanted = {*document_ids}
        chosen = np.zeros(len(self.alive), bool)
        chosen[[row for page_id, row in self._ids.items() if page_id.rpartition("-")[0] in wanted]] = True
        return chosen

    @property
    def live_rows(self) -> np.ndarray:
        return np.flatnonzero(self.alive)

    def at(self, rows: Sequence[int]) -> tuple[Any, list[int]]:
        """The pages table at this snapshot's version, and Lance's ids of some rows in it."""
        return self._pages, self._row_ids[np.asarray(rows, np.int64)].tolist()

    def text_table(self) -> Any:
        """The pages table at this snapshot's version, for full-text search."""
        return self._pages


def _page_row(row: dict[str, Any], document: StoredDocument) -> PageRow:
    grid = (row["rows"], row["cols"])
    levelled = row.get("levelled") or b""
    return PageRow(document, row["page"], row["id"], grid, row["image_start"], row["width"], row["height"], levelled)


def _renewed(page: PageRow, documents: dict[str, StoredDocument]) -> PageRow:
    """A document's name or metadata may have changed while its pages stayed."""
    now = documents.get(page.document.version)
    if now is None or now is page.document or now == page.document:
        return page
    return replace(page, document=now)
