"""The command line: JSON alone on stdout, the shapes of the contract, exit codes, and one sentence for every error."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from index.forked import SOURCE, Forked
from index.papers import pdf, picture, tiff

TEXTS = ["red valve pressure in the north hall", "revenue growth of all regions in 2023"]


def answer(forked: Forked, *arguments: object) -> dict[str, Any]:
    assert forked.run(*arguments, "--json") == 0, forked.said()
    assert "Traceback" not in forked.said()
    return forked.answer()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, checkpoint: Path, forked: Forked) -> Path:
    """A folder with papers and a collection of them, 50 damaged PDFs among them."""
    place = tmp_path_factory.mktemp("place")
    tiff(place / "papers" / "a.tiff", [1, 2])
    picture(place / "papers" / "b.png", 3)
    good = pdf(place / "papers" / "words.pdf", TEXTS).read_bytes()
    dice = random.Random(0)
    for i in range(50):
        torn = bytearray(good[: dice.randrange(20, 200)] if i % 2 else good)
        for _ in range(40):
            torn[dice.randrange(9, len(torn))] = dice.randrange(256)
        (place / "papers" / f"torn-{i:02d}.pdf").write_bytes(bytes(torn[: len(torn) // 2]))
    shape = answer(
        forked, "index", place / "papers", "--into", place / "index", "--model", checkpoint, "--meta", "year=2020",
        "--codec", "int4",
    )  # fmt: skip
    (place / "first.json").write_text(json.dumps(shape))
    return place


def test_index_counts_pages_and_names_every_damaged_file(place: Path, forked: Forked) -> None:
    shape = json.loads((place / "first.json").read_text())
    assert {"added", "unchanged", "replaced", "failed"} <= shape.keys()
    torn = {Path(failed["source"]).name for failed in shape["failed"]}
    listed = {d["document"] for d in answer(forked, "list", "--index", place / "index")["documents"]}
    assert len(torn | {name for name in listed if name.startswith("torn")}) == 50
    assert all(failed["reason"] for failed in shape["failed"])
    assert {"a.tiff", "b.png", "words.pdf"} <= listed
    assert shape["added"] == sum(d["pages"] for d in answer(forked, "list", "--index", place / "index")["documents"])


def test_list_is_sorted_and_free_of_paths_and_imports_no_torch(place: Path, forked: Forked) -> None:
    shape = answer(forked, "list", "--index", place / "index")
    names = [d["document"] for d in shape["documents"]]
    assert names == sorted(names)
    assert str(place) not in json.dumps(shape)
    program = (
        "import sys; sys.argv = ['varsdoc', 'list', '--index', sys.argv[1]]\n"
        "from varsdoc.cli import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "assert 'torch' not in sys.modules"
    )
    env = os.environ | {"PYTHONPATH": SOURCE}
    done = subprocess.run([sys.executable, "-c", program, place / "index"], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "words.pdf" in done.stdout


def test_search_has_the_shape_of_the_contract(place: Path, forked: Forked) -> None:
    where = "year = 2020 AND document NOT LIKE 'torn%'"
    found = answer(
        forked,
        "search",
        "red valve",
        "--index",
        place / "index",
        "-k",
        3,
        "--where",
        where,
        "--heatmaps",
        place / "maps",
    )
    assert found["query"] == "red valve"
    assert len(found["hits"]) == 3
    keys = {"id", "document", "page", "score", "score_normalised", "variant", "variant_scores", "region"}
    for hit in found["hits"]:
        assert keys <= hit.keys()
        assert hit["page"] >= 1
        assert hit["variant_scores"][hit["variant"]] == max(hit["variant_scores"])
        assert hit["region"] is None or len(hit["region"]) == 4
    assert len(list((place / "maps").glob("*.png"))) == 3


def test_a_picture_that_is_gone_costs_its_heatmap_and_not_the_answer(
    forked: Forked, checkpoint: Path, tmp_path: Path
) -> None:
    for name in ("kept.png", "gone.png"):
        picture(tmp_path / "p" / name, len(name))
    into = ["--into", tmp_path / "index", "--model", checkpoint, "--no-images"]
    answer(forked, "index", tmp_path / "p", *into)
    (tmp_path / "p" / "gone.png").unlink()
    found = answer(forked, "search", "valve", "--index", tmp_path / "index", "--heatmaps", tmp_path / "maps")
    assert {hit["document"]: hit["heatmap"] is None for hit in found["hits"]} == {"kept.png": False, "gone.png": True}
    assert "no heatmap of gone.png, page 1" in forked.said()
    assert len(list((tmp_path / "maps").iterdir())) == 1


def test_search_prints_a_table_with_a_score_column(place: Path, forked: Forked) -> None:
    code = forked.run("search", "--like", place / "papers" / "b.png", "--index", place / "index", "-k", 2)
    assert code == 0, forked.said()
    assert "score" in forked.printed()
    assert "b.png" in forked.printed()


def test_audit_measures_first_stage_codec_bytes_latency_and_usage(place: Path, forked: Forked) -> None:
    facts = answer(forked, "audit", "--index", place / "index", "--sample", 6)
    assert facts["first_stage"]["recall@10"] == 1.0  # fewer pages than candidates
    assert facts["codec"]["same_first"] >= 0.8
    assert facts["codec"]["score_error_per_token"] < 0.02
    assert facts["bytes_per_page"]["codes"] > 0
    assert facts["latency_ms"]["search_p50"] > 0
    assert sum(facts["usage"]) == pytest.approx(1, abs=1e-3)
    assert facts["queries_from"] == "words of text layers"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["search", "x", "--index", "nowhere"], 1, "There is no collection at nowhere"),
        (["list", "--index", "nowhere"], 1, "There is no collection at nowhere"),
        (["search", "x", "--index", "{index}", "--where", "nope = 1"], 1, "no such column"),
        (["search", "--index", "{index}"], 2, "question"),
        (["search", "x"], 2, "--index"),
        (["index", "{index}/nothing.pdf", "--into", "{index}"], 1, "does not exist"),
        (["index", "x", "--into", "{index}", "--meta", "year"], 2, "key=value"),
        (["index", "x", "--into", "{index}", "--codec", "int2"], 2, "int2"),
        (["index", "x", "--into", "{index}", "--pool", "0"], 2, "--pool"),
        (["remove", "nope.pdf", "--index", "{index}"], 1, "There is no document 'nope.pdf'"),
    ],
)
def test_errors_are_a_sentence_with_the_right_code(
    place: Path, forked: Forked, arguments: list[str], code: int, said: str
) -> None:
    got = forked.run(*[argument.replace("{index}", str(place / "index")) for argument in arguments])
    assert got == code, forked.said()
    assert said in forked.said()
    assert "Traceback" not in forked.said()
    assert forked.printed() == ""


def test_remove_takes_out_one_document(place: Path, forked: Forked) -> None:
    assert answer(forked, "remove", "a.tiff", "--index", place / "index")["removed"] == [
        {"document": "a.tiff", "pages": 2}
    ]
    assert "a.tiff" not in {d["document"] for d in answer(forked, "list", "--index", place / "index")["documents"]}


def test_ctrl_c_leaves_one_sentence(forked: Forked, checkpoint: Path, tmp_path: Path) -> None:
    tiff(tmp_path / "p" / "long.tiff", list(range(300)))
    process = forked.start("index", tmp_path / "p", "--into", tmp_path / "index", "--model", checkpoint)
    deadline = time.monotonic() + 60
    while not any((tmp_path / "index").glob("pages_1.lance/data/*")) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(process, signal.SIGINT)
    assert forked.wait() == 130, forked.said()
    assert forked.said().strip().splitlines()[-1].startswith("stopped. Run the same command again")
    assert "Traceback" not in forked.said()
