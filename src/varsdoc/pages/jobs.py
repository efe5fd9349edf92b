"""One document on its way: which pages are still to be asked for, which have come, which may go out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from varsdoc.pages.settings import Picture
from varsdoc.pages.stream import Document, DocumentEnd, Failure, Limits, Page

CHUNK = 4  # pages a worker renders at a time: small, so that a long document is shared by all workers


@dataclass
class Task:
    """What one worker does now: pages `next` to `stop` of a document (None: as many as there are, up to a chunk)."""

    job: Job
    next: int
    stop: int | None
    convert: bool = False
    opened: bool = False  # by this worker: until then it may still be reading the file


@dataclass
class Job:
    document: Document
    limits: Limits
    office: bool = False  # still to be converted
    only: int | None = None  # one page is wanted and no other
    path: str = ""
    content_hash: str | None = None
    scratch: str | None = None
    count: int | None = None
    todo: deque[tuple[int, int | None]] = field(default_factory=deque)
    running: int = 0
    unasked: int = 0  # first page that was never asked for
    next_out: int = 0
    held: int = 0  # bytes of pages that wait here
    came: int = 0
    crashes: int = 0
    bad_pages: int = 0
    given_up: Failure | None = None
    streamed: list[Failure] = field(default_factory=list)
    ready: dict[int, Page | Failure] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.path = self.document.path or self.document.source
        self.content_hash = self.document.content_hash or None
        self.next_out = self.only or 0
        self.todo.append((self.next_out, None if self.only is None else self.only + 1))

    @property
    def has_work(self) -> bool:
        return self.given_up is None and (bool(self.todo) or (self.count is not None and self.unasked < self.count))

    def next_task(self) -> Task:
        """The earliest pages that nobody works on."""
        if self.office:
            return Task(self, 0, None, convert=True)
        if self.todo:
            start, stop = self.todo.popleft()
            return Task(self, start, stop)
        assert self.count is not None
        start, self.unasked = self.unasked, min(self.unasked + CHUNK, self.count)
        return Task(self, start, self.unasked)

    def opened(self, task: Task, count: int) -> None:
        task.opened = True
        if self.count is not None:
            if self.count != count:
                self.give_up("It changed while it was being read; add it again.")
            return
        self.count = count
        if count > self.limits.max_pages:
            self.give_up(f"It has {count:,} pages, more than the limit of {self.limits.max_pages:,}; split it.")
            return
        if task.stop is None:
            task.stop = min(task.next + CHUNK, count)
        self.unasked = count if self.only is not None else task.stop

    def converted(self, path: str) -> None:
        self.office, self.path, self.content_hash = False, path, None

    def page(self, number: int, picture: Picture) -> None:
        if self.given_up is None:
            assert self.count is not None
            size = (picture.width, picture.height)
            page = Page(self.document, number, self.count, picture.jpeg, *size, picture.text)
            self.ready[number] = page
            self.held += page.nbytes

    def bad_page(self, number: int, reason: str) -> None:
        if self.given_up is not None:
            return
        self.ready[number] = Failure(self.document.source, reason, number)
        self.bad_pages += 1
        if self.bad_pages > self.limits.max_bad_pages:
            self.give_up(
                f"More than {self.limits.max_bad_pages} of its pages cannot be read, the last because: {reason}"
            )

    def crashed(self, task: Task, reason: str) -> None:
        """A worker was lost on it: the page is skipped, the pages behind it get another worker, but not for ever."""
        self.crashes += 1
        if self.count is None or task.convert or task.stop is None:
            self.give_up(reason)
            return
        self.bad_page(task.next, reason)
        if self.crashes >= self.limits.max_crashes:
            self.give_up(f"{self.crashes} of its pages could not be drawn, the last because: {reason}")
        elif task.next + 1 < task.stop:
            self.todo.appendleft((task.next + 1, task.stop))

    def give_up(self, reason: str) -> None:
        if self.given_up is None:
            self.given_up = Failure(self.document.source, reason)
            self.todo.clear()
            self.ready.clear()
            self.held = 0

    @property
    def finished(self) -> bool:
        """Everything that will come of it has gone out."""
        last = self.count if self.only is None else self.only + 1
        return self.given_up is not None or (self.count is not None and self.next_out == last)

    def outgoing(self) -> Iterator[Page | Failure | DocumentEnd]:
        """What may go out now, in page order."""
        while (item := self.ready.pop(self.next_out, None)) is not None:
            self.next_out += 1
            if isinstance(item, Failure):
                self.streamed.append(item)
            else:
                self.came += 1
                self.held -= item.nbytes
            yield item
        if self.given_up is not None:
            self.streamed.append(self.given_up)
            yield self.given_up
        if self.finished:
            yield DocumentEnd(self.document, self.came, tuple(self.streamed))
