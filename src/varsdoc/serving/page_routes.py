"""GET /pages/...: what a page is, its picture, its heatmap."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query
from starlette.responses import Response

from varsdoc.errors import CollectionError, MissingError
from varsdoc.index import Hit
from varsdoc.index.asking import Query as Question
from varsdoc.index.facts import PageFacts
from varsdoc.serving.library import Collection
from varsdoc.serving.pictures import heatmap_png, thumbnail
from varsdoc.serving.problems import Problem, log
from varsdoc.serving.routes import CollectionName, Id, ServiceOf, answer, problems
from varsdoc.serving.schemas import PageShape
from varsdoc.serving.service import Service
from varsdoc.serving.settings import Limits

router = APIRouter(tags=["pages"])
Width = Annotated[int | None, Query(ge=16, le=4096)]
Version = Annotated[str | None, Query(max_length=64)]
IfNoneMatch = Annotated[str | None, Header(max_length=1000)]
_FOR_EVER = "private, max-age=31536000, immutable"
_UNCHANGED: dict[int | str, dict[str, Any]] = {304: {"description": "Not Modified"}}
_JPEG: dict[int | str, dict[str, Any]] = {200: {"content": {"image/jpeg": {}}}}
_PNG: dict[int | str, dict[str, Any]] = {200: {"content": {"image/png": {}}}}


@router.get("/pages/{id}", response_model=PageShape, responses=problems(404, 422))
async def page(id: Id, here: ServiceOf, collection: CollectionName = None) -> Response:
    """A page and its neighbours."""
    chosen = here.library[collection]
    facts, text = await here.run("picture", _facts, chosen, id)
    shown = {name: getattr(facts, name) for name in PageShape.model_fields if hasattr(facts, name)}
    image = f"/pages/{facts.id}/image?version={facts.version}{here.library.query(chosen)}"
    return answer(shown | {"metadata": dict(facts.metadata), "image": image, "has_text": bool(text)})


def _facts(collection: Collection, page_id: str) -> tuple[PageFacts, str | None]:
    _require(collection)
    return collection.index.page(page_id), collection.index.page_text(page_id)


@router.get("/pages/{id}/image", response_class=Response, responses=problems(404, 422) | _JPEG | _UNCHANGED)
async def image(
    id: Id,
    here: ServiceOf,
    width: Width = None,
    version: Version = None,
    collection: CollectionName = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """The picture of a page as JPEG, `width` pixels wide. With its right `version` it may be kept for ever."""
    chosen = here.library[collection]
    current = await here.run("picture", _version, chosen, id)
    tag = f'"{current}-{width or 0}"'
    headers = {"ETag": tag, "Cache-Control": _FOR_EVER if version == current else "private, no-cache"}
    if _matches(if_none_match, tag):
        return Response(status_code=304, headers=headers)
    data = await here.run("picture", _picture, here, chosen, id, current, width)
    return Response(data, headers=headers, media_type="image/jpeg")


def _version(collection: Collection, page_id: str) -> str:
    _require(collection)
    return collection.index.page(page_id).version


def _picture(here: Service, collection: Collection, page_id: str, version: str, width: int | None) -> bytes:
    key = (collection.name, page_id, version, width)
    kept = here.pictures.get(key)
    if kept is not None:
        return kept
    try:
        found, jpeg = collection.index.page_picture(page_id)
    except MissingError:
        raise
    except CollectionError as error:  # a collection without pictures, and the source is gone or has changed
        log.warning("%s", error)
        raise Problem(404, "This page has no stored picture, and its file cannot be read any more.") from error
    if found != version:
        raise Problem(404, "The page was replaced a moment ago; ask again.")
    if width is None:
        return jpeg
    small = thumbnail(jpeg, width)
    here.pictures.put(key, small)
    return small


@router.get("/pages/{id}/heatmap", response_class=Response, responses=problems(404, 409, 422) | _PNG)
async def heatmap(
    id: Id,
    here: ServiceOf,
    query: Annotated[str, Query(min_length=1, max_length=Limits().query)],
    variant: Annotated[int | None, Query(ge=0, le=1000, description="Default: the one that wins.")] = None,
    word: Annotated[int | None, Query(ge=0, le=10_000, description="A word of the question; default: all.")] = None,
    form: Literal["overlay", "page"] = "overlay",
    version: Annotated[str | None, Query(max_length=64, description="409 where the page was replaced since.")] = None,
    collection: CollectionName = None,
) -> Response:
    """Where a page answers a question, as PNG: transparent, to be laid over the picture, or burnt into it."""
    chosen = here.library[collection]
    done = await here.ask(chosen, query, lambda asked: chosen.index.look(asked, id))
    if done is None:
        raise MissingError(f"There is no page {id} in this collection (any more).")
    hit = done.result
    if version is not None and version != hit.version:
        raise Problem(409, "The page was replaced since; search again.")
    tokens = _tokens(done.query, word)
    _check_variant(hit, variant)
    data = await here.run("picture", heatmap_png, hit, variant, tokens, form == "page")
    headers = {"Cache-Control": "private, max-age=3600" if version is not None else "private, no-cache"}
    return Response(data, headers=headers, media_type="image/png")


def _tokens(asked: Question, word: int | None) -> tuple[int, ...] | None:
    if word is None:
        return None
    if word >= len(asked.words) or not asked.words[word].tokens:
        raise Problem(
            422, f"The question has no word {word} that was encoded; it has {len(asked.words)} words, from 0."
        )
    return asked.words[word].tokens


def _check_variant(hit: Hit, variant: int | None) -> None:
    if variant is not None and variant >= len(hit.variant_scores):
        raise Problem(422, f"There is no variant {variant}; this page has 0 to {len(hit.variant_scores) - 1}.")


def _require(collection: Collection) -> None:
    if not collection.index.exists:
        raise MissingError("The collection is empty.")


def _matches(given: str | None, tag: str) -> bool:
    return given is not None and tag in [one.strip().removeprefix("W/") for one in given.split(",")]
