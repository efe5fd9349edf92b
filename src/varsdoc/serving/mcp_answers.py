"""What the MCP tools answer with: shapes that a client can read by schema, and pictures that stay within bounds."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from mcp.types import CallToolResult, ContentBlock, ImageContent, TextContent
from pydantic import BaseModel, Field

from varsdoc.errors import CollectionError
from varsdoc.picture import LARGEST_SIDE, bounded_jpeg

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from PIL import Image

# Some clients refuse an answer of a megabyte; base64 makes four bytes of three.
PICTURE_BYTES = 600_000
TEXT_CHARACTERS = 20_000

Fraction = Annotated[float, Field(ge=0, le=1)]
Metadata = Mapping[str, str | int | float | bool]


class Scored(BaseModel):
    """How well a page answers a question."""

    score: float = Field(description="Sum over the question's tokens; higher is better. Comparable within one search.")
    score_normalised: float = Field(description="score / number of question tokens; comparable between questions.")
    variant: int = Field(description="Which of the page's learned readings won: an index into variant_scores.")
    variant_scores: list[float] = Field(description="The score of every reading of the page.")
    region: list[float] | None = Field(
        description="Where on the page the evidence is: [x0, y0, x1, y1] as fractions of width and height from the top "
        "left; null where no part stood out. Can be given to get_page as crop."
    )
    fused_score: float | None = Field(default=None, description="Hybrid search only: what the order goes by.")


class FoundPage(Scored):
    """A page that was found."""

    id: str = Field(description="For get_page.")
    document: str
    page: int = Field(description="From 1.")
    metadata: Metadata
    uri: str = Field(description="The page's picture as a resource.")


class FoundPages(BaseModel):
    """Pages, best first."""

    query: str
    hits: list[FoundPage]


class Neighbour(BaseModel):
    id: str
    page: int


class PageAnswer(BaseModel):
    """One page."""

    id: str
    document: str
    page: int = Field(description="From 1.")
    pages: int = Field(description="How many pages of the document can be found.")
    metadata: Metadata
    uri: str
    previous: Neighbour | None
    next: Neighbour | None
    text: str | None = Field(description="The page's text layer; null for scans and pictures, which have none.")
    text_truncated: bool = False
    evidence: Scored | None = Field(default=None, description="Where a query was given: how well the page answers it.")


class Document(BaseModel):
    document: str
    pages: int
    metadata: Metadata


class Documents(BaseModel):
    """Documents by name."""

    documents: list[Document]
    total_documents: int
    total_pages: int
    next_offset: int | None = Field(description="Where to go on; null at the end.")


@dataclass(frozen=True)
class Picture:
    """A picture with its caption, read when the answer is made."""

    caption: str
    read: Callable[[], Image.Image]


def answer(facts: BaseModel, pictures: Sequence[Picture] = (), side: int = LARGEST_SIDE) -> CallToolResult:
    """The facts as structured content and as text, then the pictures, each after its caption."""
    structured: dict[str, Any] = facts.model_dump(mode="json")
    content: list[ContentBlock] = [TextContent(type="text", text=facts.model_dump_json(exclude_none=True))]
    for picture in pictures:
        content += _shown(picture, side, PICTURE_BYTES // len(pictures))
    return CallToolResult(content=content, structured_content=structured)


def _shown(picture: Picture, side: int, budget: int) -> list[ContentBlock]:
    try:
        data = base64.b64encode(bounded_jpeg(picture.read(), side, budget)).decode()
    except CollectionError as error:  # no picture stored, and its source is gone: the rest of the answer stands
        return [TextContent(type="text", text=f"{picture.caption}: no picture. {error}")]
    caption = TextContent(type="text", text=f"{picture.caption}:")
    return [caption, ImageContent(type="image", data=data, mime_type="image/jpeg")]


def part(image: Image.Image, box: Sequence[float] | None) -> Image.Image:
    """A part of a page, [x0, y0, x1, y1] in fractions; at least a pixel."""
    if box is None:
        return image
    width, height = image.size
    left, top = min(int(box[0] * width), width - 1), min(int(box[1] * height), height - 1)
    return image.crop((left, top, max(left + 1, round(box[2] * width)), max(top + 1, round(box[3] * height))))


def shortened(text: str | None) -> tuple[str | None, bool]:
    return (text, False) if text is None else (text[:TEXT_CHARACTERS], len(text) > TEXT_CHARACTERS)
