"""An upload on its way in: a multipart body, written to disk as it comes, within bounds, checked by content.

Nothing is kept in memory but a chunk, and nothing lies outside the folder that is given. A request that is refused half
way leaves that folder to its caller, who removes it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from fastapi import Request
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from varsdoc.errors import ConfigError
from varsdoc.index.metadata import check
from varsdoc.pages.finding import SUPPORTED
from varsdoc.pages.kinds import HEAD, sniff
from varsdoc.serving.names import disk_name, display_name
from varsdoc.serving.problems import Problem
from varsdoc.serving.settings import Limits

_HEADER_BYTES = 8 << 10  # of one part


@dataclass(frozen=True)
class Received:
    """A file that came in."""

    name: str  # for people
    path: Path
    size: int


class _Parts:
    """What the parser's callbacks build: files on disk, and the one field."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        self._folder, self._limits = folder, limits
        self.files: list[Received] = []
        self.metadata: bytearray | None = None
        self.ended = False
        self._header: tuple[bytearray, bytearray] = (bytearray(), bytearray())
        self._disposition = b""
        self._header_bytes = 0
        self._out: BinaryIO | None = None
        self._name, self._into_metadata = "", False

    def callbacks(self) -> dict[str, Any]:
        names = ("part_begin", "part_data", "part_end", "header_field", "header_value", "header_end", "end")
        return {f"on_{name}": getattr(self, name) for name in (*names, "headers_finished")}

    def part_begin(self) -> None:
        self._header, self._disposition, self._header_bytes = (bytearray(), bytearray()), b"", 0
        self._into_metadata = False

    def header_field(self, data: bytes, start: int, end: int) -> None:
        self._grow(0, data[start:end])

    def header_value(self, data: bytes, start: int, end: int) -> None:
        self._grow(1, data[start:end])

    def _grow(self, which: int, data: bytes) -> None:
        self._header_bytes += len(data)
        if self._header_bytes > _HEADER_BYTES:
            raise Problem(413, "A part of the upload has a head that is too long.")
        self._header[which].extend(data)

    def header_end(self) -> None:
        if self._header[0].lower() == b"content-disposition":
            self._disposition = bytes(self._header[1])
        self._header = (bytearray(), bytearray())

    def headers_finished(self) -> None:
        _, options = parse_options_header(self._disposition)
        field = options.get(b"name", b"").decode("utf-8", "replace")
        if field == "metadata" and self.metadata is None and b"filename" not in options:
            self.metadata, self._into_metadata = bytearray(), True
        elif field == "files" and b"filename" in options:
            self._open(options[b"filename"].decode("utf-8", "replace"))
        else:
            raise Problem(
                422, "An upload has files in the field `files`, each with its name, and one field `metadata`."
            )

    def _open(self, given: str) -> None:
        if len(self.files) >= self._limits.files:
            raise Problem(413, f"One upload may have {self._limits.files} files.")
        for escaped, meant in (("%0D", "\r"), ("%0A", "\n"), ("%22", '"')):  # as browsers write them
            given = given.replace(escaped, meant)
        self._name = display_name(given)
        if self._name in [one.name for one in self.files]:
            raise Problem(422, f"Two files of this upload have the name {self._name!r}; rename one.")
        path = self._folder / f"{len(self.files):03d}-{disk_name(self._name)}"
        self.files.append(Received(self._name, path, 0))
        self._out = path.open("xb")

    def part_data(self, data: bytes, start: int, end: int) -> None:
        if self._out is not None:
            self._out.write(data[start:end])
        elif self._into_metadata and self.metadata is not None:
            self.metadata.extend(data[start:end])
            if len(self.metadata) > self._limits.metadata:
                raise Problem(413, f"The metadata may have {self._limits.metadata:,} bytes.")

    def part_end(self) -> None:
        self._into_metadata = False
        if self._out is None:
            return
        self._out.flush()
        os.fsync(self._out.fileno())
        self._out.close()
        self._out = None
        last = self.files[-1]
        self.files[-1] = Received(last.name, last.path, last.path.stat().st_size)
        _check_kind(self.files[-1])

    def end(self) -> None:
        self.ended = True

    def close(self) -> None:
        if self._out is not None:
            self._out.close()
            self._out = None


def _check_kind(file: Received) -> None:
    with file.path.open("rb") as opened:
        kind = sniff(opened.read(HEAD), file.name)
    if kind is None:
        what = "is empty" if not file.size else f"is none of the kinds that can be read ({SUPPORTED})"
        raise Problem(415, f"{file.name!r} {what}.")


async def receive(
    request: Request, folder: Path, limits: Limits, run: Callable[..., Awaitable[Any]]
) -> tuple[list[Received], dict[str, Any]]:
    """The files of an upload, in `folder`, and its metadata. `run` calls in a thread: a disk may be slow."""
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    boundary = options.get(b"boundary", b"")
    if kind != b"multipart/form-data" or not boundary or len(boundary) > 200:
        raise Problem(415, "Send the files as multipart/form-data, in the field `files`.")
    parts = _Parts(folder, limits)
    try:
        parser = MultipartParser(boundary, parts.callbacks())  # type: ignore[arg-type]
        async for chunk in request.stream():
            if chunk:
                await run(parser.write, chunk)
        parser.finalize()
    except FormParserError as error:
        raise Problem(422, f"The upload is not a whole multipart body ({error}).") from error
    finally:
        parts.close()
    if not parts.ended:
        raise Problem(422, "The upload is not a whole multipart body.")
    if not parts.files:
        raise Problem(422, "The upload has no file; send at least one in the field `files`.")
    return parts.files, _metadata(parts.metadata)


def _metadata(given: bytearray | None) -> dict[str, Any]:
    if not given or not given.strip():
        return {}
    try:
        values = json.loads(given.decode())
        if not isinstance(values, dict):
            raise Problem(422, "The metadata is no JSON object.")
        return check(values)
    except (ValueError, RecursionError) as error:
        said = str(error) if isinstance(error, ConfigError) else "The metadata is no JSON object."
        raise Problem(422, said) from error
