"""vidore-v2 and vidore-v3: the paper's twelve tasks through MTEB, per language, and MTEB's own result files.

Every task is scored once. MTEB computes its metrics from our ranking and writes its result format; our own figures
(NDCG@10 with intervals, usage, ties) come from the same scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from varsdoc.errors import ConfigError, InputError
from varsdoc.evaluation.cache import Cache
from varsdoc.evaluation.evaluate import How, Result, result_of
from varsdoc.evaluation.judged import JudgedSet, Problems, Query, check
from varsdoc.evaluation.mteb_search import Searched, SearchModel
from varsdoc.evaluation.published import BENCHMARKS
from varsdoc.evaluation.retrievers.protocol import Retriever
from varsdoc.evaluation.scorer import Scored


def open_tasks(benchmark: str, languages: Sequence[str] | None = None) -> list[Any]:
    """The benchmark's tasks in the order of the paper's columns.

    languages  MTEB's subset names (english, french, ...); default: all that a task has
    """
    if benchmark not in BENCHMARKS:
        raise ConfigError(f"There is no benchmark {benchmark!r}; use {', '.join(BENCHMARKS)}.")
    mteb = _mteb()
    tasks = [mteb.get_task(name) for name in BENCHMARKS[benchmark].values()]
    return [restrict(task, languages) for task in tasks]


def restrict(task: Any, languages: Sequence[str] | None) -> Any:
    """Only these subsets of a task."""
    if not languages:
        return task
    known = list(task.hf_subsets)
    if known == ["default"]:  # one language only: it is what it is
        return task
    wanted = [name for name in languages if name in known]
    if not wanted:
        raise ConfigError(f"{task.metadata.name} has the languages {', '.join(known)}, not {', '.join(languages)}.")
    task.hf_subsets = wanted
    return task


def evaluate_task(
    task: Any, retriever: Retriever, cache: Cache, how: How | None = None, output: str | Path | None = None
) -> list[Result]:
    """Run one MTEB task; one result per language subset, named TASK/subset.

    output  folder for MTEB's result files; None writes none
    """
    mteb = _mteb()
    how = how or How()
    results: list[Result] = []

    def observe(done: Searched) -> None:
        stored = task.dataset[done.subset][done.split]["relevant_docs"]
        judged = judged_set(f"{done.task}/{done.subset}", done, stored)
        kept = {query.id for query in judged.queries}
        rows = [i for i, query in enumerate(done.query_ids) if query in kept]
        results.append(result_of(_only(done.scored, rows), judged, retriever.identity, how, done.keys))

    load(task)
    store = mteb.ResultCache(str(output)) if output is not None else None
    mteb.evaluate(
        SearchModel(retriever, cache, how, observe),
        task,
        cache=store,
        overwrite_strategy="always",
        co2_tracker=False,
        show_progress_bar=False,
    )
    return results


def judged_set(name: str, done: Searched, stored: Mapping[str, Mapping[str, int]]) -> JudgedSet:
    """MTEB's judgements under our checks: what is bad is counted."""
    asked, known = set(done.query_ids), {page.id for page in done.pages}
    problems = Problems()
    grades: dict[str, dict[str, int]] = {}
    for query, row in stored.items():
        if query not in asked:  # another language's
            continue
        grades[query] = {page: int(grade) for page, grade in row.items() if page in known}
        for page in row.keys() - known:
            problems.count("judgements_of_unknown_pages", f"{query} {page}")
    queries = [Query(i, text, done.subset) for i, text in zip(done.query_ids, done.texts, strict=True)]
    return check(name, done.pages, queries, grades, problems, source=done.task)


def load(task: Any) -> None:
    """Data sets come from the hub or its cache; say so plainly where neither has them."""
    try:
        task.load_data()
        task.convert_v1_dataset_format_to_v2(num_proc=None)
    except Exception as error:  # datasets and huggingface_hub raise a dozen types
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise InputError(
            f"The data of {task.metadata.name} is neither in the hub cache nor could it be fetched ({reason})."
        ) from error


def _only(scored: Scored, rows: list[int]) -> Scored:
    if len(rows) == len(scored.fused):
        return scored
    variants = scored.variants[rows] if scored.variants is not None else None
    tokens = scored.query_tokens[rows] if scored.query_tokens is not None else None
    return Scored(scored.fused[rows], variants, tokens, scored.page_bytes)


def _mteb() -> Any:
    try:
        import mteb
    except ImportError as error:
        raise InputError("ViDoRe runs through MTEB; pip install 'varsdoc[eval]'.") from error
    return mteb
