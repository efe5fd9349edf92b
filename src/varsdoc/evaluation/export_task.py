"""Write MTEB tasks out as BEIR folders, so that everything that runs on folders runs on ViDoRe too.

    python -m varsdoc.evaluation.export_task vidore-v2 OUT [--language french]

One folder per task: its pages once, the questions of all chosen languages with their "language". Slices, text baselines
alone, and the questions for P_same and P_cross (make_intents) then work as on any folder.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from varsdoc.errors import VarsDocError
from varsdoc.evaluation.mteb_search import dataset_pages
from varsdoc.evaluation.progress import Progress
from varsdoc.evaluation.vidore import load, open_tasks


def export(task: Any, out: Path, shown: bool = True) -> Path:
    """One task; returns its folder. Queries of several languages keep apart by the language in their id."""
    load(task)
    root = out / task.metadata.name
    (root / "images").mkdir(parents=True, exist_ok=True)
    (root / "qrels").mkdir(exist_ok=True)
    split = task.metadata.eval_splits[0]
    subsets = list(task.hf_subsets)
    names = _write_pages(root, task.dataset[subsets[0]][split]["corpus"], shown)
    judged = ["query-id\tcorpus-id\tscore"]
    with (root / "queries.jsonl").open("w", encoding="utf-8") as file:
        for subset in subsets:
            data = task.dataset[subset][split]
            for query, text in zip(data["queries"]["id"], data["queries"]["text"], strict=True):
                own = f"{subset}-{query}"
                file.write(json.dumps({"_id": own, "text": text, "language": subset}, ensure_ascii=False) + "\n")
                grades = data["relevant_docs"].get(query, {})
                judged += [f"{own}\t{page}\t{int(grade)}" for page, grade in grades.items() if page in names]
    (root / "qrels" / "test.tsv").write_text("\n".join(judged) + "\n", encoding="utf-8")
    return root


def _write_pages(root: Path, corpus: Any, shown: bool) -> set[str]:
    pages = dataset_pages(corpus)
    with (
        (root / "corpus.jsonl").open("w", encoding="utf-8") as file,
        Progress(len(pages), f"{root.name}: writing pages", shown) as bar,
    ):
        for number, page in enumerate(pages):
            place = f"images/{number:06d}.png"
            page.image().save(root / place)
            file.write(json.dumps({"_id": page.id, "image": place}) + "\n")
            bar(1)
    return {page.id for page in pages}


def main(
    benchmark: Annotated[str, typer.Argument(help="vidore-v2 or vidore-v3.")],
    out: Annotated[Path, typer.Argument(help="Where the folders go.")],
    language: Annotated[Optional[list[str]], typer.Option(help="Only these (english, french, ...).")] = None,  # noqa: UP045
) -> None:
    """Write a benchmark's tasks as BEIR folders."""
    try:
        for task in open_tasks(benchmark, language):
            typer.echo(export(task, out), err=True)
    except VarsDocError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from error


if __name__ == "__main__":
    typer.run(main)
