"""The process: a socket, uvicorn on it, signals, and connections that must not idle for ever."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Generator
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from varsdoc.errors import ConfigError
from varsdoc.serving.settings import Limits

_GRACE = 3  # seconds for requests under way


def serve(app: FastAPI, host: str, port: int, limits: Limits, ready: Callable[[str], None]) -> int:
    """Serve until a signal; the exit code. `ready` gets the address once connections are accepted."""
    logging.basicConfig(format="%(message)s", stream=sys.stderr, level=logging.WARNING)
    server = Server(app, host, port, limits, ready)
    server.run()
    return 130 if signal.SIGINT in server.caught else 0


def _config(app: FastAPI, limits: Limits) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        http=_protocol(limits),
        ws="none",
        lifespan="on",
        timeout_keep_alive=15,
        timeout_graceful_shutdown=_GRACE,
        backlog=256,
    )


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        made = socket.socket(family, socket.SOCK_STREAM)
        if os.name == "posix":
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
    except OSError as error:
        raise ConfigError(
            f"The server cannot listen on {host}, port {port} ({error.strerror or error}); choose another --port."
        ) from error
    return made


class Server(uvicorn.Server):
    """Says when it is ready, and ends by a signal without dying of it. May also run in a thread; `stop` ends it."""

    def __init__(self, app: FastAPI, host: str, port: int, limits: Limits, ready: Callable[[str], None]) -> None:
        super().__init__(_config(app, limits))
        self._listening = _listen(host, port)
        shown = f"[{host}]" if ":" in host else host
        self.address = f"http://{shown}:{self._listening.getsockname()[1]}"
        self._ready = ready
        self.caught: list[int] = []

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        super().run(sockets or [self._listening])

    def stop(self) -> None:
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if not self.should_exit:
            self._ready(self.address)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {one: signal.signal(one, self.handle_exit) for one in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    def handle_exit(self, sig: int, frame: Any) -> None:
        self.caught.append(sig)
        if self.should_exit:  # a second one does not wait
            self.force_exit = True
        self.should_exit = True


def _protocol(limits: Limits) -> type[H11Protocol]:
    class Bounded(H11Protocol):
        """A connection that sends no whole head within its time is closed; so is one too many."""

        _waiting: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > limits.connections:
                transport.abort()
                return
            self._wait()

        def _wait(self) -> None:
            self._waiting = self.loop.call_later(limits.header_seconds, self._give_up, self.cycle)

        def _give_up(self, before: Any) -> None:
            """Nothing but pieces of a head came since the last request."""
            if self.cycle is before and not self.transport.is_closing():
                self.transport.abort()

        def data_received(self, data: bytes) -> None:
            idle = self.cycle is None or self.cycle.response_complete
            if idle and self.cycle is not None and (self._waiting is None or self._waiting.cancelled()):
                self._wait()
            super().data_received(data)
            if self.cycle is not None and not self.cycle.response_complete and self._waiting is not None:
                self._waiting.cancel()

        def connection_lost(self, exc: Exception | None) -> None:
            if self._waiting is not None:
                self._waiting.cancel()
            super().connection_lost(exc)

    return Bounded
