"""`varsdoc eval` and `varsdoc bench`: parse, call one function, print."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any, Optional

import typer

Text = Optional[str]  # noqa: UP045 - typer reads annotations at run time on Python 3.10
Number = Optional[int]  # noqa: UP045


def evaluate(
    datasets: Annotated[list[str], typer.Argument(help="BEIR folders with images or PDFs; vidore-v2; vidore-v3.")],
    queries: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(help="Ask these instead: a file, or the name of one inside each folder."),
    ] = None,
    model: Annotated[
        Text, typer.Option(help="Checkpoint: a folder or a hub id; default: the one in the package.")
    ] = None,
    retriever: Annotated[
        Text, typer.Option(help="What the checkpoint is (clip, colpali, ...); default: its config.")
    ] = None,
    device: Annotated[Text, typer.Option(help="cpu, cuda, cuda:1, mps; default: a GPU where there is one.")] = None,
    dtype: Annotated[Text, typer.Option(help="float32, bfloat16, float16, or int8 on CPU.")] = None,
    max_visual_tokens: Annotated[Number, typer.Option(help="Another token cap than the checkpoint's.")] = None,
    codec: Annotated[str, typer.Option(help="float16, int8, int4, binary; with :pool=N or :share=C.")] = "float16",
    aggregation: Annotated[str, typer.Option(help="max, mean or fused.")] = "max",
    compare: Annotated[
        Text, typer.Option(help="Paired test: another checkpoint, or an earlier run's results.json.")
    ] = None,
    baseline: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(help="bm25, bm25-plain or minilm over the pages' text; may be repeated."),
    ] = None,
    only_baselines: Annotated[bool, typer.Option("--only-baselines", help="No model: baselines alone.")] = False,
    ocr: Annotated[str, typer.Option(help="tesseract, rapidocr or text-layer.")] = "tesseract",
    ocr_scale: Annotated[float, typer.Option(help="Enlarge pages this many times before OCR.")] = 2.0,
    ocr_language: Annotated[str, typer.Option(help="Tesseract's language, like eng+fra.")] = "eng",
    minilm: Annotated[
        Text, typer.Option(help="Folder or hub id of all-MiniLM-L6-v2; default: its PyPI package.")
    ] = None,
    sweep: Annotated[bool, typer.Option("--sweep", help="Also compare codecs, K and aggregations.")] = False,
    intents: Annotated[
        Text, typer.Option(help="JSONL of verified questions: P_same and P_cross (docs/evaluation.md).")
    ] = None,
    language: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(help="ViDoRe: only these subsets (english, french, ...)."),
    ] = None,
    limit: Annotated[
        Number, typer.Option(help="Only the first N pages and the queries they answer; to try things.")
    ] = None,
    cache: Annotated[
        Text, typer.Option(help="Where embeddings and OCR text are kept; default: the user's cache.")
    ] = None,
    report: Annotated[Text, typer.Option(help="Write report.html and results.json into this folder.")] = None,
    mteb_output: Annotated[Text, typer.Option(help="Write results in MTEB's own format into this folder.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout and nothing else there.")] = False,
) -> None:
    """Measure retrieval on judged pages: NDCG, recall, usage and ties of variants, with intervals; resumes."""
    from varsdoc.evaluation.baselines.ocr import Ocr
    from varsdoc.evaluation.baselines.run import TextBaseline
    from varsdoc.evaluation.run import Request, run, write_report

    reader = Ocr(ocr, 1.0 if ocr == "text-layer" else ocr_scale, ocr_language)
    outcome = run(
        Request(
            datasets,
            queries or (),
            model,
            retriever,
            device,
            dtype,
            max_visual_tokens,
            codec,
            aggregation,
            limit,
            language or (),
            compare,
            [TextBaseline(method, reader, minilm) for method in baseline or ()],
            only_baselines,
            sweep,
            intents=intents,
            cache=cache,
            mteb_output=mteb_output,
        )
    )
    for name, found in outcome.sets.items():
        for sentence in found.result.judged.problems.sentences():
            print(f"{name}: {sentence}.", file=sys.stderr)
    if report:
        print(f"report: {write_report(outcome, report)}", file=sys.stderr)
    if as_json:
        typer.echo(json.dumps(outcome.json(), ensure_ascii=False, indent=2))
    else:
        from varsdoc.evaluation.printing import print_outcome

        print_outcome(outcome)


def bench(
    model: Annotated[
        Text, typer.Option(help="Checkpoint: a folder or a hub id; default: the one in the package.")
    ] = None,
    pages: Annotated[Text, typer.Option(help="A BEIR folder whose pages are used; default: generated pages.")] = None,
    count: Annotated[int, typer.Option(help="How many pages to encode in a repeat; the corpus that is searched.")] = 32,
    variants: Annotated[str, typer.Option(help="The K to measure, with commas.")] = "1,3,5",
    batch: Annotated[int, typer.Option(help="Pages per forward pass.")] = 32,
    repeats: Annotated[int, typer.Option(help="Each figure is the mean of so many.")] = 10,
    max_seconds: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(help="Stop repeating a figure after so long; the table says how many repeats there were."),
    ] = None,
    codec: Annotated[str, typer.Option(help="What is stored and searched.")] = "float16",
    device: Annotated[Text, typer.Option(help="cpu, cuda, cuda:1, mps; default: a GPU where there is one.")] = None,
    dtype: Annotated[Text, typer.Option(help="float32, bfloat16, float16, or int8 on CPU.")] = None,
    max_visual_tokens: Annotated[Number, typer.Option(help="Another token cap than the checkpoint's.")] = None,
    out: Annotated[Text, typer.Option(help="Also write the JSON to this file, after every K.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout and nothing else there.")] = False,
) -> None:
    """Index bytes, index time and query latency per K, as in the paper's efficiency table, in one run."""
    from varsdoc.evaluation.bench import Plan, counts, measure
    from varsdoc.evaluation.results import write_json

    settings = (model, pages, count, counts(variants), batch, repeats, codec, device, dtype, max_visual_tokens)
    plan = Plan(*settings, max_seconds=max_seconds, shown=True)
    content: dict[str, Any] = measure(plan, lambda table: write_json(out, table) if out else None)
    if as_json:
        typer.echo(json.dumps(content, ensure_ascii=False, indent=2))
    else:
        from varsdoc.evaluation.printing import print_bench

        print_bench(content)
