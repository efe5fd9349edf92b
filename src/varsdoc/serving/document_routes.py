"""/collections and /documents."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from varsdoc.serving.library import Collection
from varsdoc.serving.routes import CollectionName, ServiceOf, answer, problems
from varsdoc.serving.schemas import Collections, Documents

router = APIRouter(tags=["documents"])


@router.get("/collections", response_model=Collections, responses=problems())
async def collections(here: ServiceOf) -> Response:
    """What is served here."""
    found = [await here.run("picture", _described, one) for one in here.library.collections]
    return answer({"collections": found})


def _described(collection: Collection) -> dict[str, Any]:
    found = collection.fingerprint(fresh=True)
    documents = collection.documents()
    checkpoint = None if found is None else (found.model or "packaged").replace("\\", "/").rpartition("/")[2]
    return {
        "name": collection.name,
        "documents": len(documents),
        "pages": sum(document.pages for document in documents),
        "variants": None if found is None else found.variants,
        "codec": None if found is None else found.codec,
        "max_visual_tokens": None if found is None else found.max_visual_tokens,
        "checkpoint": checkpoint,
        "hash": None if found is None else found.hash,
        "read_only": collection.read_only,
    }


@router.get("/documents", response_model=Documents, responses=problems(404, 422))
async def documents(
    here: ServiceOf,
    q: Annotated[str | None, Query(max_length=200, description="A part of the name.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    offset: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
    collection: CollectionName = None,
) -> Response:
    """Documents by name."""
    found = await here.run("picture", here.library[collection].documents)
    if q and q.strip():
        found = [one for one in found if q.strip().casefold() in one.document.casefold()]
    shown = [
        {
            "id": one.id,
            "document": one.document,
            "pages": one.pages,
            "metadata": dict(one.metadata),
            "cover": one.cover,
        }
        for one in found[offset : offset + limit]
    ]
    return answer({"total": len(found), "documents": shown})
