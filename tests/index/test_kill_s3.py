"""Kill -9 of a writer on an object store: its lease ends, the next one goes on, and nothing is lost or doubled."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from index.forked import Forked
from index.kills import contents, kill_after, no_orphans
from index.papers import tiff
from varsdoc import Index, VarsDoc
from varsdoc.errors import BusyError
from varsdoc.index.lease import swap
from varsdoc.index.store import Store

SETTINGS = ("AWS_ENDPOINT", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION")


def end_lease(path: str, seconds: float) -> None:
    """As if a dead writer's term had gone by but for so many seconds."""
    table = Store(path)._lease_table()
    holder = table.to_arrow()["holder"][0].as_py()
    assert swap(table, holder, holder, time.time() + seconds)


def test_a_killed_writer_on_s3_is_waited_for_one_term_and_loses_nothing(
    forked: Forked, s3: str, tmp_path: Path, checkpoint: Path, model: VarsDoc
) -> None:
    folder, path = tmp_path / "papers", f"{s3}/killed"
    environment = {name: os.environ[name] for name in SETTINGS}
    for i in range(4):
        tiff(folder / f"{i}.tiff", [10 * i + page for page in range(4)])
    command = ["index", str(folder), "--into", path, "--model", str(checkpoint), "--device", "cpu", "--json"]
    how = {"environment": environment}
    victims = []
    for turn, commits in enumerate((2, 4, 2, 3)):  # while tables are made; after staging; showing; dropping
        for i in range(2):
            tiff(folder / f"{(turn + i) % 4}.tiff", [100 * turn + 10 * i + page for page in range(2 + turn)])
        process, status = kill_after(forked, path, commits, command, **how)
        assert status == -signal.SIGKILL
        victims.append(process)
        with pytest.raises(BusyError, match=f"{path} is being written by .*-{process}-"), Store(path).writing():
            pass
        end_lease(path, 3 if turn == 3 else 0)
    assert forked.run(*command, "--wait", "60", **how) == 0  # it waits for the last three seconds
    assert forked.answer()["failed"] == []
    assert no_orphans(victims)
    whole = Index.open(tmp_path / "whole", model)
    whole.add(folder)
    assert contents(path) == contents(tmp_path / "whole")
    ours, theirs = (Index.open(p, model).search("valve", k=50) for p in (path, tmp_path / "whole"))
    assert [hit.id for hit in ours] == [hit.id for hit in theirs]


def test_these_checks_find_a_planted_fault(forked: Forked, s3: str, tmp_path: Path, checkpoint: Path) -> None:
    folder = tmp_path / "papers"
    tiff(folder / "a.tiff", [1, 2])
    environment = {name: os.environ[name] for name in SETTINGS}
    found = []
    for commits in (3, 4):  # three commits make the tables, the next one stages; a faulty writer shows first
        path = f"{s3}/planted-{commits}"
        command = ["index", str(folder), "--into", path, "--model", str(checkpoint), "--device", "cpu"]
        kill_after(forked, path, commits, command, environment=environment, fault="show_before_staging")
        try:
            contents(path)
        except AssertionError as error:
            found.append(str(error))
    assert found == ["page rows and documents name different versions"]
