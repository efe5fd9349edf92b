"""What the routes of one server share."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fastapi import Request

from varsdoc.errors import FingerprintError
from varsdoc.index.asking import Query
from varsdoc.serving.library import Collection, Library
from varsdoc.serving.models import Models
from varsdoc.serving.pictures import Kept
from varsdoc.serving.runner import Runner
from varsdoc.serving.sessions import Sessions
from varsdoc.serving.settings import Settings

T = TypeVar("T")


@dataclass(frozen=True)
class Asked(Generic[T]):
    """A question, and what came of it."""

    query: Query
    result: T
    encode_ms: float


class Service:
    """Collections, models, threads and counters. Searches, pictures and writers have threads of their own, so that none
    waits for another kind."""

    def __init__(self, library: Library, settings: Settings) -> None:
        self.library, self.settings = library, settings
        self.sessions = Sessions(settings.token)
        self.models = Models(settings)
        self.runner = Runner(library.collections, settings)
        self.pictures = Kept(settings.limits.picture_bytes)
        self.started = time.monotonic()
        self.searches = 0
        self.search_ms: deque[float] = deque(maxlen=1024)
        self._pools = {
            "search": ThreadPoolExecutor(4, "varsdoc-search"),
            "picture": ThreadPoolExecutor(2, "varsdoc-picture"),
            "write": ThreadPoolExecutor(2, "varsdoc-write"),
            "upload": ThreadPoolExecutor(2, "varsdoc-upload"),
        }

    def start(self) -> None:
        self.models.start()
        for collection in self.library.collections:
            self.models.prepare(collection.fingerprint())
        self.runner.start()

    def stop(self) -> None:
        self.runner.stop()
        self.models.stop()
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)

    async def run(self, kind: str, work: Callable[..., T], *arguments: Any) -> T:
        """In one of the threads for this kind of work."""
        return await asyncio.get_running_loop().run_in_executor(self._pools[kind], work, *arguments)

    async def ask(self, collection: Collection, text: str, work: Callable[[Query], T]) -> Asked[T] | None:
        """Encode a question and work with it in a search thread; None while there is no collection.

        Where another process encoded the collection anew since we looked, once more with the new encoder.
        """
        for attempt in range(2):
            started = time.perf_counter()
            found = collection.fingerprint()
            if found is None or attempt:
                found = await self.run("search", collection.fingerprint, True)
            if found is None:
                return None
            query = await asyncio.wrap_future(self.models.encode(found, text))
            encode_ms = 1000 * (time.perf_counter() - started)
            try:
                return Asked(query, await self.run("search", work, query), encode_ms)
            except FingerprintError:
                if attempt:
                    raise
        raise AssertionError


def service(request: Request) -> Service:
    """For the routes."""
    found: Service = request.app.state.service
    return found
