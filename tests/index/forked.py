"""`varsdoc` commands in processes of their own, without paying for torch's import each time (server.py)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

SOURCE = str(Path(__file__).parents[2] / "src")


class Forked:
    """Runs one command at a time; it can be killed."""

    def __init__(self, scratch: Path) -> None:
        self._out, self._err = scratch / "stdout", scratch / "stderr"
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).parent / "server.py")],
            env=os.environ | {"PYTHONPATH": SOURCE, "COLUMNS": "160"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._line() == "ready"

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def start(self, *arguments: object, fault: str | None = None, environment: dict[str, str] | None = None) -> int:
        """Start a command; its process id. fault: one of faults.py, planted into the process."""
        assert self._process.stdin is not None
        request = {"arguments": [str(a) for a in arguments], "stdout": str(self._out), "stderr": str(self._err)}
        request |= {"fault": fault, "environment": environment or {}}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return int(self._line())

    def wait(self) -> int:
        return int(self._line())

    def run(self, *arguments: object, **how: Any) -> int:
        self.start(*arguments, **how)
        return self.wait()

    def printed(self) -> str:
        return self._out.read_text()

    def said(self) -> str:
        return self._err.read_text()

    def answer(self) -> dict[str, Any]:
        return dict(json.loads(self.printed()))

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
