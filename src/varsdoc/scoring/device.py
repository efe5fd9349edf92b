"""Pages held on a device: all codes uploaded once; every page, or those that are named, scored exactly.

Codes lie in segments that are filled one after the other and never move: adding pages copies nothing that is there, and
a collection may fill the device's memory. Rows are numbered in the order of adding, as in `PackedPages`; what a search
may not see is left out by naming rows. On CUDA the fused Triton kernel scores (scoring.fused), elsewhere, and for
vectors of a size that it does not take, plain PyTorch (scoring.streamed).
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from varsdoc.errors import ConfigError, InputError
from varsdoc.scoring import streamed
from varsdoc.scoring.blob import Blob
from varsdoc.scoring.codes import eighths
from varsdoc.scoring.maxsim import Scores
from varsdoc.scoring.packed import PackedPages, check_rows
from varsdoc.scoring.query_tiles import QueryTiles
from varsdoc.scoring.replay import Replays, Work

logger = logging.getLogger(__name__)
SEGMENT_BYTES = 1 << 30
HELD_AS = {"int4": "int8"}  # no kernel reads half bytes: the same numbers in whole ones, so the same scores
_NUMBERS = {"float16": torch.float16, "bfloat16": torch.bfloat16, "int8": torch.int8, "binary": torch.uint8}


@dataclass
class Segment:
    """Some pages' codes side by side."""

    first_row: int
    codes: Tensor  # (room, width)
    scales: Tensor | None  # (room,) float16, int8 only
    filled: int = 0  # vectors
    _starts: list[int] = field(default_factory=list)
    _tokens: list[int] = field(default_factory=list)
    _places: tuple[Tensor, Tensor] | None = None
    _everything: Tensor | None = None

    def __len__(self) -> int:
        return len(self._starts)

    @property
    def room(self) -> int:
        return len(self.codes) - self.filled

    def add(self, codes: Tensor, scales: Tensor | None, tokens: int) -> None:
        end = self.filled + len(codes)
        self.codes[self.filled : end].copy_(codes, non_blocking=self.codes.is_cuda)
        if self.scales is not None:
            assert scales is not None
            self.scales[self.filled : end].copy_(scales, non_blocking=self.scales.is_cuda)
        self._starts.append(self.filled)
        self._tokens.append(tokens)
        self.filled = end
        self._places = self._everything = None

    @property
    def places(self) -> tuple[Tensor, Tensor]:
        """(P,) int64 first vector of a page, (P,) int32 vectors of one of its variants."""
        if self._places is None:
            device = self.codes.device
            starts = torch.tensor(self._starts, dtype=torch.int64).to(device)
            self._places = starts, torch.tensor(self._tokens, dtype=torch.int32).to(device)
        return self._places

    @property
    def everything(self) -> Tensor:
        """(P,) int32: all its pages."""
        if self._everything is None:
            self._everything = torch.arange(len(self), dtype=torch.int32, device=self.codes.device)
        return self._everything

    @classmethod
    def of_equal(cls, codes: Tensor, scales: Tensor | None, pages: int, variants: int) -> Segment:
        """Pages of one length whose codes lie on the device already: (pages * K * M, width)."""
        made = cls(0, codes, scales, len(codes))
        each = len(codes) // pages
        made._starts = list(range(0, len(codes), each))
        made._tokens = [each // variants] * pages
        return made


class DevicePages:
    """Pages of one codec and one K on one device.

    >>> pages = DevicePages("float16", variants=2, dim=2, device="cpu")
    >>> pages.add_vectors([torch.tensor([[[1.0, 0.0], [1.0, 0.0]], [[0.0, 0.5], [0.8, 0.0]]])])
    >>> pages.score([torch.eye(2)]).variants.round(decimals=2)
    tensor([[[1.0000, 1.3000]]])
    """

    def __init__(
        self,
        codec: str,
        variants: int,
        dim: int,
        device: str | torch.device,
        segment_bytes: int = SEGMENT_BYTES,
        fused: bool | None = None,
    ) -> None:
        """fused: score with the Triton kernel; None: on CUDA, where it takes such vectors."""
        self.stored, codec = codec, HELD_AS.get(codec, codec)
        if codec not in _NUMBERS:
            raise ConfigError(f"There is no codec {codec!r} on a device; use {', '.join([*_NUMBERS, *HELD_AS])}.")
        self.codec, self.variants, self.dim = codec, variants, dim
        self.device = _numbered(torch.device(device))
        self.segments: list[Segment] = []
        self.width = (dim + 7) // 8 if codec == "binary" else dim
        self._segment_bytes = segment_bytes
        self.replays: Replays | None = Replays()  # None: no graphs
        self.fused = can_fuse(self.device, codec, dim) if fused is None else fused

    @classmethod
    def of(cls, packed: PackedPages, device: str | torch.device, **options: object) -> DevicePages:
        """All pages of a packed collection."""
        made = cls(packed.codec, packed.variants, packed.dim, device, **options)  # type: ignore[arg-type]
        made.extend(packed)
        return made

    @classmethod
    def of_segment(cls, segment: Segment, codec: str, variants: int, dim: int) -> DevicePages:
        """Codes that were made on the device."""
        made = cls(codec, variants, dim, segment.codes.device)
        made.segments.append(segment)
        return made

    def __len__(self) -> int:
        return sum(len(segment) for segment in self.segments)

    @property
    def nbytes(self) -> int:
        """Bytes taken on the device, room for more pages included."""
        kept = [t for segment in self.segments for t in (segment.codes, segment.scales) if t is not None]
        return sum(tensor.nbytes for tensor in kept)

    def extend(self, packed: PackedPages) -> None:
        """Upload all rows of a packed collection. What it stores once is laid out again: a run is read as it lies."""
        if not len(packed):
            return
        if (packed.codec, packed.variants, packed.dim) != (self.stored, self.variants, self.dim):
            raise InputError(
                f"These pages are {packed.codec} with K={packed.variants}, D={packed.dim}; those on the device are "
                f"{self.stored} with K={self.variants}, D={self.dim}: reindex with one model and codec."
            )
        for row in range(len(packed)):
            codes, scales = _laid_out(packed.blob(row))
            self.add_codes(codes, scales, int(packed.tokens[row]))

    def add_vectors(self, pages: Sequence[Tensor]) -> None:
        """Pages as vectors (K, M, D): kept as they are in the codec's float dtype."""
        if self.codec not in ("float16", "bfloat16"):
            raise ConfigError(f"Vectors are added to float16 or bfloat16 pages; pack them as {self.codec} first.")
        for page in pages:
            if page.ndim != 3 or page.shape[0] != self.variants or page.shape[2] != self.dim or not page.shape[1]:
                raise InputError(
                    f"A page has shape {tuple(page.shape)}; give ({self.variants}, tokens, {self.dim}) with a token."
                )
            self.add_codes(page.reshape(-1, self.dim).to(_NUMBERS[self.codec]), None, page.shape[1])

    def add_codes(self, codes: Tensor, scales: Tensor | None, tokens: int) -> None:
        """A page as the codec's own numbers (K * tokens, width), variant by variant; scales (K * tokens,) of int8."""
        if self.replays is not None:
            self.replays.forget()
        if not self.segments or self.segments[-1].room < len(codes):
            self.segments.append(self._segment(len(codes)))
        self.segments[-1].add(codes, scales, tokens)

    def _segment(self, least: int) -> Segment:
        number = _NUMBERS[self.codec]
        room = max(least, self._segment_bytes // (self.width * number.itemsize))
        codes = torch.empty(room, self.width, dtype=number, device=self.device)
        scales = torch.empty(room, dtype=torch.float16, device=self.device) if self.codec == "int8" else None
        return Segment(len(self), codes, scales)

    @torch.no_grad()
    def score(
        self,
        queries: Sequence[Tensor | np.ndarray],
        rows: np.ndarray | Sequence[int] | None = None,
        aggregation: str = "max",
    ) -> Scores:
        """Queries (T, D) against these rows, or all: exact MaxSim on the codes, float32, on the device."""
        if aggregation not in ("max", "mean", "fused"):
            raise ConfigError(f"There is no aggregation {aggregation!r}; use max, mean or fused.")
        asked = [self._query(query, i) for i, query in enumerate(queries)]
        return self._scored(asked, None if rows is None else check_rows(rows, len(self)), aggregation)

    def _scored(self, asked: list[Tensor], chosen: np.ndarray | Tensor | None, aggregation: str = "max") -> Scores:
        """Queries on the device; rows on the device are those of an only segment."""
        count = len(self) if chosen is None else len(chosen)
        lengths = torch.tensor([len(query) for query in asked])
        if not asked or not count:
            empty = torch.zeros(len(asked), count, self.variants, device=self.device)
            return Scores(empty.sum(-1), empty, lengths)
        tiles = self._tiles(asked) if self.fused else None
        variants = self._run(asked, tiles, chosen, self.variants, 1)
        if aggregation == "fused":
            total = self._run(asked, tiles, chosen, 1, self.variants)[:, :, 0]
        else:
            total = variants.amax(-1) if aggregation == "max" else variants.mean(-1)
        return Scores(total, variants, lengths)

    @torch.no_grad()
    def search(
        self, query: Tensor | np.ndarray, k: int, rows: np.ndarray | Sequence[int] | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The k best of these rows, or of all, best first: rows (k,), scores (k,), of variants (k, K), on the CPU."""
        _at_least_one(k=k)
        if rows is None:
            return self._answer(query, ("all", k), lambda q: (self._found(q, k), self._held(q)))
        return _split(self._found(self._query(query, 0), k, check_rows(rows, len(self))))

    @torch.no_grad()
    def search_in_two(
        self, query: Tensor | np.ndarray, k: int, summaries: DevicePages, n: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """`search` among the n rows whose summaries (one variant each) fit best, without waiting in between."""
        _at_least_one(k=k, n=n)
        if len(summaries) != len(self) or summaries.dim != self.dim or summaries.device != self.device:
            raise InputError("Summaries must be of the same pages, width and device.")
        if len(self.segments) != 1:  # which segment a row lies in is known on the host alone
            return self.search(query, k, np.sort(summaries.best(query, n)))

        def work(q: Tensor) -> tuple[Tensor, tuple[Any, ...]]:
            return self._found(q, k, summaries._best(q, n)), (*self._held(q), *summaries._held(q), summaries)

        return self._answer(query, ("two", id(summaries), len(summaries), k, n), work)

    @torch.no_grad()
    def best(self, query: Tensor | np.ndarray, n: int, rows: np.ndarray | None = None) -> np.ndarray:
        """The n best of these rows, or of all, in no order: the candidates of a search in two stages, on the CPU."""
        at = self._best(self._query(query, 0), n, None if rows is None else check_rows(rows, len(self))).cpu().numpy()
        return at if rows is None else rows[at]

    def _best(self, query: Tensor, n: int, rows: np.ndarray | None = None) -> Tensor:
        """Which of these rows, or of all, on the device."""
        total = self._scored([query], rows).total[0]
        return total.topk(min(n, len(total)), sorted=False).indices

    def _found(self, query: Tensor, k: int, rows: np.ndarray | Tensor | None = None) -> Tensor:
        """(k, 2 + K) float64: row, score, score of each variant, best first, on the device."""
        scores = self._scored([query], rows)
        variants = scores.variants[0]
        total, at = scores.total[0].topk(min(k, len(variants)))
        if rows is None:
            number = at
        else:
            number = (torch.from_numpy(rows).to(self.device) if isinstance(rows, np.ndarray) else rows)[at]
        return torch.cat([number[:, None].double(), total[:, None].double(), variants[at].double()], 1)

    def _held(self, query: Tensor) -> tuple[Any, ...]:
        """What scoring a query reads beside it: a graph must hold it."""
        from varsdoc.scoring.query_tiles import bit_order, flat_queries

        parts = [(s.codes, s.scales, s.places, s.everything) for s in self.segments]
        return (*parts, flat_queries([query], self.codec)[2], bit_order(self.dim, self.device))

    def _answer(self, query: Tensor | np.ndarray, asked: Hashable, work: Work) -> tuple[Tensor, Tensor, Tensor]:
        """Through a CUDA graph where that can be."""
        replays = self.replays
        if replays is not None and self.device.type == "cuda" and self.fused and len(self):
            try:
                found = replays.run(self._checked(query, 0), self.device, asked, work)
            except RuntimeError as error:
                logger.warning("searches are launched one by one: a CUDA graph failed (%s)", error)
                found = self.replays = None
            if found is not None:
                return _split(found)
        return _split(work(self._query(query, 0))[0])

    def _tiles(self, queries: list[Tensor]) -> QueryTiles:
        from varsdoc.scoring import fused

        return fused.make_tiles(queries, self.codec)

    def _query(self, query: Tensor | np.ndarray, i: int) -> Tensor:
        return self._checked(query, i).to(self.device, non_blocking=self.device.type == "cuda")

    def _checked(self, query: Tensor | np.ndarray, i: int) -> Tensor:
        tensor = torch.from_numpy(query) if isinstance(query, np.ndarray) else query
        if tensor.ndim != 2 or tensor.shape[1] != self.dim or not len(tensor):
            raise InputError(
                f"query {i} has shape {tuple(tensor.shape)}; give (tokens, {self.dim}) with at least one token."
            )
        return tensor

    def _run(
        self,
        queries: list[Tensor],
        tiles: QueryTiles | None,
        rows: np.ndarray | Tensor | None,
        variants: int,
        span: int,
    ) -> Tensor:
        """(Q, rows, variants), segment by segment."""
        parts, order = [], []
        for segment in self.segments:
            starts, tokens = segment.places
            if rows is None:
                pages = segment.everything
            elif isinstance(rows, Tensor):
                pages = rows.int()
            else:
                here = np.flatnonzero((rows >= segment.first_row) & (rows < segment.first_row + len(segment)))
                if not len(here):
                    continue
                order.append(here)
                pages = torch.from_numpy((rows[here] - segment.first_row).astype(np.int32)).to(self.device)
            layout = (self.codec, self.dim, segment.codes, segment.scales, starts, tokens, pages, variants, span)
            if tiles is not None:
                from varsdoc.scoring import fused

                parts.append(fused.best_of_runs(tiles, *layout))
            else:
                parts.append(streamed.best_of_runs(queries, *layout))
        whole = parts[0] if len(parts) == 1 else torch.cat(parts, 1)
        if not order or len(order) == 1 or bool((np.diff(np.concatenate(order)) > 0).all()):
            return whole
        back = torch.from_numpy(np.argsort(np.concatenate(order))).to(self.device)
        return whole[:, back]


def _numbered(device: torch.device) -> torch.device:
    """`cuda` as the one that is current now: another thread may have another, and codes stay where they are."""
    if device.type == "cuda" and device.index is None and torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    return device


def _at_least_one(**counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise InputError(f"{name} must be at least 1, not {count}.")


def _split(found: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Rows, scores, scores of variants, fetched at once."""
    found = found.cpu()
    return found[:, 0].long(), found[:, 1].float(), found[:, 2:].float()


def _laid_out(blob: Blob) -> tuple[Tensor, Tensor | None]:
    """A page's codes variant after variant, each token where it belongs."""
    codes, scales = blob.codes, blob.scales
    if blob.places is not None:
        flat = blob.places.reshape(-1)
        codes, scales = codes[flat], None if scales is None else scales[flat]
    if blob.codec == "int4":
        assert scales is not None
        codes, scales = eighths(codes)[:, : blob.dim], scales / np.float16(8)
    number = {"float16": np.dtype("<f2"), "int8": np.dtype(np.int8), "int4": np.dtype(np.int8)}.get(
        blob.codec, np.dtype(np.uint8)
    )
    tensor = torch.from_numpy(np.ascontiguousarray(codes).view(number).copy())  # type: ignore[call-overload]
    return tensor, None if scales is None else torch.from_numpy(np.ascontiguousarray(scales).copy())


def can_fuse(device: torch.device, codec: str, dim: int) -> bool:
    """Whether Triton and the device take vectors of this codec and size."""
    if device.type != "cuda":
        return False
    try:
        from varsdoc.scoring import fused
    except ImportError:
        return False
    return fused.fits(codec, dim)
