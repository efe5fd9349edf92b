"""What travels out of this room: documents, pages, failures, and the limits under which files are opened."""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL import Image

MIB = 1 << 20

LONG_SIDE = 1600
QUALITY = 90


@dataclass(frozen=True)
class Document:
    """One file that was found. `source` is its identity; `name` is what people see, unique within one `find()`.

    path  where its bytes lie, if not at `source`: an upload that has not taken its predecessor's place yet
    """

    source: str
    name: str
    content_hash: str
    size: int
    path: str | None = None


@dataclass(frozen=True)
class Page:
    """One page picture: `jpeg` is exactly what is encoded and stored, upright, its long side bounded."""

    document: Document
    number: int
    count: int
    jpeg: bytes
    width: int
    height: int
    text: str | None = None

    @property
    def id(self) -> str:
        return page_id(self.document.source, self.number)

    @property
    def nbytes(self) -> int:
        """What it takes to keep it, text included: a hostile page may have little picture and much text."""
        return len(self.jpeg) + 4 * len(self.text or "") + 1024

    def image(self) -> Image.Image:
        """The picture as 8-bit RGB."""
        from PIL import Image

        with Image.open(io.BytesIO(self.jpeg)) as opened:
            return opened.convert("RGB")


@dataclass(frozen=True)
class Failure:
    """Why a file, or one page of it (0-based), could not be read: one sentence that says what to do."""

    source: str
    reason: str
    page: int | None = None


@dataclass(frozen=True)
class DocumentEnd:
    """Comes once for every document given to `read()`, after its last page.

    `pages` came; `failures` are those that were already streamed as they happened.
    """

    document: Document
    pages: int
    failures: tuple[Failure, ...] = ()

    @property
    def ok(self) -> bool:
        """All its pages came."""
        return not self.failures

    @property
    def unreadable(self) -> bool:
        """The document as a whole failed, not only single pages of it: what came must be dropped."""
        return self.pages == 0 or any(failure.page is None for failure in self.failures)


@dataclass(frozen=True)
class Limits:
    """What one file may cost. Whatever goes beyond is skipped with a reason; the rest goes on."""

    max_pages: int = 10_000  # of one document
    max_pixels: int = 178_956_970  # of one picture: A4 at 1,200 dpi has 140 million
    max_file_bytes: int = 512 * MIB
    seconds: float = 30.0  # to open a document, and for each of its pages
    memory: int = 2048 * MIB  # of one worker, beyond what it needs when idle
    max_text: int = 200_000  # characters of one page's text layer
    max_bad_pages: int = 20  # of one document, before the whole of it is given up
    max_crashes: int = 3  # workers one document may cost (crashed, hung) before it is given up
    office_seconds: float = 180.0  # for LibreOffice to convert one file
    office_memory: int = 8192 * MIB  # address space of LibreOffice
    max_unpacked_bytes: int = 2048 * MIB  # of an office file, which is a zip archive


def page_id(source: str, number: int) -> str:
    """The page's id: URL-safe, from the document's identity and the 0-based page number alone.

    >>> page_id("/reports/2023.pdf", 4)
    'f19757b5dbae9aa901f32a028bbb71ff-4'
    """
    return f"{hashlib.sha256(source.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}-{number}"
