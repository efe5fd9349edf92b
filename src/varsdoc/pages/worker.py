"""One rendering worker: takes tasks on stdin, sends pages on stdout, knows nothing of order or of the other workers.

Started by `processes.start` in a clean interpreter that imports neither torch nor the program that uses us. It never
judges how long something takes and never recovers from a crash: its parent does, by ending it and starting another.
"""

from __future__ import annotations

import hashlib
import os
import signal
import stat
import sys
from collections.abc import Callable
from typing import Any, Protocol

from varsdoc.errors import InputError
from varsdoc.pages import kinds, lifeline, wire
from varsdoc.pages.settings import Picture, Settings

Send = Callable[..., None]


class Opened(Protocol):
    count: int

    def page(self, number: int) -> Picture: ...
    def close(self) -> None: ...


def main(values: dict[str, Any]) -> None:
    settings, send = Settings.from_json(values["settings"]), _private_stdout()
    line = lifeline.Lifeline(values["parent"])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    lifeline.no_core_dumps()
    try:
        from varsdoc.pages import pdf, pictures  # noqa: F401, so that the first page does not wait for them
    except ImportError as error:
        send(event="broken", reason=str(error))
        return
    lifeline.bound_memory(settings.limits.memory)
    send(event="ready")
    _Worker(settings, send, line).run()


class _Worker:
    def __init__(self, settings: Settings, send: Send, line: lifeline.Lifeline):
        self.settings, self.send, self.line = settings, send, line
        self.opened: Opened | None = None
        self.which: tuple[str, str | None] = ("", None)  # path and hash of what is open
        self.idle = lifeline.mapped()
        self.spent = False  # ask for a successor: what one document did to the memory is not the next one's fault

    def run(self) -> None:
        while True:
            task = self.line.tasks.get()
            try:
                if task["do"] == "convert":
                    self._convert(task)
                else:
                    self._render(task)
            except InputError as error:
                self.send(event="failed", reason=str(error))
            except MemoryError:
                self._close()
                self.spent = True
                self.send(event="failed", reason=self._too_much_memory())
            except Exception as error:
                self._close()
                self.send(event="failed", reason=f"It cannot be read ({type(error).__name__}: {error}).")
            bloated = self.opened is None and lifeline.mapped() > self.idle + self.settings.limits.memory // 2
            self.send(event="done", spent=self.spent or bloated)

    def _render(self, task: dict[str, Any]) -> None:
        """Pages `start` to `stop` (None: the first `most`, and say how many there are)."""
        if self.opened is None or self.which != (task["path"], task["hash"]):
            self._close()
            self.opened, self.which = self._open(task["path"], task["hash"]), (task["path"], task["hash"])
        count, start, stop = self.opened.count, task["start"], task["stop"]
        self.send(event="opened", count=count)
        if count > self.settings.limits.max_pages:
            self._close()
            return
        if start >= count:
            raise InputError(f"It has {count} pages; there is no page {start + 1}.")
        for number in range(start, min(start + task["most"], count) if stop is None else stop):
            self._page(self.opened, number)
        if (stop is None and count <= task["most"]) or stop == count:
            self._close()

    def _page(self, opened: Opened, number: int) -> None:
        try:
            made = opened.page(number)
        except InputError as error:
            self.send(event="failed", page=number, reason=str(error))
        except MemoryError:
            self.spent = True
            self.send(event="failed", page=number, reason=self._too_much_memory())
        except Exception as error:
            self.send(event="failed", page=number, reason=f"It cannot be read ({type(error).__name__}: {error}).")
        else:
            self.send(made.jpeg, event="page", page=number, width=made.width, height=made.height, text=made.text)

    def _open(self, path: str, digest: str | None) -> Opened:
        data = self._bytes(path, digest)
        kind = kinds.sniff(data[: kinds.HEAD], path)
        if kind == kinds.PDF:
            from varsdoc.pages.pdf import PdfFile

            return PdfFile(data, self.settings)
        if kind in kinds.PICTURES:
            from varsdoc.pages.pictures import PictureFile

            return PictureFile(data, kind, self.settings)
        raise InputError("Its content is neither a PDF nor a picture; it is damaged or misnamed.")

    def _bytes(self, path: str, digest: str | None) -> bytes:
        """The file, read once: what is hashed is what is rendered."""
        most = self.settings.limits.max_file_bytes
        try:
            handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
            with os.fdopen(handle, "rb") as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode):
                    raise InputError("It is not a regular file any more.")
                data = file.read(min(status.st_size, most) + 1)
        except OSError as error:
            raise InputError(f"It cannot be read: {error.strerror or error}.") from error
        if len(data) > most:
            raise InputError(f"It has more than the limit of {most:,} bytes.")
        if digest is not None and hashlib.sha256(data).hexdigest() != digest:
            raise InputError("It changed while it was being read; add it again.")
        return data

    def _convert(self, task: dict[str, Any]) -> None:
        from varsdoc.pages import office

        self._close()
        limits = self.settings.limits
        data = self._bytes(task["path"], task["hash"])
        office.refuse_hostile(data, limits)
        self.line.scratch = task["scratch"]
        lifeline.die_with_parent(False)
        lifeline.bound_memory(limits.office_memory)
        lifeline.bound_written(limits.max_file_bytes)
        try:
            self.send(event="converted", path=office.convert(data, task["path"], task["scratch"]))
        finally:
            lifeline.bound_memory(limits.memory)
            lifeline.die_with_parent(True)
            self.line.scratch = None

    def _too_much_memory(self) -> str:
        return f"It needs more than the {self.settings.limits.memory >> 20:,} MiB of memory that a file may take."

    def _close(self) -> None:
        if self.opened is not None:
            self.opened.close()
        self.opened = None


def _private_stdout() -> Send:
    """Frames go where no library can print; what libraries print goes nowhere."""
    out = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    if sys.platform == "win32":
        import msvcrt

        msvcrt.setmode(out.fileno(), os.O_BINARY)
        msvcrt.setmode(0, os.O_BINARY)

    def send(body: bytes = b"", **header: Any) -> None:
        out.write(wire.frame(header, body))
        out.flush()

    return send
