"""Faults that tests plant into a child's process, to see that the kill tests find them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def show_before_staging() -> None:
    """A document is named before its pages lie in the table."""
    from varsdoc.index.store import Generation

    stage, commit = Generation.stage, Generation.commit
    held: dict[int, list[Any]] = {}

    def late_stage(self: Generation, pages: list[Any]) -> None:
        held.setdefault(id(self), []).extend(pages)

    def early_commit(self: Generation, documents: list[Any]) -> None:
        commit(self, documents)
        stage(self, held.pop(id(self), []))

    Generation.stage, Generation.commit = late_stage, early_commit  # type: ignore[method-assign]


def forget_what_was_staged() -> None:
    """Pages that a killed run staged are encoded and staged again: they are there twice."""
    from varsdoc.index.store import Generation

    Generation.staged = lambda self: {}  # type: ignore[method-assign]


def swap_before_filling() -> None:
    """A reindex names its new tables before they are filled."""
    from varsdoc.index import reindexing
    from varsdoc.index.tables import State

    fill = reindexing._fill
    create = reindexing.Store.create_generation

    def early(self: Any, generation: int) -> None:
        create(self, generation)
        reindexing._planted = (self, generation)  # type: ignore[attr-defined]

    def late_fill(old: Any, beside: Any, encoder: Any, new: Any, *rest: Any) -> None:
        store, generation = reindexing._planted  # type: ignore[attr-defined]
        store.write_state(State(new, generation))
        fill(old, beside, encoder, new, *rest)

    reindexing.Store.create_generation = early  # type: ignore[method-assign]
    reindexing._fill = late_fill


FAULTS: dict[str, Callable[[], None]] = {
    one.__name__: one for one in (show_before_staging, forget_what_was_staged, swap_before_filling)
}
