"""The three layouts in which people keep pairs of a page and a question.

- parquet files with the columns `image` (bytes) and `query`, as in the ColPali training set; a folder or a hub id
- BEIR folders: corpus.jsonl, queries.jsonl, qrels/test.tsv; every judgement above 0 is a pair
- a JSONL file of {"image": path, "query": text}; the path is relative to the file

Opening a source reads text only; a page's bytes are read when its record is.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from varsdoc.errors import InputError


class DataError(InputError):
    """A training set that cannot be used: missing, empty, or too damaged."""


@dataclass(frozen=True)
class Record:
    """One pair before its page is cut: the image's bytes or path, a key that equal pages share, the question."""

    image: bytes | Path | Any
    page: str
    query: str


class Source(ABC):
    """A list of pairs in one of the layouts. `read` raises where a record is bad."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def name(self, index: int) -> str: ...

    @abstractmethod
    def read(self, index: int) -> Record: ...


def open_source(path: str) -> Source:
    """Find out which layout a path or hub id has."""
    place = Path(path).expanduser()
    if (place / "corpus.jsonl").is_file():
        return BeirSource(place)
    if place.is_file() and place.suffix == ".jsonl":
        return JsonlSource(place)
    if place.is_dir():
        files = _parquet_files(place)
        if not files:
            raise DataError(f"{path} holds neither corpus.jsonl nor a parquet file; give a training set.")
        return ParquetSource(files)
    if place.suffix == ".parquet" and place.is_file():
        return ParquetSource([place])
    return ParquetSource(_from_hub(path))


def _from_hub(name: str) -> list[Path]:
    if name.count("/") != 1 or name.startswith((".", "/", "~")):
        raise DataError(f"There is no training set {name}; give a folder, a .jsonl file or a hub id like owner/name.")
    from huggingface_hub import snapshot_download

    try:
        folder = snapshot_download(name, repo_type="dataset", allow_patterns=["*.parquet"])
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise DataError(
            f"{name} is no folder here and could not be fetched from the hub ({reason}); download it where there is a "
            "network and give its folder."
        ) from error
    files = _parquet_files(Path(folder))
    if not files:
        raise DataError(f"The hub data set {name} holds no parquet file.")
    return files


def _parquet_files(folder: Path) -> list[Path]:
    """The training split where files are named by split, else all."""
    return sorted(folder.rglob("train*.parquet")) or sorted(folder.rglob("*.parquet"))


class ParquetSource(Source):
    """The ColPali training set. Workers open files on their own and keep the last row group."""

    def __init__(self, files: list[Path]) -> None:
        arrow = _pyarrow()
        self.groups: list[tuple[str, int, int]] = []  # file, row group, its first record
        self.count = 0
        for path in files:
            try:
                content = arrow.ParquetFile(path)
            except (OSError, ValueError) as error:  # pyarrow's errors are kinds of these
                raise DataError(f"{path} cannot be read as parquet ({str(error).splitlines()[0]}).") from error
            missing = {"image", "query"} - set(content.schema_arrow.names)
            if missing:
                raise DataError(f"{path} has no column {min(missing)}; the training set has image and query.")
            for group in range(content.num_row_groups):
                self.groups.append((str(path), group, self.count))
                self.count += content.metadata.row_group(group).num_rows
        self.starts = np.array([start for _, _, start in self.groups])

    def __len__(self) -> int:
        return self.count

    def _place(self, index: int) -> tuple[str, int, int]:
        path, group, start = self.groups[int(np.searchsorted(self.starts, index, side="right")) - 1]
        return path, group, index - start

    def name(self, index: int) -> str:
        path, group, row = self._place(index)
        return f"{path} row group {group} row {row}"

    def read(self, index: int) -> Record:
        path, group, row = self._place(index)
        table = _row_group(path, group)
        image, query = table["image"][row].as_py(), table["query"][row].as_py()
        content = image.get("bytes") if isinstance(image, dict) else image
        if content is None and isinstance(image, dict) and image.get("path"):
            return Record(Path(path).parent / image["path"], image["path"], query)
        if content is None:
            raise DataError("it has no image")
        return Record(content, hashlib.blake2b(content, digest_size=16).hexdigest(), query)


def _pyarrow() -> Any:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise DataError("Reading parquet needs pyarrow; install varsdoc[train].") from error
    return pyarrow.parquet


@lru_cache(maxsize=2)
def _row_group(path: str, group: int) -> Any:
    return _pyarrow().ParquetFile(path).read_row_group(group, columns=["image", "query"])


class BeirSource(Source):
    """A judged folder as training pairs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.corpus = {str(line["_id"]): line for line in read_lines(folder / "corpus.jsonl")}
        self.queries = {str(line["_id"]): str(line.get("text") or "") for line in read_lines(folder / "queries.jsonl")}
        self.pairs = [(query, page) for query, page, score in read_qrels(folder) if score > 0]

    def __len__(self) -> int:
        return len(self.pairs)

    def name(self, index: int) -> str:
        query, page = self.pairs[index]
        return f"{self.folder} query {query} page {page}"

    def read(self, index: int) -> Record:
        query, page = self.pairs[index]
        if query not in self.queries:
            raise DataError(f"qrels name the query {query}, which queries.jsonl lacks")
        if page not in self.corpus:
            raise DataError(f"qrels name the page {page}, which corpus.jsonl lacks")
        return Record(page_image(self.folder, self.corpus[page]), f"{self.folder.name}/{page}", self.queries[query])


class JsonlSource(Source):
    """Lines of {"image", "query"}. A line that is no JSON is a bad record, not the end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open(encoding="utf-8", errors="replace") as file:
            self.lines = [(number, line) for number, line in enumerate(file, 1) if line.strip()]

    def __len__(self) -> int:
        return len(self.lines)

    def name(self, index: int) -> str:
        return f"{self.path}:{self.lines[index][0]}"

    def read(self, index: int) -> Record:
        pair = json.loads(self.lines[index][1])
        if not isinstance(pair, dict) or not isinstance(pair.get("image"), str):
            raise DataError('it is not {"image": path, "query": text}')
        return Record(self.path.parent / pair["image"], str(self.path.parent / pair["image"]), pair.get("query", ""))


def page_image(folder: Path, entry: dict[str, Any]) -> Any:
    """The picture behind a line of corpus.jsonl: an image file, or a page of a PDF."""
    if "image" in entry:
        return folder / str(entry["image"])
    if "pdf" not in entry:
        raise DataError(f"page {entry.get('_id')} of {folder} names neither image nor pdf")
    try:
        import pypdfium2
    except ImportError as error:
        raise DataError("Reading pages of PDFs needs pypdfium2; pip install pypdfium2.") from error
    try:
        with pypdfium2.PdfDocument(folder / str(entry["pdf"])) as document:
            return document[int(entry.get("page", 0))].render(scale=2).to_pil()
    except (pypdfium2.PdfiumError, IndexError) as error:
        raise DataError(f"page {entry.get('_id')} of {folder} cannot be rendered ({error})") from error


def read_qrels(folder: Path) -> Iterator[tuple[str, str, int]]:
    """Judgements of a BEIR folder: query, page, score."""
    path = folder / "qrels" / "test.tsv"
    try:
        rows = path.read_text(encoding="utf-8").split("\n")  # splitlines knows more ends
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}); a BEIR folder needs it.") from error
    for number, row in enumerate(rows[1:], 2):
        if not row.strip():
            continue
        parts = row.split("\t")
        if len(parts) != 3 or not parts[2].strip().lstrip("-").isdigit():
            raise DataError(f"{path}:{number} is not query-id, corpus-id, score with tabs between.")
        yield parts[0], parts[1], int(parts[2])


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a BEIR file, each with an _id."""
    try:
        rows = path.read_text(encoding="utf-8").split("\n")  # splitlines knows more ends
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}); a BEIR folder needs it.") from error
    for number, row in enumerate(rows, 1):
        if not row.strip():
            continue
        try:
            line = json.loads(row)
            line["_id"]
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path}:{number} is no JSON with an _id.") from error
        yield line
