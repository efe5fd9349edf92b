"""`varsdoc serve` as a process: how it starts, refuses to start, ends, and what a kill leaves behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from index.kills import started_by
from index.papers import picture, tiff
from index.test_kill import contents
from serving.conftest import finished, wait_for
from serving.launching import Launcher
from varsdoc import Index, VarsDoc

PAGES = 24


@pytest.fixture
def collection(tmp_path: Path, model: VarsDoc) -> Path:
    Index.open(tmp_path / "index", model).add(picture(tmp_path / "a.png", 3))
    return tmp_path / "index"


def job_processes(parent: int) -> list[int]:
    return started_by(parent, "varsdoc.serving.job_process")


def start_job(client: httpx.Client, tmp_path: Path) -> dict:
    """An upload of which some pages are done, and not all."""
    data = tiff(tmp_path / "long.tiff", list(range(PAGES))).read_bytes()
    job = client.post("/documents", files=[("files", ("long.tiff", data))]).json()["job"]
    wait_for(lambda: client.get(f"/jobs/{job['id']}").json()["pages_done"] > 0, 300)
    return job


def test_another_address_needs_a_token() -> None:
    line = [sys.executable, "-m", "varsdoc", "serve", "--index", "x", "--host", "0.0.0.0"]
    environment = {key: value for key, value in os.environ.items() if key != "VARSDOC_TOKEN"}
    done = subprocess.run(line, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 2
    (line_said,) = done.stderr.strip().splitlines()
    assert line_said.startswith("error: 0.0.0.0 can be reached from other machines, so give a token: --token, or")


def test_a_folder_of_other_things_is_refused(launcher: Launcher, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "x.txt").write_text("x")
    refused = launcher.serve("--index", tmp_path / "photos", "--port", 0)
    assert refused.wait() == 1
    assert "has other things in it" in refused.said()


@pytest.mark.parametrize(("by", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_ends_it_in_a_moment(launcher: Launcher, collection: Path, by: int, code: int) -> None:
    server = launcher.serve("--index", collection, "--port", 0)
    with server.client() as client:
        assert client.get("/health").status_code == 200
        started = time.monotonic()
        assert server.end(by) == code
        assert time.monotonic() - started < 10
    assert len(server.said().strip().splitlines()) <= 2


def test_a_new_folder_is_served_empty_and_filled_by_an_upload(
    launcher: Launcher, tmp_path: Path, checkpoint: Path
) -> None:
    server = launcher.serve("--index", tmp_path / "new", "--port", 0, "--model", checkpoint, "--device", "cpu")
    with server.client() as client:
        assert not (tmp_path / "new").exists()
        assert client.post("/search", json={"query": "valve"}).json()["hits"] == []
        assert client.get("/documents").json() == {"total": 0, "documents": []}
        assert client.get("/collections").json()["collections"][0]["hash"] is None
        data = picture(tmp_path / "a.png", 1).read_bytes()
        job = client.post("/documents", files=[("files", ("a.png", data))]).json()["job"]
        assert finished(client, job)["state"] == "done"
        assert client.post("/search", json={"query": "valve"}).json()["hits"][0]["document"] == "a.png"
        assert server.end() == 0


def test_sigterm_leaves_a_job_that_the_next_server_finishes(
    launcher: Launcher, collection: Path, tmp_path: Path
) -> None:
    server = launcher.serve("--index", collection, "--port", 0)
    with server.client() as client:
        assert client.post("/search", json={"query": "valve"}).json()["pages"] == 1  # the model is loaded
        job = start_job(client, tmp_path)
        assert client.post("/search", json={"query": "valve"}).json()["pages"] == 1, "in the middle of the job"
        assert server.end() == 0
    wait_for(lambda: not job_processes(server.pid), 60)
    again = launcher.serve("--index", collection, "--port", 0)
    with again.client() as client:
        done = finished(client, job)
        assert (done["state"], done["added"]) == ("done", PAGES)
        assert client.post("/search", json={"query": "valve"}).json()["pages"] == 1 + PAGES
        assert again.end() == 0


def test_kill_9_in_the_middle_of_a_job_loses_nothing(
    launcher: Launcher, collection: Path, tmp_path: Path, model: VarsDoc
) -> None:
    server = launcher.serve("--index", collection, "--port", 0)
    with server.client() as client:
        job = start_job(client, tmp_path)
        assert server.end(signal.SIGKILL) == -signal.SIGKILL
    wait_for(lambda: not job_processes(server.pid), 60)  # nothing is left behind
    assert Index.open(collection, model).search("valve", k=50)
    again = launcher.serve("--index", collection, "--port", 0)
    with again.client() as client:
        done = finished(client, job)
        assert (done["state"], done["added"], done["failed"]) == ("done", PAGES, [])
        assert again.end() == 0
    whole = Index.open(tmp_path / "whole", model)
    whole.add(tmp_path / "long.tiff")
    pages = [(name, page) for name, _, page, _ in contents(collection)]
    assert pages == sorted([("a.png", 0), *[("long.tiff", page) for page in range(PAGES)]])
    (kept,) = (collection / "uploads" / "files").rglob("*.tiff")
    assert kept.read_bytes() == (tmp_path / "long.tiff").read_bytes()
    assert not any((collection / "uploads" / "incoming").iterdir())


def test_a_model_that_cannot_be_loaded_is_told_and_tried_again(
    launcher: Launcher, collection: Path, checkpoint: Path, tmp_path: Path, model: VarsDoc
) -> None:
    away = tmp_path / "models" / "tiny"
    shutil.copytree(checkpoint, away)
    Index.open(tmp_path / "own", away, device="cpu").add(picture(tmp_path / "b.png", 4))
    away.rename(tmp_path / "models" / "gone")
    server = launcher.serve("--index", tmp_path / "own", "--port", 0)
    with server.client() as client:
        wait_for(lambda: client.get("/health").json()["model"] == "failed", 120)
        health = client.get("/health").json()
        assert health["status"] == "failed"
        assert str(tmp_path) not in health["detail"]
        answered = client.post("/search", json={"query": "valve"})
        assert answered.status_code == 503
        assert "cannot be loaded" in answered.json()["detail"]
        assert str(tmp_path) not in answered.text
        assert client.get("/documents").json()["total"] == 1
        (tmp_path / "models" / "gone").rename(away)
        assert client.post("/search", json={"query": "valve"}).status_code == 200
        assert client.get("/health").json()["status"] == "ok"
        assert server.end() == 0
