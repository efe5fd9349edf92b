"""The encoder of a collection: loaded when it is first needed, and checked against the fingerprint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from varsdoc.errors import ConfigError, FingerprintError, VarsDocError
from varsdoc.index.fingerprint import Fingerprint, load_model, of_model, require_same_encoder
from varsdoc.index.tables import StoredPage

if TYPE_CHECKING:
    from varsdoc.model import PageEmbedding, VarsDoc
    from varsdoc.pages import Page

DEFAULT_CODEC = "int4"  # the smallest that loses under half a point of NDCG@10 (benchmarks/codecs.py)
# Pages per call: enough to sort by size and fill a GPU, little enough that a kill loses seconds of work.
CHUNK_PAGES = {"cpu": 8, "cuda": 64}


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
    ) -> None:
        self._given = model
        self._device, self._dtype = device, dtype
        self._codec, self._options, self._images = codec, codec_options, images
        self._model: VarsDoc | None = None
        self._checked: str | None = None  # the hash that the model was held against
        if model is not None and not isinstance(model, str | Path):
            self._model = model
        if codec is not None or codec_options:
            check_codec(codec or DEFAULT_CODEC, codec_options or {})  # before anything is made

    @property
    def named(self) -> bool:
        """Whether the caller said which encoder, so that it can be checked when the collection is opened."""
        return self._given is not None

    def model(self, found: Fingerprint | None) -> VarsDoc:
        """The model, loaded once; it must be the one that the collection was made with."""
        if self._given is None and found is not None and self._checked != found.hash:
            # Also where another process encoded the collection anew since it was opened.
            if self._model is None or self._model.checkpoint_hash != found.hash:
                self._model = load_model(found, self._device, self._dtype)
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
        return VarsDoc.from_pretrained(self._given, device=self._device, dtype=self._dtype)

    def fingerprint(self, found: Fingerprint | None) -> Fingerprint:
        """What new pages are encoded as: the collection's own, or that of a new collection."""
        if found is not None:
            self.require_same_codec(found)
            return found
        images = True if self._images is None else self._images
        return of_model(self.model(None), self._codec or DEFAULT_CODEC, dict(self._options or {}), images, _long_side())

    def require_same_codec(self, found: Fingerprint) -> None:
        """The collection's codec and pictures are decided once."""
        options = None if self._options is None else dict(self._options)
        differs = self._codec not in (None, found.codec) or (options not in (None, {}, dict(found.codec_options)))
        if differs:
            asked = f"{self._codec or found.codec} {options or ''}".strip()
            have = f"{found.codec} {dict(found.codec_options) or ''}".strip()
            raise FingerprintError(
                f"This collection keeps its codes as {have}, and {asked} was asked for; leave the codec out, or run "
                "`varsdoc reindex --codec`."
            )
        if self._images is not None and self._images != found.images:
            kept = "with" if found.images else "without"
            raise ConfigError(f"This collection was made {kept} page pictures; leave the option out.")

    def chunk_pages(self, found: Fingerprint) -> int:
        return CHUNK_PAGES.get(self.model(found).device.type, CHUNK_PAGES["cpu"])

    def encode(self, pages: Sequence[Page], versions: Sequence[str], found: Fingerprint) -> list[EncodedPage]:
        """Encode and pack pages. One that the model refuses comes back with its reason; the others are not hurt."""
        images = [page.image() for page in pages]
        model = self.model(found)
        try:
            embedded: list[PageEmbedding | str] = list(model.encode_pages(images, progress=False))
        except VarsDocError:
            embedded = [self._one(model, image) for image in images]
        return [
            EncodedPage(page, None, result)
            if isinstance(result, str)
            else EncodedPage(page, pack(page, version, result, found))
            for page, version, result in zip(pages, versions, embedded, strict=True)
        ]

    def _one(self, model: VarsDoc, image: Any) -> PageEmbedding | str:
        try:
            return model.encode_pages([image], progress=False)[0]
        except VarsDocError as error:
            return str(error)


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
    )


def _long_side() -> int:
    from varsdoc.pages.stream import LONG_SIDE

    return LONG_SIDE
