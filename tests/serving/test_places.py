"""Collections that are not folders with pictures: in an object store, and without page pictures."""

from __future__ import annotations

import shutil
from pathlib import Path

import httpx

from serving.conftest import documents, running
from varsdoc import Index, VarsDoc


def upload(client: httpx.Client) -> httpx.Response:
    return client.post("/documents", files={"files": ("a.png", b"\x89PNG\r\n\x1a\n")})


def test_a_collection_in_an_object_store_is_searched_shown_and_only_read(
    s3: str, model: VarsDoc, made: Path, client: httpx.Client
) -> None:
    Index.open(f"{s3}/served", model, codec="int4").add(made.parent / "papers")
    with running(f"{s3}/served") as remote:
        facts = remote.get("/collections").json()["collections"][0]
        assert (facts["name"], facts["pages"], facts["read_only"]) == ("served", 8, True)
        asked = {"query": "valve pressure", "k": 3, "explain": True}
        found, here = (each.post("/search", json=asked).json()["hits"] for each in (remote, client))
        assert [(hit["document"], hit["page"]) for hit in found] == [(hit["document"], hit["page"]) for hit in here]
        assert remote.get(found[0]["image"]).headers["content-type"] == "image/jpeg"
        seen = remote.get(f"/pages/{found[0]['id']}/heatmap", params={"query": "valve pressure", "variant": 1})
        assert seen.headers["content-type"] == "image/png"
        refused = [upload(remote), remote.delete(f"/documents/{found[0]['document_id']}")]
        for answered in refused:
            assert answered.status_code == 403
            assert "object store" in answered.json()["detail"]
        assert remote.get("/stats").status_code == 200


def test_without_pictures_pages_are_rendered_again_as_long_as_their_files_are_there(
    model: VarsDoc, tmp_path: Path
) -> None:
    papers = documents(tmp_path / "papers")
    Index.open(tmp_path / "lean", model, images=False).add(papers)
    with running(tmp_path / "lean") as client:
        hits = client.post("/search", json={"query": "valve pressure", "k": 8}).json()["hits"]
        assert len(hits) == 8
        for hit in hits[:3]:
            assert client.get(hit["image"]).headers["content-type"] == "image/jpeg"
            seen = client.get(f"/pages/{hit['id']}/heatmap", params={"query": "valve", "on_page": True})
            assert seen.headers["content-type"] == "image/png"
        shutil.rmtree(papers)
        again = client.post("/search", json={"query": "valve pressure", "k": 8}).json()["hits"]
        assert [hit["id"] for hit in again] == [hit["id"] for hit in hits]
        lost = client.get(again[-1]["image"])
        assert lost.status_code == 404
        assert lost.json()["detail"].count("\n") == 0
        alone = client.get(f"/pages/{again[-1]['id']}/heatmap", params={"query": "valve"})  # to be laid over nothing
        assert alone.status_code == 200
