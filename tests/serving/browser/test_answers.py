"""What people see of an answer: pages, evidence, readings, heatmaps, and the address that keeps it all."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from serving.browser.tools import HTML_NAME, HTML_NOTE, ask, asked_again

QUERY = "/?q=revenue+by+region"


def heat(page: Any, card: int = 0) -> Any:
    """The heatmap that lies over a hit's page, once it is there."""
    shown = page.locator(".hit").nth(card).locator(".sheet-heat.shown")
    shown.wait_for()
    return shown


def test_an_answer_shows_pages_with_the_scores_of_all_readings(visit: Any, served: Any, artifacts: Path) -> None:
    page = visit(served)
    page.locator(".cover").first.wait_for()
    page.screenshot(path=artifacts / "start.png")
    with page.expect_response(lambda answer: answer.url.endswith("/search")) as searched:
        ask(page, "revenue by region")
    answer = asked_again(served, searched.value)
    cards = page.locator(".hit")
    assert cards.count() == len(answer["hits"]) == 7
    for i, hit in enumerate(answer["hits"]):
        card = cards.nth(i)
        assert card.locator(".hit-name").inner_text().startswith(hit["document"])
        assert card.locator(".bar-score").all_inner_texts() == [f"{score:.2f}" for score in hit["variant_scores"]]
        assert card.locator(".bar.won .bar-name").inner_text() == str(hit["variant"] + 1)
        assert card.locator(".score").inner_text() == f"{hit['score']:.2f}"
        assert card.locator(".sheet-region").count() == (1 if hit["region"] else 0)
    sheet = cards.first.locator(".sheet-image")
    page.wait_for_function("image => image.complete && image.naturalWidth > 0", arg=sheet.element_handle())
    page.screenshot(path=artifacts / "answer.png")


def test_the_outline_lies_where_the_region_is(visit: Any, served: Any) -> None:
    page = visit(served)
    page.locator(".cover").first.wait_for()
    with page.expect_response(lambda answer: answer.url.endswith("/search")) as searched:
        ask(page, "revenue by region")
    hits = asked_again(served, searched.value)["hits"]
    found = [(i, hit["region"]) for i, hit in enumerate(hits) if hit["region"]]
    assert found, "no hit of the tiny model has a region: choose another question"
    i, region = found[0]
    card = page.locator(".hit").nth(i)
    card.locator(".sheet-region").wait_for()
    sheet, box = card.locator(".sheet").bounding_box(), card.locator(".sheet-region").bounding_box()
    at = [(box["x"] - sheet["x"]) / sheet["width"], (box["y"] - sheet["y"]) / sheet["height"]]
    at += [at[0] + box["width"] / sheet["width"], at[1] + box["height"] / sheet["height"]]
    assert max(abs(a - b) for a, b in zip(at, region, strict=True)) < 0.01
    assert abs(sheet["width"] / sheet["height"] - hits[i]["width"] / hits[i]["height"]) < 0.02


def test_heatmaps_of_a_reading_and_of_a_word(visit: Any, served: Any, artifacts: Path) -> None:
    page = visit(served, QUERY)
    first = page.locator(".hit").first
    first.wait_for()
    assert page.locator(".sheet-heat").count() == 0
    with page.expect_response(re.compile(r"/heatmap\?.*variant=1")) as fetched:
        first.get_by_role("button", name="Reading 2").click()
    assert fetched.value.headers["content-type"] == "image/png"
    assert heat(page).get_attribute("data-variant") == "1"
    assert first.locator(".bar").nth(1).get_attribute("aria-pressed") == "true"
    assert page.locator(".sheet-heat").count() == 1  # this card's alone
    first.locator(".word", has_text="region").click()
    page.locator(".hit").first.locator('.sheet-heat.shown[data-word="2"]').wait_for()
    assert heat(page).get_attribute("data-variant") == "1"
    page.screenshot(path=artifacts / "heatmap.png")
    first.get_by_role("button", name="Reading 2").click()  # again: off
    assert page.locator(".sheet-heat").count() == 0


def test_the_toolbar_sets_the_heatmap_of_every_page(visit: Any, served: Any) -> None:
    page = visit(served, QUERY)
    page.locator(".hit").first.wait_for()
    page.get_by_role("switch", name="Heatmap").check()
    won = page.locator(".hit").first.locator(".bar.won .bar-name").inner_text()
    assert heat(page).get_attribute("data-variant") == str(int(won) - 1)
    page.get_by_role("group", name="Reading", exact=True).locator('[data-value="2"]').click()
    page.get_by_role("group", name="Word", exact=True).get_by_role("button", name="region").click()
    for card in (0, 1):
        page.locator(".hit").nth(card).locator('.sheet-heat.shown[data-variant="2"][data-word="2"]').wait_for()
    assert "heat=1" in page.url
    assert "reading=3" in page.url
    page.reload()
    page.locator('.sheet-heat.shown[data-variant="2"][data-word="2"]').first.wait_for()
    assert page.get_by_role("switch", name="Heatmap").is_checked()


def test_keys(visit: Any, served: Any) -> None:
    page = visit(served)
    page.locator(".cover").first.wait_for()
    page.keyboard.press("/")
    page.keyboard.type("revenue by region")
    page.keyboard.press("Enter")
    page.locator(".hit").first.wait_for()
    page.keyboard.press("Escape")  # out of the box
    page.keyboard.press("j")
    page.keyboard.press("ArrowDown")
    position = "[...document.querySelectorAll('.hit')].indexOf(document.activeElement.closest('.hit'))"
    assert page.evaluate(position) == 1
    page.keyboard.press("k")
    page.keyboard.press("2")
    assert heat(page).get_attribute("data-variant") == "1"
    page.keyboard.press("h")
    assert page.locator(".sheet-heat").count() == 0
    page.keyboard.press("g")
    assert page.locator(".hits.as-grid").count() == 1
    page.keyboard.press("?")
    assert page.get_by_role("dialog", name="Keyboard").is_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")
    assert page.get_by_role("dialog", name="Page viewer").is_visible()


def test_recent_questions_come_back_by_arrow_key(visit: Any, served: Any) -> None:
    page = visit(served)
    for words in ("revenue by region", "pumpkin soup"):
        ask(page, words)
    box = page.get_by_role("combobox", name="Ask your documents")
    box.fill("")
    page.keyboard.press("ArrowDown")
    assert box.input_value() == "pumpkin soup"
    page.keyboard.press("ArrowDown")
    assert box.input_value() == "revenue by region"
    page.keyboard.press("Enter")
    page.wait_for_url("**/?q=revenue+by+region**")


def test_back_and_forward_walk_through_the_questions(visit: Any, served: Any) -> None:
    page = visit(served)
    ask(page, "revenue by region")
    ask(page, "pumpkin soup")
    page.wait_for_url("**/?q=pumpkin+soup")
    page.go_back()
    page.wait_for_url("**/?q=revenue+by+region")
    assert page.get_by_role("combobox", name="Ask your documents").input_value() == "revenue by region"
    page.wait_for_function("() => document.title.startsWith('revenue by region')")
    page.go_back()
    page.locator(".cover").first.wait_for()


def test_nothing_moves_when_pictures_arrive(visit: Any, served: Any) -> None:
    page = visit(served, QUERY)
    page.locator(".hit").first.wait_for()
    page.wait_for_load_state("networkidle")
    shifted = page.evaluate(
        """() => new Promise(done => new PerformanceObserver(list => done(list.getEntries()
             .filter(one => !one.hadRecentInput).map(one => one.sources.map(s => s.node?.className ?? "")).flat()))
             .observe({type: 'layout-shift', buffered: true}) || setTimeout(() => done([]), 500))"""
    )
    assert not [name for name in shifted if name and ("sheet" in name or "hit" in name or "strip" in name)]


def test_a_bad_filter_says_why_and_how_to_go_on(visit: Any, served: Any, watched: Any) -> None:
    watched.allowed = ["422", "400"]  # Chromium reports the refused request on the console
    page = visit(served, QUERY + "&where=nonsense+%3D%3D%3D+1")
    page.locator(".state").wait_for()
    assert page.locator(".state p").first.inner_text().strip()
    page.get_by_role("button", name="Drop the where filter").click()
    page.locator(".hit").first.wait_for()
    page.get_by_label("Where", exact=True).fill("page = 2")
    page.get_by_label("Where", exact=True).press("Enter")
    page.wait_for_url("**where=page**")
    page.wait_for_function("() => document.querySelectorAll('.hit').length === 2")
    assert sorted(page.locator(".hit-name small").all_inner_texts()) == ["page 2 of 2", "page 2 of 4"]


def test_a_server_that_is_gone_is_said_and_comes_back(visit: Any, served: Any, watched: Any) -> None:
    watched.allowed = ["ERR_INTERNET_DISCONNECTED"]
    page = visit(served)
    page.locator(".cover").first.wait_for()
    page.context.set_offline(True)
    page.get_by_role("combobox", name="Ask your documents").fill("revenue")
    page.keyboard.press("Enter")
    page.locator('.state[data-state="gone"]').wait_for()
    page.context.set_offline(False)
    page.locator(".hit").first.wait_for()  # by itself


def test_a_model_that_is_still_loading_is_said_and_the_answer_comes_by_itself(visit: Any, served: Any) -> None:
    page = visit(served)
    page.locator(".cover").first.wait_for()
    held: list[Any] = []
    page.route("**/search", lambda route: held.append(route))  # the server keeps a question until its model is there
    page.route("**/health", lambda route: route.fulfill(json={"status": "loading", "model": "loading"}))
    page.get_by_role("combobox", name="Ask your documents").fill("revenue")
    page.keyboard.press("Enter")
    page.locator('.state[data-state="loading"]').wait_for()
    held[0].continue_()
    page.locator(".hit").first.wait_for()


def test_a_late_answer_to_an_older_question_is_dropped(visit: Any, served: Any) -> None:
    page = visit(served)
    page.locator(".cover").first.wait_for()
    held: list[Any] = []

    def hold_the_first(route: Any) -> None:
        if held:
            route.continue_()
        else:
            held.append(route)

    page.route("**/search", hold_the_first)
    box = page.get_by_role("combobox", name="Ask your documents")
    box.fill("an older question")
    box.press("Enter")
    page.wait_for_url("**/?q=an+older+question")
    ask(page, "revenue by region")
    held[0].abort()  # the page has called it off; whatever comes of it must not show
    page.wait_for_timeout(150)
    assert page.locator(".segment", has_text="region").count() == 1
    assert page.locator(".state").count() == 0


@pytest.mark.skipif(os.name != "posix", reason="this system does not allow such file names")
def test_html_in_names_and_metadata_is_shown_as_text(visit: Any, served: Any) -> None:
    page = visit(served, "/?q=" + HTML_NAME.replace(" ", "+"))
    card = page.locator(".hit", has_text=HTML_NAME).first
    card.wait_for()
    assert card.locator(".facts dd").inner_text() == HTML_NOTE
    assert page.locator(".document", has_text=HTML_NAME).count() == 1
    card.locator(".desk").click()
    page.locator(".viewer .sheet.loaded").wait_for()
    assert page.locator(".viewer-name").inner_text() == HTML_NAME
    assert page.locator(".viewer-side .facts dd").inner_text() == HTML_NOTE
    assert page.locator("img[src='x'], main script, main b, aside b").count() == 0
    assert page.title() != "run"
