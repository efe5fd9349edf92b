"""P_same and P_cross as the paper defines them, on an example worked by hand, and from a file."""

from __future__ import annotations

import base64
import io
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from varsdoc.evaluation.cache import Cache
from varsdoc.evaluation.errors import JudgementError
from varsdoc.evaluation.evaluate import How, evaluate
from varsdoc.evaluation.intents import SLOTS, agreement, measure_agreement, read_intents
from varsdoc.evaluation.judged import read_folder


def test_the_papers_formulas_on_a_hand_made_example() -> None:
    """Three pages (N=3). v[i, intent, formulation]:

    page 1: intent 1 -> 2, 2   intent 2 -> 4, 4   same 2 of 2, cross 0 of 4
    page 2: intent 1 -> 0, 1   intent 2 -> 0, 0   same 1 of 2, cross (0=0) twice, (1=0) never: 2 of 4
    page 3: intent 1 -> 3, 3   intent 2 -> 3, 2   same 1 of 2, cross (3=3) twice: 2 of 4
    P_same = (2+1+1)/(2*3) = 4/6; P_cross = (0+2+2)/(4*3) = 4/12
    """
    winners = {(1, 1): [2, 0, 3], (1, 2): [2, 1, 3], (2, 1): [4, 0, 3], (2, 2): [4, 0, 2]}
    same, cross = agreement(winners)
    assert np.mean(same) == pytest.approx(4 / 6)
    assert np.mean(cross) == pytest.approx(4 / 12)


def test_agreement_equals_the_literal_double_sum(random: np.random.Generator) -> None:
    v = {slot: random.integers(0, 5, 100).tolist() for slot in SLOTS}
    n = 100
    p_same = sum(v[a, 1][i] == v[a, 2][i] for i in range(n) for a in (1, 2)) / (2 * n)
    p_cross = sum(v[1, m][i] == v[2, k][i] for i in range(n) for m in (1, 2) for k in (1, 2)) / (4 * n)
    same, cross = agreement(v)
    assert np.mean(same) == pytest.approx(p_same)
    assert np.mean(cross) == pytest.approx(p_cross)


def test_a_models_agreement_comes_from_its_winners_on_the_own_page(
    folder: Path, tmp_path: Path, retriever, intents_file: Path
) -> None:
    judged, cache = read_folder(folder), Cache(tmp_path / "c")
    result = evaluate(retriever, judged, cache, How(shown=False))
    questions = read_intents(intents_file)
    found = measure_agreement(retriever, questions, judged, result.page_keys, cache)
    winners: dict[tuple[int, int], list[int]] = {slot: [] for slot in SLOTS}
    for i, page in enumerate(("p0", "p1", "p2")):
        vectors = retriever.encode_pages([judged.pages[i].image()])[0]
        for slot in SLOTS:
            query = retriever.encode_queries([f"{page} {slot[0]} {slot[1]}"])[0]
            winners[slot].append(int(np.einsum("td,kmd->ktm", query, vectors).max(2).sum(1).argmax()))
    same, cross = agreement(winners)
    assert found.p_same == pytest.approx(np.mean(same))
    assert found.p_cross == pytest.approx(np.mean(cross))
    assert found.pages == 3
    assert 1 / 3 - 1e-9 <= found.chance <= 1


def test_unverified_and_incomplete_pages_are_counted_and_left_out(intents_file: Path) -> None:
    rows = [json.loads(row) for row in intents_file.read_text().splitlines()]
    rows[0]["verified"] = False
    del rows[5]
    intents_file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = read_intents(intents_file)
    assert (list(found.pages), found.unverified, found.incomplete) == (["p2"], 1, ["p0", "p1"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"intent": 3}, "intent and formulation 1 or 2"),
        ({"text": " "}, "a text"),
        ({"formulation": 2}, "twice"),
        (None, "lacks page, region"),
    ],
)
def test_bad_lines_are_refused(intents_file: Path, change: dict | None, message: str) -> None:
    rows = intents_file.read_text().splitlines()
    rows[0] = "[]" if change is None else json.dumps(json.loads(rows[0]) | change)
    intents_file.write_text("\n".join(rows))
    with pytest.raises(JudgementError, match=message):
        read_intents(intents_file)


def test_nothing_verified_is_refused(intents_file: Path) -> None:
    intents_file.write_text(intents_file.read_text().replace("true", "false"))
    with pytest.raises(JudgementError, match='set "verified": true'):
        read_intents(intents_file)


class _Endpoint(BaseHTTPRequestHandler):
    """Stands for a served MLLM: remembers what it was shown and answers with questions."""

    seen: list[dict] = []  # noqa: RUF012

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.seen.append(body)
        said = json.dumps({"intent_1": ["who?", "which person?"], "intent_2": ["when?", "at what time?"]})
        answer = json.dumps({"choices": [{"message": {"content": f"```json\n{said}\n```"}}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        pass


def test_questions_are_drafted_from_the_crop_alone_and_must_be_verified(folder: Path, tmp_path: Path) -> None:
    from typer import Typer

    from varsdoc.evaluation.make_intents import main

    server = HTTPServer(("127.0.0.1", 0), _Endpoint)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    app = Typer()
    app.command()(main)
    out = tmp_path / "intents.jsonl"
    url = f"http://127.0.0.1:{server.server_port}/v1"
    arguments = [str(folder), "--out", str(out), "--url", url, "--pages", "4", "--crops", str(tmp_path / "crops")]
    try:
        assert CliRunner().invoke(app, arguments).exit_code == 0
        lines = [json.loads(row) for row in out.read_text().splitlines()]
        assert len(lines) == 16
        assert not any(line["verified"] for line in lines)
        asked = len(_Endpoint.seen)
        assert asked == 4
        shown = _Endpoint.seen[0]["messages"][0]["content"][0]["image_url"]["url"]
        crop = Image.open(io.BytesIO(base64.b64decode(shown.split(",")[1])))
        assert crop.width < 140
        assert crop.height < 112
        assert len(list((tmp_path / "crops").glob("*.png"))) == 4
        assert CliRunner().invoke(app, arguments).exit_code == 0  # goes on: nothing is missing
        assert len(_Endpoint.seen) == asked
    finally:
        server.shutdown()
    out.write_text(out.read_text().replace("false", "true"))
    assert len(read_intents(out).pages) == 4
    assert CliRunner().invoke(app, [str(folder), "--out", str(out)]).exit_code == 1
    by_hand = [str(folder), "--out", str(tmp_path / "hand.jsonl"), "--by-hand", "--pages", "1"]
    assert CliRunner().invoke(app, by_hand).exit_code == 0
    assert json.loads((tmp_path / "hand.jsonl").read_text().splitlines()[0])["text"] == ""
