"""The collections of a server: each with a name that says nothing about where it lies."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from varsdoc.errors import CollectionError
from varsdoc.index import Fingerprint, Index
from varsdoc.index.facts import DocumentFacts
from varsdoc.serving.problems import Problem


class Collection:
    """One collection. It may be empty, even not there yet: the first upload makes it."""

    def __init__(self, name: str, uri: str, read_only: bool = False) -> None:
        self.name, self.uri = name, uri
        self.index = Index.open(uri)
        self.folder = None if "://" in uri else Path(os.path.expanduser(uri))
        self._found: Fingerprint | None = None
        self._refusal = "This server only reads: it was started with --read-only." if read_only else None
        if self.folder is None and not read_only:
            self._refusal = (
                "This collection lies in an object store, which the server only reads; use `varsdoc index` and "
                "`varsdoc remove`."
            )
        if (read_only or self.folder is None) and not self.index.exists:
            raise CollectionError(f"There is no collection at {uri} to read; make one with `varsdoc index`.")

    @property
    def read_only(self) -> bool:
        return self._refusal is not None

    def refuse_writing(self, reason: str) -> None:
        """From now on, for this reason."""
        self._refusal = reason

    def require_writable(self) -> None:
        if self._refusal is not None:
            raise Problem(403, self._refusal)

    def fingerprint(self, fresh: bool = False) -> Fingerprint | None:
        """Of the collection's encoder, None while there is no collection; as last seen, unless asked to look."""
        if fresh or self._found is None:
            self._found = self.index.fingerprint if self.index.exists else None
        return self._found

    def documents(self) -> list[DocumentFacts]:
        return self.index.documents() if self.index.exists else []


class Library:
    """Collections by name; the first is meant where none is named."""

    def __init__(self, uris: Sequence[str], read_only: bool = False) -> None:
        names = unique_names(uris)
        self.collections = [Collection(name, uri, read_only) for name, uri in zip(names, uris, strict=True)]
        self._by_name = {one.name: one for one in self.collections}

    def __getitem__(self, name: str | None) -> Collection:
        if name is None:
            return self.collections[0]
        if name not in self._by_name:
            raise Problem(404, f"There is no collection {name!r}; there are {', '.join(self._by_name)}.")
        return self._by_name[name]

    def query(self, collection: Collection) -> str:
        """What an address needs to mean this collection."""
        from urllib.parse import quote

        return "" if collection is self.collections[0] else f"&collection={quote(collection.name, safe='')}"


def unique_names(uris: Sequence[str]) -> list[str]:
    """The last parts of paths, numbered where two are equal.

    >>> unique_names(["/a/reports", "s3://bucket/reports/", "."])[:2]
    ['reports', 'reports-2']
    """
    names: list[str] = []
    for uri in uris:
        plain = uri if "://" in uri else os.path.abspath(os.path.expanduser(uri))
        wanted = plain.replace("\\", "/").rstrip("/").rpartition("/")[2] or "collection"
        wanted = "".join(c if c.isprintable() else "_" for c in wanted)
        choices = (wanted if i == 1 else f"{wanted}-{i}" for i in count(1))
        names.append(next(name for name in choices if name not in names))
    return names
