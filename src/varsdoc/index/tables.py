"""The tables of a collection, and the records that they hold.

    collection       one row: format, generation, fingerprint, and a reindex that is under way
    pages_<g>        one row per page of a document version: codes, first-stage summary, picture, text
    documents_<g>    one row per visible document: its name, its version, its metadata
    lease            one row, on object stores only (lease.py)

A page row belongs to a version, and a version is visible when a document names it. So staging is appending pages that
nobody sees, and one commit on the small table shows a document whole, or puts it in the place of its predecessor.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from varsdoc.index.fingerprint import Fingerprint

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = 1
COLLECTION = "collection"
Value = str | int | float | bool


@dataclass(frozen=True)
class State:
    """What a collection is. `pending` is the generation that a reindex is filling beside the current one."""

    fingerprint: Fingerprint
    generation: int = 1
    pending: Fingerprint | None = None

    def to_json(self) -> str:
        pending = None if self.pending is None else self.pending.to_json()
        facts = {"format": FORMAT, "generation": self.generation, "fingerprint": self.fingerprint.to_json()}
        return json.dumps(facts | {"pending": pending})

    @classmethod
    def from_json(cls, text: str) -> State:
        from varsdoc.errors import CollectionError

        facts = json.loads(text)
        if facts.get("format") != FORMAT:
            raise CollectionError(
                f"This collection has format {facts.get('format')!r}, and this version of varsdoc reads format "
                f"{FORMAT}; use the version that wrote it, or index the documents again."
            )
        pending = facts["pending"]
        return cls(
            Fingerprint.from_json(facts["fingerprint"]),
            facts["generation"],
            None if pending is None else Fingerprint.from_json(pending),
        )


@dataclass(frozen=True)
class StoredDocument:
    """A visible document."""

    source: str
    name: str
    version: str
    content_hash: str
    size: int
    pages: int  # that are visible
    code_bytes: int
    missing: tuple[int, ...] = ()  # page numbers that could not be read; tried again by the next run
    metadata: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class StoredPage:
    """A page as it is staged."""

    version: str
    page: int  # 0-based
    id: str
    grid: tuple[int, int]
    image_start: int
    width: int
    height: int
    codes: bytes
    summary: bytes
    jpeg: bytes | None
    text: str | None  # None: not asked for; empty: the page has no text layer
    levelled: bytes | None = None  # index.levelled


def version_of(source: str, content_hash: str, fingerprint: Fingerprint) -> str:
    """The name of a document version: the same source, bytes and encoder give the same, so staged pages are found
    again by a run that resumes."""
    return hashlib.sha256("\0".join([source, content_hash, fingerprint.key]).encode()).hexdigest()[:32]


def page_schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema(
        [
            pa.field("version", pa.string(), nullable=False),
            pa.field("page", pa.int32(), nullable=False),
            pa.field("id", pa.string(), nullable=False),
            pa.field("rows", pa.int32(), nullable=False),
            pa.field("cols", pa.int32(), nullable=False),
            pa.field("image_start", pa.int32(), nullable=False),
            pa.field("width", pa.int32(), nullable=False),
            pa.field("height", pa.int32(), nullable=False),
            pa.field("codes", pa.large_binary(), nullable=False),
            pa.field("summary", pa.large_binary(), nullable=False),
            pa.field("jpeg", pa.large_binary()),
            pa.field("text", pa.string()),
            pa.field("levelled", pa.binary()),
        ]
    )


def page_rows(pages: list[StoredPage]) -> pa.Table:
    import pyarrow as pa

    columns: dict[str, list[Any]] = {
        "version": [p.version for p in pages],
        "page": [p.page for p in pages],
        "id": [p.id for p in pages],
        "rows": [p.grid[0] for p in pages],
        "cols": [p.grid[1] for p in pages],
        "image_start": [p.image_start for p in pages],
        "width": [p.width for p in pages],
        "height": [p.height for p in pages],
        "codes": [p.codes for p in pages],
        "summary": [p.summary for p in pages],
        "jpeg": [p.jpeg for p in pages],
        "text": [p.text for p in pages],
        "levelled": [p.levelled for p in pages],
    }
    return pa.table(columns, schema=page_schema())


def text_rows(version: str, texts: Mapping[int, str]) -> pa.Table:
    import pyarrow as pa

    schema = pa.schema([page_schema().field(name) for name in ("version", "page", "text")])
    columns = {"version": [version] * len(texts), "page": list(texts), "text": list(texts.values())}
    return pa.table(columns, schema=schema)


def document_schema() -> pa.Schema:
    import pyarrow as pa

    texts = ("source", "name", "version", "content_hash", "missing", "metadata")
    numbers = ("size", "pages", "code_bytes")
    return pa.schema(
        [pa.field(name, pa.string(), nullable=False) for name in texts]
        + [pa.field(name, pa.int64(), nullable=False) for name in numbers]
    )


def document_rows(documents: list[StoredDocument]) -> pa.Table:
    import pyarrow as pa

    columns: dict[str, list[Any]] = {
        "source": [d.source for d in documents],
        "name": [d.name for d in documents],
        "version": [d.version for d in documents],
        "content_hash": [d.content_hash for d in documents],
        "missing": [json.dumps(d.missing) for d in documents],
        "metadata": [json.dumps(dict(d.metadata), ensure_ascii=False) for d in documents],
        "size": [d.size for d in documents],
        "pages": [d.pages for d in documents],
        "code_bytes": [d.code_bytes for d in documents],
    }
    return pa.table(columns, schema=document_schema())


def read_document(row: Mapping[str, Any]) -> StoredDocument:
    parsed = {"missing": tuple(json.loads(row["missing"])), "metadata": json.loads(row["metadata"])}
    return StoredDocument(**{**row, **parsed})
