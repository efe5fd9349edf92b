"""Pictures of collections that store none: rendered again from the source, if it is still the file that was indexed."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from varsdoc.errors import CollectionError, VarsDocError
from varsdoc.index.tables import StoredDocument

if TYPE_CHECKING:
    from varsdoc.pages import Page

_BLOCK = 1 << 20


def require_same_bytes(document: StoredDocument) -> None:
    """A file that changed would show another page than the one that was found."""
    digest = hashlib.sha256()
    try:
        with open(document.source, "rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
    except OSError as error:
        raise CollectionError(
            f"{document.name} cannot be rendered again: {document.source} is not there any more "
            f"({error.strerror or error})."
        ) from error
    if digest.hexdigest() != document.content_hash:
        raise CollectionError(
            f"{document.name} cannot be rendered again: {document.source} has changed since it was indexed; run "
            "`varsdoc index` on it first."
        )


def render_again(document: StoredDocument, page: int, checked: bool = False) -> Page:
    """One page, 0-based, under the same limits as when it was indexed."""
    from varsdoc.pages import Failure, render_one

    if not checked:
        require_same_bytes(document)
    try:
        made = render_one(document.source, page)
    except VarsDocError as error:
        raise CollectionError(f"{document.name}, page {page + 1}, cannot be rendered again ({error})") from error
    if isinstance(made, Failure):
        raise CollectionError(f"{document.name}, page {page + 1}, cannot be rendered again ({made.reason})")
    return made
