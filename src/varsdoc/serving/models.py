"""One thread that has the models: it loads them, and encodes the questions of all clients many at a time.

Its choices:
- Questions that wait are encoded in one call: those that came within a few milliseconds, or while the last call ran.
- A model is loaded once for all collections of its hash. A load that fails is told to those who wait for it, and tried
  again for the next who asks: a disk that was not mounted needs no restart.
- Only this thread touches a model or its tokenizer, so neither needs a lock.
- Vectors of recent questions are kept: a heatmap asks for what its search has just encoded.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from varsdoc.errors import VarsDocError
from varsdoc.index.asking import Query, encode_questions
from varsdoc.index.fingerprint import Fingerprint, load_model, require_same_encoder
from varsdoc.serving.paths import without_paths
from varsdoc.serving.problems import Problem, busy, log
from varsdoc.serving.settings import Settings

if TYPE_CHECKING:
    from varsdoc.model import VarsDoc

_KEPT_QUERIES = 256


@dataclass
class _Asked:
    """A question that waits, or with no text the wish to have its model ready."""

    found: Fingerprint | None
    text: str | None
    answer: Future[Query] = field(default_factory=Future)


class Models:
    """Loads and encodes, in a thread of its own."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._waiting: queue.Queue[_Asked | None] = queue.Queue()
        self._models: dict[str | None, VarsDoc] = {}  # by hash; None: the one that a new collection gets
        self._failed: dict[str | None, str] = {}
        self._loading: set[str | None] = set()
        self._kept: OrderedDict[tuple[str, str], Query] = OrderedDict()
        self._guard = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="varsdoc-model", daemon=True)
        self.batches = self.questions = 0

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float = 3.0) -> None:
        self._waiting.put(None)
        self._thread.join(seconds)

    @property
    def running(self) -> bool:
        """Whether the thread is still at work, loading a model perhaps."""
        return self._thread.is_alive()

    def status(self) -> tuple[str, str | None]:
        """loading, ready or failed, and why."""
        with self._guard:
            if self._loading:
                return "loading", None
            if self._failed:
                return "failed", next(iter(self._failed.values()))
            return ("ready" if self._models else "loading"), None

    @property
    def queued(self) -> int:
        return self._waiting.qsize()

    def prepare(self, found: Fingerprint | None) -> None:
        """Have a model loaded, in the background."""
        with self._guard:
            self._loading.add(_key(found))
        self._waiting.put(_Asked(found, None))

    def encode(self, found: Fingerprint, text: str) -> Future[Query]:
        """A question's vectors, as soon as the thread comes to it."""
        asked = _Asked(found, text)
        with self._guard:
            kept = self._kept.get((found.hash, text))
            if kept is not None:
                self._kept.move_to_end((found.hash, text))
        if kept is not None:
            asked.answer.set_result(kept)
        elif self.queued >= self._settings.limits.requests:
            raise busy("Too many questions wait already; ask again in a moment.")
        else:
            self._waiting.put(asked)
        return asked.answer

    def _run(self) -> None:
        while (first := self._waiting.get()) is not None:
            batch = [first]
            deadline = time.monotonic() + self._settings.batch_ms / 1000
            while len(batch) < self._settings.limits.batch:
                try:
                    item = self._waiting.get(timeout=max(0.0, deadline - time.monotonic()))
                except queue.Empty:
                    break
                if item is None:
                    self._waiting.put(None)  # after this batch
                    break
                batch.append(item)
            self._work([asked for asked in batch if asked.answer.set_running_or_notify_cancel()])

    def _work(self, batch: list[_Asked]) -> None:
        groups: dict[str | None, list[_Asked]] = {}
        for asked in batch:
            groups.setdefault(_key(asked.found), []).append(asked)
        for group in groups.values():
            try:
                model = self._model(group[0].found)
                self._encode(model, group)
            except Exception as error:
                if not isinstance(error, VarsDocError | Problem):
                    log.error("the model's thread: %s", type(error).__name__, exc_info=error)
                for asked in group:
                    if not asked.answer.done():
                        asked.answer.set_exception(error)

    def _model(self, found: Fingerprint | None) -> VarsDoc:
        key = _key(found)
        if key in self._models:
            with self._guard:
                self._loading.discard(key)  # another collection with the same encoder was first
            return self._models[key]
        with self._guard:
            self._loading.add(key)
        try:
            model = self._load(found)
            own = model.checkpoint_hash
            encode_questions(model, ["a first question, so that nobody waits for what torch does only once"])
        except Exception as error:
            if not isinstance(error, VarsDocError):
                log.error("loading a model: %s", type(error).__name__, exc_info=error)
            else:
                log.error("loading a model: %s", error)
            reason = without_paths(str(error) or type(error).__name__)
            with self._guard:
                self._failed[key] = reason
                self._loading.discard(key)
            raise busy(f"The model cannot be loaded: {reason}", 5) from error
        with self._guard:
            self._models[key] = self._models[own] = model
            for one in (key, None):  # what a new collection lacked, it has found since
                self._failed.pop(one, None)
            self._loading.discard(key)
        return model

    def _load(self, found: Fingerprint | None) -> VarsDoc:
        from varsdoc.model import VarsDoc

        settings = self._settings
        if settings.model is None and found is not None:
            return load_model(found, settings.device, settings.dtype)
        model = VarsDoc.from_pretrained(settings.model, device=settings.device, dtype=settings.dtype)
        if found is not None:
            require_same_encoder(found, model)
        return model

    def _encode(self, model: VarsDoc, group: Sequence[_Asked]) -> None:
        texts = list(dict.fromkeys(asked.text for asked in group if asked.text is not None))
        if not texts:
            return
        encoder = group[0].found.hash if group[0].found is not None else None
        self.batches += 1
        self.questions += len(texts)
        answers = self._answers(model, texts, encoder)
        with self._guard:
            for text, answer in answers.items():
                if isinstance(answer, Query) and encoder is not None:
                    self._kept[encoder, text] = answer
            while len(self._kept) > _KEPT_QUERIES:
                self._kept.popitem(last=False)
        for asked in group:
            if asked.text is None:
                continue
            answer = answers[asked.text]
            if isinstance(answer, Query):
                asked.answer.set_result(answer)
            else:
                asked.answer.set_exception(answer)

    def _answers(self, model: VarsDoc, texts: list[str], encoder: str | None) -> dict[str, Query | VarsDocError]:
        """One call for all; if it refuses one, each alone, so that the others are not hurt."""
        try:
            return dict(zip(texts, encode_questions(model, texts, encoder), strict=True))
        except VarsDocError as error:
            if len(texts) == 1:
                return {texts[0]: error}
        return {text: one for each in texts for text, one in self._answers(model, [each], encoder).items()}


def _key(found: Fingerprint | None) -> str | None:
    return None if found is None else found.hash
