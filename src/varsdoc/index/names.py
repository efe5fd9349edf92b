"""Display names that are unique in a collection, and stay.

A document has the name that it was found under, relative to the folder that was indexed. If another source has that
name already, the newcomer gets the first free number: "report.pdf", "report (2).pdf". The name is kept with the source,
so it does not change when files come and go, and it says nothing about where the collection's machine keeps its files.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from pathlib import PurePosixPath


class Names:
    """Hands out names; knows those of the collection."""

    def __init__(self, taken: Iterable[tuple[str, str]]) -> None:
        self._by_source = dict(taken)  # source -> name
        self._names = set(self._by_source.values())

    def name(self, source: str, wanted: str) -> str:
        """The source's name: the one it has, or the wanted one, or that with a number.

        >>> names = Names([("/a/report.pdf", "report.pdf")])
        >>> names.name("/b/report.pdf", "report.pdf"), names.name("/a/report.pdf", "a/report.pdf")
        ('report (2).pdf', 'report.pdf')
        """
        if source not in self._by_source:
            chosen = next(name for name in _candidates(wanted) if name not in self._names)
            self._by_source[source] = chosen
            self._names.add(chosen)
        return self._by_source[source]


def _candidates(wanted: str) -> Iterable[str]:
    yield wanted
    path = PurePosixPath(wanted)
    for number in count(2):
        yield str(path.with_name(f"{path.stem} ({number}){path.suffix}"))
