"""Start real processes: torchrun on 127.0.0.1, or one Python."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def environment(**more: str) -> dict[str, str]:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **more}


def torchrun(*command: str, ranks: int = 2) -> subprocess.CompletedProcess[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr=127.0.0.1"]
    return subprocess.run(
        [*launcher, f"--nproc-per-node={ranks}", *command],
        env=environment(), capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def python(*command: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command], env=environment(**more), capture_output=True, text=True, timeout=120
    )
