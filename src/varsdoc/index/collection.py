"""`Index`: a collection of pages, opened for reading and writing. Nothing heavy is loaded before it is needed."""

from __future__ import annotations

import builtins
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from varsdoc.errors import CollectionError, ConfigError
from varsdoc.index.adding import Added, Run, gone_documents, progress_bar
from varsdoc.index.encoder import Encoder, query_vectors
from varsdoc.index.fingerprint import Fingerprint
from varsdoc.index.metadata import Metadata, check, read_file
from varsdoc.index.store import Generation, Store, is_store_error
from varsdoc.index.tables import State, StoredDocument

if TYPE_CHECKING:
    from varsdoc.index.audit import Audit
    from varsdoc.index.hit import Hit
    from varsdoc.index.reindexing import Reindexed
    from varsdoc.index.snapshot import Snapshot
    from varsdoc.model import VarsDoc

MEMORY = 2 << 30  # bytes of codes that a reader keeps; beyond it candidates' codes are read from the store
T = TypeVar("T")


@dataclass(frozen=True)
class Listed:
    """A document of a collection."""

    document: str
    pages: int
    source: str
    metadata: Mapping[str, Any]


class Index:
    """Add documents, search them, remove them. Many readers may be open while one writer writes.

    A search sees the latest commit; a document is there whole, or in its previous version, or not at all.
    """

    def __init__(
        self, store: Store, encoder: Encoder, memory: int = MEMORY, lists: bool = True, hold: str | None = None
    ) -> None:
        self._store, self._encoder, self._memory, self._lists, self._hold = store, encoder, memory, lists, hold
        self._snapshot: Snapshot | None = None
        self._filter: tuple[Any, Any] | None = None
        self._guard = threading.RLock()

    @classmethod
    def open(
        cls,
        path: str | Path,
        model: str | Path | VarsDoc | None = None,
        *,
        device: str | None = None,
        dtype: str | None = None,
        codec: str | None = None,
        codec_options: Mapping[str, Any] | None = None,
        images: bool | None = None,
        memory: int = MEMORY,
        lists: bool = True,
        hold: str | None = None,
        compile: bool = False,
    ) -> Index:
        """Open a collection, or say where a new one will be; the first document that is added makes it.

        path           a folder, or an object-store URI such as s3://bucket/name
        model          None: the encoder named in the fingerprint, and for a new collection the packaged one; else a
                       folder, a hub id or a loaded model, which must be the one that the collection was made with
        codec          of a new collection: "float16", "int8" or "binary"; codec_options: share, pool
        images         of a new collection: store page pictures (default), or render them from the sources when needed
        memory         bytes of codes to keep in memory; beyond it they are read when a search needs them
        lists          build inverted lists over a large collection's summaries; not worth it for one search
        hold           a device, like "cuda", that keeps all codes and scores every page exactly, without a first
                       stage; where they do not fit, search goes on as without it
        compile        on a GPU, compile the encoder: a minute at first, then more pages a second
        """
        if memory < 0:
            raise ConfigError(f"memory must be 0 or more bytes, not {memory}.")
        if hold is not None:
            from varsdoc.model.device import choose_device

            hold = str(choose_device(hold))
        encoder = Encoder(
            model,
            device=device,
            dtype=dtype,
            codec=codec,
            codec_options=codec_options,
            images=images,
            compile=compile,
        )
        index = cls(Store(path), encoder, memory, lists, hold)
        if index._store.exists():
            found = index.fingerprint
            encoder.require_same_codec(found)
            if encoder.named:
                encoder.model(found)
        else:
            index._store.refuse_foreign_folder()
        return index

    @property
    def fingerprint(self) -> Fingerprint:
        with self._store.reading():
            return self._store.state().fingerprint

    @property
    def model(self) -> VarsDoc:
        """The collection's encoder, loaded if it was not yet."""
        return self._encoder.model(self.fingerprint if self._store.exists() else None)

    def add(
        self,
        paths: str | Path | Iterable[str | Path],
        *,
        metadata: Mapping[str, Any] | None = None,
        metadata_file: str | Path | None = None,
        text: bool = True,
        prune: bool = False,
        wait: float = 0.0,
        progress: bool | None = None,
        **reading: Any,
    ) -> Added:
        """Add files, folders and globs. Running it again changes nothing; after a kill it goes on where it was.

        metadata       key -> value for every document of this call; laid over what a document has, None removes a key
        metadata_file  JSON Lines with a `document` key: metadata for each
        text           store text layers, for hybrid search
        prune          remove documents under these paths whose files are gone from disk
        wait           seconds to wait for another writer
        reading        workers, limits and other options of `varsdoc.pages.read`
        """
        chosen = [str(p) for p in ([paths] if isinstance(paths, str | Path) else paths)]
        if not chosen:
            raise ConfigError("Name at least one file or folder to index.")
        about = Metadata(check(metadata or {}), read_file(metadata_file) if metadata_file else {})
        self._store.refuse_foreign_folder()
        with self._store.writing(wait), progress_bar(progress) as bar:
            state = self._store.state() if self._store.exists() else None
            if state is not None:
                self._encoder.fingerprint(state.fingerprint)
            generation = self._store.generation(state.generation) if state else None
            run = Run(self._encoder, about, generation, state, bar)
            self._read(run, chosen, text, reading)
            if run.generation is not None:
                self._settle(run, chosen, prune)
            return run.result

    def _read(self, run: Run, paths: list[str], text: bool, reading: dict[str, Any]) -> None:
        from varsdoc.pages import find, read

        limits = {"limits": reading["limits"]} if "limits" in reading else {}
        stream = read(run.select(find(paths, **limits), self._begin), text=text, **reading)
        try:
            for item in stream:
                run.take(item)
            run.finish()
        finally:
            stream.close()  # ends its workers
            self._encoder.stop()

    def _begin(self) -> tuple[Generation, State]:
        """Make the collection. Only now, so that a wrong path leaves no empty folder's worth of tables."""
        state = State(self._encoder.fingerprint(None))
        self._store.create(state)
        return self._store.generation(state.generation), state

    def _settle(self, run: Run, paths: list[str], prune: bool) -> None:
        """After a run that was not stopped: what is gone, what was left behind, small files."""
        from varsdoc.index.hybrid import ensure_text_index

        assert run.generation is not None
        assert run.state is not None
        gone = gone_documents(paths, run.known)
        if prune:
            run.generation.remove(gone)
            run.result.pruned = [document.name for document in gone]
        else:
            run.result.gone = [document.name for document in gone]
        run.generation.collect_garbage()
        self._store.drop_other_generations(run.state)
        ensure_text_index(run.generation.pages)
        run.generation.optimize(exclusive=self._store.folder is not None)

    def search(
        self,
        query: str | None = None,
        k: int = 10,
        where: str | None = None,
        *,
        like: Any = None,
        hybrid: bool = False,
        aggregation: str | None = None,
        candidates: int | None = None,
        exhaustive: bool = False,
    ) -> list[Hit]:
        """The k pages that fit best, best first.

        where        SQL on document, page, pages, source and metadata keys
        like         a picture instead of a question: path, bytes, Pillow image or array
        hybrid       fuse with BM25 over the pages' text layers
        aggregation  "max" over variants (default), "mean" or "fused"
        candidates   pages that the first stage passes on to exact scoring; exhaustive: all of them
        """
        from varsdoc.index.hit import Query
        from varsdoc.index.searching import Request, check_k, hits, rank

        check_k(k)
        if (query is None) == (like is None):
            raise ConfigError("Give either a question or a picture (like=...).")
        if hybrid and query is None:
            raise ConfigError("Hybrid search needs a question in words; leave hybrid out with a picture.")
        with self._guard:
            self._store.require()

            def run(snapshot: Snapshot) -> list[Hit]:
                # The filter first: a wrong one should not have to wait for the model.
                allowed = None if where is None else self._mask(snapshot, where)
                model = self._encoder.model(snapshot.state.fingerprint)
                asked = Query(*_encode(model, query, like))
                request = Request(
                    asked,
                    k,
                    allowed,
                    aggregation or ("max" if like is None else "fused"),
                    candidates,
                    exhaustive,
                    query if hybrid else None,
                )
                return hits(snapshot, rank(snapshot, request), asked)

            return self._reading(run)

    def _reading(self, work: Callable[[Snapshot], T]) -> T:
        """Run on the latest commit. If its files were cleaned away meanwhile, once more on a fresh view."""
        from varsdoc.index.pinned import MovedOnError
        from varsdoc.index.snapshot import Snapshot

        with self._guard:
            try:
                if self._snapshot is None:
                    self._snapshot = Snapshot(self._store, self._memory, self._lists, self._hold)
                else:
                    self._snapshot.refresh()
                return work(self._snapshot)
            except Exception as error:
                if not is_store_error(error) and not isinstance(error, MovedOnError):
                    raise
            with self._store.reading():
                self._snapshot = None
                self._snapshot = Snapshot(self._store, self._memory, self._lists, self._hold)
                return work(self._snapshot)

    def _mask(self, snapshot: Snapshot, where: str) -> np.ndarray:
        from varsdoc.index.where import Filter

        if self._filter is None or self._filter[0] is not snapshot.pages:
            rows = snapshot.live_rows.tolist()
            self._filter = (snapshot.pages, Filter(rows, [snapshot.pages[row] for row in rows]))
        mask: np.ndarray = self._filter[1].mask(where, len(snapshot.alive))
        return mask

    def page_jpeg(self, page_id: str) -> bytes:
        """The picture of a page by its id, stored or rendered again from its source."""
        from varsdoc.index.pinned import pinned

        return self._reading(lambda snapshot: pinned(snapshot, [_require_row(snapshot, page_id)]).page_jpeg(page_id))

    def list(self, where: str | None = None) -> list[Listed]:
        """Documents by name. Needs no model."""
        self._store.require()
        found = self._documents()
        listed = [Listed(d.name, d.pages, d.source, dict(d.metadata)) for d in found]
        if where is not None:
            listed = _filtered(listed, found, where)
        return sorted(listed, key=lambda one: one.document)

    def _documents(self) -> builtins.list[StoredDocument]:
        """Once more where a reindex took the tables away between two looks."""
        for last in (False, True):
            try:
                with self._store.reading():
                    generation = self._store.generation(self._store.state().generation)
                    return [*generation.read_documents().values()]
            except CollectionError:
                if last:
                    raise
        raise AssertionError

    def remove(self, document: str, *, wait: float = 0.0) -> int:
        """Remove one document, by display name or source; the number of its pages."""
        self._store.require()
        with self._store.writing(wait):
            generation = self._store.generation(self._store.state().generation)
            chosen = _named(document, generation.read_documents())
            generation.remove([chosen])
            generation.collect_garbage()
            generation.optimize(exclusive=self._store.folder is not None)
            return chosen.pages

    def reindex(self, model: str | Path | VarsDoc | None = None, **options: Any) -> Reindexed:
        """Encode every page anew (`reindexing.reindex` says how); this index goes on with the new encoder."""
        from varsdoc.index.reindexing import reindex

        with self._guard:
            done, encoder = reindex(self._store, model, **options)
            if done.swapped:
                self._encoder, self._snapshot = encoder, None
            return done

    def audit(self, **options: Any) -> Audit:
        """Measure this collection: first stage, codec, bytes, latency, usage of the variants."""
        from varsdoc.index.audit import audit

        return audit(self, **options)

    def __len__(self) -> int:
        """Pages that can be found."""
        return sum(document.pages for document in self.list()) if self._store.exists() else 0


def _encode(model: VarsDoc, query: str | None, like: Any) -> tuple[np.ndarray, np.ndarray]:
    if query is not None:
        return query_vectors(model, query)
    from varsdoc.index.like import page_query

    vectors = page_query(model, like)
    return vectors, np.ones(len(vectors), bool)


def _require_row(snapshot: Snapshot, page_id: str) -> int:
    row = snapshot.row_of_id(page_id)
    if row is None:
        raise CollectionError(f"There is no page {page_id} in this collection (any more).")
    return row


def _named(document: str, known: dict[str, StoredDocument]) -> StoredDocument:
    """By display name first: a file of that name in the working folder may be another document."""
    by_name = {one.name: one for one in known.values()}
    for found in (by_name.get(document), known.get(document), known.get(os.path.realpath(document))):
        if found is not None:
            return found
    raise CollectionError(f"There is no document {document!r} in this collection; `varsdoc list` names them.")


def _filtered(listed: list[Listed], found: list[StoredDocument], where: str) -> list[Listed]:
    from varsdoc.index.snapshot import PageRow
    from varsdoc.index.where import Filter

    rows = [PageRow(d, 0, "", (0, 0), 0, 0, 0) for d in found]
    mask = Filter(range(len(rows)), rows).mask(where, len(rows))
    return [one for one, passed in zip(listed, mask.tolist(), strict=True) if passed]
