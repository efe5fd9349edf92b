"""The commands of this room: parse, call one method of `Index`, print. Heavy imports come with the work."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, Optional

import typer

from varsdoc.errors import ConfigError, VarsDocError

Into = Annotated[str, typer.Option("--into", help="The collection: a folder, or a URI like s3://bucket/name.")]
Where = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--where", help="SQL on document, page and metadata, like: year >= 2022 AND document LIKE 'a%'"),
]
At = Annotated[str, typer.Option("--index", help="The collection: a folder, or a URI like s3://bucket/name.")]
Model = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--model", help="Checkpoint: a folder or a hub id; default: the collection's own."),
]
Device = Annotated[Optional[str], typer.Option(help="cpu, cuda, cuda:1, mps; default: a GPU where there is one.")]  # noqa: UP045
Dtype = Annotated[Optional[str], typer.Option(help="float32, bfloat16, float16, or int8 on CPU.")]  # noqa: UP045
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout and nothing else there.")]
Wait = Annotated[float, typer.Option("--wait", min=0, help="Seconds to wait for another writer.")]
CodecName = Annotated[
    Optional[Literal["float16", "int8", "int4", "binary"]],  # noqa: UP045
    typer.Option("--codec", help="How codes are kept; of a new collection. Default: int4 with --pool 2."),
]
Pool = Annotated[Optional[int], typer.Option("--pool", min=1, help="Keep one vector for every n cells.")]  # noqa: UP045
Share = Annotated[bool, typer.Option("--share", help="Store equal codes of a page once.")]
Alike = Annotated[
    Optional[float],  # noqa: UP045
    typer.Option("--alike", min=0.5, max=1.0, help="Store cells of a page once whose cosine is at least this."),
]

# One search reads what it needs; filling memory with a large collection's codes first would take longer than it saves.
_ONE_SEARCH_BYTES = 256 << 20


def index(
    paths: Annotated[list[str], typer.Argument(help="Files, folders or globs.")],
    into: Into,
    model: Model = None,
    device: Device = None,
    dtype: Dtype = None,
    codec: CodecName = None,
    pool: Pool = None,
    share: Share = False,
    alike: Alike = None,
    meta: Annotated[Optional[list[str]], typer.Option("--meta", help="key=value for all documents here.")] = None,  # noqa: UP045
    metadata: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--metadata", help='JSON Lines: {"document": "report.pdf", "year": 2023}'),
    ] = None,
    no_images: Annotated[bool, typer.Option("--no-images", help="Store no page pictures (new collection).")] = False,
    no_text: Annotated[bool, typer.Option("--no-text", help="Store no text layers.")] = False,
    prune: Annotated[bool, typer.Option("--prune", help="Remove documents whose files are gone.")] = False,
    workers: Annotated[Optional[int], typer.Option(min=1, help="Processes that render pages.")] = None,  # noqa: UP045
    compile_: Annotated[
        bool, typer.Option("--compile", help="On a GPU: compile the encoder (a minute), for many pages.")
    ] = False,
    wait: Wait = 0.0,
    as_json: Json = False,
) -> None:
    """Index documents. Run it again after a change or a stop: it goes on where it was."""
    from varsdoc.index import Index
    from varsdoc.index.metadata import parse_pairs

    try:
        about = parse_pairs(meta or [])
    except ConfigError as error:
        raise typer.BadParameter(str(error)) from error
    opened = Index.open(
        into,
        model,
        device=device,
        dtype=dtype,
        codec=codec,
        codec_options=_options(pool, share, alike),
        images=_no(no_images),
        compile=compile_,
    )
    try:
        done = opened.add(
            paths, metadata=about, metadata_file=metadata, text=not no_text, prune=prune, wait=wait, workers=workers
        )
    except KeyboardInterrupt:
        _stopped("Run the same command again to go on where it stopped.")
    if as_json:
        _print_json(done.to_json())
    for failed in done.failed:
        page = "" if failed.page is None else f", page {failed.page}"
        _say(f"skipped {failed.source}{page}: {failed.reason}")
    if done.gone:
        _say(f"{_many(len(done.gone), 'document')} gone from disk, still in the collection (--prune removes them).")
    pruned = f", {_many(len(done.pruned), 'document')} pruned" if done.pruned else ""
    _say(
        f"{into}: {_many(done.added, 'page')} added, {done.replaced} replaced, {done.unchanged} unchanged, "
        f"{len(done.failed)} failed{pruned}."
    )
    if done.nothing_done:
        raise typer.Exit(1)


def search(
    at: At,
    query: Annotated[Optional[str], typer.Argument(help="The question.")] = None,  # noqa: UP045
    k: Annotated[int, typer.Option("-k", min=1, help="How many pages.")] = 10,
    where: Where = None,
    like: Annotated[Optional[str], typer.Option("--like", help="A picture instead of a question.")] = None,  # noqa: UP045
    hybrid: Annotated[bool, typer.Option("--hybrid", help="Fuse with BM25 over the pages' text layers.")] = False,
    heatmaps: Annotated[Optional[str], typer.Option("--heatmaps", help="Write heatmap PNGs here.")] = None,  # noqa: UP045
    candidates: Annotated[Optional[int], typer.Option(min=1, help="Pages that get an exact score.")] = None,  # noqa: UP045
    exhaustive: Annotated[bool, typer.Option("--exhaustive", help="Give every page an exact score.")] = False,
    model: Model = None,
    device: Device = None,
    dtype: Dtype = None,
    as_json: Json = False,
) -> None:
    """Find the pages that answer a question, or that look like a picture."""
    from varsdoc.index import Index

    if (query is None) == (like is None):
        raise typer.BadParameter("give either a question or --like IMAGE.")
    if hybrid and query is None:
        raise typer.BadParameter("--hybrid needs a question in words.")
    opened = Index.open(at, model, device=device, dtype=dtype, memory=_ONE_SEARCH_BYTES, lists=False)
    hits = opened.search(query, k, where, like=like, hybrid=hybrid, candidates=candidates, exhaustive=exhaustive)
    written = _write_heatmaps(hits, Path(heatmaps)) if heatmaps else None
    if as_json:
        shown = [hit.to_json() | ({"heatmap": written[i]} if written else {}) for i, hit in enumerate(hits)]
        _print_json({"query": query, **({} if like is None else {"like": like}), "hits": shown})
    else:
        _table(hits)


def list_documents(at: At, where: Where = None, as_json: Json = False) -> None:
    """Name the documents of a collection."""
    from varsdoc.index import Index

    found = Index.open(at).list(where)
    if as_json:
        shown = [{"document": d.document, "pages": d.pages, "metadata": dict(d.metadata)} for d in found]
        _print_json({"documents": shown})
        return
    for document in found:
        about = "  ".join(f"{key}={value}" for key, value in document.metadata.items())
        typer.echo(f"{document.pages:6d}  {document.document}" + (f"  {about}" if about else ""))
    _say(f"{_many(len(found), 'document')}, {_many(sum(document.pages for document in found), 'page')}.")


def remove(
    documents: Annotated[list[str], typer.Argument(metavar="DOCUMENT...", help="Display names, or source paths.")],
    at: At,
    wait: Wait = 0.0,
    as_json: Json = False,
) -> None:
    """Remove documents from a collection; their files are not touched."""
    from varsdoc.index import Index

    opened = Index.open(at)
    removed, failed = [], []
    for name in documents:
        try:
            pages = opened.remove(name, wait=wait)
            removed.append({"document": name, "pages": pages})
            _say(f"removed {name} ({_many(pages, 'page')}).")
        except VarsDocError as error:
            failed.append({"document": name, "reason": str(error)})
            _say(f"error: {error}")
    if as_json:
        _print_json({"removed": removed, "failed": failed})
    if not removed:
        raise typer.Exit(1)


def reindex(
    at: At,
    model: Model = None,
    device: Device = None,
    dtype: Dtype = None,
    codec: CodecName = None,
    pool: Pool = None,
    share: Share = False,
    alike: Alike = None,
    drop_unreadable: Annotated[
        bool, typer.Option("--drop-unreadable", help="Leave out documents that cannot be rendered again.")
    ] = False,
    wait: Wait = 0.0,
    as_json: Json = False,
) -> None:
    """Encode a collection anew, beside the old one, and swap at the end."""
    from varsdoc.index import Index

    try:
        done = Index.open(at).reindex(
            model,
            device=device,
            dtype=dtype,
            codec=codec,
            codec_options=_options(pool, share, alike),
            drop_unreadable=drop_unreadable,
            wait=wait,
        )
    except KeyboardInterrupt:
        _stopped("The collection is as it was; run the same command again to go on where it stopped.")
    if as_json:
        _print_json(done.to_json())
    for failed in done.failed:
        _say(f"{'dropped' if done.swapped else 'kept as it was'}: {failed.reason}")
    if not done.needed:
        _say(f"{at} is of this encoder and codec already.")
    elif done.swapped:
        _say(f"{at}: {_many(done.pages, 'page')} of {_many(done.documents, 'document')} encoded anew.")
    else:
        _say(
            f"error: {_many(len(done.failed), 'document')} cannot be encoded anew, so {at} stays with its old encoder; "
            "bring their files back, or leave them out with --drop-unreadable."
        )
        raise typer.Exit(1)


def audit(
    at: At,
    queries: Annotated[Optional[str], typer.Option("--queries", help="A file with one question a line.")] = None,  # noqa: UP045
    sample: Annotated[int, typer.Option(min=1, help="Pages to encode anew, and questions to make.")] = 32,
    k: Annotated[int, typer.Option("-k", min=1)] = 10,
    candidates: Annotated[Optional[int], typer.Option(min=1, help="Pages that get an exact score.")] = None,  # noqa: UP045
    model: Model = None,
    device: Device = None,
    dtype: Dtype = None,
    as_json: Json = False,
) -> None:
    """Measure a collection: first stage, codec, bytes per page, latency, usage of the variants."""
    from varsdoc.index import Index

    opened = Index.open(at, model, device=device, dtype=dtype)
    facts = opened.audit(queries=queries, sample=sample, k=k, candidates=candidates).to_json()
    if as_json:
        _print_json(facts)
        return
    for name, value in facts.items():
        shown = "  ".join(f"{key} {number:g}" for key, number in value.items()) if isinstance(value, dict) else value
        typer.echo(f"{name.replace('_', ' '):20} {shown}")


def register(app: typer.Typer) -> None:
    """Put this room's commands on the command line."""
    app.command()(index)
    app.command()(search)
    app.command("list")(list_documents)
    app.command()(remove)
    app.command()(reindex)
    app.command()(audit)


def _options(pool: int | None, share: bool, alike: float | None) -> dict[str, Any] | None:
    """What the codec is told; None: nothing was asked for.

    >>> _options(None, True, None), _options(2, False, 0.95), _options(None, False, None)
    ({'share': True}, {'pool': 2, 'share': 0.95}, None)
    """
    chosen: dict[str, Any] = {} if pool is None else {"pool": pool}
    if share or alike is not None:
        chosen["share"] = share if alike is None else alike
    return chosen or None


def _no(flag: bool) -> bool | None:
    return False if flag else None


def _print_json(facts: dict[str, Any]) -> None:
    typer.echo(json.dumps(facts, ensure_ascii=False, indent=2))


def _say(line: str) -> None:
    print(line, file=sys.stderr)


def _many(count: int, what: str) -> str:
    """
    >>> _many(1, "page"), _many(2, "page")
    ('1 page', '2 pages')
    """
    return f"{count} {what}{'' if count == 1 else 's'}"


def _stopped(sentence: str) -> NoReturn:
    _say(f"stopped. {sentence}")
    raise typer.Exit(130)


def _write_heatmaps(hits: list[Any], folder: Path) -> list[str | None]:
    folder.mkdir(parents=True, exist_ok=True)
    written: list[str | None] = []
    for rank, hit in enumerate(hits, 1):
        path = folder / f"{rank:02d}-{hit.id}.png"
        try:
            hit.heatmap().save(path)
        except VarsDocError as error:  # a collection without pictures whose source is gone: the answer still stands
            _say(f"no heatmap of {hit.document}, page {hit.page}: {error}")
            written.append(None)
        else:
            written.append(str(path))
    return written


def _table(hits: list[Any]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    fused = any(hit.fused_score is not None for hit in hits)
    table = Table(
        "rank", "document", "page", "score", *(["fused"] if fused else []), "variant", "scores of all variants"
    )
    for rank, hit in enumerate(hits, 1):
        each = "  ".join(f"{value:.2f}" for value in hit.variant_scores)
        extra = [f"{hit.fused_score:.4f}"] if fused else []
        table.add_row(
            str(rank), escape(hit.document), str(hit.page), f"{hit.score:.2f}", *extra, str(hit.variant), each
        )
    Console(highlight=False).print(table)
    if not hits:
        _say("No page passed the filter.")
