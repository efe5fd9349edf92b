"""schemathesis: whatever fits the description, or nearly, gets an answer that the description has; never a 5xx."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from index.papers import pdf
from serving.conftest import running
from varsdoc import Index, VarsDoc
from varsdoc.serving import Settings

CHECKS = [
    not_a_server_error,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
]
EXAMPLES = 10  # of each route, each mode
SECONDS = 25.0  # in all


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, model: VarsDoc) -> Iterator[httpx.Client]:
    base = tmp_path_factory.mktemp("fuzzed")
    Index.open(base / "index", model).add(pdf(base / "a.pdf", ["valve pressure", "expense claim"]))
    with running(base / "index", settings=Settings(device="cpu", batch_ms=0)) as client:
        client.post("/search", json={"query": "so that the model is there"})
        yield client


def hammer(operation: Any, until: float, **fixed: Any) -> int:
    """Requests of one route; how many were made before the time was over."""
    made = 0

    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):

        @given(case=operation.as_strategy(generation_mode=mode, **fixed))
        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        def ask(case: schemathesis.Case) -> None:
            nonlocal made
            if time.monotonic() < until:
                made += 1
                case.call_and_validate(checks=CHECKS)

        try:
            ask()
        except (
            schemathesis.errors.SchemathesisError,
            Unsatisfiable,
        ):  # nothing can be wrong with a route without parameters
            if mode is GenerationMode.POSITIVE:
                raise
    return made


def test_whatever_comes_the_answer_fits_the_description(server: httpx.Client) -> None:
    described = schemathesis.openapi.from_url(f"{server.base_url}/openapi.json")
    hit = server.post("/search", json={"query": "valve"}).json()["hits"][0]
    until = time.monotonic() + SECONDS
    made: dict[str, int] = {}
    for found in described.get_all_operations():
        operation = found.ok()
        made[operation.label] = hammer(operation, until)
        if operation.label.startswith("GET /pages/"):
            hammer(operation, until, path_parameters={"id": hit["id"]})
    assert len(made) == 15
    assert server.get("/health").json()["status"] == "ok"
    assert server.get("/documents").json()["total"] == 1
