"""What an assistant can do with a collection. The docstrings and descriptions here are what it reads."""

from __future__ import annotations

import io
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from mcp.server.mcpserver.exceptions import ResourceNotFoundError
from mcp.types import CallToolResult
from pydantic import Field

from varsdoc.errors import CollectionError, ConfigError, VarsDocError
from varsdoc.picture import LARGEST_SIDE, SMALLEST_SIDE, bounded_jpeg
from varsdoc.serving.mcp_answers import (
    PICTURE_BYTES,
    Document,
    Documents,
    FoundPage,
    FoundPages,
    Fraction,
    Neighbour,
    PageAnswer,
    Picture,
    Scored,
    answer,
    part,
    shortened,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from PIL import Image

    from varsdoc.index import Hit, Index
    from varsdoc.index.facts import PageFacts

RESOURCE = "varsdoc://pages/{id}"

Question = Annotated[str, Field(min_length=1, max_length=2000)]
Where = Annotated[
    str | None,
    Field(
        max_length=2000,
        description="SQL condition on document, page, pages and metadata keys (list_documents shows them), like: "
        "document LIKE '%2023%' AND page <= 10. Text in single quotes.",
    ),
]
Side = Annotated[int, Field(ge=SMALLEST_SIDE, le=LARGEST_SIDE, description="Long side of a picture in pixels.")]
Id = Annotated[str | None, Field(max_length=200, description="A page's id from search_pages.")]
Box = Annotated[
    list[Fraction] | None,
    Field(
        min_length=4,
        max_length=4,
        description="Show only this part of the page, [x0, y0, x1, y1] in fractions, at full resolution: to read small "
        "print. A hit's region can be used, widened a little.",
    ),
]


class Opened(Protocol):
    """The collection behind the tools."""

    def reading(self) -> Index:
        """For what needs no model."""
        ...

    def asking(self) -> Index:
        """With its model; waits for it."""
        ...


class Tools:
    """Run in worker threads, several at a time; the index is made for that."""

    def __init__(self, collection: Opened) -> None:
        self._collection = collection

    def search_pages(
        self,
        query: Annotated[Question, Field(description="A question in words, or what the page should show.")],
        k: Annotated[int, Field(ge=1, le=20, description="How many pages to find.")] = 5,
        where: Where = None,
        hybrid: Annotated[
            bool, Field(description="Also match words against text layers (BM25): for names, numbers and codes.")
        ] = False,
        pictures: Annotated[int, Field(ge=0, le=5, description="Send the pictures of so many of the best pages.")] = 3,
        picture_side: Side = 1024,
    ) -> Annotated[CallToolResult, FoundPages]:
        """Find the pages of the collection that answer a question, by looking at the page images.

        Works on text, tables, charts, forms, slides and scans alike. Gives the pages best first, with scores, with the
        region of each page where the evidence is, and with pictures of the best ones to read the answer from. A
        question in full words finds more than keywords.
        """
        hits = self._collection.asking().search(query, k, where, hybrid=hybrid)
        shown = [Picture(_caption(hit), hit.image) for hit in hits[:pictures]]
        return answer(FoundPages(query=query, hits=[_found(hit) for hit in hits]), shown, picture_side)

    def get_page(
        self,
        id: Id = None,
        document: Annotated[str | None, Field(description="Instead of an id: a document's name, with page.")] = None,
        page: Annotated[int | None, Field(description="With document: the page's number from 1.")] = None,
        query: Annotated[
            Question | None,
            Field(description="Colour the picture by how well each part fits this question, and give the scores."),
        ] = None,
        variant: Annotated[
            int | None, Field(ge=0, description="With query: the reading to colour by; default: the one that won.")
        ] = None,
        crop: Box = None,
        neighbours: Annotated[bool, Field(description="Also send pictures of the pages before and after it.")] = False,
        text: Annotated[bool, Field(description="Give the text layer where there is one.")] = True,
        picture_side: Side = 1400,
    ) -> Annotated[CallToolResult, PageAnswer]:
        """Look at one page: its picture, its text layer where there is one, and which pages lie beside it.

        Name the page by its id, or by document and page number. With `crop` a part is shown at full resolution. With
        `query` the picture is a heatmap of where that question finds its evidence; leave it out to read the page.
        """
        _check_box(crop)
        if variant is not None and query is None:
            raise ConfigError("variant chooses a heatmap; give a query with it.")
        index = self._collection.reading()
        facts = index.page(_page_id(index, id, document, page))
        previous = None if facts.previous is None else index.page(facts.previous)
        following = None if facts.next is None else index.page(facts.next)
        hit = None if query is None else self._collection.asking().look(query, facts.id)
        found = _page_answer(facts, previous, following, index.page_text(facts.id) if text else None, hit)
        whole = partial(_image, index, facts.id) if hit is None else partial(hit.heatmap, variant)
        shown = [Picture(_caption(facts), lambda: part(whole(), crop))]
        for beside in (previous, following) if neighbours else ():
            if beside is not None:
                shown.append(Picture(_caption(beside), partial(_image, index, beside.id)))
        return answer(found, shown, picture_side)

    def list_documents(
        self,
        where: Where = None,
        offset: Annotated[int, Field(ge=0, description="How many to pass over.")] = 0,
        limit: Annotated[int, Field(ge=1, le=500, description="How many to name.")] = 100,
    ) -> Annotated[CallToolResult, Documents]:
        """Name the documents of the collection with their numbers of pages and their metadata, sorted by name."""
        listed = self._collection.reading().list(where)
        some = listed[offset : offset + limit]
        facts = Documents(
            documents=[Document(document=d.document, pages=d.pages, metadata=d.metadata) for d in some],
            total_documents=len(listed),
            total_pages=sum(d.pages for d in listed),
            next_offset=offset + limit if offset + limit < len(listed) else None,
        )
        return answer(facts)

    def page_picture(self, id: str) -> bytes:
        try:
            return bounded_jpeg(_image(self._collection.reading(), id), LARGEST_SIDE, PICTURE_BYTES)
        except VarsDocError as error:
            raise ResourceNotFoundError(str(error)) from error


def _page_id(index: Index, id: str | None, document: str | None, page: int | None) -> str:
    if id is not None and document is None and page is None:
        return id
    if id is not None or document is None or page is None:
        raise ConfigError("Name a page either by id, or by document and page.")
    from varsdoc.pages import page_id

    named = next((one for one in index.list() if one.document == document), None)
    if named is None:
        raise CollectionError(f"There is no document {document!r} in this collection; list_documents names them.")
    made = page_id(named.source, page - 1)
    try:
        return index.page(made).id
    except CollectionError:
        raise CollectionError(f"{document} has no page {page} here; {named.pages} of its pages can be found.") from None


def _check_box(box: Sequence[float] | None) -> None:
    if box is not None and not (box[0] < box[2] and box[1] < box[3]):
        raise ConfigError(f"crop is [x0, y0, x1, y1] with x0 < x1 and y0 < y1, not {[*box]}.")


def _image(index: Index, page_id: str) -> Image.Image:
    from PIL import Image

    with Image.open(io.BytesIO(index.page_jpeg(page_id))) as opened:
        return opened.convert("RGB")


def _caption(page: Hit | PageFacts) -> str:
    return f"{page.document}, page {page.page}, id {page.id}"


def _scores(hit: Hit) -> dict[str, Any]:
    facts = hit.to_json()
    return {name: facts[name] for name in Scored.model_fields if name in facts}


def _found(hit: Hit) -> FoundPage:
    about: dict[str, Any] = {"id": hit.id, "document": hit.document, "page": hit.page, "metadata": hit.metadata}
    return FoundPage(**_scores(hit), **about, uri=RESOURCE.format(id=hit.id))


def _page_answer(
    page: PageFacts, previous: PageFacts | None, following: PageFacts | None, text: str | None, hit: Hit | None
) -> PageAnswer:
    layer, truncated = shortened(text)
    return PageAnswer(
        id=page.id,
        document=page.document,
        page=page.page,
        pages=page.pages,
        metadata=page.metadata,
        uri=RESOURCE.format(id=page.id),
        previous=None if previous is None else Neighbour(id=previous.id, page=previous.page),
        next=None if following is None else Neighbour(id=following.id, page=following.page),
        text=layer,
        text_truncated=truncated,
        evidence=None if hit is None else Scored(**_scores(hit)),
    )
