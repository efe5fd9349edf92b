"""/jobs."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from varsdoc.serving.routes import CollectionName, Id, ServiceOf, answer, problems
from varsdoc.serving.schemas import Jobs, JobShape

router = APIRouter(tags=["jobs"])


@router.get("/jobs", response_model=Jobs, responses=problems(404, 422))
async def jobs(here: ServiceOf, collection: CollectionName = None) -> Response:
    """Newest first."""
    return answer({"jobs": [job.to_json() for job in here.runner.jobs(here.library[collection])]})


@router.get("/jobs/{id}", response_model=JobShape, responses=problems(404, 422))
async def job(id: Id, here: ServiceOf) -> Response:
    """How far a job is."""
    return answer(here.runner.get(id).to_json())


@router.delete("/jobs/{id}", response_model=JobShape, responses=problems(403, 404, 409, 422))
async def cancel(id: Id, here: ServiceOf) -> Response:
    """Stop a job that waits or runs; what it has shown already stays."""
    return answer((await here.run("write", here.runner.cancel, id)).to_json())
