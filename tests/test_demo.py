"""`varsdoc demo` from outside: the sample documents are found by the questions that it asks about them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from varsdoc.demo import SAMPLES, sample_questions
from varsdoc.pages import Page, find, read

ROOT = Path(__file__).parent.parent
MAKER = ROOT / "scripts" / "make_samples.py"


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PYTHONPATH": str(ROOT / "src"), "COLUMNS": "140"} | environment
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


def demo(*arguments: str, **environment: str) -> str:
    done = run("-m", "varsdoc", "demo", "--no-serve", *arguments, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def into(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "index"


@pytest.fixture(scope="module")
def first(into: Path) -> dict[str, Any]:
    """The one run that encodes the samples."""
    facts: dict[str, Any] = json.loads(demo("--json", "--into", str(into)))
    return facts


def test_the_expected_page_comes_first(first: dict[str, Any]) -> None:
    assert first["added"] == first["pages"] == 23
    assert not first["failed"]
    found = {answer["question"]: answer for answer in first["answers"]}
    asserted = [one for one in sample_questions() if not one.known_miss]
    assert len(asserted) >= 15
    wrong = [found[one.question] for one in asserted if found[one.question]["rank"] != 1]
    assert not wrong
    for one in asserted:
        best = found[one.question]["hits"][0]
        assert (best["document"], best["page"]) == (one.document, one.page)


def test_every_page_of_the_samples_is_asked_for_but_a_title_slide() -> None:
    asked = {(one.document, one.page) for one in sample_questions()}
    pages = {(item.document.name, item.number + 1) for item in _pages(SAMPLES)}
    assert pages - asked == {("ferry-app-slides.pdf", 1)}
    assert asked <= pages


def test_a_second_run_encodes_nothing_and_prints_a_table_per_question(first: dict[str, Any], into: Path) -> None:
    shown = demo("--into", str(into))
    assert "23 pages: already encoded by an earlier run" in shown
    for one in sample_questions():
        assert one.question in shown
    tables = shown.count("scores of all variants")
    answered = {answer["question"] for answer in first["answers"] if answer["rank"] == 1}
    assert tables == sum(not one.known_miss or one.question in answered for one in sample_questions())
    right = sum(answer["rank"] == 1 for answer in first["answers"])
    assert f"{right} of {len(first['answers'])} questions: the expected page came first." in shown
    assert "untrained" not in shown
    assert shown.splitlines()[-1] == f"Go on:  varsdoc search --index {into} 'your question'"


def test_the_command_that_it_ends_with_works(first: dict[str, Any], into: Path) -> None:
    done = run("-m", "varsdoc", "search", "--index", str(into), "pumpkin soup recipe", "--hybrid", "--json")
    assert done.returncode == 0, done.stderr
    best = json.loads(done.stdout)["hits"][0]
    assert (best["document"], best["page"]) == ("newsletter.pdf", 2)


def test_it_ends_with_the_web_page_and_by_itself_when_nobody_asks(first: dict[str, Any], into: Path) -> None:
    code = f"import varsdoc.demo as demo; demo.IDLE = 6; demo.run(into={str(into)!r}, ask=['pumpkin soup recipe'])"
    env = os.environ | {"PYTHONPATH": str(ROOT / "src"), "COLUMNS": "140"}
    pipe, none = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(
        [sys.executable, "-c", code], env=env, stdin=none, stdout=pipe, stderr=pipe, text=True
    ) as ran:
        assert ran.stdout is not None
        shown = []
        for line in ran.stdout:
            shown.append(line)
            if "http://127.0.0.1:" in line:
                break
        assert shown[-1].startswith("The web page:  http://127.0.0.1:"), "".join(shown)
        address = shown[-1].split()[3]
        for path, expected in (("/", b"<title>varsdoc"), ("/collections", b'"pages":23')):
            with urllib.request.urlopen(address + path, timeout=30) as answer:
                assert expected in answer.read().replace(b": ", b":")
        assert ran.wait(timeout=60) == 0, ran.stderr


def test_a_folder_of_ones_own_is_kept_in_the_cache(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    shutil.copy(SAMPLES / "receipt.jpg", docs / "lunch.jpg")
    questions = ("--ask", "espresso", "--ask", "hot chocolate")
    shown = demo("--docs", str(docs), *questions, XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert "1 documents, 1 pages: 1 pages encoded" in shown
    assert shown.count("lunch.jpg") == 2
    assert "hot chocolate" in shown
    without_a_question = demo("--docs", str(docs), XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert "already encoded" in without_a_question
    assert "varsdoc search --index" in without_a_question.splitlines()[-1]


@pytest.mark.parametrize("kind", ["missing", "empty"])
def test_a_folder_without_documents_is_one_sentence(tmp_path: Path, kind: str) -> None:
    if kind == "empty":
        (tmp_path / "empty").mkdir()
    done = run("-m", "varsdoc", "demo", "--docs", str(tmp_path / kind), XDG_CACHE_HOME=str(tmp_path))
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("error: There is no ")
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not MAKER.exists(), reason="the script is in the repository, not in the source distribution")
def test_the_script_makes_the_samples_that_are_packaged(tmp_path: Path) -> None:
    done = run(str(MAKER), "--into", str(tmp_path))
    assert done.returncode == 0, done.stderr
    made, packaged = list(_pages(tmp_path)), list(_pages(SAMPLES))
    assert [(p.document.name, p.number) for p in made] == [(p.document.name, p.number) for p in packaged]
    for new, old in zip(made, packaged, strict=True):
        assert new.image().size == old.image().size
        difference = np.abs(_small(new).astype(int) - _small(old)).mean()
        assert difference < 2, (old.document.name, old.number)  # grey levels: encoders and font engines differ a little
    assert sum(path.stat().st_size for path in SAMPLES.iterdir()) < 1_500_000


def _small(page: Page) -> np.ndarray:
    return np.asarray(page.image().convert("L").resize((200, 280), Image.Resampling.BOX))


def _pages(folder: Path) -> list[Page]:
    return [item for item in read(find([folder]), workers=1) if isinstance(item, Page)]
