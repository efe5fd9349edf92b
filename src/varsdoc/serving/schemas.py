"""The shapes of the API, as its description has them. Answers are made by hand; tests hold them to these."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from varsdoc.serving.settings import Limits

_MOST = Limits()
Metadata = dict[str, str | int | float | bool]
Region = Annotated[list[float], Field(min_length=4, max_length=4)]
State = Literal["waiting", "running", "done", "failed", "cancelled", "interrupted"]


class ProblemShape(BaseModel):
    """RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    instance: str | None = None
    errors: list[dict[str, Any]] | None = None


class Health(BaseModel):
    status: Literal["ok", "loading", "failed"]
    version: str
    model: Literal["loading", "ready", "failed"]
    detail: str | None = None
    token_required: bool


class TokenGiven(BaseModel):
    model_config = ConfigDict(extra="forbid")
    token: Annotated[str, Field(max_length=1000)]


class CollectionShape(BaseModel):
    name: str
    documents: int
    pages: int
    variants: int | None
    codec: str | None
    max_visual_tokens: int | None
    checkpoint: str | None
    hash: str | None
    read_only: bool


class Collections(BaseModel):
    collections: list[CollectionShape]


class DocumentShape(BaseModel):
    id: str
    document: str
    pages: int
    metadata: Metadata
    cover: str


class Documents(BaseModel):
    total: int
    documents: list[DocumentShape]


class Removed(BaseModel):
    document: str
    pages: int


class FailedShape(BaseModel):
    source: str
    reason: str
    page: int | None = None


class JobShape(BaseModel):
    id: str
    state: State
    collection: str
    files: list[str]
    pages_done: int
    pages_total: int | None
    added: int
    replaced: int
    unchanged: int
    failed: list[FailedShape]
    detail: str | None
    created: str
    finished: str | None


class Accepted(BaseModel):
    job: JobShape


class Jobs(BaseModel):
    jobs: list[JobShape]


class SearchRequest(BaseModel):
    """A question, and where to look."""

    model_config = ConfigDict(extra="forbid", strict=True)
    query: Annotated[str, Field(min_length=1, max_length=_MOST.query)]
    k: Annotated[int, Field(ge=1, le=_MOST.k)] = 10
    where: Annotated[str, Field(max_length=_MOST.where)] | None = None
    documents: Annotated[list[Annotated[str, Field(max_length=200)]], Field(max_length=_MOST.documents)] | None = None
    hybrid: bool = False
    explain: bool = False
    collection: Annotated[str, Field(max_length=200)] | None = None


class Took(BaseModel):
    encode: float
    search: float
    total: float


class WordShape(BaseModel):
    word: int
    text: str
    tokens: list[int]


class WordScore(BaseModel):
    word: int
    score: float
    scores: list[float]
    cell: list[int] | None


class Explained(BaseModel):
    words: list[WordScore]
    grid: list[int]


class HitShape(BaseModel):
    id: str
    document: str
    document_id: str
    page: int
    pages: int
    score: float
    score_normalised: float
    variant: int
    variant_scores: list[float]
    region: Region | None
    metadata: Metadata
    version: str
    width: int
    height: int
    image: str
    thumbnail: str
    fused_score: float | None = None
    explain: Explained | None = None


class Answer(BaseModel):
    query: str
    took_ms: Took
    pages: int
    words: list[WordShape]
    hits: list[HitShape]


class PageShape(BaseModel):
    id: str
    document: str
    document_id: str
    page: int
    pages: int
    width: int
    height: int
    version: str
    previous: str | None
    next: str | None
    metadata: Metadata
    image: str
    has_text: bool


class Percentiles(BaseModel):
    p50: float | None
    p95: float | None


class Stats(BaseModel):
    uptime_s: float
    searches: int
    search_ms: Percentiles
    queue: int
    batches: int
    questions: int
    queries_per_batch: float | None
    jobs: dict[str, int]
    pages: int
    documents: int
    memory_mib: float | None
    bytes: int
