"""`varsdoc demo`: index the samples of the package (or a folder), ask, show the ranked answers, serve the web page.

The samples come from scripts/make_samples.py; samples/questions.json says what is asked and which page should answer.
The collection is kept, so that a second run encodes nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from varsdoc.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from varsdoc.index import Added, Hit, Index

SAMPLES = Path(__file__).parent / "samples"
SHOWN = 3  # answers per question
PORT = 8787  # or any that is free
IDLE = 120.0  # seconds without a request after which the page ends, where no terminal is there to end it


@dataclass(frozen=True)
class Question:
    """A question, and where its answer is, if that is known.

    known_miss   this checkpoint does not find it: named in the summary instead of a table
    added_later  written after trying the model, so no evidence of how well it does on questions that it has not met
    """

    question: str
    document: str | None = None
    page: int | None = None  # 1-based
    known_miss: bool = False
    added_later: bool = False

    def is_answered_by(self, hit: Hit) -> bool:
        return (hit.document, hit.page) == (self.document, self.page)


@dataclass(frozen=True)
class Answer:
    asked: Question
    hits: Sequence[Hit]

    @property
    def rank(self) -> int | None:
        """Where the expected page came, from 1; None where none is expected."""
        return next((i for i, hit in enumerate(self.hits, 1) if self.asked.is_answered_by(hit)), None)

    def to_json(self) -> dict[str, Any]:
        return {
            "question": self.asked.question,
            **({"expected": asdict(self.asked), "rank": self.rank} if self.asked.document else {}),
            "hits": [{"document": h.document, "page": h.page, "score": h.score} for h in self.hits[:SHOWN]],
        }


def sample_questions() -> list[Question]:
    """What the demo asks about the samples."""
    return [Question(**one) for one in json.loads((SAMPLES / "questions.json").read_text("utf-8"))]


def run(
    docs: str | None = None,
    into: str | None = None,
    ask: Sequence[str] = (),
    as_json: bool = False,
    serve: bool = True,
) -> None:
    """Index, ask, print, serve. `ask` takes the place of the samples' own questions; JSON is for programs: no page."""
    from rich.console import Console

    folder = SAMPLES if docs is None else Path(docs)
    if not folder.exists():
        raise InputError(f"There is no folder {docs} to show; give one with documents, or none for the samples.")
    console = Console(highlight=False, stderr=as_json)
    index, where, done, seconds = _index(folder, into)
    pages = len(index)
    if done.added or done.replaced:
        effort = f"{done.added + done.replaced - done.reused} pages encoded in {seconds:.0f} s"
    else:
        effort = "already encoded by an earlier run"
    console.print(f"{len(index.list())} documents, {pages} pages: {effort} ({_how(index)}).\n", soft_wrap=True)
    given = [Question(words) for words in ask] or (sample_questions() if docs is None else [])
    answers = [Answer(one, index.search(one.question, k=pages if one.document else SHOWN)) for one in given]
    if as_json:
        facts = done.to_json() | {"index": where, "pages": pages, "answers": [answer.to_json() for answer in answers]}
        print(json.dumps(facts, ensure_ascii=False, indent=2))
        return
    if any(answer.asked.document for answer in answers):
        console.print("A star marks the page where the answer is.\n")
    for answer in answers:
        if not answer.asked.known_miss or answer.rank == 1:
            _show(console, answer)
    if not answers:
        for words in _typed(console):
            _show(console, Answer(Question(words), index.search(words, k=SHOWN)))
    for line in (*_summary(answers), "Go on:  varsdoc search " + shlex.join(["--index", where, "your question"])):
        console.print(line, soft_wrap=True, markup=False)
    if serve:
        del index  # the server opens the collection itself: one model in memory, not two
        _serve(console, where)


def _index(folder: Path, into: str | None) -> tuple[Index, str, Added, float]:
    """The collection of a folder's documents, made or brought up to date, and where it is."""
    from varsdoc.index import Index
    from varsdoc.model import VarsDoc

    model = VarsDoc.from_pretrained()
    where = into or str(_kept(folder, model.checkpoint_hash))
    index = Index.open(where, model)
    started = time.perf_counter()
    done = index.add(folder, prune=into is None)
    for failed in done.failed:
        print(f"skipped {failed.source}: {failed.reason}", file=sys.stderr)
    if done.nothing_done:
        raise InputError(f"There is no document in {folder} that can be read.")
    return index, where, done, time.perf_counter() - started


def _kept(folder: Path, checkpoint: str) -> Path:
    """A place of its own for each folder and checkpoint: a new checkpoint must not meet the old one's vectors."""
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "varsdoc"
        base.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # no home, or not ours to write
        base = Path(tempfile.gettempdir())
    if not os.access(base, os.W_OK):
        base = Path(tempfile.gettempdir())
    key = hashlib.sha256(f"{folder.resolve()}\0{checkpoint}".encode()).hexdigest()[:12]
    return base / f"varsdoc-demo-{key}"


def _how(index: Index) -> str:
    model = index.model
    return f"{model.config.variants} variants each, {model.compute_dtype}, {model.device}"


def _show(console: Console, answer: Answer) -> None:
    """One question with its best pages, in 80 columns; the expected page has a star."""
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    columns = ("rank", "document", "page", "score", "variant", "scores of all variants")
    table = Table(*columns, box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for rank, hit in enumerate(answer.hits[:SHOWN], 1):
        expected = answer.asked.is_answered_by(hit)
        each = " ".join(f"{value:.1f}" for value in hit.variant_scores)
        cells = (escape(hit.document), str(hit.page), f"{hit.score:.2f}", str(hit.variant), each)
        table.add_row(f"{rank} *" if expected else str(rank), *cells, style="green" if expected else "")
    console.print(f"[bold]{escape(answer.asked.question)}[/bold]")
    console.print(table)
    if answer.asked.document and answer.rank != 1:
        console.print(f"[yellow]Not first: {_missed(answer)}[/yellow]\n")


def _missed(answer: Answer) -> str:
    return f"({answer.asked.document}, page {answer.asked.page}, came at rank {answer.rank})"


def _typed(console: Console) -> Iterator[str]:
    """Questions from the keyboard, where there is one; an empty line ends them."""
    if not sys.stdin.isatty():
        return
    while True:
        try:
            words = console.input("Ask (an empty line ends): ").strip()
        except EOFError:
            return
        if not words:
            return
        yield words


def _summary(answers: Sequence[Answer]) -> Iterator[str]:
    """How many came first: of all, and of those that were written before the model was tried."""
    judged = [answer for answer in answers if answer.asked.document]
    if not judged:
        return
    first = [answer for answer in judged if answer.rank == 1]
    untried = [answer for answer in judged if not answer.asked.added_later]
    right = sum(answer.rank == 1 for answer in untried)
    yield f"{len(first)} of {len(judged)} questions: the expected page came first."
    yield f"Of the {len(untried)} that were written before any was tried: {right}. The others are in docs/demo.md."
    missed = [answer for answer in judged if answer.rank != 1]
    if missed:
        yield "Not first:"
        yield from (f"  {answer.asked.question}  {_missed(answer)}" for answer in missed)
    yield ""


def _serve(console: Console, where: str) -> None:
    """The web page, until Ctrl+C; without a terminal until nobody has asked for a while."""
    try:
        from varsdoc.serving.app import create_app
        from varsdoc.serving.server import serve
        from varsdoc.serving.settings import Settings
    except ImportError as error:
        console.print(f"No web page: {error.name} is not installed; run: pip install 'varsdoc[serve]'", markup=False)
        return
    settings = Settings()
    app = create_app([where], settings)
    attended = sys.stdin.isatty() and sys.stdout.isatty()
    if not attended:
        app.add_middleware(_EndWhenIdle, seconds=IDLE)

    def ready(address: str) -> None:
        how = "Ctrl+C ends it" if attended else f"ends by itself after {IDLE:.0f} s without a request"
        console.print(f"The web page:  {address}  ({how})", soft_wrap=True, markup=False)
        sys.stdout.flush()

    serve(app, "127.0.0.1", _free_port(), settings.limits, ready)
    if app.state.service.models.running:  # in the middle of a load: Python would wait for it, or trip over it
        sys.stdout.flush()
        os._exit(0)


def _free_port() -> int:
    """The usual one where it is free, so that the address can be kept; 0 lets the system choose."""
    with socket.socket() as trial:
        try:
            trial.bind(("127.0.0.1", PORT))
        except OSError:
            return 0
    return PORT


class _EndWhenIdle:
    """ASGI middleware: ends the process as a signal would, when no request came for some seconds."""

    def __init__(self, app: Any, seconds: float) -> None:
        self._app, self._seconds = app, seconds
        self._last, self._open = time.monotonic(), 0
        threading.Thread(target=self._watch, daemon=True).start()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        self._open += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._open -= 1
            self._last = time.monotonic()

    def _watch(self) -> None:
        while self._open or time.monotonic() - self._last < self._seconds:
            time.sleep(min(0.5, self._seconds))
        signal.raise_signal(signal.SIGTERM)
