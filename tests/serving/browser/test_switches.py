"""What can be switched: colours, hybrid search, a server that only reads; and an upload that is called off."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from serving.browser.tools import Server, ask, drop, start, stop
from varsdoc.demo import SAMPLES


@pytest.fixture(scope="module")
def reading(library: Path, checkpoint: Path) -> Iterator[Server]:
    server = start([library], checkpoint, "--read-only")
    yield server
    stop(server)


@pytest.fixture(scope="module")
def writing(library: Path, checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    where = tmp_path_factory.mktemp("writing") / "papers"
    shutil.copytree(library, where)
    server = start([where], checkpoint)
    yield server
    stop(server)


def background(page: Any) -> str:
    return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))


def test_the_button_goes_round_the_colours_and_the_choice_is_kept(visit: Any, served: Server) -> None:
    page = visit(served)
    seen = {"auto": background(page)}
    for looks in ("light", "dark"):
        page.locator("#theme").click()
        page.get_by_role("button", name=f"Colours: {looks}").wait_for()
        seen[looks] = background(page)
    assert seen["auto"] == seen["light"] != seen["dark"]
    page.reload()
    assert background(page) == seen["dark"]
    page.get_by_role("button", name="Colours: dark").click()
    page.get_by_role("button", name="Colours: as the system").wait_for()
    assert background(page) == seen["auto"]


def test_hybrid_is_asked_for_kept_in_the_address_and_switched_off(visit: Any, served: Server) -> None:
    page = visit(served)
    ask(page, "revenue by region")
    plain = page.locator(".hit").count()
    page.get_by_text("More filters").click()
    with page.expect_request(lambda request: request.url.endswith("/search")) as asked:
        page.get_by_text("Hybrid", exact=False).first.click()
    assert asked.value.post_data_json["hybrid"] is True
    page.wait_for_url("**hybrid=1**")
    page.locator(".hit").first.wait_for()
    page.reload()
    page.locator(".hit").first.wait_for()
    assert page.locator("#hybrid").is_checked()
    with page.expect_request(lambda request: request.url.endswith("/search")) as asked:
        page.get_by_text("Hybrid", exact=False).first.click()
    assert not asked.value.post_data_json.get("hybrid")
    page.wait_for_function("count => document.querySelectorAll('.hit').length === count", arg=plain)


def test_a_server_that_only_reads_offers_no_changes(visit: Any, reading: Server) -> None:
    page = visit(reading)
    page.locator(".document").first.wait_for()
    assert not page.get_by_role("button", name="Add documents").is_visible()
    page.locator(".document").first.hover()
    assert not page.locator(".document .delete").first.is_visible()
    drop(page, "dropped.jpg", SAMPLES / "letter-scan.jpg")
    page.get_by_text("This server is read-only").first.wait_for()
    ask(page, "revenue by region")
    assert page.locator(".hit").count()


def test_no_button_is_offered_before_the_server_is_known_to_take_changes(visit: Any, reading: Server) -> None:
    page = visit(reading)
    held: list[Any] = []
    page.route("**/collections", lambda route: held.append(route))
    page.reload()
    page.locator(".document").first.wait_for()
    assert held, "the page asks what is served"
    assert not page.get_by_role("button", name="Add documents").is_visible()
    for route in held:
        route.continue_()


def test_an_upload_can_be_called_off(visit: Any, writing: Server) -> None:
    page = visit(writing)
    page.locator(".document").first.wait_for()
    before = page.locator(".document-name").all_inner_texts()
    page.locator("#files").set_input_files([SAMPLES / "lab-safety-manual.pdf", SAMPLES / "moss-paper.pdf"])
    page.get_by_role("button", name="Cancel this upload").click()
    page.locator(".job.ended .job-told", has_text="Cancelled").wait_for(timeout=180_000)
    page.get_by_role("button", name="Dismiss").click()
    assert not page.locator("#jobs").is_visible()
    page.reload()
    page.locator(".document").first.wait_for()
    assert page.locator(".document-name").all_inner_texts() == before
    ask(page, "revenue by region")
