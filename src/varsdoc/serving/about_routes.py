"""The page itself, /health, /session, /stats and /docs."""

from __future__ import annotations

import html
import os
import time
from importlib.resources import files
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.staticfiles import StaticFiles

from varsdoc import __version__
from varsdoc.serving.answers import percentile
from varsdoc.serving.problems import Problem
from varsdoc.serving.routes import ServiceOf, answer, problems
from varsdoc.serving.schemas import Health, Stats, TokenGiven
from varsdoc.serving.sessions import SECONDS, cookie_name, read_cookie

router = APIRouter(tags=["about"])


@router.get("/health", response_model=Health, responses=problems(open=True))
async def health(here: ServiceOf) -> Response:
    """Whether the model is there yet. Needs no token."""
    model, detail = here.models.status()
    facts = {"status": "ok" if model == "ready" else model, "version": __version__, "model": model}
    facts |= {} if detail is None else {"detail": detail}
    return answer(facts | {"token_required": here.sessions.required})


@router.post("/session", status_code=204, responses=problems(400, 403, 408, 413, 422))
async def log_in(given: TokenGiven, request: Request, here: ServiceOf) -> Response:
    """A cookie for the token, so that a browser's pictures come, too."""
    if not here.sessions.is_token(given.token.encode("utf-8", "replace")):
        raise Problem(401, "That is not the server's token.", {"WWW-Authenticate": "Bearer"})
    done = Response(status_code=204)
    if here.sessions.required:
        done.set_cookie(
            cookie_name(request.headers),
            here.sessions.new(),
            max_age=SECONDS,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
    return done


@router.delete("/session", status_code=204, responses=problems(403, open=True))
async def log_out(request: Request, here: ServiceOf) -> Response:
    """End the session that the cookie names."""
    here.sessions.end(read_cookie(request.headers))
    done = Response(status_code=204)
    done.delete_cookie(cookie_name(request.headers), httponly=True, samesite="strict")
    return done


@router.get("/stats", response_model=Stats, responses=problems())
async def stats(here: ServiceOf) -> Response:
    """Counters since the start."""
    found = [one for c in here.library.collections for one in await here.run("picture", c.documents)]
    models, times = here.models, list(here.search_ms)
    return answer(
        {
            "uptime_s": round(time.monotonic() - here.started, 1),
            "searches": here.searches,
            "search_ms": {"p50": percentile(times, 0.5), "p95": percentile(times, 0.95)},
            "queue": models.queued,
            "batches": models.batches,
            "questions": models.questions,
            "queries_per_batch": round(models.questions / models.batches, 3) if models.batches else None,
            "jobs": here.runner.counts(),
            "pages": sum(one.pages for one in found),
            "documents": len(found),
            "memory_mib": memory_mib(),
            "bytes": sum(one.bytes for one in found),
        }
    )


def memory_mib() -> float | None:
    """Resident memory of this process, None where nobody says."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return round(pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20), 1)


def static_folder() -> Path:
    return Path(str(files("varsdoc.serving") / "static"))


def mount_page(app: FastAPI) -> None:
    """The web page and its parts; the description of the API without outside assets."""
    folder = static_folder()

    async def page(request: Request) -> Response:
        start = folder / "index.html"
        if not start.is_file():
            return RedirectResponse("/docs", 307)
        return HTMLResponse(start.read_bytes(), headers={"Cache-Control": "no-cache"})

    async def docs(request: Request) -> Response:
        return HTMLResponse(docs_page(app.openapi()), headers={"Cache-Control": "no-cache"})

    app.add_api_route("/", page, include_in_schema=False)
    app.add_api_route("/docs", docs, include_in_schema=False)
    if folder.is_dir():
        app.mount("/static", StaticFiles(directory=folder), name="static")


def docs_page(described: dict[str, Any]) -> str:
    """The routes as a plain page."""
    rows = []
    for path, methods in described["paths"].items():
        for method, facts in methods.items():
            codes = ", ".join(sorted(facts["responses"]))
            said = html.escape(facts.get("description", ""))
            rows.append(f"<dt><code>{method.upper()} {html.escape(path)}</code></dt><dd>{said} ({codes})</dd>")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>varsdoc API</title></head><body>'
        f"<h1>varsdoc {html.escape(__version__)}: API</h1>"
        '<p>The whole description is at <a href="/openapi.json">/openapi.json</a>.</p>'
        f"<dl>{''.join(rows)}</dl></body></html>"
    )
