"""Work on our own threads: all of it done, errors seen, torch's settings left alone."""

from __future__ import annotations

import os
import threading

import pytest
import torch

from varsdoc.scoring.threads import alone, for_each


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_item_is_worked_on_once(threads: int) -> None:
    seen: list[int] = []
    for_each(seen.append, range(100), threads)
    assert sorted(seen) == list(range(100))
    for_each(seen.append, [], threads)
    assert len(seen) == 100


def test_each_thread_computes_alone_and_torchs_setting_stays() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        seen: list[int] = []
        for_each(lambda _: seen.append(torch.get_num_threads()), range(20), 3)
        assert set(seen) == {1}
        assert alone(torch.get_num_threads) == 1
        assert torch.get_num_threads() == 2
        fresh: list[int] = []
        thread = threading.Thread(target=lambda: fresh.append(torch.get_num_threads()))
        thread.start()
        thread.join()
        assert fresh == [2]
    finally:
        torch.set_num_threads(before)


def test_an_error_comes_through() -> None:
    def fail(item: int) -> None:
        if item == 7:
            raise ValueError("seven")

    with pytest.raises(ValueError, match="seven"):
        for_each(fail, range(20), 2)


def test_work_within_work_does_not_wait_for_itself() -> None:
    seen: list[int] = []
    for_each(lambda i: for_each(lambda j: seen.append(alone(lambda: 10 * i + j)), range(3), 2), range(4), 2)
    assert sorted(seen) == sorted(10 * i + j for i in range(4) for j in range(3))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_has_threads_of_its_own() -> None:
    for_each(lambda _: None, range(4), 2)
    child = os.fork()
    if child == 0:
        seen: list[int] = []
        for_each(seen.append, range(10), 2)
        os._exit(0 if sorted(seen) == list(range(10)) else 1)
    assert os.waitpid(child, 0)[1] == 0
