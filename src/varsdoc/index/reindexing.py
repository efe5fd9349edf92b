"""Encoding a collection anew, with another model or codec, and losing nothing.

New tables are filled beside the old ones, document by document, from the stored pictures (or from the sources, where
none are stored). Readers see the old collection, whole, until one commit names the new tables. A run that was killed
goes on where it was. A document whose pages cannot be rendered again stops the swap, not the work: the old collection
stays in use, the rest is kept for the next run, and the document is named; `drop_unreadable` swaps without it.
A collection is never of two encoders at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from varsdoc.errors import CollectionError, FingerprintError
from varsdoc.index.adding import Failed, progress_bar
from varsdoc.index.encoder import Encoder, check_codec, plain_options
from varsdoc.index.fingerprint import Fingerprint, load_model, of_model
from varsdoc.index.store import Generation, Store
from varsdoc.index.tables import State, StoredDocument, version_of

if TYPE_CHECKING:
    from varsdoc.model import VarsDoc
    from varsdoc.pages import Page


@dataclass
class Reindexed:
    """What a run did. Not `swapped`: the old collection is still the one in use."""

    pages: int = 0
    documents: int = 0
    swapped: bool = False
    needed: bool = True
    failed: list[Failed] = field(default_factory=list)
    fingerprint: Fingerprint | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "pages": self.pages,
            "documents": self.documents,
            "needed": self.needed,
            "swapped": self.swapped,
            "failed": [failed.to_json() for failed in self.failed],
        }


def reindex(
    store: Store,
    model: str | Path | VarsDoc | None = None,
    *,
    codec: str | None = None,
    codec_options: Mapping[str, Any] | None = None,
    device: str | None = None,
    dtype: str | None = None,
    drop_unreadable: bool = False,
    wait: float = 0.0,
    progress: bool | None = None,
) -> tuple[Reindexed, Encoder]:
    """Encode every page with a model (None: the one named in the fingerprint, as it is today) and a codec."""
    store.require()
    with store.writing(wait):
        state = store.state()
        encoder, new = _target(state.fingerprint, model, codec, codec_options, device, dtype)
        if new.key == state.fingerprint.key:
            _abandon(store, state)
            return Reindexed(needed=False, swapped=True, fingerprint=state.fingerprint), encoder
        if state.pending is None or state.pending.key != new.key:
            _abandon(store, state)
            store.create_generation(state.generation + 1)
            state = replace(state, pending=new)
            store.write_state(state)
        old, beside = store.generation(state.generation), store.generation(state.generation + 1)
        done = Reindexed(fingerprint=new)
        with progress_bar(progress) as bar:
            _fill(old, beside, encoder, new, done, bar)
        if done.failed and not drop_unreadable:
            return done, encoder
        _swap(store, state, beside, new)
        done.swapped = True
        return done, encoder


def _abandon(store: Store, state: State) -> None:
    """Forget a reindex to another encoder that was stopped.

    First the state: a kill half-way through the tables must not leave documents that look encoded and have no pages.
    """
    if state.pending is not None:
        store.write_state(replace(state, pending=None))
        store.drop_other_generations(replace(state, pending=None))


def _target(
    found: Fingerprint,
    model: str | Path | VarsDoc | None,
    codec: str | None,
    options: Mapping[str, Any] | None,
    device: str | None,
    dtype: str | None,
) -> tuple[Encoder, Fingerprint]:
    name = codec or found.codec
    kept = found.codec_options if name == found.codec and options is None else options or {}
    check_codec(name, kept)
    encoder = Encoder(_own_model(found, device, dtype) if model is None else model, device=device, dtype=dtype)
    return encoder, of_model(encoder.model(None), name, plain_options(kept), found.images, found.long_side)


def _own_model(found: Fingerprint, device: str | None, dtype: str | None) -> VarsDoc:
    """The collection's own encoder with the settings (K, token cap, prefix) that it was opened with; where that is not
    there any more, the one that is found in its place today."""
    from varsdoc.model import VarsDoc

    try:
        return load_model(found, device, dtype)
    except FingerprintError:
        return VarsDoc.from_pretrained(found.model, device=device, dtype=dtype)


def _swap(store: Store, state: State, beside: Generation, new: Fingerprint) -> None:
    from varsdoc.index.hybrid import ensure_text_index

    beside.collect_garbage()
    ensure_text_index(beside.pages)
    beside.optimize(exclusive=store.folder is not None)
    after = State(new, state.generation + 1)
    store.write_state(after)
    store.drop_other_generations(after)


def _fill(old: Generation, beside: Generation, encoder: Encoder, new: Fingerprint, done: Reindexed, bar: Any) -> None:
    """Bring the new tables to the old documents: add what is missing, take away what is gone."""
    wanted = old.read_documents()
    have = beside.read_documents()
    beside.remove([d for source, d in have.items() if source not in wanted])
    staged = beside.staged()
    for document in sorted(wanted.values(), key=lambda d: d.name):
        version = version_of(document.source, document.content_hash, new)
        before = have.get(document.source)
        if before is None or before.version != version or before.missing != document.missing:
            try:
                _document(old, beside, encoder, new, document, staged.get(version, set()), bar)
            except CollectionError as error:
                done.failed.append(Failed(document.source, str(error)))
                continue
            if before is not None and before.version != version:
                beside.drop_versions([before.version])
        elif (before.name, before.metadata) != (document.name, document.metadata):
            beside.commit([replace(before, name=document.name, metadata=document.metadata)])
        done.documents += 1
        done.pages += document.pages


def _document(
    old: Generation,
    beside: Generation,
    encoder: Encoder,
    new: Fingerprint,
    document: StoredDocument,
    staged: set[int],
    bar: Any,
) -> None:
    version = version_of(document.source, document.content_hash, new)
    chunk: list[Page] = []
    size = encoder.chunk_pages(new)

    def encode() -> None:
        results = encoder.encode(chunk, [version] * len(chunk), new)
        bad = next((r for r in results if r.stored is None), None)
        if bad is not None:
            raise CollectionError(f"{document.name}, page {bad.page.number + 1}: {bad.reason}")
        beside.stage([r.stored for r in results if r.stored is not None])
        bar.update(len(chunk))
        chunk.clear()

    for page in _pages(old, document, staged):
        chunk.append(page)
        if len(chunk) >= size:
            encode()
    if chunk:
        encode()
    sizes = beside.code_bytes(version)
    if len(sizes) != document.pages:
        raise CollectionError(f"{document.name} has {document.pages} pages, and {len(sizes)} were encoded anew.")
    beside.commit([replace(document, version=version, code_bytes=sum(sizes.values()))])


def _pages(old: Generation, document: StoredDocument, staged: set[int]) -> Iterator[Page]:
    """The pages that are not staged yet, from the table or from the source."""
    from varsdoc.index.rendering import as_found, render_all
    from varsdoc.pages import Page

    columns = ["page", "width", "height", "text"]
    table = old.pages.search().where(f"version = '{document.version}'").select(columns).with_row_id(True).to_arrow()
    rows = {row["page"]: row for row in table.to_pylist() if row["page"] not in document.missing}
    left = sorted(set(rows) - staged)
    if not left:
        return
    if _picture(old, rows[left[0]]) is None:
        for page in render_all(document):
            if page.number in left:
                yield replace(page, text=rows[page.number]["text"])
        return
    for number in left:
        row, jpeg = rows[number], _picture(old, rows[number])
        if jpeg is None:
            raise CollectionError(f"{document.name}, page {number + 1}, has no picture; the collection is damaged.")
        yield Page(as_found(document), number, document.pages, jpeg, row["width"], row["height"], row["text"])


def _picture(old: Generation, row: dict[str, Any]) -> bytes | None:
    """One at a time: a long document's pictures do not fit in memory together."""
    found = old.pages.take_row_ids([row["_rowid"]]).select(["jpeg"]).to_arrow()["jpeg"].to_pylist()
    return found[0]
