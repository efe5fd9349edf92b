"""Real pages, packed: pictures, words with their boxes, and questions in a few files that can be moved and mapped.

A pack is a folder with

    pages.bin      the pictures (WebP), one after the other
    pack.npz       where each picture ends, the words' boxes (65,535ths of the page), texts and certainty, and the runs
                   of those that are turned
    manifest.json  what it holds, from where, under which licence

Opening one reads a few MB and maps the rest: a worker decodes a page when its turn comes, so training starts at once.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from varsdoc.training.sources import DataError

UNIT = 65535
SURE = 50  # of 100: words read with less are known to be there, and not taught


@dataclass(frozen=True)
class Printed:
    """A word as it was read: its box as fractions of the page's sides, and, of a turned word, from where to where it
    runs."""

    text: str
    box: tuple[float, float, float, float]
    sure: bool = True
    run: tuple[float, float, float, float] | None = None


@dataclass(frozen=True)
class PackedPage:
    """What a pack holds of one page. `name` is the same wherever the same page comes from."""

    name: str
    picture: bytes
    words: Sequence[Printed]
    questions: Sequence[str] = ()

    def image(self) -> Image.Image:
        return Image.open(io.BytesIO(self.picture))


@dataclass
class PackWriter:
    """Collects pages and writes them as packs of at most `limit` bytes: FOLDER/NAME-00, FOLDER/NAME-01, ..."""

    folder: Path
    name: str
    limit: int
    facts: dict[str, Any]  # into the manifest: source, licence, command
    pages: list[PackedPage] = field(default_factory=list)
    size: int = 0
    written: list[Path] = field(default_factory=list)

    def add(self, page: PackedPage) -> None:
        size = len(page.picture) + 16 * len(page.words) + 2 * sum(map(len, page.questions))
        if self.pages and self.size + size > self.limit:
            self.flush()
        self.pages.append(page)
        self.size += size

    def flush(self) -> None:
        if not self.pages:
            return
        target = self.folder / f"{self.name}-{len(self.written):02d}"
        write_pack(target, self.pages, self.facts)
        self.written.append(target)
        self.pages, self.size = [], 0


def write_pack(target: Path, pages: Sequence[PackedPage], facts: dict[str, Any]) -> None:
    target.mkdir(parents=True, exist_ok=True)
    words = [word for page in pages for word in page.words]
    turned = [i for i, word in enumerate(words) if word.run is not None]
    np.savez_compressed(
        target / "pack.npz",
        ends=np.cumsum([len(page.picture) for page in pages], dtype=np.int64),
        word_ends=np.cumsum([len(page.words) for page in pages], dtype=np.int64),
        boxes=_in_units([word.box for word in words]),
        turned=np.array(turned, dtype=np.int64),
        runs=_in_units([words[i].run for i in turned]),
        sure=np.array([word.sure for word in words], dtype=bool),
        texts=_packed(word.text for word in words),
        names=_packed(page.name for page in pages),
        questions=_packed(json.dumps(list(page.questions)) for page in pages),
    )
    (target / "pages.bin").write_bytes(b"".join(page.picture for page in pages))
    asked = sum(len(page.questions) for page in pages)
    manifest = {**facts, "pages": len(pages), "words": len(words), "questions": asked}
    (target / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")


def _in_units(sides: Any) -> np.ndarray:
    return np.round(np.array(sides, dtype=np.float64).reshape(-1, 4).clip(0, 1) * UNIT).astype(np.uint16)


def _packed(texts: Any) -> np.ndarray:
    return np.frombuffer("\n".join(text.replace("\n", " ") for text in texts).encode(), dtype=np.uint8)


class Pack:
    """An opened pack."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        try:
            with np.load(self.folder / "pack.npz", allow_pickle=False) as file:
                held = {name: file[name] for name in file.files}
            self.bytes = np.memmap(self.folder / "pages.bin", dtype=np.uint8, mode="r")
            self.ends, self.word_ends = held["ends"], held["word_ends"]
            self.boxes, self.sure = held["boxes"], held["sure"]
            turned = zip(held["turned"].tolist(), held["runs"] / UNIT, strict=True) if "turned" in held else ()
            self.runs = {i: tuple(run.tolist()) for i, run in turned}
            self.texts, self.names, asked = (
                held[name].tobytes().decode().split("\n") for name in ("texts", "names", "questions")
            )
            self.questions = [json.loads(line) for line in asked]
        except (OSError, KeyError, ValueError) as error:
            raise DataError(
                f"{folder} is not a whole pack of pages ({error}); make it again or carry it over."
            ) from error
        if len(self.bytes) != self.ends[-1]:
            raise DataError(
                f"{self.folder}/pages.bin has {len(self.bytes)} bytes of {self.ends[-1]}; carry it over again."
            )

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, i: int) -> PackedPage:
        first, last = (int(self.ends[i - 1]) if i else 0), int(self.ends[i])
        low, high = (int(self.word_ends[i - 1]) if i else 0), int(self.word_ends[i])
        boxes = self.boxes[low:high].astype(np.float64) / UNIT
        words = [
            Printed(text, (box[0], box[1], box[2], box[3]), bool(sure), self.runs.get(j))
            for j, (text, box, sure) in enumerate(
                zip(self.texts[low:high], boxes.tolist(), self.sure[low:high], strict=True), low
            )
        ]
        return PackedPage(self.names[i], self.bytes[first:last].tobytes(), words, self.questions[i])


def source_of(folder: str | Path) -> str:
    """Where a pack's pages come from, as its manifest says."""
    try:
        return str(json.loads((Path(folder) / "manifest.json").read_text())["source"])
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{folder} has no manifest that names its source ({error}); make it again.") from error


def is_pack(folder: str | Path) -> bool:
    return (Path(folder) / "pack.npz").is_file()
