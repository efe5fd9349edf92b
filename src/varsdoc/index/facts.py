"""What a reader can say of documents and pages without a search, at one moment of the collection."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from varsdoc.errors import MissingError
from varsdoc.index.snapshot import PageRow, Snapshot
from varsdoc.index.tables import StoredDocument, Value
from varsdoc.pages import page_id


@dataclass(frozen=True)
class DocumentFacts:
    """A document that can be found."""

    id: str
    document: str
    pages: int
    metadata: Mapping[str, Value]
    cover: str  # the id of its first page
    source: str
    content_hash: str
    bytes: int  # of its codes


@dataclass(frozen=True)
class PageFacts:
    """A page that can be found. `version` changes whenever its picture may have."""

    id: str
    document: str
    document_id: str
    page: int  # 1-based
    pages: int
    width: int
    height: int
    version: str
    metadata: Mapping[str, Value]
    previous: str | None  # ids of the pages beside it
    next: str | None


def document_id(source: str) -> str:
    """URL-safe, of the document's identity; its pages' ids begin with it.

    >>> page_id("/reports/2023.pdf", 4).startswith(document_id("/reports/2023.pdf") + "-")
    True
    """
    return page_id(source, 0).rpartition("-")[0]


def named(document: str, known: dict[str, StoredDocument]) -> StoredDocument:
    """By display name first: a file of that name in the working folder may be another document."""
    by_name = {one.name: one for one in known.values()}
    by_id = {document_id(one.source): one for one in known.values()}
    by_source = (known.get(document), known.get(os.path.realpath(document)) if "\0" not in document else None)
    for found in (by_name.get(document), *by_source, by_id.get(document)):
        if found is not None:
            return found
    raise MissingError(f"There is no document {document!r} in this collection; `varsdoc list` names them.")


def documents(snapshot: Snapshot) -> list[DocumentFacts]:
    """By name."""
    return [_document(one) for one in sorted(snapshot.documents.values(), key=lambda d: d.name)]


def _document(document: StoredDocument) -> DocumentFacts:
    first = next(number for number in range(document.pages + len(document.missing)) if number not in document.missing)
    return DocumentFacts(
        document_id(document.source),
        document.name,
        document.pages,
        dict(document.metadata),
        page_id(document.source, first),
        document.source,
        document.content_hash,
        document.code_bytes,
    )


def page_facts(snapshot: Snapshot, row: int) -> PageFacts:
    page = snapshot.pages[row]
    return PageFacts(
        id=page.id,
        document=page.document.name,
        document_id=document_id(page.document.source),
        page=page.page + 1,
        pages=page.document.pages,
        width=page.width,
        height=page.height,
        version=page.document.version,
        metadata=dict(page.document.metadata),
        previous=_beside(snapshot, page, -1),
        next=_beside(snapshot, page, 1),
    )


def _beside(snapshot: Snapshot, page: PageRow, step: int) -> str | None:
    """The next page in a direction; one that could not be read is passed over."""
    number = page.page + step
    while number in page.document.missing:
        number += step
    row = snapshot.row(page.document.version, number)
    return None if row is None else snapshot.pages[row].id
