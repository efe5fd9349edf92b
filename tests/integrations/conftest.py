from __future__ import annotations

from pathlib import Path

import pytest

from small_collection import make_collection
from varsdoc import Index


@pytest.fixture(scope="session")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    place: Path = tmp_path_factory.mktemp("integrations")
    return Index.open(make_collection(place), place / "model")
