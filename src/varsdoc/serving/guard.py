"""What every request passes before it reaches a route, and what every answer carries.

- The Host header must name this server, or be a bare address: a foreign page whose name was made to point here (DNS
  rebinding) has neither.
- A method that changes something must not come from another site's page (Origin, Sec-Fetch-Site).
- Token or session, except for the page itself, /health, /session and the description of the API.
- So many requests at a time; so many bytes of a body, counted as they come; so much patience with slow clients.
- An answer that comes before the whole body did is not lost: what is still on its way is taken and thrown away for a
  while, since closing on unread bytes resets the connection, and the answer with it.
- Headers that keep a browser from running, framing, guessing or leaking anything. No CORS.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import time
from collections.abc import Mapping

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from varsdoc.serving.problems import Problem, busy, of_error
from varsdoc.serving.sessions import Sessions
from varsdoc.serving.settings import Limits, Settings

SAFE = ("GET", "HEAD", "OPTIONS")
_HERE = ("localhost", "127.0.0.1", "::1")
_OPEN = ("/", "/health", "/session", "/docs", "/openapi.json", "/favicon.ico")
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_RAW = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]


class Guard:
    """ASGI middleware, the outermost."""

    def __init__(self, app: ASGIApp, settings: Settings, sessions: Sessions) -> None:
        self._app, self._settings, self._sessions = app, settings, sessions
        self._hosts = {*_HERE, *(host.lower().strip("[]") for host in settings.hosts)}
        self._running = self._uploading = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        upload = scope["method"] == "POST" and path == "/documents"
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        body = _Body(receive, headers, self._settings.limits, upload)
        sent = _Sent(send, body, self._settings.limits.send_seconds)
        self._running += 1
        self._uploading += upload
        try:
            self._admit(scope["method"], path, headers)
            self._bound(upload)
            body.require_fitting()
            await self._app(scope, body.receive, sent)
        except Exception as error:
            if sent.started:  # too late to say anything: the connection ends
                if not isinstance(error, asyncio.TimeoutError):
                    of_error(error)
            else:
                await of_error(error).response()(scope, receive, sent)
        finally:
            self._running -= 1
            self._uploading -= upload

    def _admit(self, method: str, path: str, headers: Mapping[str, str]) -> None:
        host = _host(headers.get("host", ""))
        if host not in self._hosts and not _is_address(host):
            raise Problem(421, "This server does not answer to that name; --allow-host adds one.")
        if method not in SAFE:
            _require_same_site(headers)
        if path not in _OPEN and not path.startswith("/static/") and not self._sessions.may(headers):
            raise Problem(401, "Give the server's token.", {"WWW-Authenticate": "Bearer"})

    def _bound(self, upload: bool) -> None:
        if self._running > self._settings.limits.requests:
            raise busy("Too many requests at a time; ask again in a moment.")
        if upload and self._uploading > self._settings.limits.uploads:
            raise busy("Too many uploads at a time; try again in a moment.", 5)


class _Sent:
    """Adds the headers, waits so long for a client that reads nothing, and lets one that still sends finish."""

    def __init__(self, send: Send, body: _Body, seconds: float) -> None:
        self._send, self._body, self._seconds, self.started = send, body, seconds, False
        self._early = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started, self._early = True, self._body.is_coming
            have = {name.lower() for name, _ in message["headers"]}
            added = [*_RAW, (b"connection", b"close")] if self._early else _RAW
            message["headers"] = [*message["headers"], *(pair for pair in added if pair[0] not in have)]
        elif self._early and not message.get("more_body", False):
            await self._within({**message, "more_body": True})
            await self._body.drain()
            message = {"type": "http.response.body", "body": b""}
        await self._within(message)

    async def _within(self, message: Message) -> None:
        await asyncio.wait_for(self._send(message), self._seconds)


class _Body:
    """Counts what comes, and loses patience."""

    def __init__(self, receive: Receive, headers: Mapping[str, str], limits: Limits, upload: bool) -> None:
        self._receive, self._limits, self._upload = receive, limits, upload
        self._most = limits.upload + (1 << 20) if upload else limits.body
        length = headers.get("content-length", "")
        self._length = int(length) if length.isascii() and length.isdigit() else 0
        self._got, self._done = 0, not self._length and "transfer-encoding" not in headers
        self._started = time.monotonic()

    @property
    def is_coming(self) -> bool:
        """Whether some of it has not been read."""
        return not self._done

    def require_fitting(self) -> None:
        if self._length > self._most:
            raise self._too_large()

    async def drain(self) -> None:
        """Throw away what still comes: for so long in all, and not through a silence."""
        until = time.monotonic() + self._limits.linger_seconds
        with contextlib.suppress(asyncio.TimeoutError):
            while not self._done and time.monotonic() < until:
                message = await asyncio.wait_for(self._receive(), self._limits.linger_silence)
                self._done = message["type"] != "http.request" or not message.get("more_body", False)

    def _too_large(self) -> Problem:
        detail = f"The request has more than the {self._most:,} bytes that are allowed here."
        return Problem(413, detail, {"Connection": "close"})

    async def receive(self) -> Message:
        if self._done:  # what comes now is a disconnect, whenever it comes
            return await self._receive()
        try:
            message = await asyncio.wait_for(self._receive(), self._limits.body_seconds)
        except asyncio.TimeoutError:
            raise self._slow() from None
        if message["type"] == "http.request":
            self._got += len(message.get("body", b""))
            self._done = not message.get("more_body", False)
            if self._got > self._most:
                raise self._too_large()
            self._require_progress()
        return message

    def _require_progress(self) -> None:
        beyond = time.monotonic() - self._started - self._limits.body_seconds
        if not self._done and beyond > 0 and (not self._upload or self._got < beyond * self._limits.upload_rate):
            raise self._slow()

    def _slow(self) -> Problem:
        return Problem(408, "The request came too slowly.", {"Connection": "close"})


def _require_same_site(headers: Mapping[str, str]) -> None:
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None and site not in ("same-origin", "none"):
        raise Problem(403, "Another site's page may not do this.")
    if origin is not None and origin.partition("://")[2].lower() != headers.get("host", "").lower():
        raise Problem(403, "Another site's page may not do this.")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _host(header: str) -> str:
    """The name without the port.

    >>> _host("LOCALHOST:8787"), _host("[::1]:8787"), _host("127.0.0.1"), _host("a:b:c")
    ('localhost', '::1', '127.0.0.1', '')
    """
    host = header.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    name, _, port = host.partition(":")
    return name if not port or port.isdigit() else ""
