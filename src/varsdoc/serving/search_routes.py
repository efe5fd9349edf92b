"""POST /search."""

from __future__ import annotations

import time
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from varsdoc.serving.answers import find, words_json
from varsdoc.serving.routes import ServiceOf, answer, problems
from varsdoc.serving.schemas import Answer, SearchRequest

router = APIRouter(tags=["search"])


@router.post("/search", response_model=Answer, responses=problems(400, 403, 404, 408, 413, 422))
async def search(asked: SearchRequest, here: ServiceOf) -> Response:
    """The pages that answer a question, best first, with what each variant and each word said."""
    started = time.perf_counter()
    collection = here.library[asked.collection]
    address = here.library.query(collection)
    done = await here.ask(collection, asked.query, lambda query: find(collection, query, asked, address))
    total = 1000 * (time.perf_counter() - started)
    here.searches += 1
    here.search_ms.append(total)
    facts: dict[str, Any] = {"query": asked.query}
    if done is None:  # nothing was ever added
        return answer(facts | {"took_ms": _took(0, 0, total), "pages": 0, "words": [], "hits": []})
    found = done.result
    facts |= {"took_ms": _took(done.encode_ms, found.search_ms, total), "pages": found.pages}
    return answer(facts | {"words": words_json(done.query), "hits": found.hits})


def _took(encode: float, search: float, total: float) -> dict[str, float]:
    return {"encode": round(encode, 2), "search": round(search, 2), "total": round(total, 2)}
