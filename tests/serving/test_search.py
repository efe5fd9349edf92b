"""Searching over HTTP: the answer is the index's own, questions are encoded together, errors are problems."""

from __future__ import annotations

import io
import threading
from pathlib import Path

import httpx
import numpy as np
import pytest
from PIL import Image

from serving.conftest import WORDS, running
from varsdoc import Index, VarsDoc
from varsdoc.serving import Settings
from varsdoc.serving.schemas import Answer, Collections, Documents, Health, Jobs, PageShape, Stats


def ask(client: httpx.Client, query: str, **more: object) -> dict:
    answered = client.post("/search", json={"query": query, **more})
    assert answered.status_code == 200, answered.text
    return answered.json()


def test_an_answer_is_what_the_index_itself_finds(client: httpx.Client, made: Path, model: VarsDoc) -> None:
    told = ask(client, "valve pressure", k=5)
    Answer.model_validate(told, strict=True)
    ours = Index.open(made, model).search("valve pressure", k=5)
    assert [hit["id"] for hit in told["hits"]] == [hit.id for hit in ours]
    assert [hit["score"] for hit in told["hits"]] == pytest.approx([hit.score for hit in ours], abs=1e-4)
    assert told["hits"][0]["region"] == ours[0].to_json()["region"]
    assert told["pages"] == 8
    assert [word["text"] for word in told["words"]] == ["valve", "pressure"]
    assert all(word["tokens"] for word in told["words"])


def test_words_explain_the_score(client: httpx.Client, made: Path, model: VarsDoc) -> None:
    told = ask(client, "annual revenue growth", k=3, explain=True)
    hit = told["hits"][0]
    ours = Index.open(made, model).search("annual revenue growth", k=1)[0]
    rows, cols = hit["explain"]["grid"]
    tokens = {token for word in told["words"] for token in word["tokens"]}
    other = [t for t in range(len(ours._query.vectors)) if t not in tokens]
    rest = ours._similarity(hit["variant"]).max(1)[other].sum()
    assert sum(word["score"] for word in hit["explain"]["words"]) + rest == pytest.approx(hit["score"], abs=0.05)
    for word in hit["explain"]["words"]:
        assert word["scores"][hit["variant"]] == word["score"]
        assert word["cell"] is None or (0 <= word["cell"][0] < rows and 0 <= word["cell"][1] < cols)


def test_filters_by_document_and_by_where(client: httpx.Client) -> None:
    listed = client.get("/documents").json()
    Documents.model_validate(listed, strict=True)
    assert listed["total"] == 3
    words = next(one for one in listed["documents"] if one["document"] == "words.pdf")
    only = ask(client, "valve", k=50, documents=[words["id"]])
    assert {hit["document"] for hit in only["hits"]} == {"words.pdf"}
    assert len(only["hits"]) == 4
    assert ask(client, "valve", documents=[])["hits"] == []
    assert len(ask(client, "valve", k=50, where="page = 1 AND year >= 2021")["hits"]) == 3
    assert client.get("/documents", params={"q": "WORDS"}).json()["total"] == 1
    assert client.get("/documents", params={"limit": 1, "offset": 2}).json()["documents"][0]["document"] == "words.pdf"


def test_hybrid_finds_the_page_with_the_words(client: httpx.Client) -> None:
    hit = ask(client, WORDS[3], hybrid=True, k=1)["hits"][0]
    assert (hit["document"], hit["page"]) == ("words.pdf", 4)
    assert hit["fused_score"] > 0


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"query": ""}, 422),
        ({"query": "   "}, 422),
        ({"query": "x" * 2001}, 422),
        ({"query": "x", "k": 101}, 422),
        ({"query": "x", "k": 0}, 422),
        ({"query": "x", "where": "no_such_column = 1"}, 422),
        ({"query": "x", "where": "repeat('x', 1000000000) = 'x'"}, 422),
        ({"query": "x", "where": "1=1 " + "OR 1=1 " * 300}, 422),
        ({"query": "x", "documents": ["a"] * 1001}, 422),
        ({"query": "x", "collection": "../other"}, 404),
        ({"query": "x", "extra": 1}, 422),
        ({"no": "query"}, 422),
        ([], 422),
    ],
)
def test_a_bad_request_is_a_problem_with_a_sentence(client: httpx.Client, body: object, status: int) -> None:
    answered = client.post("/search", json=body)
    assert answered.status_code == status
    assert answered.headers["content-type"] == "application/problem+json"
    problem = answered.json()
    assert problem["status"] == status
    assert problem["detail"]


def test_a_lone_surrogate_and_broken_json_are_problems(client: httpx.Client) -> None:
    for content in (b'{"query": "\\ud800 valve"}', b'{"query": ', b"\xff\xfe", b"[" * 60_000):
        answered = client.post("/search", content=content, headers={"content-type": "application/json"})
        assert answered.status_code in (200, 400, 422), content[:20]
    assert ask(client, "valve")["hits"]


def test_sixteen_clients_make_one_or_two_forward_passes(made: Path) -> None:
    questions = [f"question number {i} about {WORDS[i % 4]}" for i in range(16)]
    with running(made, settings=Settings(device="cpu", batch_ms=250)) as client:
        ask(client, "so that the model is there")
        before = client.get("/stats").json()
        told: dict[str, dict] = {}
        start = threading.Barrier(16)

        def one(question: str) -> None:
            with httpx.Client(base_url=client.base_url, timeout=60) as own:
                own.get("/health")
                start.wait()
                told[question] = ask(own, question, k=8)

        threads = [threading.Thread(target=one, args=(question,)) for question in questions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        after = client.get("/stats").json()
        Stats.model_validate(after, strict=True)
    assert after["questions"] - before["questions"] == 16
    assert after["batches"] - before["batches"] <= 2
    # And each got what it would have got alone.
    with running(made, settings=Settings(device="cpu", batch_ms=0)) as client:
        for question in questions[:4]:
            alone = ask(client, question, k=8)["hits"]
            together = told[question]["hits"]
            assert [hit["id"] for hit in together] == [hit["id"] for hit in alone]
            assert [hit["score"] for hit in together] == pytest.approx([hit["score"] for hit in alone], abs=1e-3)


def test_one_question_that_cannot_be_encoded_does_not_hurt_those_beside_it(made: Path) -> None:
    with running(made, settings=Settings(device="cpu", batch_ms=300)) as client:
        ask(client, "so that the model is there")
        codes: dict[str, int] = {}

        def one(body: bytes) -> None:
            headers = {"content-type": "application/json"}
            codes[body.decode()] = httpx.post(f"{client.base_url}/search", content=body, headers=headers).status_code

        bodies = [b'{"query": "\\ud800"}', b'{"query": "valve"}', b'{"query": "claim"}']
        threads = [threading.Thread(target=one, args=(body,)) for body in bodies]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert codes['{"query": "valve"}'] == codes['{"query": "claim"}'] == 200
    assert codes['{"query": "\\ud800"}'] in (200, 422)


def test_pages_pictures_and_heatmaps(client: httpx.Client, made: Path, model: VarsDoc) -> None:
    hit = next(h for h in ask(client, "valve pressure", k=8)["hits"] if (h["document"], h["page"]) == ("words.pdf", 2))
    page = client.get(f"/pages/{hit['id']}").json()
    PageShape.model_validate(page, strict=True)
    assert (page["document_id"], page["page"], page["pages"], page["has_text"]) == (hit["document_id"], 2, 4, True)
    assert client.get(f"/pages/{page['previous']}").json()["page"] == 1
    assert client.get(f"/pages/{page['next']}").json()["page"] == 3
    assert client.get(f"/pages/{page['previous']}").json()["previous"] is None

    picture = client.get(hit["image"])
    assert picture.headers["content-type"] == "image/jpeg"
    assert "immutable" in picture.headers["cache-control"]
    assert picture.content == Index.open(made, model).page_jpeg(hit["id"])
    assert "no-cache" in client.get(f"/pages/{hit['id']}/image").headers["cache-control"]
    assert "no-cache" in client.get(f"/pages/{hit['id']}/image?version=older").headers["cache-control"]
    again = client.get(hit["image"], headers={"If-None-Match": picture.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    small = client.get(f"/pages/{hit['id']}/image", params={"width": 100})
    assert Image.open(io.BytesIO(small.content)).width == 100
    assert small.headers["etag"] != picture.headers["etag"]

    query = {"query": "valve pressure", "version": hit["version"]}
    overlay = client.get(f"/pages/{hit['id']}/heatmap", params=query)
    shown = Image.open(io.BytesIO(overlay.content))
    assert (shown.mode, overlay.headers["content-type"]) == ("RGBA", "image/png")
    assert shown.width / shown.height == pytest.approx(hit["width"] / hit["height"], rel=0.02)
    assert np.asarray(shown)[..., 3].max() > 100
    others = [client.get(f"/pages/{hit['id']}/heatmap", params=query | more) for more in ({"word": 1}, {"variant": 0})]
    assert all(one.status_code == 200 and one.content != overlay.content for one in others)
    burnt = client.get(f"/pages/{hit['id']}/heatmap", params=query | {"form": "page"})
    assert Image.open(io.BytesIO(burnt.content)).size == (hit["width"], hit["height"])
    for wrong, status in (({"word": 2}, 422), ({"variant": 3}, 422), ({"version": "older"}, 409), ({"form": "x"}, 422)):
        assert client.get(f"/pages/{hit['id']}/heatmap", params=query | wrong).status_code == status


def test_what_is_not_there_is_a_404_problem(client: httpx.Client) -> None:
    for path in ("/pages/none-0", "/pages/none-0/image", "/pages/none-0/heatmap?query=x", "/jobs/none", "/nothing"):
        answered = client.get(path)
        assert (answered.status_code, answered.json()["status"]) == (404, 404), path
    assert client.delete("/documents/none").status_code == 404
    assert client.delete("/search").status_code == 405


def test_the_rest_has_its_shape(client: httpx.Client) -> None:
    ask(client, "valve")
    Health.model_validate(client.get("/health").json(), strict=True)
    Jobs.model_validate(client.get("/jobs").json(), strict=True)
    collections = client.get("/collections").json()
    Collections.model_validate(collections, strict=True)
    one = collections["collections"][0]
    assert (one["name"], one["documents"], one["pages"], one["variants"]) == ("reports", 3, 8, 3)
    assert (one["checkpoint"], one["read_only"]) == ("tiny", False)
    stats = client.get("/stats").json()
    assert (stats["pages"], stats["documents"]) == (8, 3)
    assert stats["bytes"] > 0
    docs = client.get("/docs")
    assert "POST /search" in docs.text
    assert "http://" not in docs.text
    assert "https://" not in docs.text
    assert client.get("/openapi.json").json()["paths"]["/search"]


def test_two_collections_of_one_encoder_share_the_model(made: Path, model: VarsDoc, tmp_path: Path) -> None:
    from index.papers import picture

    Index.open(tmp_path / "reports", model).add(picture(tmp_path / "a.png", 9))
    with running(made, tmp_path / "reports") as client:
        names = [one["name"] for one in client.get("/collections").json()["collections"]]
        assert names == ["reports", "reports-2"]
        hit = ask(client, "valve", collection="reports-2")["hits"][0]
        assert hit["document"] == "a.png"
        assert client.get(hit["image"]).status_code == 200
        assert client.get(f"/pages/{hit['id']}/image").status_code == 404
        models = client.service.models._models  # type: ignore[attr-defined]
        assert len({id(one) for one in models.values()}) == 1
        assert client.get("/health").json()["model"] == "ready"
