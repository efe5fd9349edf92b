"""One writer on an object store: a lease that is renewed, ends, and is taken by one only."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import lancedb
import pytest

from varsdoc.errors import BusyError
from varsdoc.index.lease import empty_rows, lease, swap


@pytest.fixture
def place(tmp_path: Path) -> Any:
    lancedb.connect(tmp_path).create_table("lease", data=empty_rows())
    return lambda: lancedb.connect(tmp_path).open_table("lease")


def test_the_second_writer_fails_and_the_third_comes_after_the_first(place: Any) -> None:
    busy = pytest.raises(BusyError, match="s3://here is being written by")
    with lease(place, "s3://here"), busy, lease(place, "s3://here"):
        pass
    with lease(place, "s3://here"):
        pass


def test_a_lease_outlives_its_term_while_its_holder_lives(place: Any) -> None:
    with lease(place, "here", term=0.6) as check:
        time.sleep(1.2)
        check()
        with pytest.raises(BusyError), lease(place, "here"):
            pass


def test_a_dead_holder_is_waited_for_one_term(place: Any) -> None:
    assert swap(place(), "free", "dead-host-1", time.time() + 1.5)
    with pytest.raises(BusyError, match="dead-host-1"), lease(place, "here"):
        pass
    with lease(place, "here", wait=10):
        pass


def test_a_holder_that_lost_its_lease_stops_before_it_commits(place: Any) -> None:
    with lease(place, "here", term=0.6) as check:
        holder = place().to_arrow()["holder"][0].as_py()
        assert swap(place(), holder, "thief", time.time() + 60)
        time.sleep(1.0)
        with pytest.raises(BusyError, match="lost its lease"):
            check()


def test_of_many_takers_one_gets_it(place: Any) -> None:
    taken: list[bool] = []

    def take(i: int) -> None:
        taken.append(swap(place(), "free", f"taker-{i}", time.time() + 60))

    threads = [threading.Thread(target=take, args=(i,)) for i in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == [False] * 4 + [True]


def test_a_lease_that_took_long_to_take_ends_when_the_store_says(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*args: Any) -> bool:
        done = swap(*args)
        time.sleep(0.5)
        return done

    monkeypatch.setattr("varsdoc.index.lease.swap", slow)
    with lease(place, "here", term=0.4) as check, pytest.raises(BusyError, match="lost its lease"):
        check()
