"""Two systems on the same queries: a paired test on NDCG@10, against a run or an earlier results file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from varsdoc.errors import InputError
from varsdoc.evaluation.evaluate import Result
from varsdoc.evaluation.statistics import Paired, paired_test

METRIC = "ndcg@10"


@dataclass(frozen=True)
class Other:
    """Per-query figures of the system that is compared with."""

    name: str
    hash: str
    values: Mapping[str, float]  # query id -> NDCG@10

    @classmethod
    def of(cls, result: Result) -> Other:
        ids = [query.id for query in result.judged.queries]
        return cls(
            result.identity.name,
            result.identity.hash,
            dict(zip(ids, result.measured.per_query[METRIC].tolist(), strict=True)),
        )


def is_results(path: str) -> bool:
    """Whether --compare names a results file rather than a model: a .json file, or a folder that holds results.json."""
    place = Path(path).expanduser()
    return (place.is_file() and place.suffix == ".json") or (place / "results.json").is_file()


def read_results(path: str) -> dict[str, Other]:
    """Per-query figures of an earlier run by data set."""
    place = Path(path).expanduser()
    place = place / "results.json" if place.is_dir() else place
    try:
        content = json.loads(place.read_text(encoding="utf-8"))
        model = content["model"]
        return {
            name: Other(model["name"], model["hash"], {q: float(row[METRIC]) for q, row in found["per_query"].items()})
            for name, found in content["datasets"].items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is not the results.json of an earlier varsdoc eval --report ({error}).") from error


def compare(result: Result, other: Other) -> tuple[Paired, int]:
    """This minus the other, on the queries that both answered; and how many of ours the other lacks."""
    ids = [query.id for query in result.judged.queries]
    shared = [i for i, query in enumerate(ids) if query in other.values]
    if not shared:
        raise InputError(f"{other.name} answered none of the queries of {result.judged.name}; evaluate it on the same.")
    ours = result.measured.per_query[METRIC][shared]
    return paired_test(ours, [other.values[ids[i]] for i in shared]), len(ids) - len(shared)


def comparison_json(result: Result, other: Other) -> dict[str, Any]:
    test, missing = compare(result, other)
    return {"with": other.name, "with_hash": other.hash, "metric": METRIC, "missing_queries": missing} | test.to_json()
