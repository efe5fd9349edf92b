"""One writer: the lock says who has it, and dies with its process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from varsdoc.errors import BusyError
from varsdoc.index.lock import folder_lock

SOURCE = str(Path(__file__).parents[2] / "src")
HOLD = """
import subprocess, sys
from pathlib import Path
from varsdoc.index.lock import folder_lock
with folder_lock(Path(sys.argv[1])):
    worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    print(worker.pid, flush=True)
    sys.stdin.read()
"""


@contextmanager
def holder(folder: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process with the lock, and its worker's id."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)],
        env=os.environ | {"PYTHONPATH": SOURCE},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    worker = int(process.stdout.readline())
    try:
        yield process, worker
    finally:
        os.kill(worker, 9)  # first: it has the pipe, too
        process.kill()
        process.communicate()


def test_the_second_writer_hears_who_has_it(tmp_path: Path) -> None:
    with holder(tmp_path) as (process, _):
        busy = pytest.raises(BusyError, match=f"process {process.pid}")
        with busy, folder_lock(tmp_path):
            pass


def test_a_killed_writer_leaves_no_lock_though_its_worker_lives(tmp_path: Path) -> None:
    with holder(tmp_path) as (process, worker):
        process.kill()
        process.wait()
        os.kill(worker, 0)  # still there
        with folder_lock(tmp_path, wait=2):
            assert (tmp_path / "varsdoc.lock").read_text().strip() == str(os.getpid())


def test_the_second_writer_can_wait(tmp_path: Path) -> None:
    with holder(tmp_path) as (process, _):
        threading.Timer(0.5, process.kill).start()
        started = time.monotonic()
        with folder_lock(tmp_path, wait=20):
            assert time.monotonic() - started > 0.3


def test_two_writers_in_one_process_exclude_each_other(tmp_path: Path) -> None:
    with folder_lock(tmp_path), pytest.raises(BusyError, match="this process"), folder_lock(tmp_path):
        pass
    with folder_lock(tmp_path):
        pass


def test_asking_who_holds_it_drops_no_lock_that_a_thread_took_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closing any descriptor of the file drops the process's record lock."""
    took = threading.Event()
    read_text = Path.read_text

    def slowly(self: Path, *args: Any, **options: Any) -> str:
        took.wait(1)  # give the other thread its chance, between the look and the read
        return read_text(self, *args, **options)

    def take() -> None:
        with folder_lock(tmp_path, wait=10):
            took.set()
            done.wait(20)

    done = threading.Event()
    with holder(tmp_path) as (process, _):
        monkeypatch.setattr(Path, "read_text", slowly)
        threading.Timer(0.2, process.kill).start()
        other = threading.Thread(target=take)
        other.start()
        with pytest.raises(BusyError), folder_lock(tmp_path):
            pass
        assert took.wait(10)
        monkeypatch.undo()
        program = "import sys; from pathlib import Path; from varsdoc.index.lock import folder_lock\n"
        program += "with folder_lock(Path(sys.argv[1])): pass"
        env = os.environ | {"PYTHONPATH": SOURCE}
        second = subprocess.run([sys.executable, "-c", program, str(tmp_path)], env=env, capture_output=True, text=True)
        done.set()
        other.join()
    assert "BusyError" in second.stderr
