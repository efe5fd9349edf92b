"""A LangChain retriever over a collection. Extra: `langchain`.

from varsdoc import Index
from varsdoc.integrations.langchain import VarsDocRetriever

retriever = VarsDocRetriever(index=Index.open("my-index"), k=5)
documents = retriever.invoke("Which valve is closed first?")
"""

from __future__ import annotations

from typing import Any

from varsdoc.extras import needs
from varsdoc.index.collection import Index
from varsdoc.integrations.pages import PICTURE_SIDE, content, metadata, picture

with needs("langchain", "langchain_core"):
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables import run_in_executor


class VarsDocRetriever(BaseRetriever):
    """Pages as Documents, best first; metadata has id, document, page, score, variant, variant_scores, region.

    pictures   put each page's picture into metadata["image"], as base64 of a JPEG with this long side at most
    `invoke(question, k=..., where=...)` goes before what the retriever was made with.
    """

    index: Index
    k: int = 5
    where: str | None = None
    hybrid: bool = False
    pictures: bool = False
    picture_side: int = PICTURE_SIDE

    def _get_relevant_documents(
        self, query: str, *, run_manager: Any = None, k: int | None = None, where: str | None = None
    ) -> list[Document]:
        hits = self.index.search(query, k or self.k, where or self.where, hybrid=self.hybrid)
        return [self._document(hit) for hit in hits]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: Any = None, k: int | None = None, where: str | None = None
    ) -> list[Document]:
        """In a thread: the search computes, and the event loop goes on."""
        return await run_in_executor(None, self._get_relevant_documents, query, k=k, where=where)

    def _document(self, hit: Any) -> Document:
        facts = metadata(hit)
        if self.pictures:
            facts |= {"image": picture(hit, self.picture_side), "image_mime_type": "image/jpeg"}
        return Document(id=hit.id, page_content=content(hit), metadata=facts)
