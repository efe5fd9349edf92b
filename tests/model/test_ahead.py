"""Cutting pages ahead in threads: the same embeddings, in the same order, and errors where they belong."""

from __future__ import annotations

import threading
import time

import pytest
import torch

import tiny
from varsdoc.errors import ConfigError, InputError
from varsdoc.model.ahead import ahead


def test_results_come_in_order_whoever_is_done_first() -> None:
    def slow_first(x: int) -> int:
        time.sleep(0.02 if x % 3 == 0 else 0)
        return x

    assert list(ahead(iter(range(20)), slow_first, workers=4, depth=6)) == list(range(20))


def test_work_goes_on_while_a_result_is_looked_at_and_no_further_than_the_depth() -> None:
    started: list[int] = []
    stream = ahead(iter(range(50)), lambda x: started.append(x) or x, workers=2, depth=4)
    assert next(stream) == 0
    deadline = time.monotonic() + 5
    while len(started) < 4 and time.monotonic() < deadline:
        time.sleep(0.005)
    assert sorted(started) == [0, 1, 2, 3], "four ahead, nobody asked for more"
    stream.close()


def test_an_error_comes_in_its_place_and_threads_end() -> None:
    def fail(x: int) -> int:
        if x == 3:
            raise ValueError("the fourth")
        return x

    stream = ahead(range(100), fail, workers=3, depth=8)
    assert [next(stream) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="the fourth"):
        next(stream)
    assert not [t for t in threading.enumerate() if t.name.startswith("varsdoc-ahead")]


@pytest.mark.parametrize("fast", [False, True])
def test_encoding_with_workers_changes_nothing(fast: bool) -> None:
    model = tiny.model(2, 1)
    if fast:
        model.prepare()
    sizes = [(84, 84), (140, 112), (84, 84), (56, 140), (140, 112), (84, 56)]
    pages = [tiny.page(h, w, i) for i, (h, w) in enumerate(sizes)]
    plain = model.encode_pages(iter(pages), batch_tokens=60, workers=0)
    threaded = model.encode_pages(iter(pages), batch_tokens=60, workers=3)
    assert [page.grid for page in plain] == [(h // 28, w // 28) for h, w in sizes]
    for a, b in zip(threaded, plain, strict=True):
        assert torch.equal(a.variants, b.variants)


def test_a_bad_page_is_named_and_workers_are_checked() -> None:
    model = tiny.model(1, 0)
    with pytest.raises(InputError, match="page 2"):
        model.encode_pages([tiny.page(56, 56), tiny.page(56, 56, 1), b"no picture"], workers=2)
    with pytest.raises(ConfigError, match="workers must be 0 or more"):
        model.encode_pages([tiny.page(56, 56)], workers=-1)
