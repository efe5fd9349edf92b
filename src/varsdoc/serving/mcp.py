"""A collection as an MCP server over stdio: an assistant searches the pages and looks at them.

Its choices:
- Tools only read. Answers are bounded: pages, pictures, pixels, bytes, characters.
- `initialize` does not wait for the model: it is loaded beside, and only a tool that needs it waits.
- stdout belongs to the protocol: while serving, the SDK points everything else's stdout at stderr.
- What goes wrong is one sentence in a tool's answer; the assistant reads it and asks better.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import signal
import sys
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.types import ToolAnnotations
from pydantic import ValidationError

from varsdoc import __version__
from varsdoc.errors import VarsDocError
from varsdoc.serving.mcp_tools import RESOURCE, Tools

if TYPE_CHECKING:
    from collections.abc import Callable

    from varsdoc.index import Index

INSTRUCTIONS = """\
This server finds pages of a collection of documents by looking at the page images, so tables, charts, forms and scans
are found as well as text. Ask search_pages a question in words; look at the pictures that come with the answer and name
document and page when you use them. To read small print, call get_page with a crop. Pages that answer a question in
part are often continued on their neighbours. If nothing fits, ask in other words, or narrow with `where`."""

_READS = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)


class Collection:
    """The index behind the tools, opened and given its model by a thread of its own."""

    def __init__(self, at: str, model: str | None = None, device: str | None = None, dtype: str | None = None) -> None:
        self._given = (at, model, device, dtype)
        self._opened: Future[Index] = Future()
        self._loaded = threading.Event()
        threading.Thread(target=self._load, daemon=True).start()

    def _load(self) -> None:
        try:
            self._opened.set_result(_open(*self._given))
            with contextlib.suppress(Exception):  # the search that needs it tries again, and says what is wrong
                self._opened.result().model  # noqa: B018
        except Exception as error:
            self._opened.set_exception(error)
        finally:
            self._loaded.set()

    def reading(self) -> Index:
        """For what needs no model."""
        return self._opened.result()

    def asking(self) -> Index:
        self._loaded.wait()
        return self._opened.result()


def _open(at: str, model: str | None, device: str | None, dtype: str | None) -> Index:
    """Without loading a model that was named: it is held against the collection when it is first used."""
    from varsdoc.index.collection import Index
    from varsdoc.index.encoder import Encoder
    from varsdoc.index.store import Store

    return Index(Store(at), Encoder(model, device=device, dtype=dtype))


class Server(MCPServer[Any]):
    """The SDK's server, with errors in one sentence."""

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            cause = error.__cause__
            if isinstance(cause, VarsDocError):
                raise ToolError(str(cause)) from cause
            if isinstance(cause, ValidationError):
                raise ToolError(_wrong_argument(cause)) from cause
            if isinstance(error, UnexpectedToolError):
                raise UnexpectedToolError(
                    f"{name} failed ({type(cause).__name__}); the server's log says why."
                ) from cause
            raise


def _wrong_argument(error: ValidationError) -> str:
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"]) or "The arguments"
    given = "" if first["type"] == "missing" else f", not {str(first['input'])[:80]!r}"
    return f"{name}: {first['msg']}{given}."


def build(collection: Collection) -> Server:
    """The server with its tools; nothing runs yet."""
    server = Server(
        "varsdoc", title="varsdoc page search", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING"
    )
    tools = Tools(collection)
    offered: dict[str, Callable[..., Any]] = {
        "Search pages": tools.search_pages,
        "Look at a page": tools.get_page,
        "List documents": tools.list_documents,
    }
    for title, tool in offered.items():
        server.add_tool(tool, title=title, description=inspect.getdoc(tool), annotations=_READS)
    picture = server.resource(RESOURCE, title="Page picture", description="A page's picture.", mime_type="image/jpeg")
    picture(tools.page_picture)
    return server


def run(at: str, model: str | None = None, device: str | None = None, dtype: str | None = None) -> None:
    """Serve until the client closes stdin."""
    from varsdoc.index.store import Store

    if "://" not in at:
        Store(at).require()  # a slip of the hand should not wait for the first question
    # Ctrl-C would wait for the thread that reads stdin; there is nothing to finish, so it ends the process.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if sys.stdin.isatty():
        print(f"Serving {at} over stdin and stdout for an MCP client; Ctrl-C ends it.", file=sys.stderr)
    build(Collection(at, model, device, dtype)).run("stdio")
    # Clients kill what lingers. Taking torch apart, perhaps in the midst of its import, takes longer than they wait.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
