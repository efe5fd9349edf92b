"""The JSON of a run: everything a table or plot was made from, with data, model hash, token cap, codec, command."""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from varsdoc import __version__
from varsdoc.errors import InputError
from varsdoc.evaluation.evaluate import Result
from varsdoc.evaluation.retrievers.protocol import Identity
from varsdoc.evaluation.sweep import Choice

FORMAT = 1


@dataclass
class SetReport:
    """All that was found out about one data set."""

    result: Result
    baselines: list[Result] = field(default_factory=list)
    sweep: list[Choice] = field(default_factory=list)
    comparison: dict[str, Any] | None = None
    agreement: dict[str, Any] | None = None
    examples: list[dict[str, Any]] = field(default_factory=list)

    def to_json(self, whole: bool) -> dict[str, Any]:
        """whole  with per-query rows and per-document winners: what the report folder keeps and stdout does not."""
        content = self.result.to_json()
        if self.baselines:
            content["baselines"] = {
                found.identity.name: found.to_json() | {"model_hash": found.identity.hash} for found in self.baselines
            }
        if self.sweep:
            content["sweep"] = [row.to_json() for row in self.sweep]
        if self.comparison:
            content["comparison"] = self.comparison
        if self.agreement:
            content["agreement"] = self.agreement
        if whole:
            content["per_query"] = self.result.per_query()
            usage = self.result.usage
            content["documents"] = usage.documents() if usage and len(usage.usage) > 1 else []
        return content


def command_line() -> str:
    """What was typed, with the program's name and the last parts of paths: no figure names a machine's folders."""
    return shlex.join(["varsdoc", *(_without_folders(word) for word in sys.argv[1:])])


def _without_folders(word: str) -> str:
    """A hub id (owner/name) stays as it is.

    >>> _without_folders("/data/docvqa-dev"), _without_folders("vidore/colpali"), _without_folders("--cache=/tmp/c")
    ('docvqa-dev', 'vidore/colpali', '--cache=c')
    """
    option, equals, value = word.partition("=")
    if word.startswith("--") and equals:
        return f"{option}={_without_folders(value)}"
    local = word.startswith(("/", "~", ".")) or (os.sep in word and Path(word).exists())
    return Path(word).name or word if local else word


def machine() -> dict[str, Any]:
    """What the figures were made on."""
    found: dict[str, Any] = {
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
    }
    torch = sys.modules.get("torch")
    if torch is not None:
        found["torch"] = torch.__version__
        found["threads"] = torch.get_num_threads()
        if torch.cuda.is_available():
            found["gpu"] = torch.cuda.get_device_name()
    return found


def place(found: Mapping[str, Any], device: str | None) -> str:
    """The machine in words, by what the model ran on: a GPU that was not used is not named.

    >>> place({"cpu": "Xeon", "cores": 2, "threads": 1, "gpu": "H200"}, "cpu")
    'Xeon, 2 cores, 1 thread'
    """
    if found.get("gpu") and not str(device).startswith("cpu"):
        return str(found["gpu"])
    threads = found.get("threads")
    used = "" if threads is None else f", {threads} thread{'' if threads == 1 else 's'}"
    return f"{found.get('cpu')}, {found.get('cores')} cores{used}"


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def document(sets: Mapping[str, SetReport], identity: Identity | None, whole: bool, command: str) -> dict[str, Any]:
    """The whole run."""
    return {
        "datasets": {name: found.to_json(whole) for name, found in sets.items()},
        "model": asdict(identity) if identity else None,
        "command": command,
        "machine": machine(),
        "varsdoc": __version__,
        "format": FORMAT,
    }


def write_json(path: str | Path, content: Mapping[str, Any]) -> None:
    """Beside its place and then renamed, so that no half file is ever read."""
    place = Path(path)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        part = place.with_name(f".{place.name}.part")
        part.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        part.replace(place)
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror}); name another place.") from error
