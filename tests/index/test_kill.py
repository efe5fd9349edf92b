"""Kill -9 at any moment: nothing lost, nothing doubled, no orphan, no stale lock. Half a document is never seen."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from pathlib import Path

import pytest

from index.forked import Forked
from index.kills import Commits, contents, kill_after, no_orphans
from index.papers import tiff
from varsdoc import Index, VarsDoc
from varsdoc.index.store import Store

KILLS = 10
DOCUMENTS = 6


def change(folder: Path, turn: int) -> None:
    """Three documents get other pages, in another number."""
    for which in range(3):
        seeds = [1000 * (turn + 1) + 100 * which + page for page in range(3 + turn % 4)]
        tiff(folder / f"{(turn + 2 * which) % DOCUMENTS}.tiff", seeds)


@pytest.fixture
def papers(tmp_path: Path) -> Path:
    for i in range(DOCUMENTS):
        tiff(tmp_path / "papers" / f"{i}.tiff", [10 * i + page for page in range(5)])
    return tmp_path / "papers"


def test_ten_kills_lose_nothing_and_double_nothing(
    forked: Forked, papers: Path, tmp_path: Path, checkpoint: Path, model: VarsDoc
) -> None:
    moments = random.Random(5)
    path = tmp_path / "index"
    command = ["index", str(papers), "--into", str(path), "--model", str(checkpoint), "--device", "cpu", "--json"]
    watched = Commits.of(tmp_path / "warm")
    assert forked.run(*command[:3], str(tmp_path / "warm"), *command[4:]) == 0
    most = watched.count()
    assert most >= 6

    victims, ended = [], []
    for kill in range(KILLS):
        change(papers, kill)
        # Right after a commit, and every other time somewhere before the next one; the first while tables are made.
        count = kill if kill < 3 else moments.randint(1, most)
        process, status = kill_after(forked, path, count, command, moments.uniform(0, 0.03) * (kill % 2))
        ended.append(status)
        victims.append(process)
    assert set(ended) <= {0, -signal.SIGKILL}
    assert ended.count(-signal.SIGKILL) >= KILLS // 2, "the runs ended before the kills came"
    assert forked.run(*command) == 0
    last = forked.answer()
    assert last["failed"] == []
    assert no_orphans(victims)

    whole = Index.open(tmp_path / "whole", model)
    expected = whole.add(papers).added
    assert last["added"] + last["unchanged"] + last["replaced"] == expected
    assert contents(path) == contents(tmp_path / "whole")
    ours, theirs = (Index.open(p, model).search("valve", k=100) for p in (path, tmp_path / "whole"))
    assert [hit.id for hit in ours] == [hit.id for hit in theirs]
    assert [hit.score for hit in ours] == pytest.approx([hit.score for hit in theirs], abs=0.05)


@pytest.mark.parametrize("fault", ["show_before_staging", "forget_what_was_staged"])
def test_these_checks_find_a_planted_fault(
    fault: str, forked: Forked, papers: Path, tmp_path: Path, checkpoint: Path
) -> None:
    """A killed run of a faulty writer, then a whole one: what it left must not look right."""
    command = ["index", str(papers), "--model", str(checkpoint), "--device", "cpu", "--json", "--into"]
    for commits in (4, 5, 6, 7):  # three commits make the tables
        path = tmp_path / f"index-{commits}"
        kill_after(forked, path, commits, [*command, str(path)], fault=fault)
        assert forked.run(*command, str(path), fault=fault) == 0
        try:
            contents(path)
        except AssertionError:
            return
    pytest.fail(f"nothing showed that a writer could {fault.replace('_', ' ')}")


def test_the_second_indexer_fails_with_a_sentence_or_waits(
    forked: Forked, tmp_path: Path, checkpoint: Path, model: VarsDoc
) -> None:
    folder, path = tmp_path / "papers", tmp_path / "index"
    tiff(folder / "a.tiff", [1, 2])
    command = ["index", str(folder), "--into", str(path), "--model", str(checkpoint), "--json"]
    with Store(path).writing():
        forked.start(*command)
        assert forked.wait() == 1
        said = forked.said().strip().splitlines()
        assert said[-1] == f"error: {path} is being written by process {os.getpid()}; wait for it, or stop it first."
        forked.start(*command, "--wait", "60")
        time.sleep(0.5)
    assert forked.wait() == 0
    assert forked.answer()["added"] == 2


def test_a_reader_never_sees_half_a_document(tmp_path: Path, model: VarsDoc) -> None:
    """While documents are replaced, a reader sees each with all pages of one version: never both, never a part."""
    folder, path = tmp_path / "papers", tmp_path / "index"
    sizes = {"even": 2, "odd": 3}
    tiff(folder / "a.tiff", [0, 2])
    writer = Index.open(path, model)
    writer.add(folder)
    seen: list[tuple[int, ...]] = []
    errors: list[BaseException] = []
    done = threading.Event()

    def look(memory: int) -> None:
        reader = Index.open(path, model, memory=memory)
        try:
            while not done.is_set():
                hits = reader.search("valve", k=50)
                seen.append(tuple(sorted(hit.page for hit in hits)))
                assert all(hit.jpeg() for hit in hits)
        except BaseException as error:
            errors.append(error)

    readers = [threading.Thread(target=look, args=(memory,)) for memory in (0, 1 << 30)]
    for reader in readers:
        reader.start()
    for turn in range(1, 9):
        count = sizes["odd" if turn % 2 else "even"]
        tiff(folder / "a.tiff", [100 * turn + page for page in range(count)])
        assert writer.add(folder).replaced == count
    done.set()
    for reader in readers:
        reader.join()
    assert errors == []
    assert set(seen) == {(1, 2), (1, 2, 3)}


def test_a_document_that_is_replaced_between_two_looks_of_a_reader_is_seen_whole(
    tmp_path: Path, model: VarsDoc, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader has read which documents there are; before it looks at the pages, they are replaced once more."""
    source = tiff(tmp_path / "a.tiff", [1])
    writer, reader = (Index.open(tmp_path / "index", model) for _ in range(2))
    writer.add(source)
    assert len(reader.search("valve", k=50)) == 1
    writer.add(tiff(source, [2, 3]))
    open_table, turns = Store.open, []

    def meanwhile(self: Store, name: str) -> object:
        if self is reader._store and name == "pages_1" and not turns:
            turns.append(name)
            writer.add(tiff(source, [4, 5, 6]))
        return open_table(self, name)

    monkeypatch.setattr(Store, "open", meanwhile)
    assert sorted(hit.page for hit in reader.search("valve", k=50)) == [1, 2, 3]
    assert turns
