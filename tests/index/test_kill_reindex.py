"""Kill -9 while a collection is encoded anew: readers see the old one or the new, whole, and a rerun finishes it."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from index.forked import Forked
from index.kills import contents, kill_after
from index.papers import tiff
from varsdoc import Index, VarsDoc
from varsdoc.errors import VarsDocError
from varsdoc.index.encoder import DEFAULT_CODEC

PAGES = 12


@pytest.fixture
def index(tmp_path: Path, model: VarsDoc) -> Index:
    for i in range(4):
        tiff(tmp_path / "papers" / f"{i}.tiff", [10 * i + page for page in range(PAGES // 4)])
    made = Index.open(tmp_path / "index", model)
    made.add(tmp_path / "papers", metadata={"year": 2020})
    return made


def seen(path: Path, model: VarsDoc) -> tuple[str, list[tuple[str, int]]]:
    """The codec, and every page that a new reader finds."""
    reader = Index.open(path, model)
    assert all(dict(d.metadata) == {"year": 2020} for d in reader.list())
    hits = reader.search("valve", k=50)
    return reader.fingerprint.codec, sorted((hit.document, hit.page) for hit in hits)


def test_kills_at_every_commit_of_a_reindex_lose_nothing(
    forked: Forked, index: Index, tmp_path: Path, model: VarsDoc
) -> None:
    path = tmp_path / "index"
    everything = [(f"{i}.tiff", page) for i in range(4) for page in range(1, PAGES // 4 + 1)]
    assert seen(path, model) == (DEFAULT_CODEC, everything)
    codecs = ("float16", "int8")
    ended, target = [], 0
    for turn, commits in enumerate((1, 2, 3, 4, 5, 1, 2, 6, 3)):
        # Once one was finished, or every fourth time whatever is pending, the other codec: it drops what was begun.
        target += turn > 0 and (ended[-1] == 0 or turn % 4 == 0)
        command = ["reindex", "--index", str(path), "--codec", codecs[target % 2], "--device", "cpu"]
        ended.append(kill_after(forked, path, commits, command)[1])
        assert ended[-1] in (0, -signal.SIGKILL)
        now, pages = seen(path, model)
        assert pages == everything
        assert now in (DEFAULT_CODEC, *codecs)
    assert ended.count(-signal.SIGKILL) >= 6, "the runs ended before the kills came"
    assert forked.run("reindex", "--index", path, "--codec", "binary", "--device", "cpu") == 0
    assert seen(path, model) == ("binary", everything)
    whole = Index.open(tmp_path / "whole", model, codec="binary")
    whole.add(tmp_path / "papers")
    assert contents(path) == contents(tmp_path / "whole")
    assert len(list(path.glob("pages_*.lance"))) == 1


@pytest.mark.parametrize("fault", ["forget_what_was_staged", "swap_before_filling"])
def test_these_checks_find_a_planted_fault(
    fault: str, forked: Forked, index: Index, tmp_path: Path, model: VarsDoc
) -> None:
    path = tmp_path / "index"
    whole = seen(path, model)[1]
    command = ["reindex", "--index", str(path), "--device", "cpu", "--codec"]
    for turn, commits in enumerate((4, 6, 5)):  # two tables, the pending state, then a document's pages, it, the next
        codec = ("float16", "int8")[turn % 2]
        kill_after(forked, path, commits, [*command, codec], fault=fault)
        try:
            assert seen(path, model)[1] == whole
            assert forked.run(*command, codec, fault=fault) == 0
            assert seen(path, model)[1] == whole
            contents(path)
        except (AssertionError, VarsDocError):
            return
    pytest.fail(f"nothing showed that a reindex could {fault.replace('_', ' ')}")
