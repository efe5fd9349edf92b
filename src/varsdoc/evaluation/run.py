"""One evaluation from what was asked for to what is printed and written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from varsdoc.errors import ConfigError, InputError
from varsdoc.evaluation.baselines.run import TextBaseline, run_baseline
from varsdoc.evaluation.cache import Cache
from varsdoc.evaluation.compare import Other, comparison_json, is_results, read_results
from varsdoc.evaluation.evaluate import How, Result, evaluate
from varsdoc.evaluation.judged import JudgedSet, read_folder
from varsdoc.evaluation.main_table import Line, as_html, lines
from varsdoc.evaluation.published import BENCHMARKS
from varsdoc.evaluation.results import SetReport, command_line, document, write_json
from varsdoc.evaluation.retrievers.protocol import Retriever
from varsdoc.evaluation.sweep import CODECS, sweep

Compared = dict[str, Other] | Retriever | None  # an earlier run's figures, or a second retriever


@dataclass(frozen=True)
class Request:
    """Everything `varsdoc eval` was told."""

    datasets: Sequence[str]
    queries: Sequence[str] = ()
    model: str | None = None
    retriever: str | None = None
    device: str | None = None
    dtype: str | None = None
    max_visual_tokens: int | None = None
    codec: str = "float16"
    aggregation: str = "max"
    limit: int | None = None
    languages: Sequence[str] = ()
    compare: str | None = None
    baselines: Sequence[TextBaseline] = ()
    only_baselines: bool = False
    sweep: bool = False
    codecs: Sequence[str] = CODECS
    intents: str | None = None
    cache: str | None = None
    mteb_output: str | None = None
    shown: bool = True


@dataclass
class Outcome:
    """What was found, and what its report needs beside the JSON."""

    sets: dict[str, SetReport] = field(default_factory=dict)
    retriever: Retriever | None = None
    others: dict[str, Other] = field(default_factory=dict)
    cache: Cache = field(default_factory=Cache)
    command: str = field(default_factory=command_line)

    def json(self, whole: bool = False) -> dict[str, Any]:
        identity = self.retriever.identity if self.retriever else None
        return document(self.sets, identity, whole, self.command)

    def main_table(self, benchmark: str) -> list[Line]:
        """The paper's table: ours, the compared system's, the published rows."""
        assert self.retriever is not None
        own = {name: {"ndcg@10": found.result.mean["ndcg@10"]} for name, found in self.sets.items()}
        rows = lines(benchmark, own, self.retriever.identity.name)
        names = list(dict.fromkeys(other.name for other in self.others.values()))
        for other in names:
            theirs = {
                name: {"ndcg@10": sum(found.values.values()) / len(found.values)}
                for name, found in self.others.items()
                if found.name == other
            }
            rows = [row for row in lines(benchmark, theirs, other) if not row.published] + rows
        return rows

    def benchmarks(self) -> list[str]:
        """The benchmarks of which something was measured."""
        tasks = {name.partition("/")[0] for name in self.sets}
        return [name for name, known in BENCHMARKS.items() if tasks & set(known.values())]


def run(request: Request) -> Outcome:
    """Evaluate every data set in turn. Bad requests are refused before any page is encoded."""
    folders = [name for name in request.datasets if name not in BENCHMARKS]
    judged = _read(folders, request)
    how = How(request.codec, request.aggregation, request.shown)
    _check(request, judged)
    outcome = Outcome(cache=Cache(request.cache))
    if not request.only_baselines:
        outcome.retriever = _open(request, request.model, request.retriever)
    compared = _compared(request)
    for name, one in judged.items():
        outcome.sets[name] = _evaluate_set(one, outcome, request, how, compared)
        if request.mteb_output and outcome.retriever is not None:
            from varsdoc.evaluation.mteb_files import write_mteb

            write_mteb(outcome.sets[name].result, outcome.retriever, outcome.cache, request.mteb_output)
    for benchmark in (name for name in request.datasets if name in BENCHMARKS):
        _run_benchmark(benchmark, outcome, request, how, compared)
    return outcome


def _read(folders: Sequence[str], request: Request) -> dict[str, JudgedSet]:
    """The judged folders by name, with their choice of queries."""
    if len(request.queries) not in (0, 1, len(folders)):
        raise ConfigError(f"Give --queries once or once per folder ({len(folders)}), not {len(request.queries)} times.")
    chosen = list(request.queries) or [None] * len(folders)  # type: ignore[list-item]
    if len(chosen) == 1 < len(folders):
        if Path(chosen[0]).is_file():
            raise ConfigError(
                f"{chosen[0]} belongs to one data set; for several, give --queries once for each, or the name of a "
                "file that each folder has."
            )
        chosen *= len(folders)
    sets: dict[str, JudgedSet] = {}
    for folder, queries in zip(folders, chosen, strict=True):
        found = read_folder(folder, queries)
        if found.name in sets:
            raise ConfigError(f"Two data sets are called {found.name}; evaluate them one at a time.")
        sets[found.name] = found if request.limit is None else found.limited(request.limit)
    return sets


def _check(request: Request, judged: dict[str, JudgedSet]) -> None:
    from varsdoc.evaluation.codec_names import open_codec
    from varsdoc.evaluation.scorer import AGGREGATIONS

    open_codec(request.codec)
    for codec in request.codecs if request.sweep else ():
        open_codec(codec)
    if request.aggregation not in AGGREGATIONS:
        raise ConfigError(f"There is no aggregation {request.aggregation!r}; use max, mean or fused.")
    if request.intents and len(judged) != 1:
        raise ConfigError("--intents belongs to one judged folder; give exactly one.")
    benchmarks = [name for name in request.datasets if name in BENCHMARKS]
    if benchmarks and (request.limit is not None or request.queries or request.only_baselines):
        raise ConfigError(
            f"--limit, --queries and --only-baselines work on folders; write {benchmarks[0]} out as folders first "
            "(python -m varsdoc.evaluation.export_task)."
        )
    if request.only_baselines and (not request.baselines or not judged):
        raise ConfigError("--only-baselines needs --baseline and a judged folder.")


def _open(request: Request, model: str | None, kind: str | None) -> Retriever:
    from varsdoc.evaluation.retrievers import open_retriever

    return open_retriever(
        model, kind, device=request.device, dtype=request.dtype, max_visual_tokens=request.max_visual_tokens
    )


def _compared(request: Request) -> Compared:
    """An earlier run's figures, or a second retriever."""
    if request.compare is None:
        return None
    return read_results(request.compare) if is_results(request.compare) else _open(request, request.compare, None)


def _evaluate_set(judged: JudgedSet, outcome: Outcome, request: Request, how: How, compared: Compared) -> SetReport:
    retriever = outcome.retriever
    if retriever is None:
        first, *rest = [run_baseline(each, judged, outcome.cache, how.shown) for each in request.baselines]
        return SetReport(first, rest)
    result = evaluate(retriever, judged, outcome.cache, how)
    other = None
    if isinstance(compared, dict):
        if judged.name not in compared:
            raise InputError(f"The results to compare with hold no data set {judged.name}, only {', '.join(compared)}.")
        other = compared[judged.name]
    elif compared is not None:
        other = Other.of(evaluate(compared, judged, outcome.cache, how))
    report = _finish(result, outcome, request, other)
    if request.intents:
        from varsdoc.evaluation.intents import measure_agreement, read_intents

        found = measure_agreement(retriever, read_intents(request.intents), judged, result.page_keys, outcome.cache)
        report.agreement = found.to_json()
    return report


def _finish(result: Result, outcome: Outcome, request: Request, other: Other | None) -> SetReport:
    """Baselines, paired test and sweep for a result, wherever its data came from."""
    assert outcome.retriever is not None
    judged = result.judged
    baselines = [run_baseline(each, judged, outcome.cache, request.shown) for each in request.baselines]
    report = SetReport(result, baselines)
    if other is None and baselines:
        other = Other.of(baselines[0])
    if other is not None:
        outcome.others[judged.name] = other
        report.comparison = comparison_json(result, other)
    if request.sweep:
        report.sweep = sweep(outcome.retriever, result, outcome.cache, request.codecs)
    return report


def _run_benchmark(benchmark: str, outcome: Outcome, request: Request, how: How, compared: Compared) -> None:
    from varsdoc.evaluation.vidore import evaluate_task, open_tasks

    assert outcome.retriever is not None
    for task in open_tasks(benchmark, request.languages):
        results = evaluate_task(task, outcome.retriever, outcome.cache, how, request.mteb_output)
        others = compared if isinstance(compared, dict) else {}
        if compared is not None and not isinstance(compared, dict):
            others = {r.judged.name: Other.of(r) for r in evaluate_task(task, compared, outcome.cache, how)}
        for result in results:
            name = result.judged.name
            outcome.sets[name] = _finish(result, outcome, request, others.get(name))


def write_report(outcome: Outcome, folder: str) -> Path:
    """results.json and report.html; returns the latter's path."""
    from varsdoc.evaluation.report.examples import examples
    from varsdoc.evaluation.report.html import render

    place = Path(folder).expanduser()
    content = outcome.json(whole=True)
    pictures = {}
    for name, found in outcome.sets.items():
        other = outcome.others.get(name)
        pictures[name] = examples(found.result, other.values if other else None, outcome.retriever, outcome.cache)
        if other is not None:
            pictures[name]["against"] = other.name
    tables = []
    for benchmark in outcome.benchmarks():
        rows = outcome.main_table(benchmark)
        caption = (
            f"Model {content['model']['hash']}, token cap {content['model']['token_cap']}. Command: {outcome.command}"
        )
        tables.append(as_html(benchmark, rows, caption))
    write_json(place / "results.json", content)
    page = place / "report.html"
    try:
        page.write_text(render(content, pictures, tables), encoding="utf-8")
    except OSError as error:
        raise InputError(f"{page} cannot be written ({error.strerror}); name another place.") from error
    return page
