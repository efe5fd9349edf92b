"""`varsdoc audit`: what this collection's short cuts cost, measured on itself.

- First stage: of the k best pages by exhaustive search over the same codes, how many the candidates held.
- Codec: the same questions over a sample of pages, encoded anew from their pictures, in float against the stored codes.
- Bytes per page, latency, which variants win and how often the best two tie.

Questions come from a file, or else from the collection: a few words of a page's text layer, or a few cells of a page
where there is none. Those made of cells are easy (they lie on a page); a file of real questions measures more.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from varsdoc.errors import CollectionError, ConfigError, VarsDocError
from varsdoc.index.first_stage import default_candidates
from varsdoc.index.pinned import pinned
from varsdoc.index.searching import score_rows
from varsdoc.index.snapshot import Snapshot
from varsdoc.scoring.packed import PackedPages, score_packed

if TYPE_CHECKING:
    from varsdoc.index.collection import Index

_WORDS = 6
_CELLS = 12


@dataclass
class Audit:
    """Figures of one collection. `codec` is None where nothing could be encoded anew; `codec_note` says why."""

    pages: int
    documents: int
    codec_name: str
    queries: int
    queries_from: str
    first_stage: dict[str, float] = field(default_factory=dict)
    codec: dict[str, float] | None = None
    codec_note: str = ""
    bytes_per_page: dict[str, float] = field(default_factory=dict)
    latency_ms: dict[str, float] = field(default_factory=dict)
    usage: list[float] = field(default_factory=list)
    max_usage: float = 0.0
    tie_rate: float = 0.0
    tie_rate_mean: float = 0.0
    codes_in_memory: bool = True

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def audit(
    index: Index,
    *,
    queries: Sequence[str] | str | Path | None = None,
    sample: int = 32,
    k: int = 10,
    candidates: int | None = None,
    seed: int = 0,
) -> Audit:
    """Measure. `queries` are questions, or a file with one a line; `sample` limits questions made here, and pages
    encoded anew."""
    if sample < 1 or k < 1:
        raise ConfigError("sample and k must be 1 or more.")
    texts = _read_queries(queries) if isinstance(queries, str | Path) else queries
    return index._view.run(lambda snapshot: _measure(index, snapshot, texts, sample, k, candidates, seed))


def _measure(
    index: Index,
    snapshot: Snapshot,
    texts: Sequence[str] | None,
    sample: int,
    k: int,
    candidates: int | None,
    seed: int,
) -> Audit:
    rows = snapshot.live_rows
    if not len(rows):
        raise CollectionError("This collection is empty; there is nothing to measure.")
    model = index._encoder.model(snapshot.state.fingerprint)
    chosen = np.random.default_rng(seed).permutation(rows)[:sample]
    encoding: list[float] = []
    vectors, made_of = _questions(model, snapshot, texts, chosen, seed, encoding)
    result = Audit(len(rows), len(snapshot.documents), snapshot.state.fingerprint.codec, len(vectors), made_of)
    result.codes_in_memory = snapshot.packed is not None
    _first_stage(result, snapshot, vectors, rows, k, candidates or max(default_candidates(len(rows)), 4 * k))
    if encoding:
        result.latency_ms["encode_query_p50"] = _ms(encoding, 50)
    _codec(result, model, snapshot, vectors, chosen, k)
    _bytes(result, snapshot, chosen, index._store.folder)
    return result


def _read_queries(path: str | Path) -> list[str]:
    try:
        lines = [line.strip() for line in Path(path).read_text(encoding="utf-8-sig").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The file of questions {path} cannot be read ({error}).") from error
    found = [line for line in lines if line]
    if not found:
        raise ConfigError(f"{path} holds no question; write one a line.")
    return found


def _questions(
    model: Any, snapshot: Snapshot, texts: Sequence[str] | None, chosen: np.ndarray, seed: int, encoding: list[float]
) -> tuple[list[np.ndarray], str]:
    made_of = "questions given"
    if texts is None:
        stored = [row["text"] for row in snapshot.read(chosen.tolist(), ["text"])]
        texts = [words for words in (_some_words(text, seed + i) for i, text in enumerate(stored)) if words]
        made_of = "words of text layers"
    if not texts:
        return _from_cells(snapshot, chosen, seed), "cells of pages"
    vectors = []
    for text in texts:
        started = time.perf_counter()
        vectors.append(model.encode_queries([text], progress=False)[0].float().numpy())
        encoding.append(time.perf_counter() - started)
    return vectors, made_of


def _some_words(text: str | None, seed: int) -> str:
    words = (text or "").split()
    if len(words) < _WORDS:
        return ""
    start = int(np.random.default_rng(seed).integers(0, len(words) - _WORDS + 1))
    return " ".join(words[start : start + _WORDS])


def _from_cells(snapshot: Snapshot, chosen: np.ndarray, seed: int) -> list[np.ndarray]:
    from varsdoc.index.codecs import get_codec

    codec = get_codec(snapshot.state.fingerprint.codec)
    random = np.random.default_rng(seed)
    made = []
    for row in snapshot.read(chosen.tolist(), ["codes"]):
        variants = codec.unpack(row["codes"])  # (K, M, dim)
        one = variants[random.integers(len(variants))]
        made.append(np.ascontiguousarray(one[random.permutation(len(one))[:_CELLS]]))
    return made


def _first_stage(
    result: Audit, snapshot: Snapshot, vectors: list[np.ndarray], rows: np.ndarray, k: int, candidates: int
) -> None:
    recalls, stage_times, exact_times, winners, gaps, gaps_mean = [], [], [], [], [], []
    for query in vectors:
        started = time.perf_counter()
        passed = snapshot.first_stage.search(query, candidates, snapshot.alive)
        stage_times.append(time.perf_counter() - started)
        started = time.perf_counter()
        score_rows(snapshot, query, np.sort(passed))
        exact_times.append(time.perf_counter() - started)
        every = score_rows(snapshot, query, rows)
        order = np.argsort(-every.total[0].numpy(), kind="stable")
        best = set(rows[order[:k]].tolist())
        recalls.append(len(best & set(passed.tolist())) / len(best))
        each = every.variants[0, int(order[0])].numpy()
        winners.append(int(each.argmax()))
        top = np.sort(each)[::-1]
        gap = float(top[0] - top[1]) if len(top) > 1 else 1.0
        gaps.append(gap)
        gaps_mean.append(gap / len(query))
    count = snapshot.state.fingerprint.variants
    result.first_stage = {
        f"recall@{k}": float(np.mean(recalls)),
        "candidates": min(candidates, len(rows)),
        "share_scored": min(1.0, candidates / len(rows)),
    }
    result.latency_ms = {
        "first_stage_p50": _ms(stage_times, 50),
        "exact_p50": _ms(exact_times, 50),
        "search_p50": _ms([a + b for a, b in zip(stage_times, exact_times, strict=True)], 50),
        "search_p95": _ms([a + b for a, b in zip(stage_times, exact_times, strict=True)], 95),
    }
    result.usage = (np.bincount(winners, minlength=count) / len(winners)).round(4).tolist()
    result.max_usage = max(result.usage)
    result.tie_rate = float(np.mean([gap < 0.01 for gap in gaps])) if count > 1 else 0.0
    result.tie_rate_mean = float(np.mean([gap < 0.01 for gap in gaps_mean])) if count > 1 else 0.0


def _codec(
    result: Audit, model: Any, snapshot: Snapshot, vectors: list[np.ndarray], chosen: np.ndarray, k: int
) -> None:
    """Stored codes against floats, over the same sample of pages and the same questions."""
    from varsdoc.scoring import score_pages

    images, kept = [], []
    source = pinned(snapshot, chosen.tolist())
    for row in chosen.tolist():
        try:
            images.append(source.page_jpeg(snapshot.pages[row].id))
            kept.append(row)
        except VarsDocError as error:
            result.codec_note = str(error)
    if not images:
        result.codec_note = result.codec_note or "No page has a picture."
        return
    import torch

    floats = [page.variants.float() for page in model.encode_pages(images, progress=False)]
    packed = PackedPages.from_blobs([row["codes"] for row in snapshot.read(kept, ["codes"])])
    true = score_pages([torch.from_numpy(q) for q in vectors], floats).total.numpy()  # (Q, P)
    stored = score_packed(vectors, packed).total.numpy()
    lengths = np.array([len(q) for q in vectors])[:, None]
    top = min(k, len(kept))
    overlaps = [
        len(set(np.argsort(-a, kind="stable")[:top].tolist()) & set(np.argsort(-b, kind="stable")[:top].tolist())) / top
        for a, b in zip(true, stored, strict=True)
    ]
    result.codec = {
        "pages": len(kept),
        "score_error_per_token": float((np.abs(true - stored) / lengths).mean()),
        "same_first": float((true.argmax(1) == stored.argmax(1)).mean()),
        f"overlap@{top}": float(np.mean(overlaps)),
    }


def _bytes(result: Audit, snapshot: Snapshot, chosen: np.ndarray, folder: Path | None) -> None:
    stored = snapshot.read(chosen.tolist(), ["codes", "summary", "jpeg", "text"])
    for column in ("codes", "summary", "jpeg"):
        result.bytes_per_page[column] = round(float(np.mean([len(row[column] or b"") for row in stored])), 1)
    result.bytes_per_page["text"] = round(float(np.mean([len((row["text"] or "").encode()) for row in stored])), 1)
    if folder is not None:
        on_disk = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        result.bytes_per_page["on_disk"] = round(on_disk / result.pages, 1)


def _ms(seconds: list[float], percent: float) -> float:
    return round(1000 * float(np.percentile(seconds, percent)), 3)
