"""A judged folder's result in MTEB's result format, from MTEB's own metrics on our ranking.

ViDoRe's files are written by MTEB as it runs (vidore.py). A folder has no task in MTEB's registry, so one is described
here, as a user would who publishes it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from varsdoc.evaluation.cache import Cache
from varsdoc.evaluation.evaluate import Result
from varsdoc.evaluation.mteb_search import SearchModel
from varsdoc.evaluation.retrievers.protocol import Retriever

K_VALUES = [1, 3, 5, 10, 20, 100, 1000]


def write_mteb(result: Result, retriever: Retriever, cache: Cache, output: str | Path) -> Path:
    """Write OUTPUT/results/MODEL/HASH/.../SET.json and model_meta.json; returns the folder."""
    import mteb
    from mteb._evaluators.retrieval_metrics import calculate_retrieval_scores, make_score_dict

    judged = result.judged
    ids = [page.id for page in judged.pages]
    total = result.scored.total(result.how.aggregation).astype(np.float64)
    found = {q.id: dict(zip(ids, row, strict=True)) for q, row in zip(judged.queries, total.tolist(), strict=True)}
    scores = calculate_retrieval_scores(found, {q: dict(g) for q, g in judged.grades.items()}, K_VALUES)
    row = make_score_dict(
        ndcg=scores.ndcg,
        _map=scores.map,
        recall=scores.recall,
        precision=scores.precision,
        mrr=scores.mrr,
        naucs=scores.naucs,
        naucs_mrr=scores.naucs_mrr,
        hit_rate=scores.hit_rate,
        task_scores={},
        previous_results_model_meta=None,
    )
    task = _task(judged.name, judged.queries_file)
    row["main_score"] = row[task.metadata.main_score]
    made = mteb.results.TaskResult.from_task_results(task, {"test": {"default": row}}, evaluation_time=0.0)
    store = mteb.ResultCache(str(output))
    store.save_to_cache(made, SearchModel(retriever, cache, result.how).mteb_model_meta)
    return Path(output)


def _task(name: str, queries_file: str | None) -> Any:
    from mteb.abstasks.retrieval import AbsTaskRetrieval
    from mteb.abstasks.task_metadata import TaskMetadata

    class LocalFolder(AbsTaskRetrieval):
        metadata = TaskMetadata(
            name=name,
            description=f"The judged folder {name}, queries {queries_file or 'queries.jsonl'}.",
            dataset={"path": name, "revision": "local"},
            type="DocumentUnderstanding",
            category="t2i",
            eval_splits=["test"],
            eval_langs=["eng-Latn"],
            main_score="ndcg_at_10",
            modalities=["text", "image"],
        )

    return LocalFolder()
