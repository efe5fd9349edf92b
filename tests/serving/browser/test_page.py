"""The page itself: nothing is inline or built from strings, and it is there at once."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

STATIC = Path(str(files("varsdoc.serving") / "static"))


def test_no_script_or_style_is_inline_and_no_html_is_built_from_strings() -> None:
    page = (STATIC / "index.html").read_text("utf-8")
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", page)
    assert not re.search(r"https?://", page)
    for script in (STATIC / "js").glob("*.js"):
        text = script.read_text("utf-8")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", text), (
            script.name
        )
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text), script.name


def test_every_module_is_asked_for_at_once() -> None:
    page = (STATIC / "index.html").read_text("utf-8")
    named = set(re.findall(r'href="/static/js/([\w-]+\.js)"', page)) | set(
        re.findall(r'src="/static/js/([\w-]+\.js)"', page)
    )
    assert named == {script.name for script in (STATIC / "js").glob("*.js")}


@pytest.mark.alone
def test_the_first_paint_is_there_at_once(visit: Any, watched: Any, served: Any) -> None:
    """Within 200 ms; where the machine is slow at any page, that much after three times a line of JSON's."""
    watched.allowed.append("404")  # a browser asks for an icon of that line

    def first_paint(path: str) -> float:
        page = visit(served, path)
        page.wait_for_function("() => performance.getEntriesByType('paint').length > 0")
        time: float = page.evaluate("performance.getEntriesByType('paint')[0].startTime")
        page.close()
        return time

    ours, plain = [], []
    for _ in range(8):
        ours.append(first_paint("/"))
        if ours[-1] < 200:
            return
        plain.append(first_paint("/health"))
    assert min(ours) < 200 + 3 * min(plain), (ours, plain)
