"""Runs `varsdoc` commands in processes of their own, without paying for torch's import each time.

Started once; each line on stdin is a JSON object: arguments, stdout, stderr, environment, fault (faults.py). It
forks, the child runs the command, and the child's id goes to stdout, later its exit status. Nothing but imports
happened before the fork: no thread, no open table.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import torch
import transformers.models.qwen2_5_vl.modeling_qwen2_5_vl

import varsdoc.model  # noqa: F401


def child(request: dict[str, Any]) -> None:
    torch.set_num_threads(1)
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(request[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.update(request["environment"])
    if request["fault"]:
        from faults import FAULTS

        FAULTS[request["fault"]]()
    from varsdoc.cli import main

    sys.argv = ["varsdoc", *request["arguments"]]
    main()


def serve() -> None:
    print("ready", flush=True)
    for line in sys.stdin:
        process = os.fork()
        if not process:
            try:
                child(json.loads(line))
            except SystemExit as end:
                os._exit(int(end.code or 0))
            os._exit(0)
        print(process, flush=True)
        _, status = os.waitpid(process, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    assert transformers is not None
    serve()
