"""The pool: documents in, their pages out in order, rendered ahead by workers within a budget of bytes.

One thread owns the workers: it starts them (Linux ties a child's life to the thread that made it), hands out work,
hears what they say, holds the clock, and ends those that hang. The consumer meets it at one condition variable only.

Why it cannot lock up: work is handed out in order; the budget may hold back any work but the head document's when
nobody works on it and the consumer has nothing to take; and workers never wait for the budget, so what was handed out
always comes.
"""

from __future__ import annotations

import os
import queue
import shutil
import tempfile
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

from varsdoc.errors import RenderingError
from varsdoc.pages.jobs import CHUNK, Job, Task
from varsdoc.pages.processes import WorkerProcess
from varsdoc.pages.settings import Picture, Settings
from varsdoc.pages.stream import DocumentEnd, Failure, Page

_START_SECONDS = 60.0
_START_ATTEMPTS = 3
_SLOWEST_DISK = 10e6  # bytes a second: a large file on a network drive is not hostile
_MOST_SMALL_ITEMS = 1000


@dataclass
class _Slot:
    worker: WorkerProcess
    since: float  # it last said something, or was last told something
    ready: bool = False
    task: Task | None = None
    path: str = ""  # the document it has open


class Pool:
    def __init__(self, settings: Settings, workers: int, budget: int):
        self.settings, self.workers, self.budget = settings, workers, budget
        self.inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.changed = threading.Condition()
        self.jobs: deque[Job | Failure] = deque()
        self.out: deque[Page | Failure | DocumentEnd] = deque()
        self.out_bytes = 0
        self.slots: list[_Slot] = []
        self.failed_starts = 0
        self.error: BaseException | None = None
        self.closed = self.exhausted = False
        self.owner = os.getpid()
        self.thread = threading.Thread(target=self._run, daemon=True, name="varsdoc-pages")
        self.thread.start()

    # ---- the consumer's side

    def wants(self) -> bool:
        """Whether another document would find a place."""
        with self.changed:
            return self._wants()

    def submit(self, item: Job | Failure | None) -> None:
        """The next document (or a failure that takes its place in the order); None: there is no more."""
        with self.changed:
            if item is None:
                self.exhausted = True
            else:
                self.jobs.append(item)
        self.inbox.put(None)

    def take(self) -> Page | Failure | DocumentEnd | None:
        """The next item; None when a document is wanted first, or when all is done (`exhausted` tells which)."""
        with self.changed:
            self.changed.wait_for(lambda: self.out or self.error or self._wants() or self._done())
            if self.out:
                item = self.out.popleft()
                self.out_bytes -= item.nbytes if isinstance(item, Page) else 0
                self.inbox.put(None)
                return item
            if self.error:
                raise self.error
            return None

    @property
    def finished(self) -> bool:
        with self.changed:
            return self._done() and not self.out

    @property
    def has_output(self) -> bool:
        with self.changed:
            return bool(self.out)

    def close(self) -> None:
        if os.getpid() != self.owner:
            return  # a forked copy of the consumer owns nothing
        self.closed = True
        self.inbox.put(None)
        self.thread.join()

    def _wants(self) -> bool:
        unbegun = sum(isinstance(job, Job) and job.count is None and not job.running for job in self.jobs)
        roomy = self._held() < self.budget and len(self.out) + len(self.jobs) < _MOST_SMALL_ITEMS
        return not self.exhausted and roomy and unbegun < 2 * self.workers + 2

    def _done(self) -> bool:
        return self.exhausted and not self.jobs

    def _held(self) -> int:
        return self.out_bytes + sum(job.held for job in self.jobs if isinstance(job, Job))

    # ---- the pool's own thread

    def _run(self) -> None:
        try:
            while not self.closed:
                self._wait()
                with self.changed:
                    self._judge_time()
                    self._hand_out()
                    self._flow()
                    self.changed.notify_all()
        except BaseException as error:
            with self.changed:
                self.error = error
                self.changed.notify_all()
        finally:
            for slot in self.slots:
                slot.worker.end()
            for job in self.jobs:
                self._clean(job)

    def _wait(self) -> None:
        """Sleep until something was said or a time limit passes, then hear all that was said."""
        asleep = time.monotonic()
        due = min((slot.since + self._patience(slot) for slot in self.slots if slot.task), default=None)
        pause = None if due is None else max(0.02, due - asleep + 0.01)
        try:
            heard = [self.inbox.get(timeout=pause)]
        except queue.Empty:
            heard = []
        while not self.inbox.empty():
            heard.append(self.inbox.get())
        late = time.monotonic() - asleep - (pause or 0)
        with self.changed:
            if pause is not None and late > 1:  # the whole process was stopped: no worker's fault
                for slot in self.slots:
                    slot.since += late
            for said in heard:
                if said is not None:
                    self._hear(*said)

    def _patience(self, slot: _Slot) -> float:
        if not slot.ready:
            return _START_SECONDS
        limits, task = self.settings.limits, slot.task
        if task is None or task.opened:
            return limits.seconds
        reading = task.job.document.size / _SLOWEST_DISK
        return reading + (limits.office_seconds if task.convert else limits.seconds)

    def _hear(self, worker: WorkerProcess, header: dict[str, Any] | None, body: bytes) -> None:
        slot = next((slot for slot in self.slots if slot.worker is worker), None)
        if slot is None:
            return  # said before it was ended
        if header is None:
            self._lost(slot, f"The program that draws pages {worker.obituary()} on it.")
            return
        slot.since = time.monotonic()
        try:
            self._obey(slot, header, body)
        except (KeyError, TypeError, ValueError, AssertionError):  # no worker of ours says such things
            self._lost(slot, "The program that draws pages lost its way in it.")

    def _obey(self, slot: _Slot, header: dict[str, Any], body: bytes) -> None:
        event, task = header["event"], slot.task
        if event == "ready":
            slot.ready, self.failed_starts = True, 0
        elif event == "broken":
            raise RenderingError(
                f"Pages cannot be rendered: {_one_line(header['reason'])}; install varsdoc's dependencies again."
            )
        elif task is None:
            raise ValueError(event)
        elif event == "opened":
            task.job.opened(task, int(header["count"]))
        elif event == "converted":
            task.job.converted(os.path.join(task.job.scratch or "", "document.pdf"))
        elif event == "done":
            task.job.running -= 1
            slot.task = None
            if header.get("spent"):
                slot.worker.end()
                self.slots.remove(slot)
            if not task.convert and task.next != task.stop:
                task.job.give_up("Not all of its pages came.")
        elif header.get("page") is None and event == "failed":
            task.job.give_up(_one_line(header["reason"]))
        else:
            self._page(task, event, header, body)

    def _page(self, task: Task, event: str, header: dict[str, Any], body: bytes) -> None:
        number = task.next
        if header["page"] != number or task.stop is None or number >= task.stop:
            raise ValueError(header["page"])
        if event == "failed":
            task.job.bad_page(number, _one_line(header["reason"]))
        elif event == "page":
            text = header["text"]
            picture = Picture(body, int(header["width"]), int(header["height"]), None if text is None else str(text))
            task.job.page(number, picture)
        else:
            raise ValueError(event)
        task.next += 1

    def _judge_time(self) -> None:
        now = time.monotonic()
        for slot in [slot for slot in self.slots if slot.task and now - slot.since > self._patience(slot)]:
            convert, limits = slot.task is not None and slot.task.convert, self.settings.limits
            what, limit = ("LibreOffice", limits.office_seconds) if convert else ("It", limits.seconds)
            self._lost(slot, f"{what} took more than the limit of {limit:g} seconds.")

    def _lost(self, slot: _Slot, reason: str) -> None:
        """End the worker; its task's document bears the loss, unless the worker never got as far as to begin."""
        slot.worker.end()
        self.slots.remove(slot)
        task = slot.task
        if not slot.ready:
            self.failed_starts += 1
            if self.failed_starts >= _START_ATTEMPTS:
                raise RenderingError("The program that draws pages cannot be started; try again with fewer workers.")
        if task is None:
            return
        task.job.running -= 1
        if slot.ready:
            task.job.crashed(task, reason)
        elif not task.convert:
            task.job.todo.appendleft((task.next, task.stop))

    def _hand_out(self) -> None:
        while (job := self._next_job()) is not None:
            slot = self._free_slot(job.path)
            if slot is None:
                return
            task = job.next_task()
            if task.convert and job.scratch is None:
                job.scratch = tempfile.mkdtemp(prefix="varsdoc-office-")
            job.running += 1
            slot.task, slot.path, slot.since = task, job.path, time.monotonic()
            order = {"do": "convert" if task.convert else "render", "path": job.path, "hash": job.content_hash}
            slot.worker.send(order | {"start": task.next, "stop": task.stop, "most": CHUNK, "scratch": job.scratch})

    def _next_job(self) -> Job | None:
        """The first with work to hand out; only one conversion at a time, LibreOffice is large."""
        full = self._held() >= self.budget
        converting = any(slot.task and slot.task.convert for slot in self.slots)
        for place, job in enumerate(self.jobs):
            if isinstance(job, Failure) or not job.has_work or (job.office and (converting or job.running)):
                continue
            urgent = place == 0 and not job.running and not self.out
            return job if urgent or not full else None
        return None

    def _free_slot(self, path: str) -> _Slot | None:
        free = [slot for slot in self.slots if slot.task is None]
        if not free and len(self.slots) < self.workers:
            free = [_Slot(WorkerProcess(self.settings, self.inbox), time.monotonic())]
            self.slots += free
        return min(free, key=lambda slot: slot.path != path, default=None)

    def _flow(self) -> None:
        """Move what is in order to where the consumer takes it."""
        while self.jobs:
            job = self.jobs[0]
            items = [job] if isinstance(job, Failure) else list(job.outgoing())
            self.out.extend(items)
            self.out_bytes += sum(item.nbytes for item in items if isinstance(item, Page))
            if isinstance(job, Job) and not job.finished:
                return
            self._clean(self.jobs.popleft())

    @staticmethod
    def _clean(job: Job | Failure) -> None:
        if isinstance(job, Job) and job.scratch is not None:
            shutil.rmtree(job.scratch, ignore_errors=True)


def _one_line(reason: object) -> str:
    """Libraries put line breaks, and a taken-over worker whatever it likes, into what is shown to a person."""
    line = " ".join(str(reason)[:1000].split())
    return "".join(character if character.isprintable() else "?" for character in line)
