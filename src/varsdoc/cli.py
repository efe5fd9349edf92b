"""The command line: parses, calls one function of a room, prints. JSON alone on stdout, everything else on stderr."""

from __future__ import annotations

import json
import os
import sys
import warnings
from typing import Annotated, Any, Optional

import typer

from varsdoc import __version__
from varsdoc.errors import VarsDocError
from varsdoc.evaluation import commands as evaluation
from varsdoc.index.commands import At
from varsdoc.index.commands import Model as CollectionModel
from varsdoc.index.commands import register as register_index
from varsdoc.serving.commands import register as register_serving

app = typer.Typer(
    help="Find the right page in a pile of visually rich documents by looking at the page images.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Model = Annotated[
    str | None,
    typer.Option("--model", help="Checkpoint: a folder or a hub id; default: the one in the package."),
]
Device = Annotated[Optional[str], typer.Option(help="cpu, cuda, cuda:1, mps; default: a GPU where there is one.")]  # noqa: UP045
Dtype = Annotated[Optional[str], typer.Option(help="float32, bfloat16, float16, or int8 on CPU.")]  # noqa: UP045
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout and nothing else there.")]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"varsdoc {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


register_index(app)
register_serving(app)


@app.command()
def info(
    model: Model = None,
    variants: Annotated[Optional[int], typer.Option(help="Expand a checkpoint of one variant to K.")] = None,  # noqa: UP045
    device: Device = None,
    dtype: Dtype = None,
    as_json: Json = False,
) -> None:
    """Say what a checkpoint is: model, K, n, parameters, prefix, token cap, dtype, device, versions, hash."""
    from varsdoc.model.info import describe

    facts = describe(model, variants=variants, device=device, dtype=dtype)
    if as_json:
        typer.echo(json.dumps(facts, ensure_ascii=False, indent=2))
    else:
        _table(facts)


@app.command()
def train(
    config: Annotated[str, typer.Argument(help="A training config, like configs/paper/warmup.yaml.")],
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint in its output.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be trained and what is missing.")] = False,
) -> None:
    """Train one stage. Several GPUs: torchrun --nproc-per-node N -m varsdoc.cli train CONFIG."""
    if dry_run:
        from varsdoc.training.plan import plan

        typer.echo("\n".join(plan(config).lines()))
        return
    from varsdoc.training.stages import train as run

    done = run(config, resume)
    skipped = f", {done.bad_records} bad records skipped" if done.bad_records else ""
    typer.echo(f"{done.model}: {done.steps} steps, mean loss {done.loss:.4f}{skipped}", err=True)


app.command("eval")(evaluation.evaluate)
app.command("bench")(evaluation.bench)


@app.command()
def mcp(at: At, model: CollectionModel = None, device: Device = None, dtype: Dtype = None) -> None:
    """Serve a collection to an assistant: an MCP server over stdin and stdout, to be started by its client."""
    from varsdoc.extras import needs

    with needs("mcp", "mcp"):
        from varsdoc.serving.mcp import run
    run(at, model, device, dtype)


@app.command()
def demo(
    docs: Annotated[Optional[str], typer.Option("--docs", help="A folder of yours instead of the samples.")] = None,  # noqa: UP045
    into: Annotated[Optional[str], typer.Option("--into", help="The collection; default: kept in the cache.")] = None,  # noqa: UP045
    ask: Annotated[Optional[list[str]], typer.Option("--ask", help="A question of yours; may be repeated.")] = None,  # noqa: UP045
    serve: Annotated[bool, typer.Option("--serve/--no-serve", help="End with the web page, or without.")] = True,
    as_json: Json = False,
) -> None:
    """Index sample documents, ask questions, show which pages answer, by which reading, and serve the web page."""
    from varsdoc.demo import run

    run(docs, into, ask or [], as_json, serve)


def _table(facts: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, value in facts.items():
        shown = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
        table.add_row(name.replace("_", " "), escape(json.dumps(value) if name == "prefix" else shown))
    Console(highlight=False).print(table)


def main() -> None:
    """Run, and turn what a user can mend into one line on stderr."""
    if sys.stdout is not None and not sys.stdout.isatty() and hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8")  # names in any script, whatever the machine's own encoding
    warnings.showwarning = lambda message, *_, **__: print(f"warning: {message}", file=sys.stderr)
    try:
        app()
    except VarsDocError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("stopped.", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        print(f"error: {error.filename or 'writing'}: {error.strerror or error}.", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
