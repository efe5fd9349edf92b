"""Kill -9 at any moment: nothing lost, nothing doubled, no orphan, no stale lock. Half a document is never seen."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from pathlib import Path

import psutil
import pytest

from index.forked import Forked
from index.papers import tiff
from varsdoc import Index, VarsDoc
from varsdoc.index.store import Store

KILLS = 10
DOCUMENTS = 6


def workers_of(parent: int) -> list[int]:
    """Rendering processes that were started by a process, which may be gone."""
    found = []
    for process in psutil.process_iter(["pid", "cmdline"]):
        line = " ".join(process.info["cmdline"] or [])
        if "varsdoc.pages.worker" in line and f'"parent": {parent},' in line:
            found.append(process.info["pid"])
    return found


def contents(path: Path) -> list[tuple[str, str, int, str]]:
    """What a collection holds, by its own tables: visible documents with every page row of theirs."""
    store = Store(path)
    generation = store.generation(store.state().generation)
    documents = {d.version: d for d in generation.read_documents().values()}
    rows = generation.pages.search().select(["version", "page", "id"]).to_arrow().to_pylist()
    assert {row["version"] for row in rows} == set(documents), "rows of a version that no document names"
    return sorted((documents[r["version"]].name, documents[r["version"]].version, r["page"], r["id"]) for r in rows)


def test_ten_kills_lose_nothing_and_double_nothing(
    forked: Forked, tmp_path: Path, checkpoint: Path, model: VarsDoc
) -> None:
    moments = random.Random(5)
    folder, path = tmp_path / "papers", tmp_path / "index"
    for i in range(DOCUMENTS):
        tiff(folder / f"{i}.tiff", [10 * i + page for page in range(5)])
    command = ["index", str(folder), "--into", str(path), "--model", str(checkpoint), "--device", "cpu", "--json"]
    # How long a run takes here and now, so that the kills fall into the work.
    started = time.monotonic()
    forked.start(*command[:3], str(tmp_path / "warm"), *command[4:])
    assert forked.wait() == 0
    length = time.monotonic() - started

    victims, ended = [], []
    for kill in range(KILLS):
        # Each run has something to do: documents that changed, in another number of pages.
        for change in range(3):
            seeds = [1000 * (kill + 1) + 100 * change + page for page in range(3 + kill % 4)]
            tiff(folder / f"{(kill + 2 * change) % DOCUMENTS}.tiff", seeds)
        process = forked.start(*command)
        time.sleep(moments.uniform(0.0, length))
        if psutil.pid_exists(process):
            os.kill(process, signal.SIGKILL)
        ended.append(forked.wait())
        victims.append(process)
    assert set(ended) <= {0, -signal.SIGKILL}
    assert ended.count(-signal.SIGKILL) >= KILLS // 2, "the runs ended before the kills came"
    forked.start(*command)
    assert forked.wait() == 0
    last = forked.answer()
    assert last["failed"] == []

    deadline = time.monotonic() + 10
    while any(workers_of(victim) for victim in victims) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert [workers_of(victim) for victim in victims] == [[]] * KILLS

    whole = Index.open(tmp_path / "whole", model)
    expected = whole.add(folder).added
    assert last["added"] + last["unchanged"] + last["replaced"] == expected
    assert contents(path) == contents(tmp_path / "whole")
    ours, theirs = (Index.open(p, model).search("valve", k=100) for p in (path, tmp_path / "whole"))
    assert [hit.id for hit in ours] == [hit.id for hit in theirs]
    assert [hit.score for hit in ours] == pytest.approx([hit.score for hit in theirs], abs=0.05)


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
