"""Started from test_resume.py: run a config until a step, then kill the process or fill the disk."""

from __future__ import annotations

import os
import resource
import signal
import sys
from typing import Any

import torch
from transformers import TrainerCallback

from varsdoc.cli import main
from varsdoc.training import stages


class Accident(TrainerCallback):
    def __init__(self, kind: str, step: int) -> None:
        self.kind, self.step = kind, step

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step != self.step:
            return
        if self.kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        # As on a full disk, a write beyond this many bytes fails; Python ignores the signal that comes with it.
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))


if __name__ == "__main__":
    torch.set_num_threads(1)
    kind, step, config = sys.argv[1:]
    plain = stages.make_trainer

    def with_accident(*args: Any) -> Any:
        trainer = plain(*args)
        trainer.add_callback(Accident(kind, int(step)))
        return trainer

    stages.make_trainer = with_accident
    sys.argv = ["varsdoc", "train", config]
    main()
