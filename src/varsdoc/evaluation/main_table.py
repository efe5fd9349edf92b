"""The paper's main table for one benchmark: our measured rows, the published ones beside them and marked so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from varsdoc.evaluation.published import BENCHMARKS, SAME_AS_PUBLISHED, SUBSET, main_table


@dataclass(frozen=True)
class Line:
    """A row: who, on which language subset, NDCG@10 in percent per column (None: not measured), average."""

    model: str
    subset: str
    values: list[float | None]
    average: float | None
    published: bool


def lines(benchmark: str, datasets: Mapping[str, Mapping[str, Any]], model: str) -> list[Line]:
    """Measured rows per language and over all languages, then the published rows.

    datasets  results named TASK/subset, as `evaluate_task` makes them
    """
    tasks = list(BENCHMARKS[benchmark].values())
    found: dict[str, dict[str, float]] = {}
    for name, result in datasets.items():
        task, _, subset = name.partition("/")
        if task in tasks:
            found.setdefault(subset, {})[task] = 100 * result["ndcg@10"]
    # ESG-H has one language, which MTEB calls "default": it stands in every row.
    only = found.pop("default", {})
    found = {subset: values | only for subset, values in found.items()} or ({"default": only} if only else {})
    rows = [_line(model, subset, values, tasks) for subset, values in sorted(found.items())]
    if len(found) > 1:
        rows.append(_line(model, f"mean of {len(found)} languages", _mean(found, tasks), tasks))
    own = SAME_AS_PUBLISHED[benchmark]
    rows.sort(key=lambda row: row.subset == own or (own is None and row.subset.startswith("mean")))
    published = [
        Line(f"{name}, published", SUBSET[benchmark], list(values), average, True)
        for name, values, average in main_table(benchmark)
    ]
    return rows + published


def _mean(found: Mapping[str, Mapping[str, float]], tasks: list[str]) -> dict[str, float]:
    """Per task over the languages it was measured in."""
    kept = {task: [values[task] for values in found.values() if task in values] for task in tasks}
    return {task: sum(values) / len(values) for task, values in kept.items() if values}


def _line(model: str, subset: str, values: Mapping[str, float], tasks: list[str]) -> Line:
    cells = [values.get(task) for task in tasks]
    whole = [cell for cell in cells if cell is not None]
    average = sum(whole) / len(whole) if len(whole) == len(cells) else None
    return Line(f"{model}, measured", subset, cells, average, False)


def as_html(benchmark: str, rows: list[Line], caption: str) -> str:
    from varsdoc.evaluation.report.html import table

    head = ["model", "language subset", *BENCHMARKS[benchmark], "Avg."]
    cells = [[row.model, row.subset, *(_shown(value) for value in row.values), _shown(row.average)] for row in rows]
    marked = [i for i, row in enumerate(rows) if row.published]
    return f"<h2>{benchmark}: NDCG@10 in percent</h2>" + table(head, cells, caption, marked)


def as_text(benchmark: str, rows: list[Line]) -> list[list[str]]:
    """Head and rows for a terminal."""
    head = ["model", "subset", *BENCHMARKS[benchmark], "Avg."]
    short = {SUBSET["vidore-v2"]: "French (see docs)", SUBSET["vidore-v3"]: "six languages (see docs)"}
    return [
        head,
        *(
            [row.model, short.get(row.subset, row.subset), *(_shown(v) for v in row.values), _shown(row.average)]
            for row in rows
        ),
    ]


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"
