"""A judged set: pages, questions, and which page answers which question.

On disk it is a BEIR folder. Whatever is wrong with it is either refused with a sentence (then no figure could be
trusted) or counted in `Problems` and left out; nothing is scored as zero because of a bad line.

| fault | what happens |
|---|---|
| no pages, no judged query, an id twice in corpus or queries | refused |
| a pair judged twice with different grades, a page file that is not there | refused |
| a pair judged twice with the same grade | counted, used once |
| a judgement of an unknown page or query | counted, left out |
| a query with no judgement, or with no relevant page in the corpus, or without text | counted, left out |
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from varsdoc.evaluation.cache import content_key
from varsdoc.evaluation.errors import JudgementError

PDF_SCALE = 2.0  # 144 dpi: an A4 page is 1,190 x 1,684 pixels


class Page(Protocol):
    """A page of any corpus: a file's, or a row of a data set."""

    @property
    def id(self) -> str: ...

    def key(self) -> str:
        """By content: the same bytes have the same key under any name."""

    def image(self) -> Any:
        """A Pillow image, upright RGB."""

    def text_layer(self) -> str | None:
        """The page's own text, where it has one."""


@dataclass(frozen=True)
class JudgedPage:
    """A page of the corpus: an image file, or a page of a PDF (0-based)."""

    id: str
    path: Path
    pdf_page: int | None = None

    def key(self) -> str:
        """By content: the same bytes have the same key under any name."""
        data = self._bytes()
        return content_key(data) if self.pdf_page is None else content_key(data, f"page {self.pdf_page} x {PDF_SCALE}")

    def image(self) -> Any:
        """A Pillow image, upright RGB."""
        from varsdoc.image import read_image

        if self.pdf_page is None:
            return read_image(self._bytes(), str(self.path))
        with _open_pdf(self.path) as document:
            return document[self.pdf_page].render(scale=PDF_SCALE).to_pil().convert("RGB")

    def text_layer(self) -> str | None:
        """The PDF's own text; None for an image file."""
        if self.pdf_page is None:
            return None
        with _open_pdf(self.path) as document:
            return str(document[self.pdf_page].get_textpage().get_text_bounded())

    def _bytes(self) -> bytes:
        try:
            return self.path.read_bytes()
        except OSError as error:
            raise JudgementError(f"Page {self.id} cannot be read: {self.path} ({error.strerror}).") from error


@dataclass(frozen=True)
class Query:
    id: str
    text: str
    language: str | None = None


@dataclass
class Problems:
    """What was wrong with the judgements, counted."""

    duplicate_judgements: int = 0
    judgements_of_unknown_pages: int = 0
    judgements_of_unknown_queries: int = 0
    queries_without_judgements: int = 0
    queries_without_relevant_pages: int = 0
    queries_without_text: int = 0
    examples: dict[str, str] = field(default_factory=dict)  # the first of each kind

    def count(self, kind: str, example: str) -> None:
        setattr(self, kind, getattr(self, kind) + 1)
        self.examples.setdefault(kind, example)

    def counts(self) -> dict[str, int]:
        return {key: value for key, value in asdict(self).items() if key != "examples"}

    def sentences(self) -> list[str]:
        """One line per kind that occurred."""
        said = {
            "duplicate_judgements": "judgement(s) stand twice and are used once",
            "judgements_of_unknown_pages": "judgement(s) name a page that the corpus lacks and are left out",
            "judgements_of_unknown_queries": "judgement(s) name a query that is not there and are left out",
            "queries_without_judgements": "queries have no judgement and are left out",
            "queries_without_relevant_pages": "queries have no relevant page in the corpus and are left out",
            "queries_without_text": "queries have no text and are left out",
        }
        return [
            f"{count} {said[kind]} (first: {self.examples.get(kind, '?')})"
            for kind, count in self.counts().items()
            if count
        ]


@dataclass(frozen=True)
class JudgedSet:
    """What is scored: every query here has text and at least one relevant page here."""

    name: str
    pages: Sequence[Page]
    queries: list[Query]
    grades: dict[str, dict[str, int]]  # query -> page -> grade; zeros are kept, they say "seen and not relevant"
    problems: Problems = field(default_factory=Problems)
    source: str = ""
    queries_file: str | None = None
    slice_of: tuple[int, int] | None = None  # pages and queries of the whole set, where this is a part of it

    @property
    def gold(self) -> list[tuple[int, int]]:
        """(query row, page row) of each query's best judged page; the first of the corpus where several are equal."""
        row = {page.id: i for i, page in enumerate(self.pages)}
        pairs = []
        for i, query in enumerate(self.queries):
            grades = self.grades[query.id]
            best = max(grades.values())
            pairs.append((i, min(row[page] for page, grade in grades.items() if grade == best)))
        return pairs

    def limited(self, pages: int) -> JudgedSet:
        """A slice for trying things out: the first pages, and the queries whose relevant pages are all among them."""
        if pages < 1:
            raise JudgementError(f"A slice needs at least one page, not {pages}.")
        if pages >= len(self.pages):
            return self
        kept = self.pages[:pages]
        ids = {page.id for page in kept}
        queries = [
            query
            for query in self.queries
            if all(page in ids for page, grade in self.grades[query.id].items() if grade > 0)
        ]
        if not queries:
            raise JudgementError(f"No query of {self.name} is answered by its first {pages} pages; take more pages.")
        grades = {q.id: {p: g for p, g in self.grades[q.id].items() if p in ids} for q in queries}
        return replace(self, pages=kept, queries=queries, grades=grades, slice_of=(len(self.pages), len(self.queries)))


def read_folder(folder: str | Path, queries: str | Path | None = None) -> JudgedSet:
    """Read and check a BEIR folder.

    queries  a file of {"_id", "text"} to ask instead of queries.jsonl, or the name of one inside the folder
    """
    root = Path(folder).expanduser()
    if not root.is_dir():
        raise JudgementError(f"There is no folder {folder}; give a BEIR folder, vidore-v2 or vidore-v3.")
    pages = _pages(root)
    known = _queries(root / "queries.jsonl") if (root / "queries.jsonl").is_file() or queries is None else []
    asked, chosen = known, None
    if queries is not None:
        path = Path(queries).expanduser()
        path = path if path.is_file() or path.is_absolute() else root / path
        asked, chosen = _queries(path), path.name
    everyone = {query.id for query in (*known, *asked)}
    problems = Problems()
    grades = _grades(root / "qrels" / "test.tsv", {page.id for page in pages}, everyone, problems)
    return check(root.resolve().name, pages, asked, grades, problems, source=str(folder), queries_file=chosen)


def check(
    name: str,
    pages: Sequence[Page],
    queries: list[Query],
    grades: dict[str, dict[str, int]],
    problems: Problems | None = None,
    source: str = "",
    queries_file: str | None = None,
) -> JudgedSet:
    """Leave out what cannot be scored, and count it."""
    problems = problems or Problems()
    if not pages:
        raise JudgementError(f"The corpus of {name} is empty; there is nothing to search.")
    scored = []
    for query in queries:
        if not query.text.strip():
            problems.count("queries_without_text", query.id)
        elif query.id not in grades:
            problems.count("queries_without_judgements", query.id)
        elif not any(grade > 0 for grade in grades[query.id].values()):
            problems.count("queries_without_relevant_pages", query.id)
        else:
            scored.append(query)
    if not scored:
        faults = "; ".join(problems.sentences()) or "there are no queries"
        raise JudgementError(f"No query of {name} can be scored: {faults}.")
    return JudgedSet(name, pages, scored, {q.id: grades[q.id] for q in scored}, problems, source, queries_file)


def _pages(root: Path) -> list[JudgedPage]:
    pages: dict[str, JudgedPage] = {}
    path = root / "corpus.jsonl"
    for number, line in _lines(path):
        where = f"{path}:{number}"
        page = _page(root, line, where)
        if page.id in pages:
            raise JudgementError(f"{where} has the page {page.id} a second time; ids must be unique.")
        if not page.path.is_file():
            raise JudgementError(f"{where} names the file {page.path}, which is not there.")
        pages[page.id] = page
    _check_pdf_pages(list(pages.values()))
    return list(pages.values())


def _page(root: Path, line: dict[str, Any], where: str) -> JudgedPage:
    if isinstance(line.get("image"), str):
        return JudgedPage(str(line["_id"]), root / line["image"])
    if not isinstance(line.get("pdf"), str):
        raise JudgementError(f'{where} names neither "image" nor "pdf".')
    number = line.get("page", 0)
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise JudgementError(f"{where} has the page number {number!r}; it counts from 0.")
    return JudgedPage(str(line["_id"]), root / line["pdf"], number)


def _check_pdf_pages(pages: list[JudgedPage]) -> None:
    counts: dict[Path, int] = {}
    for page in pages:
        if page.pdf_page is None:
            continue
        if page.path not in counts:
            with _open_pdf(page.path) as document:
                counts[page.path] = len(document)
        if page.pdf_page >= counts[page.path]:
            raise JudgementError(
                f"Page {page.id} is page {page.pdf_page} (from 0) of {page.path}, which has {counts[page.path]} pages."
            )


def _open_pdf(path: Path) -> Any:
    import pypdfium2

    try:
        return pypdfium2.PdfDocument(path)
    except pypdfium2.PdfiumError as error:
        raise JudgementError(f"{path} cannot be opened as a PDF ({error}).") from error


def _queries(path: Path) -> list[Query]:
    queries: dict[str, Query] = {}
    for number, line in _lines(path):
        query = Query(str(line["_id"]), str(line.get("text") or ""), _language(line))
        if query.id in queries:
            raise JudgementError(f"{path}:{number} has the query {query.id} a second time; ids must be unique.")
        queries[query.id] = query
    return list(queries.values())


def _language(line: dict[str, Any]) -> str | None:
    extra = line.get("metadata")
    found = line.get("language") or (extra.get("language") if isinstance(extra, dict) else None)
    return str(found) if found else None


def _grades(path: Path, pages: set[str], queries: set[str], problems: Problems) -> dict[str, dict[str, int]]:
    grades: dict[str, dict[str, int]] = {}
    unknown: dict[tuple[str, str], int] = {}
    for number, row in enumerate(_text(path).splitlines(), 1):
        parts = row.split("\t")
        if not row.strip() or (number == 1 and parts[0] == "query-id"):
            continue
        try:
            query, page, grade = parts[0], parts[1], int(parts[2])
        except (IndexError, ValueError) as error:
            raise JudgementError(f"{path}:{number} is not query-id, corpus-id, score with tabs between.") from error
        before = grades.get(query, {}).get(page, unknown.get((query, page)))
        if before is not None:
            if before != grade:
                raise JudgementError(
                    f"{path}:{number} judges {query} and {page} as {grade}, an earlier line as {before}."
                )
            problems.count("duplicate_judgements", f"{query} {page}")
        elif query not in queries:
            unknown[query, page] = grade
            problems.count("judgements_of_unknown_queries", query)
        elif page not in pages:
            unknown[query, page] = grade
            grades.setdefault(query, {})
            problems.count("judgements_of_unknown_pages", f"{query} {page}")
        else:
            grades.setdefault(query, {})[page] = grade
    return grades


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise JudgementError(f"{path} cannot be read ({error.strerror}); a BEIR folder needs it.") from error
    except UnicodeDecodeError as error:
        raise JudgementError(f"{path} is not UTF-8 text.") from error


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    # Not splitlines(): JSON may hold U+2028 and U+0085 as they are.
    for number, row in enumerate(_text(path).split("\n"), 1):
        if not row.strip():
            continue
        try:
            line = json.loads(row)
        except ValueError as error:
            raise JudgementError(f"{path}:{number} is not JSON.") from error
        if not isinstance(line, dict) or "_id" not in line:
            raise JudgementError(f"{path}:{number} has no _id.")
        yield number, line
