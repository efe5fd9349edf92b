"""`varsdoc serve`."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Optional

import typer

from varsdoc.extras import needs
from varsdoc.index.commands import Device, Dtype, Model

_HELP = "The collection: a folder (made by the first upload), or a URI like s3://bucket/name; may be repeated."


def serve(
    at: Annotated[list[str], typer.Option("--index", help=_HELP)],
    host: Annotated[str, typer.Option(help="Any other than this machine's own needs a token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8787,
    token: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Ask every client for it; better in the environment, as VARSDOC_TOKEN."),
    ] = None,
    allow_host: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option("--allow-host", help="A name that this server is reached by; may be repeated."),
    ] = None,
    model: Model = None,
    device: Device = None,
    dtype: Dtype = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="No uploads, no removing.")] = False,
    batch_ms: Annotated[
        float, typer.Option(min=0, max=1000, help="Wait so long for questions to encode together.")
    ] = 3,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Serve collections as a web page and an HTTP API, on this machine alone unless told otherwise."""
    from varsdoc.serving.settings import Settings, is_loopback

    token = token or os.environ.get("VARSDOC_TOKEN") or None
    if token is None and not is_loopback(host):
        print(
            f"error: {host} can be reached from other machines, so give a token: --token, or VARSDOC_TOKEN in the "
            "environment.",
            file=sys.stderr,
        )
        raise typer.Exit(2)
    # Before torch is imported: threads that wait for each other by spinning take the cores from the process that
    # indexes uploads, and from each other (benchmarks/serve_load.py: twice the searches a second).
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    with needs("serve", "fastapi"), needs("serve", "uvicorn"), needs("serve", "python_multipart"):
        from varsdoc.serving.app import create_app
        from varsdoc.serving.server import serve as run
    settings = Settings(token, (host, *(allow_host or [])), read_only, device, dtype, model, batch_ms)
    app = create_app(at, settings)
    names = ", ".join(one.name for one in app.state.service.library.collections)

    def ready(address: str) -> None:
        print(f"Serving {names} at {address}", file=sys.stderr, flush=True)
        if open_page:
            import webbrowser

            webbrowser.open(address)

    code = run(app, host, port, settings.limits, ready)
    if app.state.service.models.running:  # in the middle of a load: Python would wait for it, or trip over it
        sys.stderr.flush()
        os._exit(code)
    if code:
        raise typer.Exit(code)


def register(app: typer.Typer) -> None:
    """Put this room's command on the command line."""
    app.command()(serve)
