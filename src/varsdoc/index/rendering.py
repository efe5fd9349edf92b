"""Pictures of collections that store none: rendered again from the source, if it is still the file that was indexed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from varsdoc.errors import CollectionError, VarsDocError
from varsdoc.index.tables import StoredDocument

if TYPE_CHECKING:
    from varsdoc.pages import Document, Page


def render_again(document: StoredDocument, page: int) -> Page:
    """One page, 0-based, under the same limits as when it was indexed."""
    from varsdoc.pages import render_one

    try:
        return render_one(document.source, page, content_hash=document.content_hash)
    except VarsDocError as error:
        raise _cannot(document, page, str(error)) from error


def render_all(document: StoredDocument) -> Iterator[Page]:
    """Every page that the collection has of a document, in order."""
    from varsdoc.pages import Failure, Page, read

    stream = read([as_found(document)], text=False)
    try:
        for item in stream:
            if isinstance(item, Page) and item.number not in document.missing:
                yield item
            elif isinstance(item, Failure) and item.page not in document.missing:
                raise _cannot(document, item.page, item.reason)
    finally:
        stream.close()


def as_found(document: StoredDocument) -> Document:
    from varsdoc.pages import Document

    return Document(document.source, document.name, document.content_hash, document.size)


def _cannot(document: StoredDocument, page: int | None, reason: str) -> CollectionError:
    which = "" if page is None else f", page {page + 1},"
    return CollectionError(f"{document.name}{which} cannot be rendered again from {document.source}: {reason}")
