"""Helpers of the routes: parameters, answers, and which errors the description of the API names."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Depends, Path, Query
from starlette.responses import Response

from varsdoc.serving.problems import MEDIA_TYPE
from varsdoc.serving.schemas import ProblemShape
from varsdoc.serving.service import Service, service

ServiceOf = Annotated[Service, Depends(service)]
CollectionName = Annotated[str | None, Query(max_length=200, description="Default: the first.")]
Id = Annotated[str, Path(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9_\-]+$")]
_ALWAYS = (401, 421, 500, 503)  # of every route behind the guard


def problems(*statuses: int, open: bool = False) -> dict[int | str, dict[str, Any]]:
    """The errors that a route can answer with."""
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": ProblemShape.model_json_schema()}},
        }
        for status in sorted({*statuses, *(_ALWAYS[1:] if open else _ALWAYS)})
    }


def answer(facts: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """JSON, made once and not checked against its shape: tests do that."""
    body = json.dumps(facts, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")
    return Response(body, status, {"Cache-Control": "no-store"} | (headers or {}), "application/json")
