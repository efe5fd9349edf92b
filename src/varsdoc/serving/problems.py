"""Errors as RFC 9457 problems. Nothing that is unexpected says more than an id, which is in the log."""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException as AnyHTTPException
from starlette.responses import Response

from varsdoc.errors import BusyError, ConfigError, FilterError, InputError, MissingError, VarsDocError

log = logging.getLogger("varsdoc.serving")
MEDIA_TYPE = "application/problem+json"


class Problem(HTTPException):  # FastAPI lets its own through wherever a body is read
    """An answer that is an error: status, and one sentence that says what to do."""

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None, **more: Any) -> None:
        super().__init__(status, detail, dict(headers or {}))
        self.more = more

    def response(self) -> Response:
        facts = {"type": "about:blank", "title": HTTPStatus(self.status_code).phrase, "status": self.status_code}
        text = json.dumps(facts | {"detail": self.detail} | self.more, ensure_ascii=False)
        # A lone surrogate that came in with a request must not break the answer that quotes it.
        body = text.encode("utf-8", "backslashreplace")
        headers = {"Cache-Control": "no-store"} | dict(self.headers or {})
        return Response(body, self.status_code, headers, MEDIA_TYPE)


def busy(detail: str, seconds: int = 1) -> Problem:
    """503, and when to come back."""
    return Problem(503, detail, {"Retry-After": str(seconds)})


def of_error(error: Exception) -> Problem:
    """What an error of ours is in HTTP."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, MissingError):
        return Problem(404, str(error))
    if isinstance(error, BusyError):
        return Problem(409, "Another process is writing to this collection; try again when it is done.")
    if isinstance(error, FilterError | InputError | ConfigError):
        return Problem(422, str(error))
    number: str | None = getattr(error, "varsdoc_number", None)
    if number is not None:  # told and logged already, on its way out
        return Problem(500, f"Something unexpected went wrong ({number}).", instance=number)
    number = secrets.token_hex(4)
    if isinstance(error, VarsDocError):  # a collection that is damaged, out of reach or of another encoder
        log.error("%s: %s", number, error)
        return Problem(503, f"The collection cannot be used at the moment; the server's log has why ({number}).")
    log.error("%s: %s", number, type(error).__name__, exc_info=error)
    error.varsdoc_number = number  # type: ignore[attr-defined]
    return Problem(500, f"Something unexpected went wrong; the server's log has it under {number}.", instance=number)


def install(app: FastAPI) -> None:
    """Every error that leaves the app is a problem."""

    async def ours(request: Request, error: Exception) -> Response:
        return of_error(error).response()

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, AnyHTTPException)
        detail = {404: "There is nothing at this address.", 405: "This address does not take that method."}
        said = detail.get(error.status_code, str(error.detail))
        return Problem(error.status_code, said, error.headers).response()

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        faults = [{"at": [str(part) for part in one["loc"]], "reason": str(one["msg"])} for one in error.errors()]
        first = faults[0] if faults else {"at": [], "reason": "the request is not valid"}
        said = f"{'.'.join(first['at'][1:]) or 'The request'}: {first['reason']}."
        return Problem(422, said, errors=faults).response()

    app.add_exception_handler(Problem, ours)
    app.add_exception_handler(VarsDocError, ours)
    app.add_exception_handler(AnyHTTPException, http)
    app.add_exception_handler(Exception, ours)
    app.add_exception_handler(RequestValidationError, invalid)
