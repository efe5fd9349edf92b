"""A hit in the words of other frameworks: text for those without eyes, a picture for those with, flat metadata."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from varsdoc.errors import CollectionError
from varsdoc.picture import bounded_jpeg

if TYPE_CHECKING:
    from varsdoc.index import Hit

PICTURE_SIDE = 1024  # pixels; what vision models scale a page to anyway


def content(hit: Hit) -> str:
    """The page's text layer; of a scan, which has none, a sentence that says so."""
    return hit.text() or f"Page {hit.page} of {hit.document}, which has no text layer; look at its picture."


def metadata(hit: Hit) -> dict[str, Any]:
    """The collection's own metadata, then what the search found: the names of `varsdoc search --json`."""
    facts = hit.to_json()
    return {**facts.pop("metadata"), **facts}


def picture(hit: Hit, side: int = PICTURE_SIDE) -> str | None:
    """Base64 of a JPEG; None where none is stored and the source is gone."""
    try:
        image = hit.image()
    except CollectionError:
        return None
    return base64.b64encode(bounded_jpeg(image, side)).decode()
