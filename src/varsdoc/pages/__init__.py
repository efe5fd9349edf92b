"""Files -> a stream of page pictures with stable ids. Knows PDFs, pictures and office files; no models, no vectors."""

from varsdoc.pages.stream import Document, DocumentEnd, Failure, Limits, Page, page_id

__all__ = ["Document", "DocumentEnd", "Failure", "Limits", "Page", "page_id"]
