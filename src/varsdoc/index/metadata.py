"""What a user says of documents: `--meta key=value` for all of a run, or a JSON Lines file for each.

A line of the file is an object with `document` (the display name, or a path, absolute or relative to the file's folder)
and any other keys: {"document": "2023/report.pdf", "year": 2023, "team": "Sales"}. A value is text, a number, true or
false; null takes the key away. What is given is laid over what the document has; what is not given stays.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from varsdoc.errors import ConfigError
from varsdoc.index.tables import Value

RESERVED = frozenset(("document", "page", "pages", "source", "id", "metadata", "row", "text"))


@dataclass(frozen=True)
class Metadata:
    """For every document, and for some by name or source."""

    for_all: Mapping[str, Value | None] = field(default_factory=dict)
    by_document: Mapping[str, Mapping[str, Value | None]] = field(default_factory=dict)

    def over(self, old: Mapping[str, Value], source: str, *names: str) -> dict[str, Value]:
        """A document's metadata after this run."""
        merged: dict[str, Value | None] = dict(old)
        merged.update(self.for_all)
        for key in (*names, source):
            merged.update(self.by_document.get(key, {}))
        return {key: value for key, value in sorted(merged.items()) if value is not None}


def parse_pairs(pairs: Iterable[str]) -> dict[str, Value | None]:
    """key=value, the value read as JSON where it is a number, true, false or null, else as text.

    >>> parse_pairs(["year=2023", "team=Sales", "draft=false", 'code="007"'])
    {'year': 2023, 'team': 'Sales', 'draft': False, 'code': '007'}
    """
    found: dict[str, Value | None] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals:
            raise ConfigError(f"--meta takes key=value, not {pair!r}.")
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        found[key.strip()] = text if isinstance(value, dict | list) else value
    return check(found)


def check(values: Mapping[str, Any], where: str = "Metadata") -> dict[str, Value | None]:
    """Keys that a filter can name, values that it can compare."""
    for key, value in values.items():
        if not isinstance(key, str) or not key.strip() or "`" in key or '"' in key or "." in key:
            raise ConfigError(f"{where}: {key!r} cannot be a key; use letters, digits and underscores.")
        if key.lower() in RESERVED:
            raise ConfigError(f"{where}: the key {key!r} is taken; choose another name.")
        if value is not None and not isinstance(value, str | int | float | bool):
            raise ConfigError(f"{where}: {key!r} has a {type(value).__name__}; give text, a number, true or false.")
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"{where}: {key!r} is {value}; give a finite number.")
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise ConfigError(f"{where}: {key!r} is {value}, too large for a number; put it in quotes.")
    return dict(values)


def read_file(path: str | Path) -> dict[str, dict[str, Value | None]]:
    """A JSON Lines file, by display name and by resolved path."""
    path = Path(path)
    found: dict[str, dict[str, Value | None]] = {}
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")  # splitlines knows more ends than JSON
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The metadata file {path} cannot be read ({error}).") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            facts = json.loads(line)
        except ValueError as error:
            raise ConfigError(f"{where} is not JSON ({error}).") from error
        if not isinstance(facts, dict) or not isinstance(facts.get("document"), str):
            raise ConfigError(f'{where} must be an object with the key "document".')
        name = facts.pop("document")
        values = check(facts, where)
        found[name] = values
        found[str((path.parent / name).resolve())] = values
    return found
