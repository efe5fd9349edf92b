"""`varsdoc mcp` as its clients see it: the real process, driven over stdio by the SDK's own client."""

from __future__ import annotations

import base64
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client, StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError
from PIL import Image

from index.papers import pdf, picture
from small_collection import WORDS, make_collection
from varsdoc import Index

SOURCE = str(Path(__file__).parents[2] / "src")
# Put on the server's path: the model cannot be loaded before the gate is opened.
GATE = """
import os, sys, time
from importlib.machinery import PathFinder

class Gate:
    def find_spec(self, name, path=None, target=None):
        if name != "transformers":
            return None
        spec = PathFinder.find_spec(name, path)
        run = spec.loader.exec_module

        def wait(module):
            while not os.path.exists(os.environ["GATE"]):
                time.sleep(0.02)
            run(module)

        spec.loader.exec_module = wait
        return spec

sys.meta_path.insert(0, Gate())
"""


@dataclass
class Driver:
    """The client, from outside its event loop."""

    portal: BlockingPortal
    client: Client
    before: dict[str, Any] = field(default_factory=dict)  # what was answered while there was no model

    def call(self, tool: str, **arguments: Any) -> Any:
        return self.portal.call(self.client.call_tool, tool, arguments)

    def facts(self, tool: str, **arguments: Any) -> dict[str, Any]:
        done = self.call(tool, **arguments)
        assert not done.is_error, done.content[0].text
        return dict(done.structured_content)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("mcp")
    make_collection(place)
    (place / "gate").mkdir()
    (place / "gate" / "sitecustomize.py").write_text(GATE)
    return place


def environment(place: Path) -> dict[str, str]:
    path = os.pathsep.join([str(place / "gate"), SOURCE])
    return {"PYTHONPATH": path, "GATE": str(place / "open"), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


@pytest.fixture(scope="module")
def driver(place: Path) -> Iterator[Driver]:
    arguments = ["-m", "varsdoc", "mcp", "--index", str(place / "index")]
    server = StdioServerParameters(command=sys.executable, args=arguments, env=environment(place))
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(Client(stdio_client(server))) as client,
    ):
        driver = Driver(portal, client)
        driver.before = {
            "documents": driver.facts("list_documents"),
            "page": driver.facts("get_page", document="words.pdf", page=2),
        }
        asked = portal.start_task_soon(client.call_tool, "search_pages", {"query": "valve"})
        time.sleep(0.3)
        driver.before["searched"] = asked.done()
        (place / "open").touch()
        driver.before["search"] = asked.result(timeout=300)
        yield driver


@pytest.fixture
def index(place: Path) -> Index:
    return Index.open(place / "index")


def pictures(done: Any) -> list[Image.Image]:
    found = [block for block in done.content if block.type == "image"]
    assert {block.mime_type for block in found} <= {"image/jpeg"}
    return [Image.open(io.BytesIO(base64.b64decode(block.data))) for block in found]


def test_only_a_search_waits_for_the_model(driver: Driver) -> None:
    assert driver.before["documents"]["total_pages"] == 5
    assert driver.before["page"]["text"] == WORDS[1]
    assert driver.before["searched"] is False
    assert len(driver.before["search"].structured_content["hits"]) == 5


def test_an_assistant_is_told_what_the_tools_do_that_they_only_read_and_their_bounds(driver: Driver) -> None:
    tools = {tool.name: tool for tool in driver.portal.call(driver.client.list_tools).tools}
    assert tools.keys() == {"search_pages", "get_page", "list_documents"}
    for tool in tools.values():
        assert tool.annotations.read_only_hint is True
        assert len(tool.description) > 60
        assert "\n  " not in tool.description
        assert tool.output_schema["type"] == "object"
    assert tools["search_pages"].input_schema["properties"]["k"]["maximum"] == 20
    assert tools["search_pages"].input_schema["properties"]["pictures"]["maximum"] == 5
    assert "search_pages" in driver.client.instructions


def test_a_search_answers_as_the_index_does_with_pictures_of_the_best(driver: Driver, index: Index) -> None:
    done = driver.call("search_pages", query="red valve", k=4, where="year = 2021", pictures=2, picture_side=256)
    expected = index.search("red valve", k=4, where="year = 2021")
    hits = done.structured_content["hits"]
    for hit, one in zip(hits, expected, strict=True):
        same = one.to_json()
        assert {key: hit[key] for key in ("id", "document", "page", "variant", "region", "metadata")} == {
            key: same[key] for key in ("id", "document", "page", "variant", "region", "metadata")
        }
        assert hit["variant_scores"] == pytest.approx(same["variant_scores"], abs=1e-4)
        assert hit["score"] == pytest.approx(same["score"], abs=1e-4)
    assert json.loads(done.content[0].text)["query"] == "red valve"
    captions = [block.text for block in done.content[1:] if block.type == "text"]
    assert captions == [f"{hit['document']}, page {hit['page']}, id {hit['id']}:" for hit in hits[:2]]
    shown = pictures(done)
    assert len(shown) == 2
    assert all(max(one.size) <= 256 for one in shown)


def test_hybrid_orders_by_words_too(driver: Driver) -> None:
    found = driver.facts("search_pages", query="travel expense claim", hybrid=True, pictures=0)["hits"]
    assert [hit["fused_score"] for hit in found] == sorted((hit["fused_score"] for hit in found), reverse=True)
    words = next(hit for hit in found if (hit["document"], hit["page"]) == ("words.pdf", 2))
    assert words["fused_score"] > 1 / 61


def test_a_page_comes_by_id_or_place_with_neighbours_text_and_picture(driver: Driver, index: Index) -> None:
    done = driver.call("get_page", document="words.pdf", page=2, neighbours=True)
    facts = done.structured_content
    assert (facts["document"], facts["page"], facts["pages"], facts["text"]) == ("words.pdf", 2, 3, WORDS[1])
    assert (facts["previous"]["page"], facts["next"]["page"]) == (1, 3)
    assert len(pictures(done)) == 3
    again = driver.call("get_page", id=facts["id"], text=False)
    assert again.structured_content["text"] is None
    assert len(pictures(again)) == 1
    last = driver.facts("get_page", id=facts["next"]["id"])
    assert last["next"] is None
    assert driver.facts("get_page", document="squares.tiff", page=1)["text"] is None


def test_a_question_colours_the_page_and_a_crop_enlarges_a_part(driver: Driver, index: Index) -> None:
    page = driver.facts("get_page", document="words.pdf", page=1)
    plain = pictures(driver.call("get_page", id=page["id"]))[0]
    coloured = driver.call("get_page", id=page["id"], query="valve", variant=1)
    assert coloured.structured_content["evidence"]["variant_scores"] == pytest.approx(
        index.look("valve", page["id"]).variant_scores, abs=1e-4
    )
    heat = pictures(coloured)[0]
    assert heat.size == plain.size
    assert heat.tobytes() != plain.tobytes()
    part = pictures(driver.call("get_page", id=page["id"], crop=[0.5, 0.0, 1.0, 0.5], picture_side=1600))[0]
    stored = Image.open(io.BytesIO(index.page_jpeg(page["id"]))).size
    assert part.size == (pytest.approx(stored[0] / 2, abs=1), pytest.approx(stored[1] / 2, abs=1))


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("search_pages", {"query": "x", "where": "nope = 1"}, "there is no such column"),
        ("search_pages", {"query": "x", "k": 500}, "k: Input should be less than or equal to 20, not '500'."),
        ("search_pages", {"query": ""}, "query: String should have at least 1 character"),
        ("search_pages", {}, "query: Field required."),
        ("get_page", {}, "Name a page either by id, or by document and page."),
        ("get_page", {"id": "../../etc/passwd"}, "There is no page ../../etc/passwd in this collection"),
        ("get_page", {"document": "other.pdf", "page": 1}, "There is no document 'other.pdf'"),
        ("get_page", {"document": "words.pdf", "page": 4}, "words.pdf has no page 4 here; 3 of its pages"),
        ("get_page", {"document": "words.pdf", "page": 1, "crop": [0.5, 0, 0.5, 1]}, "x0 < x1"),
        ("get_page", {"document": "words.pdf", "page": 1, "crop": [0, 0, 2, 1]}, "less than or equal to 1"),
        ("get_page", {"document": "words.pdf", "page": 1, "variant": 1}, "give a query with it"),
        ("get_page", {"document": "words.pdf", "page": 1, "variant": 9, "query": "x"}, "There is no variant 9"),
        ("list_documents", {"where": "document ="}, "is not SQL that can be used here"),
        ("delete_everything", {}, "delete_everything"),
    ],
)
def test_what_goes_wrong_is_one_sentence(driver: Driver, tool: str, arguments: dict[str, Any], said: str) -> None:
    done = driver.call(tool, **arguments)
    assert done.is_error
    assert said in done.content[0].text
    assert "\n" not in done.content[0].text


def test_a_picture_is_a_resource_too(driver: Driver, index: Index) -> None:
    page = driver.facts("get_page", document="squares.tiff", page=2)
    read = driver.portal.call(driver.client.read_resource, page["uri"]).contents[0]
    assert read.mime_type == "image/jpeg"
    shown = Image.open(io.BytesIO(base64.b64decode(read.blob)))
    assert shown.size == Image.open(io.BytesIO(index.page_jpeg(page["id"]))).size
    with pytest.raises(MCPError, match="There is no page nope"):
        driver.portal.call(driver.client.read_resource, "varsdoc://pages/nope")


def test_a_collection_that_changes_on_disk_is_seen(driver: Driver, index: Index, tmp_path: Path) -> None:
    index.add([pdf(tmp_path / "new.pdf", ["reactor"]), picture(tmp_path / "late.png", 8)], metadata={"year": 2030})
    listed = driver.facts("list_documents", limit=2)
    assert [one["document"] for one in listed["documents"]] == ["late.png", "new.pdf"]
    assert (listed["total_documents"], listed["total_pages"], listed["next_offset"]) == (4, 7, 2)
    found = driver.facts("search_pages", query="reactor", where="year = 2030", pictures=0)
    assert {hit["document"] for hit in found["hits"]} == {"late.png", "new.pdf"}
    for name in ("late.png", "new.pdf"):
        index.remove(name)
    assert driver.facts("list_documents", offset=2)["documents"] == []
    assert len(driver.facts("search_pages", query="reactor", k=20, pictures=0)["hits"]) == 5


def test_stdout_carries_the_protocol_alone_and_closing_stdin_ends_the_server(place: Path) -> None:
    """Although the model is still being loaded: nothing waits for it."""
    closed = environment(place) | {"GATE": str(place / "never")}
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
    }
    command = [sys.executable, "-m", "varsdoc", "mcp", "--index", str(place / "index")]
    lines = [json.dumps(hello), "this is no message", ""]
    done = subprocess.run(
        command, input="\n".join(lines), env=os.environ | closed, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(one["jsonrpc"] == "2.0" for one in answers)
    assert next(one for one in answers if one.get("id") == 1)["result"]["serverInfo"]["name"] == "varsdoc"


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        (None, "error: There is no collection at nowhere; make one with `varsdoc index"),
        ("mcp", "error: This needs the package mcp; run: pip install 'varsdoc[mcp]'\n"),
    ],
)
def test_what_cannot_be_served_ends_with_a_sentence(missing: str | None, said: str) -> None:
    program = (
        f"import sys; sys.modules[{missing!r}] = None; sys.argv = ['varsdoc', 'mcp', '--index', 'nowhere']\n"
        "from varsdoc.cli import main; main()"
    )
    env = os.environ | {"PYTHONPATH": SOURCE}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=240)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
