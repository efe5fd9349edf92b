"""`Index`: a collection of pages, opened for reading and writing. Nothing heavy is loaded before it is needed."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from varsdoc.errors import CollectionError, ConfigError, FingerprintError
from varsdoc.index.adding import Added, Run, Watcher, gone_documents, progress_bar
from varsdoc.index.asking import Query, encode_questions
from varsdoc.index.encoder import Encoder
from varsdoc.index.fingerprint import Fingerprint
from varsdoc.index.metadata import Metadata, check, read_file
from varsdoc.index.store import Generation, Store
from varsdoc.index.tables import State, StoredDocument
from varsdoc.index.view import View

if TYPE_CHECKING:
    from varsdoc.index.audit import Audit
    from varsdoc.index.facts import DocumentFacts, PageFacts
    from varsdoc.index.hit import Hit
    from varsdoc.index.pinned import PinnedPages
    from varsdoc.index.reindexing import Reindexed
    from varsdoc.index.snapshot import Snapshot
    from varsdoc.model import VarsDoc
    from varsdoc.pages import Document

MEMORY = 2 << 30  # bytes of codes that a reader keeps; beyond it candidates' codes are read from the store


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
        self._store, self._encoder = store, encoder
        self._view = View(store, memory, lists, hold)

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
        codec          of a new collection: "float16", "int8", "int4" or "binary"; codec_options: share, pool
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
            if hold.startswith("mps"):
                raise ConfigError("Codes are not held on mps, which lacks what scoring them needs; leave hold out.")
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
    def exists(self) -> bool:
        """Whether there is a collection yet."""
        return self._store.exists()

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
        paths: str | Path | Document | Iterable[str | Path | Document],
        *,
        metadata: Mapping[str, Any] | None = None,
        metadata_file: str | Path | None = None,
        text: bool = True,
        prune: bool = False,
        wait: float = 0.0,
        progress: bool | None = None,
        watch: Watcher | None = None,
        **reading: Any,
    ) -> Added:
        """Add files, folders and globs. Running it again changes nothing; after a kill it goes on where it was.

        paths          also documents that `varsdoc.pages.find` found, with another name or identity perhaps
        metadata       key -> value for every document of this call; laid over what a document has, None removes a key
        metadata_file  JSON Lines with a `document` key: metadata for each
        text           store text layers, for hybrid search
        prune          remove documents under these paths whose files are gone from disk
        wait           seconds to wait for another writer
        watch          hears of pages and documents as they come
        reading        workers, limits and other options of `varsdoc.pages.read`
        """
        from varsdoc.pages import Document

        chosen = [*([paths] if isinstance(paths, str | Path | Document) else paths)]
        if not chosen:
            raise ConfigError("Name at least one file or folder to index.")
        about = Metadata(check(metadata or {}), read_file(metadata_file) if metadata_file else {})
        self._store.refuse_foreign_folder()
        with self._store.writing(wait), progress_bar(progress) as bar:
            state = self._store.state() if self._store.exists() else None
            if state is not None:
                self._encoder.fingerprint(state.fingerprint)
            generation = self._store.generation(state.generation) if state else None
            run = Run(self._encoder, about, generation, state, bar, watch)
            self._read(run, chosen, text, reading)
            if run.generation is not None:
                self._settle(run, [str(path) for path in chosen if not isinstance(path, Document)], prune)
            return run.result

    def _read(self, run: Run, chosen: list[str | Path | Document], text: bool, reading: dict[str, Any]) -> None:
        from varsdoc.pages import Document, find, read

        if text:
            run.want_text()
        limits = {"limits": reading["limits"]} if "limits" in reading else {}
        given = [one for one in chosen if isinstance(one, Document)]
        found = find([one for one in chosen if not isinstance(one, Document)], **limits)
        stream = read(run.select(chain(given, found), self._begin), text=text, **reading)
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
        query: str | Query | None = None,
        k: int = 10,
        where: str | None = None,
        *,
        documents: Iterable[str] | None = None,
        like: Any = None,
        hybrid: bool = False,
        aggregation: str | None = None,
        candidates: int | None = None,
        exhaustive: bool = False,
    ) -> list[Hit]:
        """The k pages that fit best, best first.

        query        the question, or one that `varsdoc.index.asking` encoded already
        documents    ids of the documents to look in
        where        SQL on document, page, pages, source and metadata keys
        like         a picture instead of a question: path, bytes, Pillow image or array
        hybrid       fuse with BM25 over the pages' text layers
        aggregation  "max" over variants (default), "mean" or "fused"
        candidates   pages that the first stage passes on to exact scoring; exhaustive: all of them
        """
        from varsdoc.index.searching import Request, check_k, hits, rank

        check_k(k)
        if (query is None) == (like is None):
            raise ConfigError("Give either a question or a picture (like=...).")
        if hybrid and query is None:
            raise ConfigError("Hybrid search needs a question in words; leave hybrid out with a picture.")
        self._store.require()

        def run(snapshot: Snapshot) -> list[Hit]:
            # The filter first: a wrong one should not have to wait for the model.
            allowed = None if where is None else self._view.mask(snapshot, where)
            if documents is not None:
                chosen = snapshot.rows_of(documents)
                allowed = chosen if allowed is None else allowed & chosen
            asked = self._asked(snapshot, query, like)
            request = Request(
                asked,
                k,
                allowed,
                aggregation or ("max" if like is None else "fused"),
                candidates,
                exhaustive,
                asked.text if hybrid else None,
            )
            return hits(snapshot, rank(snapshot, request), asked)

        return self._view.run(run)

    def _asked(self, snapshot: Snapshot, query: str | Query | None, like: Any) -> Query:
        found = snapshot.state.fingerprint
        if isinstance(query, Query):
            if query.encoder not in (None, found.hash):
                raise FingerprintError("The question was encoded for another encoder than the collection has now.")
            return query
        model = self._encoder.model(found)
        if query is not None:
            return encode_questions(model, [query], found.hash)[0]
        from varsdoc.index.like import page_query

        vectors = page_query(model, like)
        return Query(vectors, np.ones(len(vectors), bool))

    def look(self, query: str | Query, page_id: str) -> Hit:
        """One page under a question: its scores, region and heatmap, wherever it would rank."""
        from varsdoc.index.searching import look

        return self._view.run(
            lambda snapshot: look(snapshot, snapshot.require_row(page_id), self._asked(snapshot, query, None))
        )

    @property
    def pages_in_view(self) -> int:
        """Pages that the last search could find."""
        return self._view.pages

    def documents(self) -> list[DocumentFacts]:
        """Documents that can be found, by name, with their ids. Needs no model."""
        from varsdoc.index.facts import documents

        self._store.require()
        return self._view.run(documents)

    def page(self, page_id: str) -> PageFacts:
        """What is known of a page: its document, size, version, neighbours. Needs no model."""
        from varsdoc.index.facts import page_facts

        return self._view.run(lambda snapshot: page_facts(snapshot, snapshot.require_row(page_id)))

    def page_text(self, page_id: str) -> str | None:
        """The text layer of a page, where its document has one and it was stored."""
        text: str | None = self._view.run(
            lambda snapshot: snapshot.read([snapshot.require_row(page_id)], ["text"])[0]["text"]
        )
        return text or None  # empty: it was looked for, and the page has none

    def page_jpeg(self, page_id: str) -> bytes:
        """The picture of a page by its id, stored or rendered again from its source."""
        return self.page_picture(page_id)[1]

    def page_picture(self, page_id: str) -> tuple[str, bytes]:
        """The picture of a page, and the version of its document that it is of."""
        from varsdoc.index.pinned import MovedOnError, pinned

        def find(snapshot: Snapshot) -> tuple[str, PinnedPages]:
            row = snapshot.require_row(page_id)
            return snapshot.pages[row].document.version, pinned(snapshot, [row])

        version, found = self._view.run(find)  # rendering it again takes seconds, in which others may search
        try:
            return version, found.page_jpeg(page_id)
        except MovedOnError:  # its files were rewritten though no document changed
            self._view.forget()
            version, found = self._view.run(find)
            return version, found.page_jpeg(page_id)

    def list(self, where: str | None = None) -> list[Listed]:
        """Documents by name. Needs no model."""
        self._store.require()
        found = self._documents()
        listed = [Listed(d.name, d.pages, d.source, dict(d.metadata)) for d in found]
        if where is not None:
            from varsdoc.index.where import passing

            listed = [one for one, passed in zip(listed, passing(found, where), strict=True) if passed]
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

    def remove(self, document: str, *, wait: float = 0.0, after: Callable[[StoredDocument], None] | None = None) -> int:
        """Remove one document, by display name, source or id; the number of its pages.

        after  called with what was removed while no other writer can be at work
        """
        from varsdoc.index.facts import named

        self._store.require()
        with self._store.writing(wait):
            generation = self._store.generation(self._store.state().generation)
            chosen = named(document, generation.read_documents())
            generation.remove([chosen])
            if after is not None:
                after(chosen)
            generation.collect_garbage()
            generation.optimize(exclusive=self._store.folder is not None)
            return chosen.pages

    def reindex(self, model: str | Path | VarsDoc | None = None, **options: Any) -> Reindexed:
        """Encode every page anew (`reindexing.reindex` says how); this index goes on with the new encoder."""
        from varsdoc.index.reindexing import reindex

        with self._view.guard:
            done, encoder = reindex(self._store, model, **options)
            if done.swapped:
                self._encoder = encoder
                self._view.forget()
            return done

    def audit(self, **options: Any) -> Audit:
        """Measure this collection: first stage, codec, bytes, latency, usage of the variants."""
        from varsdoc.index.audit import audit

        return audit(self, **options)

    def __len__(self) -> int:
        """Pages that can be found."""
        return sum(document.pages for document in self.list()) if self._store.exists() else 0
