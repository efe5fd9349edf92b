"""`where`: SQL on document, page and metadata, as LanceDB (DataFusion) reads it.

Metadata belongs to documents and may change without touching a page, so filters run on a small table in memory that is
made of the reader's own snapshot: what a filter sees is exactly what a search can find.

Columns: `document` (the display name), `page` (1-based), `pages` (of the document), `source`, and every metadata key,
as `year` or `metadata.year`. A key with numbers in all documents compares as a number, one with mixed values as text.
A filter may come from a stranger (serving/): wherever it comes from, it may call a short list of functions alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from varsdoc.errors import FilterError
from varsdoc.index.snapshot import PageRow
from varsdoc.index.tables import StoredDocument

MAX_LENGTH = 10_000
FUNCTIONS = frozenset(
    ("abs", "cast", "ceil", "char_length", "coalesce", "contains", "ends_with", "floor", "length", "lower", "nullif",
     "round", "starts_with", "substr", "trim", "upper")
)  # fmt: skip
_BEFORE_BRACKETS = frozenset(("and", "or", "not", "in", "between", "like", "ilike", "is"))
_MAX_OPERATORS = 256  # they nest: DataFusion's stack overflows, which ends the process, somewhere from 1,000 on
_OPERATOR = re.compile(r"\b(?:AND|OR|NOT|IS|BETWEEN|LIKE|ILIKE)\b|::|\|\||[-+*/%(\[~!]", re.IGNORECASE)
_QUOTED = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`""")
_MARK = "QUOTED"


class Filter:
    """The columns that a filter can name, of one snapshot."""

    def __init__(self, rows: Sequence[int], pages: Sequence[PageRow]) -> None:
        import lancedb

        self._columns = columns = _columns(rows, pages)
        self.names = [name for name in columns.column_names if name not in ("row", "metadata")]
        self._table = lancedb.connect("memory://").create_table("pages", columns)

    def mask(self, where: str, size: int) -> np.ndarray:
        """(size,) true where a row passes."""
        _require_harmless(where)
        try:
            found = self._table.search().where(where).select(["row"]).limit(max(1, self._columns.num_rows)).to_arrow()
        except Exception as error:  # LanceDB raises ValueError, RuntimeError and OSError for a bad filter
            raise FilterError(_sentence(where, str(error), self.names)) from error
        mask = np.zeros(size, bool)
        mask[found["row"].to_numpy()] = True
        return mask


def passing(documents: Sequence[StoredDocument], where: str) -> list[bool]:
    """Which documents pass, each as its first page."""
    rows = [PageRow(document, 0, "", (0, 0), 0, 0, 0) for document in documents]
    return [bool(one) for one in Filter(range(len(rows)), rows).mask(where, len(rows))]


def _columns(rows: Sequence[int], pages: Sequence[PageRow]) -> Any:
    import pyarrow as pa

    documents = [page.document for page in pages]
    keys = sorted({key for document in documents for key in document.metadata})
    columns: dict[str, Any] = {
        "row": pa.array(rows, pa.int64()),
        "document": pa.array([d.name for d in documents], pa.string()),
        "page": pa.array([p.page + 1 for p in pages], pa.int64()),
        "pages": pa.array([d.pages for d in documents], pa.int64()),
        "source": pa.array([d.source for d in documents], pa.string()),
        "id": pa.array([p.id for p in pages], pa.string()),
    }
    values = {key: _typed([d.metadata.get(key) for d in documents]) for key in keys}
    if values:
        columns["metadata"] = pa.StructArray.from_arrays(list(values.values()), names=list(values))
    return pa.table({**columns, **values})


def _typed(values: list[Any]) -> Any:
    """One Arrow type for a key: numbers stay numbers where all are."""
    import pyarrow as pa

    kinds = {type(value) for value in values if value is not None}
    if kinds <= {bool}:
        return pa.array(values, pa.bool_())
    if kinds <= {int}:
        return pa.array(values, pa.int64())
    if kinds <= {int, float}:
        return pa.array([None if v is None else float(v) for v in values], pa.float64())
    return pa.array([None if v is None else _text(v) for v in values], pa.string())


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _require_harmless(where: str) -> None:
    """One condition of bounded length, with no function but the short list: repeat('x', 1e9) takes gigabytes."""
    if not isinstance(where, str) or not where.strip():
        raise FilterError("The filter is empty; write SQL like document = 'report.pdf' AND page <= 3.")
    if len(where) > MAX_LENGTH:
        raise FilterError(f"The filter has {len(where):,} characters; at most {MAX_LENGTH:,} are allowed.")
    shown = where if len(where) <= 200 else where[:200] + "..."
    # Text becomes a comma, which no call can follow; a quoted name becomes a name that no function has.
    bare = _QUOTED.sub(lambda match: "," if match[0][0] == "'" else f" {_MARK} ", where)
    if re.search(r"""['"`]""", bare) or re.search(r"\w'", _QUOTED.sub("''", where)):
        raise FilterError(f"The filter {shown!r} has a quote that does not end, or a letter before one.")
    if ";" in bare:
        raise FilterError(f"The filter {shown!r} has a semicolon; give one SQL condition.")
    if re.search(r"--|/\*|[${]", bare):
        raise FilterError(f"The filter {shown!r} has a comment, a dollar sign or a brace; give a plain SQL condition.")
    if len(_OPERATOR.findall(bare)) > _MAX_OPERATORS:
        raise FilterError(
            f"The filter {shown!r} has more than {_MAX_OPERATORS} operators; use IN (...) for a long list."
        )
    for name in re.findall(r"([\w.]+)\s*\(", bare):
        if name.lower() not in _BEFORE_BRACKETS | FUNCTIONS:
            called = "a quoted name" if name == _MARK else name
            allowed = ", ".join(sorted(FUNCTIONS))
            raise FilterError(
                f"The filter {shown!r} calls {called}, which is not allowed; there are {allowed}, and LIKE."
            )


def _sentence(where: str, reason: str, names: list[str]) -> str:
    unknown = re.search(r"No field named ([^.\s]+)", reason)
    if unknown:
        return (
            f"The filter {where!r} names {unknown[1].strip(chr(34))!r}, and there is no such column; there are "
            f"{', '.join(names)} (text goes in single quotes)."
        )
    parser = re.search(r"sql parser error: ([^\n)]+)", reason)
    short = parser[1] if parser else re.split(r", /|\n", reason)[0].removeprefix("Invalid input, ")
    return f"The filter {where!r} is not SQL that can be used here ({short.rstrip('. ')[:200]})."
