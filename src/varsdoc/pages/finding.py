"""Folders, globs and files -> the documents in them, each read once for its hash, in a stable order.

What was named by a person and cannot be used is a `Failure`; what merely lies in a folder beside the documents
(hidden files, programs, text) is counted in the `Tally` and not mentioned. A file whose name promises a document and
whose content is none is always a `Failure`. Symlinked files are read, symlinked folders are not entered: a loop, or a
link out of the folder, brings in nothing that was not named.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
import stat
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from varsdoc.pages.kinds import HEAD, promised, sniff
from varsdoc.pages.stream import Document, Failure, Limits

SUPPORTED = "PDF, PNG, JPEG, TIFF, WebP, GIF, BMP and office files"


@dataclass
class Tally:
    """What `find` passed over in folders without a word."""

    hidden: int = 0
    unsupported: int = 0
    linked_folders: int = 0
    repeated: int = 0  # the same file reached twice


def find(
    paths: Iterable[str | Path], *, limits: Limits | None = None, tally: Tally | None = None
) -> Iterator[Document | Failure]:
    """Documents under `paths` (files, folders, globs), arguments in their order, folders sorted by name."""
    if isinstance(paths, str | Path):
        paths = [paths]
    finder = _Finder(limits or Limits(), tally if tally is not None else Tally())
    for path in paths:
        yield from finder.argument(path)


def readable(text: str) -> str:
    """A path as one line of valid UTF-8, whatever bytes the file system holds.

    >>> readable("a\\udcff\\n.pdf")
    'a\\\\xff\\\\n.pdf'
    """
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class _Finder:
    def __init__(self, limits: Limits, tally: Tally):
        self.limits, self.tally = limits, tally
        self.sources: set[str] = set()
        self.names: set[str] = set()

    def argument(self, path: str | Path) -> Iterator[Document | Failure]:
        given = os.fspath(path)
        if not given or "\0" in given:
            yield Failure(readable(given), "The path is empty or has a NUL in it; name a file or a folder.")
            return
        full = os.path.abspath(os.path.expanduser(given))
        if os.path.isdir(full):
            yield from self._folder(full, _walk(full, self.tally), f"The folder {readable(given)} holds no document")
        elif os.path.lexists(full):
            yield from self._file(full, os.path.basename(full), named=True)
        elif glob.has_magic(given):
            base, pattern = _split(full)
            yield from self._folder(base, _match(base, pattern, self.tally), f"Nothing matches {readable(given)}")
        else:
            yield Failure(readable(full), f"{readable(given)} does not exist; check the spelling.")

    def _folder(self, base: str, entries: Iterator[str | Failure], nothing: str) -> Iterator[Document | Failure]:
        before, empty = self.tally.repeated, True
        for entry in entries:
            items = [entry] if isinstance(entry, Failure) else self._file(entry, os.path.relpath(entry, base))
            for item in items:
                empty = False
                yield item
        if empty and self.tally.repeated == before:
            yield Failure(readable(base), f"{nothing} that can be read ({SUPPORTED}).")

    def _file(self, path: str, name: str, named: bool = False) -> Iterator[Document | Failure]:
        """At most one item: none where the file is passed over, or was found before."""
        source, shown = os.path.realpath(path), readable(path)
        if source in self.sources:
            self.tally.repeated += 1
            return
        ours = named or promised(path) is not None
        try:
            kind, digest, size = _inspect(path, self.limits.max_file_bytes, ours)
        except _PassedOver:
            self.tally.unsupported += 1
            return
        except (OSError, ValueError) as error:
            yield Failure(shown, _unreadable(path, error))
            return
        if _utf8(source) is None:
            yield Failure(shown, "Its name is not valid UTF-8; rename the file.")
        elif size > self.limits.max_file_bytes:
            yield Failure(shown, f"It has {size:,} bytes, more than the limit of {self.limits.max_file_bytes:,}.")
        elif size == 0:
            yield Failure(shown, "It is empty (0 bytes).")
        elif kind is None:
            yield Failure(shown, _mistaken(path))
        else:
            self.sources.add(source)
            yield Document(source, self._unique(name, source), digest, size)

    def _unique(self, name: str, source: str) -> str:
        """The name itself, else with the folders above it, else with a number."""
        name = unicodedata.normalize("NFC", readable(name.replace(os.sep, "/")))
        parts = unicodedata.normalize("NFC", readable(source.replace(os.sep, "/"))).split("/")
        longer = ["/".join(parts[-depth:]) for depth in range(2, len(parts))]
        choices = [name, *(path for path in longer if len(path) > len(name))]
        unique = next((choice for choice in choices if choice not in self.names), None)
        number = 2
        while unique is None:
            unique = f"{name} ({number})" if f"{name} ({number})" not in self.names else None
            number += 1
        self.names.add(unique)
        return unique


class _PassedOver(Exception):  # noqa: N818, no error: it is counted
    """A file in a folder that is none of ours."""


def _inspect(path: str, most: int, ours: bool) -> tuple[str | None, str, int]:
    """Kind, sha256 and size. `ours`: it was named, or its name promises a document, so it is never passed over."""
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("It is not a regular file (a device, a pipe or a socket).")
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except (OSError, ValueError):
        if ours:
            raise
        raise _PassedOver from None
    with os.fdopen(handle, "rb") as file:
        head = file.read(HEAD)
        kind = sniff(head, path)
        if kind is None and not ours:
            raise _PassedOver
        if kind is None or status.st_size > most:
            return kind, "", status.st_size
        digest, size = hashlib.sha256(head), len(head)
        while (chunk := file.read(1 << 20)) and size <= most:
            digest.update(chunk)
            size += len(chunk)
    return kind, digest.hexdigest(), size


def _unreadable(path: str, error: OSError | ValueError) -> str:
    if isinstance(error, ValueError):
        return str(error)
    if os.path.islink(path) and not os.path.exists(path):
        return "It is a link that leads nowhere; mend or remove it."
    return f"It cannot be read: {error.strerror or error}."


def _mistaken(path: str) -> str:
    kind = promised(path)
    if kind is None:
        return f"It is none of the kinds that can be read ({SUPPORTED})."
    return f"Its name says {Path(path).suffix.lower()}, but its content is not; it is damaged or misnamed."


def _utf8(text: str) -> bytes | None:
    try:
        return text.encode()
    except UnicodeEncodeError:
        return None


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "~$")) or name in ("__MACOSX", "Thumbs.db", "desktop.ini")


def _children(folder: str, tally: Tally) -> tuple[list[os.DirEntry[str]], Failure | None]:
    """The visible entries, sorted; a linked folder is none."""
    try:
        with os.scandir(folder) as entries:
            everything = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        return [], Failure(readable(folder), f"The folder cannot be read: {error.strerror or error}.")
    visible = []
    for entry in everything:
        if _is_hidden(entry.name):
            tally.hidden += 1
        elif entry.is_symlink() and os.path.isdir(entry.path):
            tally.linked_folders += 1
        else:
            visible.append(entry)
    return visible, None


def _walk(folder: str, tally: Tally) -> Iterator[str | Failure]:
    """Every visible file below, sorted folder by folder; a stack, so that depth costs no recursion."""
    children, failure = _children(folder, tally)
    if failure:
        yield failure
    stack = children[::-1]
    while stack:
        entry = stack.pop()
        if not entry.is_dir(follow_symlinks=False):
            yield entry.path
            continue
        children, failure = _children(entry.path, tally)
        if failure:
            yield failure
        stack.extend(children[::-1])


def _split(pattern: str) -> tuple[str, str]:
    """The folder above the first wildcard, and the pattern below it.

    >>> _split("/data/20*/**/*.pdf")
    ('/data', '20*/**/*.pdf')
    """
    parts = pattern.replace(os.sep, "/").split("/")
    first = next(index for index, part in enumerate(parts) if glob.has_magic(part))
    return "/".join(parts[:first]) or "/", "/".join(parts[first:])


def _match(base: str, pattern: str, tally: Tally) -> Iterator[str | Failure]:
    """Files that match, and all files in folders that match. Not glob.glob: it follows linked folders in circles."""
    wanted, depth = _translate(pattern), pattern.count("/") + 1
    if not os.path.isdir(base):
        return
    stack = _children(base, tally)[0][::-1]
    while stack:
        entry = stack.pop()
        below = os.path.relpath(entry.path, base).replace(os.sep, "/")
        is_folder, hit = entry.is_dir(follow_symlinks=False), wanted.fullmatch(below) is not None
        if is_folder and hit:
            yield from _walk(entry.path, tally)
        elif is_folder and ("**" in pattern or below.count("/") + 1 < depth):
            stack.extend(_children(entry.path, tally)[0][::-1])
        elif hit and not is_folder:
            yield entry.path


def _translate(pattern: str) -> re.Pattern[str]:
    """A glob as a regular expression over posix paths: `*` and `?` stay within one part, `**/` spans any number.

    >>> [bool(_translate("**/*.pdf").fullmatch(path)) for path in ("a.pdf", "x/y/a.pdf", "a.png")]
    [True, True, False]
    """
    pieces = re.findall(r"\*\*/|\*\*|\*|\?|\[!?\]?[^\]]*\]|.", pattern, flags=re.DOTALL)
    fixed = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    classes = (
        fixed.get(piece)
        or ("[" + re.sub(r"^!", "^", piece[1:-1]).replace("\\", "\\\\") + "]" if len(piece) > 1 else re.escape(piece))
        for piece in pieces
    )
    return re.compile("".join(classes), flags=re.DOTALL)
