"""Documents -> a stream of their pages, rendered in worker processes ahead of whoever takes them."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator

from varsdoc.errors import ConfigError, InputError
from varsdoc.pages import office
from varsdoc.pages.jobs import Job
from varsdoc.pages.kinds import HEAD, OFFICE, sniff
from varsdoc.pages.pool import Pool
from varsdoc.pages.settings import Settings
from varsdoc.pages.stream import LONG_SIDE, MIB, QUALITY, Document, DocumentEnd, Failure, Limits, Page

Stream = Generator[Page | Failure | DocumentEnd, None, None]
AHEAD = 64 * MIB  # of JPEGs: some 200 pages


def default_workers() -> int:
    """Two at least, so that a slow document does not hold up the next; at most half the cores: encoders need them."""
    return max(2, min(8, (os.cpu_count() or 2) // 2))


def read(
    documents: Iterable[Document | Failure],
    *,
    workers: int | None = None,
    long_side: int = LONG_SIDE,
    quality: int = QUALITY,
    text: bool = True,
    limits: Limits | None = None,
    ahead: int = AHEAD,
) -> Stream:
    """Pages in document order, documents in the order given; each document ends with one `DocumentEnd`.

    A `Failure` among `documents` is passed on in its place, so `read(find(paths))` is the whole story. Pages wait as
    JPEGs, at most `ahead` bytes of them (and a few pages per worker). `documents` is only ever advanced by the
    consumer's own thread. Closing the generator ends the workers; so does the end of the process, however it ends.
    """
    settings = _settings(limits, long_side, quality, text)
    workers = default_workers() if workers is None else workers
    if workers < 1:
        raise ConfigError(f"workers is {workers}; give at least 1.")
    return _stream((_job(item, settings) for item in documents), settings, workers, max(1, ahead))


def render_one(
    source: str,
    number: int,
    *,
    content_hash: str | None = None,
    long_side: int = LONG_SIDE,
    quality: int = QUALITY,
    text: bool = False,
    limits: Limits | None = None,
) -> Page:
    """One page of a file, under the same limits; `content_hash` refuses a file that has changed since it was added."""
    settings = _settings(limits, long_side, quality, text)
    if number < 0:
        raise InputError(f"page {number} of {source} cannot be; pages are counted from 0.")
    try:
        size = os.stat(source).st_size
    except (OSError, ValueError) as error:
        raise InputError(f"{source} cannot be read: {getattr(error, 'strerror', None) or error}.") from error
    job = _job(Document(source, os.path.basename(source), content_hash or "", size), settings, number)
    stream = _stream(iter([job]), settings, 1, AHEAD)
    try:
        for item in stream:
            if isinstance(item, Page):
                return item
            if isinstance(item, Failure):
                raise InputError(f"{source}, page {number + 1}: {item.reason}")
    finally:
        stream.close()
    raise InputError(f"{source}, page {number + 1}, did not come.")


def _settings(limits: Limits | None, long_side: int, quality: int, text: bool) -> Settings:
    if long_side < 1:
        raise ConfigError(f"long_side is {long_side}; give at least 1 pixel.")
    if not 1 <= quality <= 100:
        raise ConfigError(f"quality is {quality}; JPEG knows 1 to 100.")
    return Settings(limits or Limits(), long_side, quality, text)


def _job(item: Document | Failure, settings: Settings, only: int | None = None) -> Job | Failure:
    if isinstance(item, Failure):
        return item
    job = Job(item, settings.limits, office=_is_office(item.path or item.source), only=only)
    if job.office and office.soffice() is None:
        job.give_up(office.MISSING)
    return job


def _is_office(path: str) -> bool:
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with os.fdopen(handle, "rb") as file:
            return sniff(file.read(HEAD) or b"", path) == OFFICE
    except OSError:
        return False  # the worker finds out why


def _stream(jobs: Iterator[Job | Failure], settings: Settings, workers: int, ahead: int) -> Stream:
    pool = Pool(settings, workers, ahead)
    try:
        while True:
            pulled = 0
            while pool.wants() and (pulled < 2 or not pool.has_output):
                pool.submit(next(jobs, None))
                pulled += 1
            item = pool.take()
            if item is not None:
                yield item
            elif pool.finished:
                return
    finally:
        pool.close()
