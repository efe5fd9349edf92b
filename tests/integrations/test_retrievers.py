"""The LangChain and the LlamaIndex retriever with the real packages: the index's own answer in each one's words."""

from __future__ import annotations

import asyncio
import base64
import io
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import BaseSynthesizer
from llama_index.core.schema import ImageNode, MetadataMode, QueryBundle, TextNode
from PIL import Image

from index.papers import picture
from small_collection import WORDS
from varsdoc import Index
from varsdoc.errors import FilterError
from varsdoc.integrations import langchain, llamaindex

SOURCE = str(Path(__file__).parents[2] / "src")
FACTS = {"id", "document", "page", "score", "score_normalised", "variant", "variant_scores", "region", "year"}


def size(encoded: str) -> tuple[int, int]:
    return Image.open(io.BytesIO(base64.b64decode(encoded))).size


def test_langchain_gives_the_pages_of_a_search_as_documents(index: Index) -> None:
    retriever = langchain.VarsDocRetriever(index=index, k=4, where="year = 2021")
    found = retriever.invoke("red valve")
    hits = index.search("red valve", k=4)
    assert [(one.id, one.metadata["document"], one.metadata["page"]) for one in found] == [
        (hit.id, hit.document, hit.page) for hit in hits
    ]
    for one, hit in zip(found, hits, strict=True):
        assert one.metadata.keys() == FACTS
        assert one.metadata["score"] == pytest.approx(hit.score)
        assert one.metadata["variant_scores"] == pytest.approx(hit.variant_scores)
        scan = f"Page {hit.page} of squares.tiff, which has no text layer; look at its picture."
        assert one.page_content == (WORDS[hit.page - 1] if hit.document == "words.pdf" else scan)


def test_langchain_is_a_runnable_sync_and_async_with_options_for_one_call(index: Index) -> None:
    retriever = langchain.VarsDocRetriever(index=index, k=4)
    chain = retriever | RunnableLambda(lambda documents: [one.id for one in documents])
    expected = [hit.id for hit in index.search("valve", k=4)]
    assert chain.invoke("valve") == expected
    assert asyncio.run(chain.ainvoke("valve")) == expected
    assert chain.batch(["valve", "claim"])[0] == expected
    some: list[Document] = asyncio.run(retriever.ainvoke("valve", k=1, where="document = 'squares.tiff'"))
    assert [one.metadata["document"] for one in some] == ["squares.tiff"]
    with pytest.raises(FilterError, match="no such column"):
        retriever.invoke("valve", where="nope = 1")


def test_langchain_brings_pictures_when_asked(index: Index) -> None:
    found = langchain.VarsDocRetriever(index=index, k=2, pictures=True, picture_side=64).invoke("valve")
    assert all(max(size(one.metadata["image"])) == 64 for one in found)
    assert {one.metadata["image_mime_type"] for one in found} == {"image/jpeg"}


def test_llamaindex_gives_the_pages_of_a_search_as_image_nodes(index: Index) -> None:
    found = llamaindex.VarsDocRetriever(index, k=5, picture_side=64).retrieve("red valve")
    hits = index.search("red valve", k=5)
    assert [(one.node.node_id, one.score) for one in found] == [(hit.id, pytest.approx(hit.score)) for hit in hits]
    for one in found:
        assert isinstance(one.node, ImageNode)
        assert one.node.metadata.keys() == FACTS
        assert Image.open(one.node.resolve_image()).size == size(one.node.image)
        if one.node.metadata["document"] == "words.pdf":
            assert one.node.get_content() == WORDS[one.node.metadata["page"] - 1]
    prompt = found[0].node.get_content(MetadataMode.LLM)
    assert "document: " in prompt
    assert "variant_scores" not in prompt


def test_llamaindex_async_text_alone_hybrid_and_a_filter(index: Index) -> None:
    retriever = llamaindex.VarsDocRetriever(index, 3, "document = 'words.pdf'", hybrid=True, pictures=False)
    found = asyncio.run(retriever.aretrieve(QueryBundle("travel expense claim")))
    assert [type(one.node) for one in found] == [TextNode] * 3
    expected = index.search("travel expense claim", 3, "document = 'words.pdf'", hybrid=True)
    assert [one.node.node_id for one in found] == [hit.id for hit in expected]
    assert found[0].node.metadata["fused_score"] == expected[0].fused_score


def test_llamaindex_works_in_a_query_engine(index: Index) -> None:
    class Names(BaseSynthesizer):
        """Answers with what it was given: no language model in a test."""

        def _get_prompts(self) -> dict[str, Any]:
            return {}

        def _update_prompts(self, prompts: dict[str, Any]) -> None:
            pass

        def get_response(self, query_str: str, text_chunks: Any, **_: Any) -> str:
            return " | ".join(text_chunks)

        async def aget_response(self, query_str: str, text_chunks: Any, **_: Any) -> str:
            return self.get_response(query_str, text_chunks)

    from llama_index.core.llms import MockLLM

    engine = RetrieverQueryEngine(llamaindex.VarsDocRetriever(index, k=5), Names(llm=MockLLM()))
    answer = engine.query("valve")
    assert len(answer.source_nodes) == 5
    assert WORDS[0] in str(answer)


def test_a_picture_that_is_gone_costs_the_picture_and_not_the_answer(index: Index, tmp_path: Path) -> None:
    bare = Index.open(tmp_path / "index", index.model, images=False)
    bare.add(picture(tmp_path / "p" / "gone.png", 3))
    shutil.rmtree(tmp_path / "p")
    (document,) = langchain.VarsDocRetriever(index=bare, pictures=True).invoke("valve")
    assert document.metadata["image"] is None
    (node,) = llamaindex.VarsDocRetriever(bare).retrieve("valve")
    assert type(node.node) is TextNode


@pytest.mark.parametrize(("package", "extra"), [("langchain_core", "langchain"), ("llama_index", "llamaindex")])
def test_a_missing_extra_is_named_with_its_command(package: str, extra: str) -> None:
    program = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "import varsdoc.integrations\n"
        "assert not {'torch', 'numpy', 'PIL'} & sys.modules.keys()\n"
        f"try:\n    import varsdoc.integrations.{extra}\n"
        "except ImportError as error:\n    print(error)"
    )
    env = os.environ | {"PYTHONPATH": SOURCE}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=240)
    assert done.stdout == f"This needs the package {package}; run: pip install 'varsdoc[{extra}]'\n", done.stderr
