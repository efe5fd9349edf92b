"""`varsdoc serve` in processes of their own, forked from one that has imported torch: a server is up in a moment."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

import httpx

SOURCE = str(Path(__file__).parents[2] / "src")


def child(arguments: list[str], said: str) -> None:
    import torch

    torch.set_num_threads(1)
    os.setsid()
    os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(0, 1)
    from varsdoc.cli import main

    sys.argv = ["varsdoc", *arguments]
    main()


def preloaded() -> None:
    """Each line on stdin is a command: start (its process id comes back) or wait (its exit code)."""
    import torch  # noqa: F401
    import transformers.models.qwen2_5_vl.modeling_qwen2_5_vl  # noqa: F401
    import uvicorn  # noqa: F401

    import varsdoc.model
    import varsdoc.serving.app  # noqa: F401

    print("ready", flush=True)
    for line in sys.stdin:
        what, *rest = json.loads(line)
        if what == "wait":
            print(os.waitstatus_to_exitcode(os.waitpid(rest[0], 0)[1]), flush=True)
            continue
        process = os.fork()
        if not process:
            try:
                child(rest[0], rest[1])
            except SystemExit as end:
                os._exit(int(end.code or 0))
            os._exit(0)
        print(process, flush=True)


class Running:
    """One server process."""

    def __init__(self, launcher: Launcher, pid: int, said: Path) -> None:
        self._launcher, self.pid, self._said = launcher, pid, said
        self.code: int | None = None

    def said(self) -> str:
        return self._said.read_text()

    def client(self, **options: object) -> httpx.Client:
        """Once it says that it serves."""
        deadline = time.monotonic() + 60
        while "Serving" not in self.said():
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.02)
        address = self.said().split(" at ")[1].split()[0]
        return httpx.Client(base_url=address, timeout=60, **options)

    def end(self, by: int = signal.SIGTERM) -> int:
        if self.code is None:
            os.kill(self.pid, by)
            self.wait()
        assert self.code is not None
        return self.code

    def wait(self) -> int:
        if self.code is None:
            self.code = int(self._launcher.ask("wait", self.pid))
        return self.code


class Launcher:
    def __init__(self, scratch: Path) -> None:
        self._scratch, self._count = scratch, 0
        self._started: list[Running] = []
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            env=os.environ | {"PYTHONPATH": SOURCE, "COLUMNS": "160"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Launcher:
        assert self._line() == "ready"
        return self

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def ask(self, *command: object) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return self._line()

    def serve(self, *arguments: object) -> Running:
        """`varsdoc serve` with these arguments, on a free port."""
        self._count += 1
        said = self._scratch / f"{self._count}.txt"
        said.touch()
        pid = int(self.ask("start", ["serve", *map(str, arguments)], str(said)))
        self._started.append(Running(self, pid, said))
        return self._started[-1]

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for one in self._started:
            if one.code is None:
                one.end(signal.SIGKILL)
        self._process.kill()
        self._process.communicate()


if __name__ == "__main__":
    preloaded()
