"""`create_app`: the API and the web page as an ASGI application, for `varsdoc serve` and who mounts it elsewhere."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI

from varsdoc import __version__
from varsdoc.errors import ConfigError
from varsdoc.serving import about_routes, document_routes, job_routes, page_routes, problems, search_routes
from varsdoc.serving.guard import Guard
from varsdoc.serving.library import Library
from varsdoc.serving.service import Service
from varsdoc.serving.settings import Settings


def create_app(collections: str | Path | Sequence[str | Path], settings: Settings | None = None) -> FastAPI:
    """Serve one or several collections. Models load in the background once it starts (ASGI lifespan)."""
    settings = settings or Settings()
    given = [collections] if isinstance(collections, str | Path) else [*collections]
    if not given:
        raise ConfigError("Name at least one collection to serve.")
    here = Service(Library([str(one) for one in given], settings.read_only), settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        here.start()
        try:
            yield
        finally:
            here.stop()

    app = FastAPI(title="varsdoc", version=__version__, docs_url=None, redoc_url=None, lifespan=lifespan)
    app.state.service = here
    problems.install(app)
    for room in (search_routes, page_routes, document_routes, job_routes, about_routes):
        app.include_router(room.router)
    about_routes.mount_page(app)
    app.add_middleware(Guard, settings=settings, sessions=here.sessions)
    return app
