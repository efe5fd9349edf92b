"""The jobs of all collections, one at a time, in a process beside the server (job_process).

- A job is on disk before its upload is answered. SIGTERM puts the running one back to wait; a server that was killed
  finds it still `running` and takes it up again, at most `_ATTEMPTS` times: a document that kills every process must
  not do so for ever, and is reported as `interrupted`.
- One server looks after a collection's jobs; a second one on the same folder reads, and says so.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from typing import Any

from varsdoc.errors import BusyError
from varsdoc.index.lock import folder_lock
from varsdoc.serving.job_process import JobProcess, Order
from varsdoc.serving.jobs import Job, JobFolder, file_hash, now
from varsdoc.serving.library import Collection
from varsdoc.serving.names import place
from varsdoc.serving.paths import without_paths
from varsdoc.serving.problems import Problem, busy, log
from varsdoc.serving.settings import Settings
from varsdoc.serving.uploads import Received

_ATTEMPTS = 3
_IDLE_SECONDS = 60.0  # then the process goes, and its memory with it
_UNWRITABLE = "This server may not write to the collection's folder, so it takes no uploads."
_ELSEWHERE = "Another server looks after this collection's uploads; use that one."


class Runner:
    """Takes jobs, runs them, remembers them."""

    def __init__(self, collections: list[Collection], settings: Settings) -> None:
        self._settings = settings
        self._collections = {one.name: one for one in collections}
        self._folders = {one.name: JobFolder(one.folder) for one in collections if one.folder is not None}
        self._jobs: dict[str, Job] = {}  # oldest first
        self._queue: deque[str] = deque()
        self._claims = contextlib.ExitStack()
        self._claimed: set[str] = set()
        self._changed = threading.Condition()
        self._stopping = False
        self._process: JobProcess | None = None
        self._running: str | None = None
        self._thread = threading.Thread(target=self._run, name="varsdoc-jobs", daemon=True)

    def start(self) -> None:
        for name, folder in self._folders.items():
            collection = self._collections[name]
            if folder.jobs.is_dir():
                if not collection.read_only:
                    self._claim(collection, folder)
                self._take_over(collection, folder)
        self._thread.start()

    def stop(self, seconds: float = 5.0) -> None:
        """The running job is ended and waits on disk for the next server."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
            self._end_process()
        if self._thread.is_alive():
            self._thread.join(seconds)
        self._claims.close()

    def _claim(self, collection: Collection, folder: JobFolder) -> None:
        if collection.name in self._claimed:
            return
        try:
            folder.make()
            self._claims.enter_context(folder_lock(folder.jobs))
        except BusyError:
            collection.refuse_writing(_ELSEWHERE)
        except OSError as error:
            log.warning("no uploads for %s: %s", collection.name, error.strerror or error)
            collection.refuse_writing(_UNWRITABLE)
        else:
            self._claimed.add(collection.name)

    def _take_over(self, collection: Collection, folder: JobFolder) -> None:
        """What an earlier server left."""
        ours = collection.name in self._claimed
        found = folder.read()
        for job in found:
            job.collection = collection.name
            if job.is_open and not ours:
                job.detail = "It waits for the server that looks after this collection's uploads."
            elif job.state == "running":
                job.attempts += 1
                if job.attempts >= _ATTEMPTS:
                    self._close(job, folder, "interrupted", "The server was ended in its middle, again and again.")
                else:
                    job.state = "waiting"
                    folder.write(job)
            self._jobs[job.id] = job
            if job.is_open and ours:
                self._queue.append(job.id)
        if ours:
            folder.clear_strays(found)

    def begin(self, collection: Collection) -> JobFolder:
        """Where an upload may be written; refused where none can be taken."""
        collection.require_writable()
        folder = self._folders[collection.name]
        with self._changed:
            self._claim(collection, folder)
            collection.require_writable()
            if self._stopping:
                raise busy("The server is stopping.")
            if len(self._queue) >= self._settings.limits.jobs:
                raise busy(f"{len(self._queue)} uploads wait already; try again when some are done.", 30)
        return folder

    def submit(self, collection: Collection, job_id: str, files: list[Received], metadata: dict[str, Any]) -> Job:
        folder = self._folders[collection.name]
        paths = [str(one.path.relative_to(folder.uploads)) for one in files]
        job = Job(job_id, collection.name, [one.name for one in files], paths, metadata)
        folder.write(job)
        with self._changed:
            self._jobs[job.id] = job
            self._queue.append(job.id)
            self._changed.notify_all()
            self._forget_old()
        return job

    def _forget_old(self) -> None:
        ended = [job for job in self._jobs.values() if not job.is_open]
        for job in ended[: max(0, len(ended) - self._settings.limits.kept_jobs)]:
            del self._jobs[job.id]
            self._folders[job.collection].forget(job)

    def jobs(self, collection: Collection) -> list[Job]:
        """Newest first."""
        with self._changed:
            return [job for job in reversed(self._jobs.values()) if job.collection == collection.name]

    def counts(self) -> dict[str, int]:
        with self._changed:
            states = [job.state for job in self._jobs.values()]
        return {state: states.count(state) for state in sorted(set(states))}

    def get(self, job_id: str) -> Job:
        with self._changed:
            if job_id not in self._jobs:
                raise Problem(404, "There is no such job (any more).")
            return self._jobs[job_id]

    def cancel(self, job_id: str) -> Job:
        job = self.get(job_id)
        collection = self._collections[job.collection]
        collection.require_writable()
        with self._changed:
            if not job.is_open:
                raise Problem(409, f"The job is {job.state} already.")
            if job.id == self._running:
                job.state = "cancelled"  # its thread sees that the process ended, and settles the rest
                self._end_process()
            else:
                self._queue.remove(job.id)
                self._close(job, self._folders[job.collection], "cancelled", None)
        return job

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._queue and not self._stopping:
                    if not self._changed.wait(_IDLE_SECONDS):
                        self._let_go()
                if self._stopping:
                    return
                job = self._jobs[self._queue.popleft()]
                self._running, job.state = job.id, "running"
            try:
                self._do(job)
            except Exception as error:  # the disk is full, say: this job ends, the next may do better
                log.error("job %s: %s", job.id, type(error).__name__, exc_info=error)
                with contextlib.suppress(OSError):
                    self._close(job, self._folders[job.collection], "failed", "The server could not run it.")
            finally:
                self._running = None

    def _do(self, job: Job) -> None:
        folder = self._folders[job.collection]
        job.pages_done, job.pages_total, job.detail = 0, None, None
        folder.write(job)
        with self._changed:
            going = job.is_open and not self._stopping
            if going:
                self._process = self._process or JobProcess()
                self._process.send(self._order(job, folder))
        last = self._listen(job, self._process) if going and self._process is not None else None
        if last is None or job.state == "cancelled":  # the process was ended, perhaps after its last word
            self._let_go()
        if self._stopping and last is None:
            job.state, job.detail = "waiting", "The server was stopped; it goes on when it starts again."
            folder.write(job)
        elif job.state == "cancelled":
            self._close(job, folder, "cancelled", None)
        elif last is None:
            self._close(job, folder, "failed", "Its process ended unexpectedly, perhaps for want of memory.")
        elif last["event"] == "failed":
            self._close(job, folder, "failed", without_paths(last["reason"]))
        else:
            self._finish(job, folder, last)

    def _finish(self, job: Job, folder: JobFolder, last: dict[str, Any]) -> None:
        job.added, job.replaced, job.unchanged = last["added"], last["replaced"], last["unchanged"]
        job.failed = [one | {"reason": without_paths(one["reason"])} for one in last["failed"]]
        nothing = not (job.added or job.replaced or job.unchanged) and job.failed
        job.pages_total = job.pages_done = job.added + job.replaced + job.unchanged
        self._close(job, folder, "failed" if nothing else "done", job.failed[0]["reason"] if nothing else None)

    def _order(self, job: Job, folder: JobFolder) -> Order:
        settings, collection = self._settings, self._collections[job.collection]
        waiting = [str(folder.uploads / path) for path in job.paths]
        places = [str(folder.files / place(name)) for name in job.files]
        return Order(
            uri=str(collection.folder),
            files=[*zip(job.files, waiting, places, strict=True)],
            metadata=job.metadata,
            max_pages=settings.limits.pages,
            max_bytes=settings.limits.upload,
            model=settings.model,
            device=settings.device,
            dtype=settings.dtype,
        )

    def _let_go(self) -> None:
        """Of a process that has ended, or that nobody needs: it holds a model."""
        self._end_process()
        self._process = None

    def _end_process(self) -> None:
        if self._process is not None:
            self._process.end()

    def _listen(self, job: Job, process: JobProcess) -> dict[str, Any] | None:
        """What the process says until it ends; its last word, None where it had none."""
        opened = files = total = 0
        while (said := process.hear()) is not None:
            if said["event"] in ("done", "failed"):
                return said
            if said["event"] == "files":
                files = said["files"]
            elif said["event"] == "encoded":
                job.pages_done += said["pages"]
            else:
                opened += 1
                total += said["pages"]
            if files and opened == files:  # before that nobody knows
                job.pages_total = total
        return None

    def _close(self, job: Job, folder: JobFolder, state: str, detail: str | None) -> None:
        """For good."""
        if state not in ("done", "waiting"):
            self._bring_home(job, folder)
        job.state, job.detail, job.finished = state, detail, now()
        folder.write(job)
        folder.clear(job.id)

    def _bring_home(self, job: Job, folder: JobFolder) -> None:
        """Where a process was ended between a commit and the moving of the file: the document shows, its file stays."""
        shown = {one.source: one.content_hash for one in self._collections[job.collection].documents()}
        for name, path in zip(job.files, job.paths, strict=True):
            waiting, home = folder.uploads / path, folder.files / place(name)
            wanted = shown.get(os.path.realpath(home))
            if wanted is not None and waiting.is_file() and file_hash(waiting) == wanted:
                home.parent.mkdir(parents=True, exist_ok=True)
                os.replace(waiting, home)
