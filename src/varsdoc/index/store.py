"""A collection's place: a folder or an object-store URI, its tables, its one writer.

Everything here speaks of documents and versions; what a code or a summary means is none of its business.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from varsdoc.errors import CollectionError, VarsDocError
from varsdoc.index import lease as leases
from varsdoc.index.lock import LOCK_FILE, folder_lock
from varsdoc.index.tables import (
    COLLECTION,
    State,
    StoredDocument,
    StoredPage,
    document_rows,
    document_schema,
    page_rows,
    page_schema,
    read_document,
    text_rows,
)
from varsdoc.index.tidying import KEEP_VERSIONS, needs_cleanup, needs_compaction, optimize

_BATCH_ROWS = 64
SERVED = ("uploads", "jobs")  # what a server keeps beside the tables


class Store:
    """The tables of one collection. Opening makes nothing; `create` does."""

    def __init__(self, uri: str | Path) -> None:
        self.uri = str(uri) if "://" in str(uri) else os.path.expanduser(uri)
        self.folder: Path | None = None if "://" in self.uri else Path(self.uri)
        self._connection: Any = None
        self._check: Callable[[], None] = lambda: None

    @property
    def db(self) -> Any:
        if self._connection is None:
            import lancedb

            self._connection = lancedb.connect(self.uri, storage_options=storage_options(self.uri))
        return self._connection

    def exists(self) -> bool:
        """Whether there is a commit of the collection's own table; a folder alone may be what a kill left."""
        if self.folder is not None:
            return any((self.folder / f"{COLLECTION}.lance" / "_versions").glob("*.manifest"))
        try:
            return COLLECTION in self._names() and self._opens(COLLECTION)
        except Exception as error:
            raise CollectionError(
                f"{self.uri} cannot be reached ({short(error)}); check the address, the credentials and the network."
            ) from error

    def _opens(self, name: str) -> bool:
        """False only where it has no commit; a fault of the network must never look like that."""
        try:
            self.open(name)
        except ValueError as error:
            if "not found" in str(error):
                return False
            raise
        return True

    def require(self) -> None:
        if not self.exists():
            raise CollectionError(
                f"There is no collection at {self.uri}; make one with `varsdoc index PATH --into {self.uri}`."
            )

    def create(self, state: State) -> None:
        """Under the lock: the tables of an empty collection. `collection` comes last: with it, the collection is."""
        self.create_generation(state.generation)
        self._create(COLLECTION, data=_state_row(state))

    def refuse_foreign_folder(self) -> None:
        """A folder with other things in it is most likely a slip of the hand."""
        if self.folder is None or self.exists():
            return
        if self.folder.is_file():
            raise CollectionError(f"{self.folder} is a file; a collection is a folder.")
        if self.folder.is_dir():
            ours = (LOCK_FILE, *SERVED)
            others = [p.name for p in self.folder.iterdir() if p.name not in ours and p.suffix != ".lance"]
            if others:
                raise CollectionError(
                    f"{self.folder} has other things in it ({sorted(others)[0]}); choose a new folder."
                )

    def create_generation(self, generation: int) -> None:
        self._create(f"pages_{generation}", schema=page_schema())
        self._create(f"documents_{generation}", schema=document_schema())

    def _create(self, name: str, **content: Any) -> None:
        """Anew, whatever a run that was killed left under that name."""
        self._check()
        if name in self._names():
            self.db.drop_table(name)
        self.db.create_table(name, **content)

    def open(self, name: str) -> Any:
        return self.db.open_table(name)

    def _names(self) -> list[str]:
        names: list[str] = []
        token: str | None = None
        while True:
            page = self.db.list_tables(limit=100, page_token=token)
            names += page.tables
            token = page.page_token
            if not token:
                return names

    def state(self) -> State:
        self.require()
        return read_state(self.open(COLLECTION))

    def write_state(self, state: State) -> None:
        """One commit: whatever it changes, it changes at once."""
        self._check()
        self.open(COLLECTION).add(_state_row(state), mode="overwrite")

    def generation(self, number: int) -> Generation:
        return Generation(self.open(f"pages_{number}"), self.open(f"documents_{number}"), lambda: self._check())

    def drop_other_generations(self, state: State) -> None:
        """What a finished or abandoned reindex left."""
        kept = {state.generation} | ({state.generation + 1} if state.pending else set())
        for name in self._names():
            kind, _, number = name.partition("_")
            if kind in ("pages", "documents") and number.isdigit() and int(number) not in kept:
                self._check()
                self.db.drop_table(name)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """What LanceDB cannot read ends in one sentence."""
        try:
            yield
        except Exception as error:
            if not is_lance_error(error):
                raise
            raise CollectionError(
                f"{self.uri} cannot be read ({short(error)}); it is damaged or out of reach. If it stays so, index the "
                "documents again into a new folder."
            ) from error

    @contextmanager
    def writing(self, wait: float = 0.0) -> Iterator[None]:
        """Be the one writer. What LanceDB cannot write ends in one sentence."""
        try:
            with self._exclusive(wait):
                yield
        except Exception as error:
            if not is_lance_error(error):
                raise
            raise CollectionError(
                f"{self.uri} cannot be written ({short(error)}); what was visible still is. Run the command again when "
                "that is mended."
            ) from error

    @contextmanager
    def _exclusive(self, wait: float) -> Iterator[None]:
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            with folder_lock(self.folder, wait):
                yield
            return
        with leases.lease(self._lease_table, self.uri, wait, leases.TERM_SECONDS) as check:
            self._check = check
            try:
                yield
            finally:
                self._check = lambda: None

    def _lease_table(self) -> Any:
        try:
            return self.open(leases.TABLE)
        except ValueError:
            try:
                return self.db.create_table(leases.TABLE, data=leases.empty_rows())
            except ValueError:  # another writer was quicker
                return self.open(leases.TABLE)


class Generation:
    """Pages and documents of one fingerprint."""

    def __init__(self, pages: Any, documents: Any, check: Callable[[], None] = lambda: None) -> None:
        self.pages = pages
        self.documents = documents
        self._check = check

    def read_documents(self) -> dict[str, StoredDocument]:
        """Visible documents by source."""
        rows = self.documents.to_arrow().to_pylist()
        return {row["source"]: read_document(row) for row in rows}

    def staged(self) -> dict[str, set[int]]:
        """Page numbers of every version in the table, visible or not."""
        found: dict[str, set[int]] = {}
        rows = self.pages.search().select(["version", "page"]).to_arrow()
        for version, page in zip(rows["version"].to_pylist(), rows["page"].to_pylist(), strict=True):
            found.setdefault(version, set()).add(page)
        return found

    def without_text(self) -> dict[str, set[int]]:
        """Pages of every version whose text nobody asked for."""
        found: dict[str, set[int]] = {}
        rows = self.pages.search().where("text IS NULL").select(["version", "page"]).to_arrow()
        for version, page in zip(rows["version"].to_pylist(), rows["page"].to_pylist(), strict=True):
            found.setdefault(version, set()).add(page)
        return found

    def set_texts(self, version: str, texts: dict[int, str]) -> None:
        """Give pages that lie in the table their text; one commit, and nothing else of them is written."""
        if texts:
            self._check()
            merge = self.pages.merge_insert(["version", "page"]).when_matched_update_all()
            merge.execute(text_rows(version, texts))

    def code_bytes(self, version: str) -> dict[int, int]:
        """The size of each page's codes, a batch at a time: a long document's do not fit in memory together."""
        rows = self.pages.search().where(f"version = {_literal(version)}").select(["page", "codes"])
        sizes: dict[int, int] = {}
        for batch in rows.to_batches(batch_size=_BATCH_ROWS):
            pairs = zip(batch["page"].to_pylist(), batch["codes"], strict=True)
            sizes.update((page, codes.as_buffer().size) for page, codes in pairs)
        return sizes

    def stage(self, pages: list[StoredPage]) -> None:
        if pages:
            self._check()
            # Tables of before know nothing of the last column; it is empty for their encoders.
            self.pages.add(page_rows(pages).select(self.pages.schema.names))

    def commit(self, documents: list[StoredDocument]) -> None:
        """Show these documents, each in the place of its predecessor: one commit for all of them."""
        if documents:
            self._check()
            merge = self.documents.merge_insert("source").when_matched_update_all().when_not_matched_insert_all()
            merge.execute(document_rows(documents))

    def remove(self, documents: list[StoredDocument]) -> None:
        """Out of sight by one commit, then out of the table."""
        if documents:
            self._check()
            self.documents.delete(f"source IN ({', '.join(_literal(d.source) for d in documents)})")
            self.drop_versions([d.version for d in documents])

    def drop_versions(self, versions: list[str]) -> None:
        """Delete page rows of versions that no document names. A reader that still has them open keeps its view."""
        for start in range(0, len(versions), 500):
            self._check()
            some = ", ".join(_literal(v) for v in versions[start : start + 500])
            self.pages.delete(f"version IN ({some})")

    def collect_garbage(self) -> int:
        """Drop what killed runs left; the number of versions that were dropped."""
        visible = {d.version for d in self.read_documents().values()}
        left = sorted(set(self.staged()) - visible)
        self.drop_versions(left)
        return len(left)

    def optimize(self, exclusive: bool, keep: timedelta = KEEP_VERSIONS, force: bool = False) -> None:
        """Merge small files and drop old versions, when it pays: merging rewrites pictures and codes.

        exclusive  no other process can be writing (an OS lock is held), so files of dead writers can go at once
        """
        self._check()
        optimize(self.documents, keep, exclusive)
        self.pages.checkout_latest()
        if force or needs_compaction(self.pages) or needs_cleanup(self.pages, keep):
            optimize(self.pages, keep, exclusive)


def read_state(table: Any) -> State:
    rows = table.to_arrow().to_pylist()
    if not rows:
        raise CollectionError("The collection's own row is missing; it is damaged. Index the documents again.")
    return State.from_json(rows[0]["state"])


def _state_row(state: State) -> Any:
    import pyarrow as pa

    return pa.table({"state": [state.to_json()]})


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def storage_options(uri: str) -> dict[str, str] | None:
    """Credentials, region and endpoint come from the environment (AWS_*, GOOGLE_*, AZURE_*), as LanceDB reads them.

    A plain http endpoint, like a local MinIO, must be allowed on purpose; naming it in the environment is that.
    """
    endpoint = os.environ.get("AWS_ENDPOINT") or os.environ.get("AWS_ENDPOINT_URL") or ""
    return {"allow_http": "true"} if uri.startswith("s3") and endpoint.startswith("http://") else None


def is_lance_error(error: Exception) -> bool:
    """Whether LanceDB says that something is wrong with its files, or that a table is not there."""
    return is_store_error(error) and re.search(r"lance error|^Table '\w+' was not found", str(error)) is not None


def short(error: Exception) -> str:
    """LanceDB's reason without the place in its source.

    >>> short(RuntimeError("lance error: LanceError(IO): Generic S3 error: no such bucket, /build/x.rs:250:5"))
    'Generic S3 error: no such bucket'
    """
    first = str(error).splitlines()[0] if str(error) else type(error).__name__
    reason = re.split(r",? /\S+\.rs:\d+", first)[0]
    return re.sub(r"^(lance error: )?(LanceError\(\w+\): )?", "", reason).strip(" .")[:300]


def is_store_error(error: Exception) -> bool:
    """Whether LanceDB failed, as it does when a version was cleaned away under a reader."""
    return isinstance(error, OSError | RuntimeError | ValueError) and not isinstance(error, VarsDocError)
