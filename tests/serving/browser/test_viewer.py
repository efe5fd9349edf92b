"""The page viewer: large, with neighbours, zoom, heatmap, evidence and the table of words and readings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

QUERY = "/?q=revenue+by+region"


@pytest.fixture
def opened(visit: Any, served: Any) -> Any:
    """The best hit of a question, large."""
    page = visit(served, QUERY)
    page.locator(".hit .desk").first.click()
    page.locator(".viewer .sheet.loaded").wait_for()
    return page


def place(page: Any) -> str:
    return f"{page.locator('.viewer-name').inner_text()}, {page.locator('.viewer-place').inner_text()}"


def scale(page: Any) -> int:
    return int(page.locator(".percent").inner_text().split()[0])


def test_it_opens_closes_and_keeps_its_page_in_the_address(opened: Any) -> None:
    here = place(opened)
    assert "page=" in opened.url
    opened.reload()
    opened.locator(".viewer .sheet.loaded").wait_for()
    assert place(opened) == here
    opened.keyboard.press("Escape")
    opened.wait_for_url("**/?q=revenue+by+region")
    assert not opened.locator(".viewer").is_visible()
    opened.go_forward()
    opened.locator(".viewer .sheet.loaded").wait_for()
    assert place(opened) == here
    opened.go_back()
    opened.wait_for_function("() => !document.querySelector('.viewer').open")


def test_neighbours_in_the_document(visit: Any, served: Any) -> None:
    page = visit(served)
    page.get_by_role("button", name="Open annual-report.pdf").click()
    page.locator(".viewer .sheet.loaded").wait_for()
    assert place(page) == "annual-report.pdf, page 1 of 4"
    assert page.get_by_role("button", name="Previous page").is_disabled()
    for number in (2, 3, 4):
        page.wait_for_function("() => !document.querySelector('#page-next').disabled")
        page.keyboard.press("ArrowRight")
        page.wait_for_function(
            "n => document.querySelector('.viewer-place').textContent === `page ${n} of 4`", arg=number
        )
    page.wait_for_function("() => document.querySelector('#page-next').disabled")
    page.get_by_role("button", name="Previous page").click()
    page.wait_for_function("() => document.querySelector('.viewer-place').textContent === 'page 3 of 4'")


def test_neighbours_among_the_hits(opened: Any) -> None:
    names = opened.locator(".hit").evaluate_all("all => all.map(one => one.dataset.id)")
    assert opened.locator(".viewer-rank").inner_text() == f"1 / {len(names)}"
    opened.keyboard.press("j")
    opened.wait_for_url(f"**page={names[1]}**")
    opened.get_by_role("button", name="Next hit").click()
    opened.wait_for_url(f"**page={names[2]}**")
    opened.keyboard.press("k")
    opened.wait_for_url(f"**page={names[1]}**")


def test_zoom_and_pan(opened: Any) -> None:
    stage, sheet = opened.locator(".stage").bounding_box(), opened.locator(".viewer .sheet")
    fit = sheet.bounding_box()
    assert scale(opened) == 100
    assert fit["height"] <= stage["height"]
    opened.keyboard.press("+")
    assert scale(opened) == 140
    assert sheet.bounding_box()["width"] == pytest.approx(1.4 * fit["width"], rel=0.01)
    x, y = stage["x"] + stage["width"] / 2, stage["y"] + stage["height"] / 2
    before = sheet.bounding_box()
    opened.mouse.move(x, y)
    opened.mouse.down()
    opened.mouse.move(x, y - 60)
    opened.mouse.up()
    assert sheet.bounding_box()["y"] == pytest.approx(before["y"] - 60, abs=2)
    opened.mouse.wheel(0, -400)
    opened.wait_for_function("() => parseInt(document.querySelector('.percent').textContent) > 140")
    opened.keyboard.press("0")
    assert sheet.bounding_box() == pytest.approx(fit, abs=1)


def test_heatmap_of_a_word_in_a_reading(opened: Any, artifacts: Path) -> None:
    opened.keyboard.press("h")
    opened.locator(".viewer .sheet-heat.shown").wait_for()
    rows = opened.locator(".matrix tbody tr:not(.rest)")
    assert rows.locator("th").all_inner_texts() == ["revenue", "by", "region"]
    rows.nth(2).locator(".cell").nth(1).click()
    opened.locator('.viewer .sheet-heat.shown[data-variant="1"][data-word="2"]').wait_for()
    assert rows.nth(2).locator(".cell").nth(1).get_attribute("aria-pressed") == "true"
    rows.nth(2).locator(".cell").nth(1).hover()
    opened.screenshot(path=artifacts / "viewer.png")
    opened.keyboard.press("3")
    opened.locator('.viewer .sheet-heat.shown[data-variant="2"][data-word="2"]').wait_for()


def test_the_table_adds_up_to_the_scores(opened: Any) -> None:
    table = opened.locator(".matrix").evaluate(
        "table => [...table.querySelectorAll('tbody tr, tfoot tr')].map(row =>"
        " [...row.querySelectorAll('td')].map(cell => Number(cell.textContent)))"
    )
    *parts, total = table
    for column in range(len(total)):
        assert sum(row[column] for row in parts) == pytest.approx(total[column], abs=0.01 * len(parts))


def test_a_page_that_is_gone_is_said(visit: Any, served: Any, watched: Any) -> None:
    watched.allowed = ["404"]
    page = visit(served, "/?page=0123456789abcdef0123456789abcdef-0")
    page.get_by_text("no longer in the collection").wait_for()
    assert "page=" not in page.url
