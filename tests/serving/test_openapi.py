"""schemathesis: whatever fits the description, or nearly, gets an answer that the description has; never a 5xx."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings

from index.papers import picture
from serving.conftest import running
from varsdoc import Index, VarsDoc
from varsdoc.serving import Limits, Settings


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory, model: VarsDoc) -> Iterator[tuple[httpx.Client, object]]:
    base = tmp_path_factory.mktemp("fuzzed")
    Index.open(base / "index", model).add(picture(base / "a.png", 3))
    with running(base / "index", settings=Settings(device="cpu", batch_ms=0, limits=Limits(jobs=2))) as client:
        client.post("/search", json={"query": "so that the model is there"})
        yield client, schemathesis.openapi.from_url(f"{client.base_url}/openapi.json")


schema = schemathesis.pytest.from_fixture("described")


@pytest.fixture(scope="module")
def described(api: tuple[httpx.Client, object]) -> object:
    return api[1]


@schema.parametrize()
@settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_whatever_comes_the_answer_fits_the_description(case: schemathesis.Case) -> None:
    case.call_and_validate()
