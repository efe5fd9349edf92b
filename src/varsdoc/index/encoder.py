"""The encoder of a collection: loaded when it is first needed, and checked against the fingerprint."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from varsdoc.errors import ConfigError, FingerprintError, VarsDocError
from varsdoc.index.fingerprint import Fingerprint, load_model, of_model, require_same_encoder
from varsdoc.index.tables import StoredPage

if TYPE_CHECKING:
    from varsdoc.model import PageEmbedding, VarsDoc
    from varsdoc.pages import Page

# The smallest that loses under half a point of NDCG@10 (benchmarks/codecs.py).
DEFAULT_CODEC, DEFAULT_OPTIONS = "int4", {"pool": 2}
# Pages per call: enough to sort by size and fill a GPU, little enough that a kill loses seconds of work.
CHUNK_PAGES = {"cpu": 8, "cuda": 64}
# Chunks that are encoded or packed while the next is read. On a CPU encoding takes all cores anyway.
IN_FLIGHT = {"cpu": 0, "cuda": 2}
HANDS = 6  # threads that cut pages before the GPU and pack them behind it


@dataclass(frozen=True)
class EncodedPage:
    """A page that was encoded, or the reason why not."""

    page: Page
    stored: StoredPage | None
    reason: str = ""


class Encoder:
    """A model with a codec. `settings` is the fingerprint of the collection, where there is one already."""

    def __init__(
        self,
        model: str | Path | VarsDoc | None = None,
        *,
        device: str | None = None,
        dtype: str | None = None,
        codec: str | None = None,
        codec_options: Mapping[str, Any] | None = None,
        images: bool | None = None,
        compile: bool = False,
    ) -> None:
        self._given = model
        self._compile = compile
        self._threads: tuple[ThreadPoolExecutor, ThreadPoolExecutor, ThreadPoolExecutor] | None = None
        self._device, self._dtype = device, dtype
        self._codec, self._options, self._images = codec, codec_options, images
        self._model: VarsDoc | None = None
        self._checked: str | None = None  # the hash that the model was held against
        if model is not None and not isinstance(model, str | Path):
            self._model = model
        if codec is not None or codec_options:
            check_codec(*_of_new(codec, codec_options))  # before anything is made

    @property
    def named(self) -> bool:
        """Whether the caller said which encoder, so that it can be checked when the collection is opened."""
        return self._given is not None

    def model(self, found: Fingerprint | None) -> VarsDoc:
        """The model, loaded once; it must be the one that the collection was made with."""
        if self._given is None and found is not None and self._checked != found.hash:
            # Also where another process encoded the collection anew since it was opened.
            if self._model is None or self._model.checkpoint_hash != found.hash:
                self._model = load_model(found, self._device, self._dtype).prepare_on_gpu(compile=self._compile)
            self._checked = found.hash
        if self._model is None:
            self._model = self._load_given()
        if found is not None and self._checked != found.hash:
            require_same_encoder(found, self._model)
            self._checked = found.hash
        return self._model

    def _load_given(self) -> VarsDoc:
        """The model that the caller named, or the packaged one, unchecked."""
        from varsdoc.model import VarsDoc

        if isinstance(self._given, VarsDoc):
            return self._given
        loaded = VarsDoc.from_pretrained(self._given, device=self._device, dtype=self._dtype)
        return loaded.prepare_on_gpu(compile=self._compile)

    def fingerprint(self, found: Fingerprint | None) -> Fingerprint:
        """What new pages are encoded as: the collection's own, or that of a new collection."""
        if found is not None:
            self.require_same_codec(found)
            return found
        images = True if self._images is None else self._images
        codec, options = _of_new(self._codec, self._options)
        return of_model(self.model(None), codec, options, images, _long_side())

    def require_same_codec(self, found: Fingerprint) -> None:
        """The collection's codec and pictures are decided once."""
        options = plain_options(self._options or {})
        differs = self._codec not in (None, found.codec) or (
            bool(self._options) and options != plain_options(found.codec_options)
        )
        if differs:
            asked = _named(self._codec or found.codec, options)
            have = _named(found.codec, found.codec_options)
            raise FingerprintError(
                f"This collection keeps its codes as {have}, and {asked} was asked for; leave the codec out, or run "
                "`varsdoc reindex --codec`."
            )
        if self._images is not None and self._images != found.images:
            kept = "with" if found.images else "without"
            raise ConfigError(f"This collection was made {kept} page pictures; leave the option out.")

    def chunk_pages(self, found: Fingerprint) -> int:
        return CHUNK_PAGES.get(self.model(found).device.type, CHUNK_PAGES["cpu"])

    def in_flight(self, found: Fingerprint) -> int:
        return IN_FLIGHT.get(self.model(found).device.type, 0)

    def encode(self, pages: Sequence[Page], versions: Sequence[str], found: Fingerprint) -> list[EncodedPage]:
        """Encode and pack pages. One that the model refuses comes back with its reason; the others are not hurt."""
        return self._packed(pages, versions, self._embedded(pages, [page.image() for page in pages], found), found)

    def start(self, pages: Sequence[Page], versions: Sequence[str], found: Fingerprint) -> Future[list[EncodedPage]]:
        """`encode` in the background, in order: while one chunk is on the GPU, the next is cut and the last packed."""
        if self._threads is None:
            self._threads = (ThreadPoolExecutor(1), ThreadPoolExecutor(1), ThreadPoolExecutor(HANDS))
        embedding, packing, hands = self._threads
        cutter = self.model(found).processor
        cut = [hands.submit(lambda page=page: cutter.page(page.image())) for page in pages]  # type: ignore[misc]
        embedded = embedding.submit(self._embedded, pages, cut, found)
        return packing.submit(lambda: self._packed(pages, versions, embedded.result(), found, hands.map))

    def stop(self) -> None:
        """End what `start` began; what was not begun yet is forgotten."""
        threads, self._threads = self._threads, None
        for pool in threads or ():
            pool.shutdown(wait=True, cancel_futures=True)

    def _embedded(self, pages: Sequence[Page], images: Sequence[Any], found: Fingerprint) -> list[PageEmbedding | str]:
        """images: pictures, or futures of cut ones."""
        model = self.model(found)
        try:
            ready = [image.result() if isinstance(image, Future) else image for image in images]
            return list(model.encode_pages(ready, progress=False))
        except VarsDocError:
            return [self._one(model, page.image()) for page in pages]

    def _packed(
        self,
        pages: Sequence[Page],
        versions: Sequence[str],
        embedded: Sequence[PageEmbedding | str],
        found: Fingerprint,
        each: Callable[..., Iterable[EncodedPage]] = map,
    ) -> list[EncodedPage]:
        def one(page: Page, version: str, result: PageEmbedding | str) -> EncodedPage:
            if isinstance(result, str):
                return EncodedPage(page, None, result)
            return EncodedPage(page, pack(page, version, result, found))

        return list(each(one, pages, versions, embedded))

    def _one(self, model: VarsDoc, image: Any) -> PageEmbedding | str:
        try:
            return model.encode_pages([image], progress=False)[0]
        except VarsDocError as error:
            return str(error)


def _of_new(codec: str | None, options: Mapping[str, Any] | None) -> tuple[str, dict[str, Any]]:
    """A new collection's codec: a codec that is named comes without the default's options.

    >>> _of_new(None, None), _of_new("int8", None), _of_new(None, {"share": True}), _of_new(None, {"pool": 1})
    (('int4', {'pool': 2}), ('int8', {}), ('int4', {'pool': 2, 'share': True}), ('int4', {}))
    """
    given = dict(options or {})
    return (DEFAULT_CODEC, plain_options(DEFAULT_OPTIONS | given)) if codec is None else (codec, plain_options(given))


def _named(codec: str, options: Mapping[str, Any]) -> str:
    said = [name if value is True else f"{name}={value}" for name, value in options.items()]
    return f"{codec} with {', '.join(said)}" if said else codec


def plain_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Without those that change nothing, so that two ways to say the same are equal."""
    return {name: value for name, value in options.items() if value is not False and (name, value) != ("pool", 1)}


def check_codec(name: str, options: Mapping[str, Any]) -> None:
    from varsdoc.index.codecs import OPTIONS, get_codec

    unknown = sorted(set(options) - set(OPTIONS))
    if unknown:
        raise ConfigError(f"There is no codec option {unknown[0]!r}; use {' or '.join(OPTIONS)}.")
    get_codec(name, **options)


def pack(page: Page, version: str, embedding: PageEmbedding, found: Fingerprint) -> StoredPage:
    """A page's row."""
    from varsdoc.index.codecs import get_codec
    from varsdoc.index.first_stage import summarise, summary_bytes
    from varsdoc.index.levelled import to_bytes

    variants = embedding.variants.float().numpy()  # (K, M, dim)
    return StoredPage(
        version=version,
        page=page.number,
        id=page.id,
        grid=embedding.grid,
        image_start=embedding.image_start,
        width=page.width,
        height=page.height,
        codes=get_codec(found.codec, **found.codec_options).pack(variants),
        summary=summary_bytes(summarise(variants, codec=found.codec)),
        jpeg=page.jpeg if found.images else None,
        text=page.text,
        levelled=to_bytes(embedding.levelled),
    )


def _long_side() -> int:
    from varsdoc.pages.stream import LONG_SIDE

    return LONG_SIDE
