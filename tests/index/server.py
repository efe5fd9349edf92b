"""Runs `varsdoc` commands in processes of their own, without paying for torch's import each time.

Started once; each line on stdin is a JSON list of arguments. It forks, the child runs the command, and the child's id
goes to stdout, later its exit status. Nothing but imports happened before the fork: no thread, no open table.
"""

from __future__ import annotations

import json
import os
import sys

import torch
import transformers.models.qwen2_5_vl.modeling_qwen2_5_vl

import varsdoc.model  # noqa: F401


def child(arguments: list[str]) -> None:
    torch.set_num_threads(1)
    for stream in (1, 2):
        os.dup2(os.open(arguments.pop(0), os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    from varsdoc.cli import main

    sys.argv = ["varsdoc", *arguments]
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
