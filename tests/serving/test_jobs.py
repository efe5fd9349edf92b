"""Uploads and jobs: what comes in, what is refused, what replaces what, and that a search never waits for it."""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from index.papers import pdf, picture, squares, tiff
from serving.conftest import finished, running, wait_for
from varsdoc import Index, VarsDoc
from varsdoc.index.store import Store
from varsdoc.serving import Limits, Settings
from varsdoc.serving.jobs import Job, JobFolder
from varsdoc.serving.schemas import Accepted, JobShape


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, model: VarsDoc) -> Path:
    """A collection with one document from elsewhere."""
    base = tmp_path_factory.mktemp("uploads")
    Index.open(base / "index", model).add(picture(base / "elsewhere" / "kept.png", 3))
    return base / "index"


@pytest.fixture(scope="module")
def client(place: Path) -> Iterator[httpx.Client]:
    limits = Limits(upload=2 << 20, files=4, pages=30)
    with running(place, settings=Settings(device="cpu", limits=limits)) as client:
        yield client


def upload(client: httpx.Client, *files: tuple[str, bytes], **fields: str) -> httpx.Response:
    return client.post("/documents", files=[("files", one) for one in files], data=fields)


def png(seed: int) -> bytes:
    out = io.BytesIO()
    squares(seed).save(out, "PNG")
    return out.getvalue()


def listed(client: httpx.Client) -> dict[str, dict]:
    return {one["document"]: one for one in client.get("/documents").json()["documents"]}


def stored_files(place: Path) -> list[Path]:
    return sorted(path for path in (place / "uploads").rglob("*") if path.is_file())


def png_bomb(width: int = 60_000) -> bytes:
    """A picture of 3.6 thousand million pixels in a few hundred kilobytes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, width, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(b"\0" * 50_000_000))
        + chunk(b"IEND", b"")
    )


def test_an_upload_becomes_documents_while_searches_go_on(client: httpx.Client, place: Path, tmp_path: Path) -> None:
    words = pdf(tmp_path / "a.pdf", ["valve pressure", "travel claim"]).read_bytes()
    evil = "../../<script>alert(1)</script>\n.png"
    answered = upload(client, ("reports/Q1 é.pdf", words), (evil, png(1)), metadata='{"year": 2024, "by": "<i>me</i>"}')
    assert answered.status_code == 202, answered.text
    Accepted.model_validate(answered.json(), strict=True)
    job = answered.json()["job"]
    assert answered.headers["location"] == f"/jobs/{job['id']}"
    assert job["files"] == ["Q1 é.pdf", "script>.png"]
    searches = 0
    while client.get(f"/jobs/{job['id']}").json()["state"] in ("waiting", "running"):
        assert client.post("/search", json={"query": f"valve {searches}"}).status_code == 200
        searches += 1
    done = finished(client, job)
    JobShape.model_validate(done, strict=True)
    assert searches > 3
    assert (done["state"], done["added"], done["failed"], done["pages_done"], done["pages_total"]) == (
        "done",
        3,
        [],
        3,
        3,
    )
    shown = listed(client)
    assert set(shown) == {"kept.png", "Q1 é.pdf", "script>.png"}
    assert shown["Q1 é.pdf"]["metadata"] == {"by": "<i>me</i>", "year": 2024}
    files = stored_files(place)
    assert [path.name for path in files] == ["Q1_e.pdf", "script_.png"] or len(files) == 2
    assert all(place / "uploads" / "files" in path.parents for path in files)
    assert client.get("/jobs").json()["jobs"][0]["id"] == job["id"]
    assert client.delete(f"/jobs/{job['id']}").status_code == 409


def test_the_same_name_replaces_and_a_failed_replacement_keeps_the_old(
    client: httpx.Client, place: Path, tmp_path: Path
) -> None:
    first = finished(client, upload(client, ("same.png", png(10))).json()["job"])
    assert first["added"] == 1
    before = listed(client)["same.png"]
    cover = client.get(f"/pages/{before['cover']}").json()
    damaged = png(11)[:-40]  # right by its first bytes, damaged behind them
    long = tiff(tmp_path / "long.tiff", list(range(31))).read_bytes()
    bad = (("same.png", damaged), ("bomb.png", png_bomb()), ("long.tiff", long))
    failed = finished(client, upload(client, *bad).json()["job"])
    assert failed["state"] == "failed"
    reasons = {one["source"]: one["reason"] for one in failed["failed"]}
    assert set(reasons) == {"same.png", "bomb.png", "long.tiff"}
    assert "more than the limit of 30" in reasons["long.tiff"]
    assert all(one["reason"] and str(place) not in one["reason"] for one in failed["failed"])
    assert client.get(f"/pages/{before['cover']}").json() == cover
    (kept,) = [path for path in stored_files(place) if path.name == "same.png"]
    assert kept.read_bytes() == png(10)
    assert client.get("/health").status_code == 200

    second = finished(client, upload(client, ("same.png", png(12))).json()["job"])
    assert (second["state"], second["replaced"], second["added"]) == ("done", 1, 0)
    assert listed(client)["same.png"]["id"] == before["id"]
    assert client.get(f"/pages/{before['cover']}").json()["version"] != cover["version"]
    assert kept.read_bytes() == png(12)

    # Removing it takes its file along; a document from elsewhere keeps its own.
    assert client.delete(f"/documents/{before['id']}").json() == {"document": "same.png", "pages": 1}
    assert "same.png" not in listed(client)
    assert not kept.exists()
    elsewhere = listed(client)["kept.png"]
    assert client.delete(f"/documents/{elsewhere['id']}").status_code == 200
    assert (place.parent / "elsewhere" / "kept.png").exists()
    assert client.delete(f"/documents/{elsewhere['id']}").status_code == 404


@pytest.mark.parametrize(
    ("files", "fields", "status"),
    [
        ([("a.pdf", b"<html><script>alert(1)</script>")], {}, 415),
        ([("a.exe", b"MZ\x90\0")], {}, 415),
        ([("a.pdf", b"")], {}, 415),
        ([("a.png", png(1)), ("a.png", png(2))], {}, 422),
        ([(f"{i}.png", png(1)) for i in range(5)], {}, 413),
        ([("a.png", png(1))], {"metadata": "[1]"}, 422),
        ([("a.png", png(1))], {"metadata": '{"source": "x"}'}, 422),
        ([("a.png", png(1))], {"metadata": '{"a": {"b": 1}}'}, 422),
        ([("a.png", png(1))], {"metadata": "[" * 10_000}, 422),
        ([("a.png", png(1))], {"metadata": '{"a": "' + "x" * 20_000 + '"}'}, 413),
        ([("a.png", png(1))], {"other": "x"}, 422),
        ([("a.png", png(1) + b"\0" * (3 << 20))], {}, 413),
    ],
)
def test_what_is_refused_leaves_nothing(
    client: httpx.Client, place: Path, files: list, fields: dict[str, str], status: int
) -> None:
    jobs = client.get("/jobs").json()
    before = stored_files(place)
    answered = upload(client, *files, **fields)
    assert answered.status_code == status, answered.text
    assert answered.headers["content-type"] == "application/problem+json"
    assert client.get("/jobs").json() == jobs
    assert stored_files(place) == before
    assert not any((place / "uploads" / "incoming").iterdir())


@pytest.mark.parametrize(
    "body",
    [b"", b"--b\r\n", b"--b--\r\n", b'--b\r\nContent-Disposition: form-data; name="files"; filename="a"\r\n\r\n\x89PNG',
     b"--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n--b--\r\n", b"--b\r\nX: " + b"y" * 20_000, b"nonsense"],
)  # fmt: skip
def test_a_broken_multipart_body_is_refused(client: httpx.Client, place: Path, body: bytes) -> None:
    headers = {"content-type": "multipart/form-data; boundary=b"}
    for content in (body, iter([body])):
        assert client.post("/documents", content=content, headers=headers).status_code in (413, 415, 422)
    assert client.post("/documents", content=b"x", headers={"content-type": "text/plain"}).status_code == 415
    assert not any((place / "uploads" / "incoming").iterdir())


def test_a_waiting_and_a_running_job_can_be_cancelled(client: httpx.Client, place: Path, tmp_path: Path) -> None:
    long = tiff(tmp_path / "long.tiff", list(range(30))).read_bytes()
    with Store(place).writing():  # so that neither gets done
        running_job, waiting = (upload(client, (name, long)).json()["job"] for name in ("long.tiff", "other.tiff"))
        wait_for(lambda: client.get(f"/jobs/{running_job['id']}").json()["state"] == "running")
        assert client.delete(f"/jobs/{waiting['id']}").json()["state"] == "cancelled"
        assert client.delete(f"/jobs/{running_job['id']}").status_code == 200
    assert finished(client, running_job)["state"] == "cancelled"
    wait_for(lambda: not any((place / "uploads" / "incoming").iterdir()))
    assert "other.tiff" not in listed(client)


def test_while_another_process_writes_a_removal_is_refused_and_a_job_waits(client: httpx.Client, place: Path) -> None:
    """And a removal never takes the file of a newer upload that waits."""
    assert finished(client, upload(client, ("twice.png", png(20))).json()["job"])["state"] == "done"
    document = listed(client)["twice.png"]
    with Store(place).writing():
        job = upload(client, ("twice.png", png(21))).json()["job"]
        refused = client.delete(f"/documents/{document['id']}")
        assert (refused.status_code, str(place) in refused.text) == (409, False)
        assert client.post("/search", json={"query": "valve"}).status_code == 200
        assert client.get(f"/jobs/{job['id']}").json()["state"] in ("waiting", "running")
    assert finished(client, job)["state"] == "done"
    (kept,) = [path for path in stored_files(place) if path.name == "twice.png"]
    assert kept.read_bytes() == png(21)


def test_a_job_that_was_cut_off_again_and_again_is_interrupted(model: VarsDoc, tmp_path: Path) -> None:
    Index.open(tmp_path / "index", model).add(picture(tmp_path / "a.png", 3))
    folder = JobFolder(tmp_path / "index")
    folder.make()
    waiting = folder.staging("20260101T000000000000-00000000") / "000-b.png"
    picture(waiting, 4)
    paths = [str(waiting.relative_to(folder.uploads))]
    folder.write(Job(waiting.parent.name, "other", ["b.png"], paths, {}, state="running", attempts=2))
    (folder.incoming / "stray").mkdir()
    with running(tmp_path / "index") as client:
        (job,) = client.get("/jobs").json()["jobs"]
    assert (job["state"], job["collection"]) == ("interrupted", "index")
    assert job["detail"]
    assert not any(folder.incoming.iterdir())


def test_read_only_refuses_uploads_and_deletes(made: Path) -> None:
    with running(made, settings=Settings(device="cpu", read_only=True)) as client:
        assert upload(client, ("a.png", png(1))).status_code == 403
        document = client.get("/documents").json()["documents"][0]
        assert client.delete(f"/documents/{document['id']}").status_code == 403
        assert client.get("/collections").json()["collections"][0]["read_only"] is True
    assert stored_files(made) == []  # other tests tried to upload here, too


def test_a_folder_that_may_not_be_written_to_is_served_without_uploads(
    model: VarsDoc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Index.open(tmp_path / "index", model).add(picture(tmp_path / "a.png", 3))
    JobFolder(tmp_path / "index").make()  # an earlier server took uploads

    def refused(folder: JobFolder) -> None:  # root may write anywhere
        raise PermissionError(13, "Permission denied", str(folder.jobs))

    monkeypatch.setattr(JobFolder, "make", refused)
    with running(tmp_path / "index", settings=Settings(device="cpu")) as client:
        assert client.post("/search", json={"query": "valve"}).status_code == 200
        answered = upload(client, ("b.png", png(1)))
        assert (answered.status_code, str(tmp_path) in answered.text) == (403, False)
        assert "may not write" in answered.json()["detail"]


def test_a_second_server_on_a_collection_reads_and_says_so(place: Path, client: httpx.Client) -> None:
    # Record locks belong to a process, so the first server's claim is only seen by others, and by its own table.
    with running(place, settings=Settings(device="cpu")) as second:
        answered = upload(second, ("a.png", png(1)))
        assert answered.status_code == 403
        assert "Another server" in answered.json()["detail"]


def test_only_so_many_jobs_wait(place: Path, model: VarsDoc, tmp_path: Path) -> None:
    Index.open(tmp_path / "index", model).add(picture(tmp_path / "a.png", 3))
    with running(tmp_path / "index", settings=Settings(device="cpu", limits=Limits(jobs=1))) as client:
        codes = [upload(client, (f"{i}.png", png(i))).status_code for i in range(4)]
        assert 503 in codes
        assert set(codes) <= {202, 503}
        for job in client.get("/jobs").json()["jobs"]:
            client.delete(f"/jobs/{job['id']}")


def test_a_damaged_record_of_a_job_hurts_nobody(made: Path, model: VarsDoc, tmp_path: Path) -> None:
    Index.open(tmp_path / "index", model).add(picture(tmp_path / "a.png", 3))
    jobs = tmp_path / "index" / "jobs"
    jobs.mkdir()
    (jobs / "x.json").write_text("{")
    (jobs / "y.json").write_text(
        json.dumps({"id": "../../x", "collection": "a", "files": [], "paths": [], "metadata": {}})
    )
    with running(tmp_path / "index", settings=Settings(device="cpu")) as client:
        assert client.get("/jobs").json() == {"jobs": []}
