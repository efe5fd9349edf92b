"""`varsdoc eval` and `varsdoc bench` from outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import tiny
from evaluation_tools import write_folder, write_lines, write_pdf
from varsdoc.cli import main

SOURCE = str(Path(__file__).parent.parent.parent / "src")


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """The command line's own main(), in this process: loading torch anew for each call would take most of the time."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)

    def call(*arguments: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["varsdoc", *map(str, arguments)])
        capfd.readouterr()
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = int(ended.code or 0)
        return Done(code, *capfd.readouterr())

    return call


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tiny.model(variants=3)
    made.reconfigure(made.config.with_(trained=True))
    folder = tmp_path_factory.mktemp("models") / "tiny-model"
    made.save_pretrained(folder)
    return folder


def test_eval_prints_the_contract_as_json_and_writes_the_report(
    model: Path, folder: Path, tmp_path: Path, run: Callable[..., Done]
) -> None:
    write_lines(folder / "some.jsonl", [{"_id": "q1", "text": "beta valve"}, {"_id": "q3", "text": "delta motor"}])
    other = write_folder(tmp_path / "second-dev")
    write_lines(other / "some.jsonl", [{"_id": "q0", "text": "alpha pump"}])
    done = run(
        *("eval", folder, other, "--queries", "some.jsonl", "--model", model, "--device", "cpu", "--json"),
        *("--cache", tmp_path / "c", "--report", tmp_path / "report", "--sweep", "--codec", "int8"),
    )
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    assert set(content["datasets"]) == {"tiny-dev", "second-dev"}
    found = content["datasets"]["tiny-dev"]
    assert {
        "ndcg@5",
        "ndcg@10",
        "recall@10",
        "queries",
        "pages",
        "usage",
        "max_usage",
        "tie_rate",
        "tie_rate_mean",
    } <= found.keys()
    assert (found["queries"], found["pages"], len(found["usage"])) == (2, 6, 3)
    assert found["codec"] == "int8"
    assert content["model"]["name"] == "tiny-model"
    assert "varsdoc eval tiny-dev second-dev" in content["command"]
    assert str(tmp_path) not in done.stdout
    page = (tmp_path / "report" / "report.html").read_text()
    assert "second-dev" in page
    assert str(tmp_path) not in page

    again = run(
        *("eval", folder, "--queries", "some.jsonl", "--model", model, "--device", "cpu", "--codec", "int8"),
        *("--cache", tmp_path / "c", "--compare", tmp_path / "report"),
    )
    assert again.returncode == 0, again.stderr
    assert "+0.0000 NDCG@10 against tiny-model" in again.stdout
    assert "token cap 768, float32, codec int8, aggregation max; varsdoc eval tiny-dev" in again.stdout


def test_eval_stopped_in_the_middle_goes_on(model: Path, tmp_path: Path, run: Callable[..., Done]) -> None:
    folder = write_folder(tmp_path / "tiny-dev")
    arguments = ["eval", folder, "--model", model, "--device", "cpu", "--cache", tmp_path / "c", "--json"]
    env = os.environ | {"PYTHONPATH": SOURCE}
    first = subprocess.Popen([sys.executable, "-m", "varsdoc", *map(str, arguments)], env=env, stdout=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not list((tmp_path / "c").rglob("*.npy")) and first.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    first.send_signal(signal.SIGKILL)
    first.wait()
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "c").rglob("*.npy")}
    assert kept
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    assert all(path.stat().st_mtime_ns == when for path, when in kept.items())
    fresh = run(*arguments[:-3], "--cache", tmp_path / "other", "--json")
    one, two = (json.loads(each.stdout)["datasets"]["tiny-dev"] for each in (done, fresh))
    assert one["ndcg@10"] == pytest.approx(two["ndcg@10"], abs=1e-9)


def test_problems_of_judgements_are_said_on_stderr(model: Path, tmp_path: Path, run: Callable[..., Done]) -> None:
    folder = write_folder(tmp_path / "tiny-dev", extra_rows=["q0\tnowhere\t1"])
    done = run("eval", folder, "--model", model, "--device", "cpu", "--cache", tmp_path / "c", "--json")
    assert done.returncode == 0, done.stderr
    assert "1 judgement(s) name a page that the corpus lacks" in done.stderr
    assert json.loads(done.stdout)["datasets"]["tiny-dev"]["problems"]["judgements_of_unknown_pages"] == 1


def test_baselines_alone_need_no_model(tmp_path: Path, run: Callable[..., Done]) -> None:
    folder = write_folder(tmp_path / "tiny-dev")
    write_pdf(folder / "all.pdf", ["alpha pump", "beta valve", "gamma tank", "delta motor"])
    write_lines(folder / "corpus.jsonl", [{"_id": f"p{i}", "pdf": "all.pdf", "page": i} for i in range(4)])
    done = run(
        *("eval", folder, "--only-baselines", "--baseline", "bm25", "--baseline", "bm25-plain", "--json"),
        *("--ocr", "text-layer", "--cache", tmp_path / "c", "--report", tmp_path / "r"),
    )
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    assert content["model"] is None
    assert "text layer + BM25, plain" in content["datasets"]["tiny-dev"]["baselines"]
    assert "Text baselines, no model" in (tmp_path / "r" / "report.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["eval", "nowhere"], 1, "error: There is no folder nowhere"),
        (["eval", "FOLDER", "--codec", "zip"], 1, "error: There is no codec 'zip'"),
        (["eval", "FOLDER", "--aggregation", "median"], 1, "error: There is no aggregation 'median'"),
        (["eval", "FOLDER", "FOLDER"], 1, "error: Two data sets are called tiny-dev"),
        (["eval", "FOLDER", "--queries", "none.jsonl"], 1, "none.jsonl cannot be read"),
        (["eval", "FOLDER", "--ocr", "magic"], 1, "error: There is no OCR engine 'magic'"),
        (["eval", "FOLDER", "--only-baselines"], 1, "error: --only-baselines needs --baseline"),
        (["eval", "vidore-v2", "--limit", "3"], 1, "write vidore-v2 out as folders first"),
        (["eval"], 2, "Missing argument"),
        (["bench", "--variants", "few"], 1, "error: --variants takes numbers"),
        (["bench", "--nonsense"], 2, "No such option"),
    ],
)
def test_errors_are_one_line_with_the_right_code(
    folder: Path, arguments: list[str], code: int, message: str, run: Callable[..., Done]
) -> None:
    done = run(*(str(folder) if word == "FOLDER" else word for word in arguments))
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_bench_prints_a_table_with_cap_dtype_and_machine(
    model: Path, folder: Path, tmp_path: Path, run: Callable[..., Done]
) -> None:
    done = run(
        *("bench", "--model", model, "--pages", folder, "--count", 2, "--repeats", 1, "--variants", "1,3"),
        *("--device", "cpu", "--out", tmp_path / "bench.json"),
    )
    assert done.returncode == 0, done.stderr
    for word in ("K=1 (plain, no probe)", "K=3", "published", "token cap 768", "float32", "mean of 1"):
        assert word in done.stdout
    assert len(json.loads((tmp_path / "bench.json").read_text())["rows"]) == 2
