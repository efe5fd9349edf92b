"""The stream: order, look-ahead within a budget, and the end of the workers whatever ends the consumer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pages import made
from varsdoc.errors import ConfigError
from varsdoc.pages import Document, DocumentEnd, Failure, Limits, Page, find, read

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    files = {
        f"{n:02d}.pdf": made.pdf([f"{n}.{page}" for page in range(pages)]) for n, pages in enumerate((1, 30, 2, 9))
    }
    files |= {f"{n:02d}.png": made.picture(size=(40 + n, 30)) for n in range(10, 30)}
    return made.write(tmp_path_factory.mktemp("many"), files)


@pytest.mark.parametrize(("workers", "ahead"), [(1, 1), (2, 1), (3, 100_000), (2, 64 << 20)])
def test_pages_come_in_order_whatever_the_workers_and_the_budget(folder: Path, workers: int, ahead: int) -> None:
    items = list(read(find([folder]), workers=workers, ahead=ahead, long_side=200))
    expected = []
    for document in find([folder]):
        assert isinstance(document, Document)
        count = {"00.pdf": 1, "01.pdf": 30, "02.pdf": 2, "03.pdf": 9}.get(document.name, 1)
        expected += [f"{document.name}:{page}" for page in range(count)] + [f"{document.name}."]
    assert made.shape(items) == expected
    texts = [item.text for item in items if isinstance(item, Page) and item.text]
    assert texts[1:31] == [f"1.{page}" for page in range(30)]
    assert all(item.ok and item.pages for item in items if isinstance(item, DocumentEnd))


def test_the_same_pages_are_the_same_bytes_whoever_renders_them(folder: Path) -> None:
    once, twice = ([item.jpeg for item in read(find([folder]), workers=n) if isinstance(item, Page)] for n in (1, 2))
    assert once == twice


def test_failures_among_the_documents_keep_their_place(folder: Path, tmp_path: Path) -> None:
    paths = [folder / "00.pdf", tmp_path / "gone.pdf", folder / "02.pdf"]
    assert made.shape(read(find(paths))) == ["00.pdf:0", "00.pdf.", "gone.pdf!", "02.pdf:0", "02.pdf:1", "02.pdf."]


def test_rendering_goes_ahead_of_the_consumer_and_stops_at_the_budget(tmp_path: Path) -> None:
    made.write(tmp_path, {"a.pdf": made.pdf([f"Page {n}" for n in range(120)])})
    from varsdoc.pages import reading
    from varsdoc.pages.pool import Pool

    settings = reading._settings(None, 800, 90, True)
    pool = Pool(settings, 2, 200_000)
    try:
        for document in find([tmp_path]):
            pool.submit(reading._job(document, settings))
        pool.submit(None)
        first = pool.take()
        assert isinstance(first, Page)
        assert made.wait_until(lambda: pool._held() >= 200_000)  # nobody takes pages meanwhile
        time.sleep(0.5)
        assert 200_000 <= pool._held() <= 200_000 + 8 * 1.5 * first.nbytes
        taken = 0
        while isinstance(pool.take(), Page):
            taken += 1
        assert taken == 119
    finally:
        pool.close()


def test_documents_are_asked_for_as_they_are_needed_by_the_consumer_s_own_thread(folder: Path) -> None:
    import threading

    asked: list[int] = []

    def documents() -> Iterator[Document | Failure]:
        for item in find([folder]):
            asked.append(threading.get_ident())
            yield item

    stream = read(documents(), workers=1)
    next(stream)
    assert len(asked) < 10
    stream.close()
    assert set(asked) == {threading.get_ident()}


@pytest.mark.alone
def test_a_slow_document_does_not_hold_up_those_behind_it(tmp_path: Path) -> None:
    made.write(tmp_path, {"a.pdf": made.endless_pdf(), **{f"b{n}.png": made.picture() for n in range(30)}})
    began = time.monotonic()
    items = made.read_all(tmp_path, workers=2, limits=Limits(seconds=3))
    arrived = time.monotonic() - began
    assert made.shape(items)[:2] == ["a.pdf!0", "a.pdf."]
    assert len(items) == 2 + 60
    assert arrived < 15


def test_an_error_in_the_documents_reaches_the_consumer_and_ends_the_workers(folder: Path) -> None:
    def documents() -> Iterator[Document | Failure]:
        yield from list(find([folder]))[:1]
        raise LookupError("no more")

    with pytest.raises(LookupError):
        list(read(documents()))
    assert not made.children() if sys.platform.startswith("linux") else True


def test_wrong_settings_are_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="workers is 0"):
        read([], workers=0)
    with pytest.raises(ConfigError, match="long_side is 0"):
        read([], long_side=0)
    with pytest.raises(ConfigError, match="quality is 101"):
        read([], quality=101)
    assert list(read([])) == []


@linux
@pytest.mark.alone
def test_closing_the_stream_ends_the_workers_even_those_that_hang(tmp_path: Path) -> None:
    made.write(tmp_path, {"a.pdf": made.pdf(["a"]), "b.pdf": made.endless_pdf()})
    stream = read(find([tmp_path]), workers=2)
    next(stream)
    assert made.children()
    began = time.monotonic()
    stream.close()
    assert time.monotonic() - began < 2
    assert not made.children()


@linux
def test_a_worker_has_no_torch_no_descriptor_of_ours_and_a_group_of_its_own(folder: Path, tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w") as lock:
        os.set_inheritable(lock.fileno(), True)
        stream = read(find([folder]), workers=1)
        next(stream)
        (worker,) = made.children()
        targets = [os.readlink(f"/proc/{worker}/fd/{fd}") for fd in os.listdir(f"/proc/{worker}/fd")]
        assert str(tmp_path / "lock") not in targets
        assert "libtorch" not in Path(f"/proc/{worker}/maps").read_text()
        assert os.getpgid(worker) == worker
        stream.close()


@pytest.mark.parametrize("missing", ["", "resource"])
def test_the_room_imports_no_model_and_does_without_what_other_systems_lack(missing: str) -> None:
    code = (
        f"import sys; sys.modules.update({{name: None for name in {missing.split()!r}}})\n"
        "import varsdoc.pages.worker, varsdoc.pages.pdf, varsdoc.pages.office\n"
        "heavy = {'torch', 'transformers', 'numpy', 'varsdoc.model', 'multiprocessing'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "from varsdoc.pages import lifeline; lifeline.bound_memory(1 << 40); lifeline.no_core_dumps()"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=30)


CONSUMER = """
import sys, time
from varsdoc.pages import find, read
for item in read(find([sys.argv[1]]), workers=2):
    print("page", flush=True)
    time.sleep(100)
"""


@linux
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_worker_outlives_its_parent(tmp_path: Path, how: signal.Signals) -> None:
    made.write(tmp_path, {"a.pdf": made.pdf(["a"]), "b.pdf": made.endless_pdf(), "c.pdf": made.endless_pdf()})
    command = [sys.executable, "-c", CONSUMER, str(tmp_path)]
    path = os.pathsep.join(sys.path)
    parent = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": path}
    )
    try:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"page\n"
        assert made.wait_until(lambda: len(made.children(parent.pid)) == 2)
        workers = made.children(parent.pid)
        parent.send_signal(how)
        parent.wait(10)
        assert made.wait_until(lambda: not any(made.alive(worker) for worker in workers), 5)
    finally:
        parent.kill()
        parent.wait()
