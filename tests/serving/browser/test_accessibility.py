"""axe-core finds no serious or critical fault: light, dark, phone, viewer, dialogs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from serving.browser.tools import missing

QUERY = "/?q=revenue+by+region&heat=1"
PHONE = 390


def faults(page: Any) -> list[str]:
    try:
        from axe_playwright_python.sync_playwright import Axe
    except ImportError:
        missing("axe-playwright-python is not installed.")
    found = Axe().run(page).response["violations"]
    bad = [one for one in found if one["impact"] in ("serious", "critical")]
    return [f"{one['id']}: {node['target']} {node['failureSummary']}" for one in bad for node in one["nodes"]]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, PHONE], ids=["wide", "phone"])
def test_answer_and_viewer(visit: Any, served: Any, artifacts: Path, dark: bool, width: int) -> None:
    page = visit(served, QUERY, width=width, dark=dark, bypass_csp=True)  # axe is injected; the page itself needs none
    page.locator(".hit .sheet-heat.shown").first.wait_for()
    name = f"{'dark' if dark else 'light'}-{width}"
    page.screenshot(path=artifacts / f"answer-{name}.png")
    assert not faults(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page scrolls sideways"
    page.locator(".hit .desk").first.click()
    page.locator(".viewer .sheet-heat.shown").wait_for()
    page.screenshot(path=artifacts / f"viewer-{name}.png")
    assert not faults(page)


def test_start_help_filters_and_confirmation(visit: Any, served: Any, artifacts: Path) -> None:
    page = visit(served, "/", width=PHONE, bypass_csp=True)
    page.locator(".cover").first.wait_for()
    assert not faults(page)
    page.get_by_role("button", name="Documents and filters").click()
    page.locator("#more summary").click()
    page.screenshot(path=artifacts / "filters-phone.png")
    assert not faults(page)
    page.get_by_role("button", name="Delete newsletter.pdf").click()
    assert page.get_by_role("dialog", name="Delete this document?").is_visible()
    assert not faults(page)
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    assert not page.locator(".side-open").count()
    page.keyboard.press("?")
    assert page.get_by_role("dialog", name="Keyboard").is_visible()
    assert not faults(page)
