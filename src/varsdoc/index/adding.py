"""Adding documents: find, read ahead, encode in chunks, stage, show.

The order of commits is what survives kill -9: pages are staged first, and a document is named only when all its pages
lie in the table. A run that resumes finds staged pages by their version (source, bytes, encoder) and encodes only the
rest. What a run does not pick up again is dropped at the end of the next one.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from varsdoc.index.encoder import EncodedPage, Encoder
from varsdoc.index.metadata import Metadata
from varsdoc.index.names import Names
from varsdoc.index.store import Generation
from varsdoc.index.tables import State, StoredDocument, StoredPage, version_of

if TYPE_CHECKING:
    from varsdoc.pages import Document, DocumentEnd, Failure, Page


@dataclass(frozen=True)
class Failed:
    """A file, or one page of it (1-based), that is not in the collection, and why."""

    source: str
    reason: str
    page: int | None = None

    def to_json(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"source": self.source, "reason": self.reason}
        return facts if self.page is None else facts | {"page": self.page}


@dataclass
class Added:
    """What a run did, in pages; `gone` and `pruned` are documents."""

    added: int = 0
    unchanged: int = 0
    replaced: int = 0
    reused: int = 0  # of the added and replaced: staged by an earlier run that was stopped
    failed: list[Failed] = field(default_factory=list)
    documents: int = 0  # that were added or replaced
    gone: list[str] = field(default_factory=list)  # names: no longer on disk, still in the collection
    pruned: list[str] = field(default_factory=list)

    @property
    def nothing_done(self) -> bool:
        return not (self.added or self.unchanged or self.replaced or self.pruned)

    def to_json(self) -> dict[str, Any]:
        return {
            "added": self.added,
            "unchanged": self.unchanged,
            "replaced": self.replaced,
            "failed": [failed.to_json() for failed in self.failed],
            "documents": self.documents,
            "reused": self.reused,
            "gone": self.gone,
            "pruned": self.pruned,
        }


class Watcher(Protocol):
    """Who wants to hear how a run goes on. Called by the writer's own thread, under its lock."""

    def opened(self, document: Document, pages: int) -> None:
        """A document has so many pages."""

    def encoded(self, pages: int) -> None:
        """So many more are done."""

    def shown(self, document: Document) -> None:
        """A document is in the collection in this version, by a commit just now or already."""


@dataclass
class _Open:
    """A document whose pages are coming in."""

    document: Document
    name: str
    version: str
    pages: dict[int, int] = field(default_factory=dict)  # page number -> bytes of its codes, staged or about to be
    missing: set[int] = field(default_factory=set)
    reused: int = 0
    end: DocumentEnd | None = None
    waiting: int = 0  # pages that are not encoded yet
    texts: dict[int, str] = field(default_factory=dict)  # of pages that lie in the table without theirs
    told: bool = False  # whoever watches knows of it


class Run:
    """One run of `Index.add`, under the lock."""

    def __init__(
        self,
        encoder: Encoder,
        metadata: Metadata,
        generation: Generation | None,
        state: State | None,
        bar: Any,
        watch: Watcher | None = None,
    ) -> None:
        self.encoder, self.metadata, self.bar, self.watch = encoder, metadata, bar, watch
        self.generation, self.state = generation, state
        self.result = Added()
        self.known = generation.read_documents() if generation else {}
        self.staged = generation.staged() if generation else {}
        self._code_bytes: dict[str, dict[int, int]] = {}
        self.names = Names((d.source, d.name) for d in self.known.values())
        self._open: dict[str, _Open] = {}  # by version
        self._chunk: list[tuple[Page, _Open]] = []
        self._running: deque[tuple[list[tuple[Page, _Open]], Future[list[EncodedPage]]]] = deque()
        self._updates: list[StoredDocument] = []
        self.seen: set[str] = set()
        self._text = False
        self._textless: dict[str, set[int]] = {}

    def want_text(self) -> None:
        """Store text layers, also those of pages that came in when nobody asked for them. Such a page has no text in
        the table, one without a text layer has an empty one. Their documents are read again, not encoded again."""
        self._text = True
        self._textless = self.generation.without_text() if self.generation else {}

    def select(self, found: Iterator[Document | Failure], begin: Any) -> Iterator[Document]:
        """The documents that must be read. `begin` makes the collection when the first one comes."""
        from varsdoc.pages import Failure

        for item in found:
            if isinstance(item, Failure):
                self.fail(item.source, item.reason, item.page)
                continue
            if item.source in self.seen:
                continue
            self.seen.add(item.source)
            if self.generation is None:
                self.generation, self.state = begin()
            assert self.state is not None
            name = self.names.name(item.source, item.name)
            version = version_of(item.source, item.content_hash, self.state.fingerprint)
            old = self.known.get(item.source)
            if old is not None and old.version == version and not old.missing and version not in self._textless:
                self._keep(old, item)
            else:
                self._open[version] = _Open(item, name, version)
                yield item

    def _keep(self, old: StoredDocument, item: Document) -> None:
        self.result.unchanged += old.pages
        if self.watch is not None:
            self.watch.opened(item, old.pages)
            self.watch.encoded(old.pages)
            self.watch.shown(item)
        metadata = self.metadata.over(old.metadata, item.source, item.name, old.name)
        if metadata != dict(old.metadata):
            self._updates.append(replace(old, metadata=metadata))

    def fail(self, source: str, reason: str, page: int | None = None) -> None:
        self.result.failed.append(Failed(source, reason, None if page is None else page + 1))

    def take(self, item: Page | Failure | DocumentEnd) -> None:
        """One thing from the reader."""
        from varsdoc.pages import DocumentEnd, Page

        if isinstance(item, Page):
            self._take_page(item)
        elif isinstance(item, DocumentEnd):
            opened = self._find(item.document)
            opened.end = item
            if not opened.waiting:
                self.flush([])
        else:
            self._take_failure(item)

    def _find(self, document: Document) -> _Open:
        assert self.state is not None
        return self._open[version_of(document.source, document.content_hash, self.state.fingerprint)]

    def _take_failure(self, failure: Failure) -> None:
        """A page that lies in the table is there, though it could not be drawn again this time."""
        opened = [o for o in self._open.values() if o.document.source == failure.source]
        page = failure.page
        if page is not None and any(self._reuse(one, page) for one in opened):
            return
        self.fail(failure.source, failure.reason, page)
        if page is not None:
            for one in opened:
                one.missing.add(page)

    def _reuse(self, opened: _Open, page: int) -> bool:
        """Take a page from the table, where an earlier run staged it from the same bytes."""
        if page not in self.staged.get(opened.version, ()):
            return False
        opened.pages[page] = self._staged_bytes(opened.version)[page]
        opened.reused += 1
        self._step(1)
        return True

    def _step(self, pages: int) -> None:
        self.bar.update(pages)
        if self.watch is not None:
            self.watch.encoded(pages)

    def _take_page(self, page: Page) -> None:
        page = replace(page, text=page.text or "") if self._text else page
        opened = self._find(page.document)
        if self.watch is not None and not opened.told:
            self.watch.opened(page.document, page.count)
            opened.told = True
        if self._reuse(opened, page.number):
            if page.text is not None and page.number in self._textless.get(opened.version, ()):
                opened.texts[page.number] = page.text
            return
        opened.waiting += 1
        self._chunk.append((page, opened))
        assert self.state is not None
        if len(self._chunk) >= self.encoder.chunk_pages(self.state.fingerprint):
            self.encode()

    def _staged_bytes(self, version: str) -> dict[int, int]:
        """Sizes of codes that an earlier run staged, read once per document."""
        if version not in self._code_bytes:
            assert self.generation is not None
            self._code_bytes[version] = self.generation.code_bytes(version)
        return self._code_bytes[version]

    def encode(self) -> None:
        """Encode what has come in, stage it, and show what is complete; beside a GPU, a few chunks later, in order."""
        chunk, self._chunk = self._chunk, []
        if not chunk:
            return
        assert self.state is not None
        pages, versions, found = [p for p, _ in chunk], [o.version for _, o in chunk], self.state.fingerprint
        most = self.encoder.in_flight(found)
        if not most:
            self._settle(chunk, self.encoder.encode(pages, versions, found))
            return
        self._running.append((chunk, self.encoder.start(pages, versions, found)))
        while len(self._running) > most:
            self._settle_oldest()

    def _settle_oldest(self) -> None:
        chunk, encoded = self._running.popleft()
        self._settle(chunk, encoded.result())

    def _settle(self, chunk: list[tuple[Page, _Open]], encoded: list[EncodedPage]) -> None:
        stored: list[StoredPage] = []
        for done, (page, opened) in zip(encoded, chunk, strict=True):
            opened.waiting -= 1
            if done.stored is None:
                self.fail(page.document.source, done.reason, page.number)
                opened.missing.add(page.number)
            else:
                opened.pages[page.number] = len(done.stored.codes)
                stored.append(done.stored)
        self.flush(stored)
        self._step(len(chunk))

    def flush(self, stored: list[StoredPage]) -> None:
        """Two commits at most, whatever the number of documents."""
        assert self.generation is not None
        self.generation.stage(stored)
        ended = [o for o in self._open.values() if o.end is not None and not o.waiting]
        shown = [o for o in ended if o.pages and o.end is not None and not o.end.unreadable]
        for opened in shown:
            self.generation.set_texts(opened.version, opened.texts)
        self.generation.commit([self._document(o) for o in shown])
        for opened in ended:
            del self._open[opened.version]
        if self.watch is not None:
            for opened in shown:
                self.watch.shown(opened.document)
        replaced = [self._count(o) for o in shown]
        self.generation.drop_versions([version for version in replaced if version])

    def _document(self, opened: _Open) -> StoredDocument:
        found, old = opened.document, self.known.get(opened.document.source)
        return StoredDocument(
            source=found.source,
            name=opened.name,
            version=opened.version,
            content_hash=found.content_hash,
            size=found.size,
            pages=len(opened.pages),
            code_bytes=sum(opened.pages.values()),
            missing=tuple(sorted(opened.missing)),
            metadata=self.metadata.over(old.metadata if old else {}, found.source, found.name, opened.name),
        )

    def _count(self, opened: _Open) -> str | None:
        """Put it into the sums; the version that it replaced."""
        old = self.known.get(opened.document.source)
        self.known[opened.document.source] = self._document(opened)
        pages = len(opened.pages)
        if old is not None and old.version == opened.version:  # a page that was missing was tried again
            self.result.unchanged += old.pages
            self.result.added += pages - old.pages
            self.result.documents += pages > old.pages
            return None
        self.result.reused += opened.reused
        self.result.documents += 1
        if old is None:
            self.result.added += pages
            return None
        self.result.replaced += pages
        return old.version

    def finish(self) -> None:
        """The last chunk, and documents whose metadata alone changed."""
        self.encode()
        while self._running:
            self._settle_oldest()
        if self.generation is not None:
            self.generation.commit(self._updates)


def gone_documents(paths: list[str], known: dict[str, StoredDocument]) -> list[StoredDocument]:
    """Documents under the given paths whose file is no longer there.

    A folder that is not there says nothing about what was in it: it may be a disk that is not mounted.
    """
    roots = [_root(path) for path in paths]
    folders = tuple(root.rstrip(os.sep) + os.sep for root in roots if os.path.isdir(root))
    files = {root for root in roots if os.path.isdir(os.path.dirname(root))}
    return [
        document
        for document in sorted(known.values(), key=lambda d: d.name)
        if (document.source in files or document.source.startswith(folders)) and _is_gone(document.source)
    ]


def _is_gone(source: str) -> bool:
    """Not there, as opposed to out of reach."""
    try:
        os.stat(source)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def _root(path: str) -> str:
    """The folder before a pattern's first wildcard, or the path itself, resolved as sources are."""
    plain = Path(path).expanduser()  # as `find` does
    parts = plain.parts
    if not plain.exists():
        wild = next((i for i, part in enumerate(parts) if any(c in part for c in "*?[")), len(parts))
        plain = Path(*parts[:wild]) if wild else Path()
    return str(plain.resolve())


def progress_bar(wanted: bool | None) -> Any:
    """Pages and pages per second on stderr; in a terminal by default."""
    from tqdm import tqdm

    shown = sys.stderr.isatty() if wanted is None else wanted
    return tqdm(unit="page", desc="indexing", disable=not shown, file=sys.stderr)
