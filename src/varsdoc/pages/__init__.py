"""Files -> a stream of page pictures with stable ids. Knows PDFs, pictures and office files; no models, no vectors."""

from varsdoc.pages.finding import Tally, find
from varsdoc.pages.reading import read, render_one
from varsdoc.pages.stream import Document, DocumentEnd, Failure, Limits, Page, page_id

__all__ = [
    "Document",
    "DocumentEnd",
    "Failure",
    "Limits",
    "Page",
    "Tally",
    "find",
    "page_id",
    "read",
    "render_one",
]
