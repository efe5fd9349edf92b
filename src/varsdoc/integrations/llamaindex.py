"""A LlamaIndex retriever over a collection. Extra: `llamaindex`.

from varsdoc import Index
from varsdoc.integrations.llamaindex import VarsDocRetriever

retriever = VarsDocRetriever(Index.open("my-index"), k=5)
nodes = retriever.retrieve("Which valve is closed first?")
"""

from __future__ import annotations

import asyncio
from typing import Any

from varsdoc.extras import needs
from varsdoc.index.collection import Index
from varsdoc.integrations.pages import PICTURE_SIDE, content, metadata, picture

with needs("llamaindex", "llama_index"):
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.schema import ImageNode, NodeWithScore, QueryBundle, TextNode

# For programs, not for a language model's prompt or an embedding.
_FIGURES = ["id", "score", "score_normalised", "variant", "variant_scores", "region", "fused_score"]


class VarsDocRetriever(BaseRetriever):
    """Pages as nodes with scores, best first: ImageNodes with text, or TextNodes where pictures are not wanted.

    pictures  give each node its page's picture, as base64 of a JPEG with a long side of at most `picture_side`
    options   of LlamaIndex's BaseRetriever (callback_manager, verbose, ...)
    """

    def __init__(
        self,
        index: Index,
        k: int = 5,
        where: str | None = None,
        *,
        hybrid: bool = False,
        pictures: bool = True,
        picture_side: int = PICTURE_SIDE,
        **options: Any,
    ) -> None:
        self._index, self._k, self._where, self._hybrid = index, k, where, hybrid
        self._pictures, self._side = pictures, picture_side
        super().__init__(**options)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        hits = self._index.search(query_bundle.query_str, self._k, self._where, hybrid=self._hybrid)
        return [NodeWithScore(node=self._node(hit), score=hit.score) for hit in hits]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """In a thread: the search computes, and the event loop goes on."""
        return await asyncio.to_thread(self._retrieve, query_bundle)

    def _node(self, hit: Any) -> TextNode:
        shown = picture(hit, self._side) if self._pictures else None
        facts: dict[str, Any] = {
            "id_": hit.id,
            "text": content(hit),
            "metadata": metadata(hit),
            "excluded_llm_metadata_keys": _FIGURES,
            "excluded_embed_metadata_keys": _FIGURES,
        }
        return TextNode(**facts) if shown is None else ImageNode(**facts, image=shown, image_mimetype="image/jpeg")
