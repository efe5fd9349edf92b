"""Results that cost seconds each, kept by content: embeddings, OCR text.

- A key is made of what went in (image bytes, query text) and a space is made of what did the work (the model's
  fingerprint, or the OCR engine and its settings), so a changed page or model never meets an old result.
- One file per result, written beside its place and renamed: whoever is killed at any moment leaves whole files only.
- Vectors are float16, and what is scored is always what was stored: a run from the cache equals the first exactly.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from varsdoc.errors import InputError

Array = NDArray[Any]
T = TypeVar("T")


def default_folder() -> Path:
    """The user's cache: XDG_CACHE_HOME where it is set, else ~/.cache."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "varsdoc" / "eval"


def content_key(*parts: bytes | str) -> str:
    """32 hex digits over the parts and their borders.

    >>> content_key("ab", "c") == content_key("a", "bc")
    False
    """
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()[:32]


class Cache:
    """A folder of results. `space` separates what different models or engines made."""

    def __init__(self, folder: str | Path | None = None) -> None:
        self.folder = Path(folder).expanduser() if folder is not None else default_folder()

    def place(self, space: str, key: str, suffix: str) -> Path:
        return self.folder / re.sub(r"[^\w.=-]+", "_", space) / key[:2] / f"{key}{suffix}"

    def read_array(self, space: str, key: str) -> Array | None:
        """The stored vectors, or None where there are none or the file is damaged: then they are made anew."""
        try:
            return np.asarray(np.load(self.place(space, key, ".npy"), allow_pickle=False))
        except (OSError, ValueError, EOFError):
            return None

    def write_array(self, space: str, key: str, array: Array) -> None:
        data = io.BytesIO()
        np.save(data, np.ascontiguousarray(array, dtype=np.float16), allow_pickle=False)
        self._write(self.place(space, key, ".npy"), data.getvalue())

    def read_text(self, space: str, key: str) -> str | None:
        try:
            return self.place(space, key, ".txt").read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return None

    def write_text(self, space: str, key: str, text: str) -> None:
        self._write(self.place(space, key, ".txt"), text.encode())

    def has_array(self, space: str, key: str) -> bool:
        """Whether a whole file is there: mapping it checks its header and its length without reading it."""
        try:
            np.load(self.place(space, key, ".npy"), mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError):
            return False
        return True

    def _write(self, path: Path, data: bytes) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix=".part-", dir=path.parent)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                os.replace(name, path)
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise
        except OSError as error:
            raise InputError(
                f"The cache {self.folder} cannot be written ({error.strerror}); give another folder with --cache."
            ) from error

    def fill(
        self,
        space: str,
        keys: Sequence[str],
        make: Callable[[list[int]], Sequence[Array]],
        batch: int,
        done: Callable[[int], None] = lambda count: None,
    ) -> int:
        """Make what is missing, a batch at a time, and store it at once. Returns how many were made.

        keys  equal keys are made once
        make  gets positions in `keys`, returns one array for each
        done  told how many of the keys are there, as it goes
        """
        first = {key: i for i, key in reversed(list(enumerate(keys)))}
        missing = [i for key, i in first.items() if not self.has_array(space, key)]
        missing.sort()
        done(len(keys) - len(missing))
        for rows in batches(missing, batch):
            for i, array in zip(rows, make(rows), strict=True):
                self.write_array(space, keys[i], array)
            done(len(rows))
        return len(missing)

    def arrays(self, space: str, keys: Iterable[str]) -> Iterator[Array]:
        """Stored vectors one by one, as float16."""
        for key in keys:
            array = self.read_array(space, key)
            if array is None:
                raise InputError(f"The cache {self.folder} lost an entry while it was used; run the command again.")
            yield array


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of up to `size` items.

    >>> list(batches(range(5), 2))
    [[0, 1], [2, 3], [4]]
    """
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk
