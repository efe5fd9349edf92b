"""Documents in and out through the page: upload, filter, delete, reload; a token; two collections."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from serving.browser.tools import Server, ask, drop, start, stop
from varsdoc.demo import SAMPLES

TOKEN = "a token of the tests"
JOB = 180_000  # ms: a job starts a process of its own, which takes its time on a busy machine


@pytest.fixture(scope="module")
def guarded(library: Path, checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a token, an empty collection and a copy of the library, that tests may change."""
    folder = tmp_path_factory.mktemp("guarded")
    shutil.copytree(library, folder / "papers")
    server = start([folder / "fresh", folder / "papers"], checkpoint, "--token", TOKEN)
    yield server
    stop(server)


@pytest.fixture
def entered(visit: Any, guarded: Server, watched: Any) -> Any:
    """visit(path), with the token given."""

    def go(path: str = "/") -> Any:
        watched.allowed = ["401"]  # Chromium reports the refused request that leads to the question
        page = visit(guarded, path)
        page.get_by_label("Token", exact=True).fill(TOKEN)
        page.keyboard.press("Enter")
        return page

    return go


def names(page: Any) -> list[str]:
    return page.locator(".document-name").all_inner_texts()


def test_the_token_is_asked_for_once_and_a_wrong_one_refused(visit: Any, guarded: Server, watched: Any) -> None:
    watched.allowed = ["401"]
    page = visit(guarded, "/?collection=papers")
    dialog = page.get_by_role("dialog", name="This server wants a token")
    dialog.get_by_label("Token", exact=True).fill("wrong")
    dialog.get_by_role("button", name="Open").click()
    dialog.get_by_text("That is not the token.").wait_for()
    dialog.get_by_label("Token", exact=True).fill(TOKEN)
    dialog.get_by_role("button", name="Open").click()
    page.locator(".cover img.loaded").first.wait_for()  # pictures come with the session
    page.reload()
    page.locator(".cover img.loaded").first.wait_for()
    assert not dialog.is_visible()


def test_an_empty_collection_invites_and_takes_files(entered: Any, artifacts: Path, tmp_path: Path) -> None:
    page = entered()
    page.get_by_role("heading", name="Drop documents here").wait_for()
    page.screenshot(path=artifacts / "empty.png")
    broken = tmp_path / "broken.pdf"
    broken.write_bytes(b"%PDF-1.7\nthis is not the rest of a PDF\n")
    page.locator("#files").set_input_files([SAMPLES / "invoice.pdf", SAMPLES / "newsletter.pdf", broken])
    job = page.locator(".job")
    job.locator(".job-failed li", has_text="broken.pdf").wait_for(timeout=JOB)
    page.locator(".job.ended").wait_for(timeout=JOB)
    page.screenshot(path=artifacts / "uploaded.png")
    assert "3 pages added" in job.locator(".job-told").inner_text()
    page.locator(".cover").nth(1).wait_for()
    assert names(page) == ["invoice.pdf", "newsletter.pdf"]
    ask(page, "unit price of a copper gasket")
    assert page.locator(".hit").count() == 3
    job.get_by_role("button", name="Dismiss").click()
    assert not page.locator("#jobs").is_visible()


def test_files_can_be_dropped_anywhere(entered: Any) -> None:
    page = entered("/?collection=papers")
    page.locator(".cover").first.wait_for()
    before = names(page)
    drop(page, "dropped.jpg", SAMPLES / "letter-scan.jpg")
    page.locator(".document-name", has_text="dropped.jpg").wait_for(timeout=JOB)
    assert sorted(names(page)) == sorted([*before, "dropped.jpg"])


def test_filter_delete_and_reload(entered: Any, artifacts: Path) -> None:
    page = entered("/?collection=papers&q=revenue+by+region")
    page.locator(".hit").first.wait_for()
    page.get_by_role("checkbox", name="newsletter.pdf").check()
    page.wait_for_function("() => document.querySelectorAll('.hit').length === 2")
    assert set(page.locator(".hit-name .link").all_inner_texts()) == {"newsletter.pdf"}
    page.screenshot(path=artifacts / "filtered.png")
    page.reload()
    page.wait_for_function("() => document.querySelectorAll('.hit').length === 2")
    assert page.get_by_role("checkbox", name="newsletter.pdf").is_checked()
    page.locator(".document", has_text="newsletter.pdf").hover()
    page.get_by_role("button", name="Delete newsletter.pdf").click()
    page.get_by_role("dialog", name="Delete this document?").get_by_role("button", name="Cancel").click()
    assert "newsletter.pdf" in names(page)
    page.get_by_role("button", name="Delete newsletter.pdf").click()
    page.get_by_role("dialog", name="Delete this document?").get_by_role("button", name="Delete").click()
    page.get_by_text("newsletter.pdf was deleted, 2 pages.").wait_for()
    page.wait_for_function("() => document.querySelectorAll('.hit').length > 2")  # the filter went with it
    assert "newsletter.pdf" not in names(page)
    page.reload()
    page.locator(".hit").first.wait_for()
    assert "newsletter.pdf" not in page.locator(".hit-name .link").all_inner_texts()


def test_the_list_of_documents_can_be_searched(entered: Any) -> None:
    page = entered("/?collection=papers")
    page.locator(".document").nth(1).wait_for()
    page.get_by_role("searchbox", name="Find a document").fill("annual")
    page.wait_for_function("() => document.querySelectorAll('.document').length === 1")
    assert names(page) == ["annual-report.pdf"]
    page.get_by_role("searchbox", name="Find a document").fill("nothing like it")
    page.get_by_text("No document's name has").wait_for()


def test_collections_can_be_chosen(entered: Any) -> None:
    page = entered()
    page.locator(".state, .cover").first.wait_for()
    page.get_by_role("combobox", name="Collection").select_option("papers")
    page.wait_for_url("**/?collection=papers")
    page.locator(".document-name", has_text="annual-report.pdf").wait_for()
