"""Jobs on disk: one JSON file each, in the collection's own folder, written whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from varsdoc.serving.problems import log

OPEN = ("waiting", "running")
_ID = re.compile(r"[0-9]{8}T[0-9]{12}-[0-9a-f]{8}")


def file_hash(path: Path) -> str:
    """As documents have it."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


def new_id() -> str:
    """Sorts by time."""
    return f"{datetime.now(timezone.utc):%Y%m%dT%H%M%S%f}-{secrets.token_hex(4)}"


@dataclass
class Job:
    """An upload that is to be indexed, and how far it is."""

    id: str
    collection: str
    files: list[str]  # names for people
    paths: list[str]  # where they wait, below the folder of uploads
    metadata: dict[str, Any]
    state: str = "waiting"
    pages_done: int = 0
    pages_total: int | None = None
    added: int = 0
    replaced: int = 0
    unchanged: int = 0
    failed: list[dict[str, Any]] = field(default_factory=list)
    detail: str | None = None
    created: str = field(default_factory=now)
    finished: str | None = None
    attempts: int = 0  # that were cut off

    @property
    def is_open(self) -> bool:
        return self.state in OPEN

    def to_json(self) -> dict[str, Any]:
        """What the API shows."""
        hidden = ("paths", "metadata", "attempts")
        return {name: value for name, value in asdict(self).items() if name not in hidden}


class JobFolder:
    """The jobs of one collection, and the files that wait for them.

    jobs/<id>.json                 a job
    uploads/incoming/<id>/         its files, until they are indexed
    uploads/files/<key>/<name>     files of indexed documents
    """

    def __init__(self, collection: Path) -> None:
        self.jobs, self.uploads = collection / "jobs", collection / "uploads"
        self.incoming, self.files = self.uploads / "incoming", self.uploads / "files"

    def make(self) -> None:
        for folder in (self.jobs, self.incoming, self.files):
            folder.mkdir(parents=True, exist_ok=True)

    def read(self) -> list[Job]:
        """All that can be read, oldest first."""
        found = []
        known = {f.name for f in fields(Job)}
        for path in sorted(self.jobs.glob("*.json")):
            try:
                facts = json.loads(path.read_text("utf-8"))
                job = Job(**{key: value for key, value in facts.items() if key in known})
            except (OSError, ValueError, TypeError) as error:
                log.warning("a job's record cannot be read (%s)", type(error).__name__)
                continue
            if _ID.fullmatch(job.id):
                found.append(job)
        return found

    def write(self, job: Job) -> None:
        path = self.jobs / f"{job.id}.json"
        draft = path.with_suffix(".draft")
        with draft.open("w", encoding="utf-8") as out:
            json.dump(asdict(job), out)
            out.flush()
            os.fsync(out.fileno())
        os.replace(draft, path)

    def forget(self, job: Job) -> None:
        with contextlib.suppress(FileNotFoundError):
            (self.jobs / f"{job.id}.json").unlink()

    def staging(self, job_id: str) -> Path:
        folder = self.incoming / job_id
        folder.mkdir(parents=True)
        return folder

    def clear(self, job_id: str) -> None:
        shutil.rmtree(self.incoming / job_id, ignore_errors=True)

    def clear_strays(self, jobs: list[Job]) -> None:
        """What uploads that never became a job, or jobs that ended, left behind."""
        kept = {job.id for job in jobs if job.is_open}
        if self.incoming.is_dir():
            for folder in self.incoming.iterdir():
                if folder.name not in kept:
                    shutil.rmtree(folder, ignore_errors=True)

    def remove_file(self, source: str) -> None:
        """The file of a document that was removed, if it was an upload: files from elsewhere are not ours to touch."""
        path = Path(source)
        if path.parent.parent == Path(os.path.realpath(self.files)):
            with contextlib.suppress(OSError):
                path.unlink()
                path.parent.rmdir()
