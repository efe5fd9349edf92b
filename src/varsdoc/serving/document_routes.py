"""/collections and /documents."""

from __future__ import annotations

import errno
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from varsdoc.errors import MissingError
from varsdoc.serving.jobs import JobFolder, new_id
from varsdoc.serving.library import Collection
from varsdoc.serving.problems import Problem
from varsdoc.serving.routes import CollectionName, Id, ServiceOf, answer, problems
from varsdoc.serving.schemas import Accepted, Collections, Documents, Removed
from varsdoc.serving.uploads import receive

_WAIT = 3.0  # seconds for another writer
_UPLOAD = {
    "required": True,
    "content": {
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "required": ["files"],
                "properties": {
                    "files": {"type": "array", "minItems": 1, "items": {"type": "string", "format": "binary"}},
                    "metadata": {"type": "string", "description": "A JSON object: key -> text, number, true, false."},
                },
            }
        }
    },
}

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


@router.post(
    "/documents",
    status_code=202,
    response_model=Accepted,
    responses=problems(400, 403, 404, 408, 413, 415, 422, 507),
    openapi_extra={"requestBody": _UPLOAD},
)
async def upload(request: Request, here: ServiceOf, collection: CollectionName = None) -> Response:
    """Add documents, or replace those of the same names. They are indexed by a job, whose progress can be asked for."""
    chosen = here.library[collection]
    folder = await here.run("write", here.runner.begin, chosen)
    job_id = new_id()
    staging = await here.run("write", folder.staging, job_id)
    try:
        files, metadata = await receive(request, staging, here.settings.limits, partial(here.run, "upload"))
        job = await here.run("write", here.runner.submit, chosen, job_id, files, metadata)
    except BaseException as error:
        folder.clear(job_id)
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise Problem(507, "The server's disk is full.") from error
        raise
    return answer({"job": job.to_json()}, 202, {"Location": f"/jobs/{job.id}"})


@router.delete("/documents/{id}", response_model=Removed, responses=problems(403, 404, 409, 422))
async def remove(id: Id, here: ServiceOf, collection: CollectionName = None) -> Response:
    """Take a document out of the collection; the file goes too, if it was uploaded here."""
    chosen = here.library[collection]
    chosen.require_writable()
    return answer(await here.run("write", _remove, chosen, id))


def _remove(collection: Collection, document_id: str) -> dict[str, Any]:
    found = next((one for one in collection.documents() if one.id == document_id), None)
    if found is None or collection.folder is None:
        raise MissingError(f"There is no document {document_id} in this collection (any more).")
    folder = JobFolder(collection.folder)
    # By its source: a document might have another's id as its name.
    pages = collection.index.remove(found.source, wait=_WAIT, after=lambda gone: folder.remove_file(gone.source))
    return {"document": found.document, "pages": pages}
