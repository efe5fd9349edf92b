"""The same pages scored by other libraries: the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from varsdoc.index.codecs import get_codec
from varsdoc.scoring.packed import PackedPages, score_packed


def unit(*shape: int, seed: int) -> np.ndarray:
    x = np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


K, M, DIM = 3, 24, 128
PAGES = unit(12, K, M, DIM, seed=0)
QUERY = unit(9, DIM, seed=1)


@pytest.fixture(params=["float16", "int8", "int4", "binary"])
def packed(request: pytest.FixtureRequest) -> tuple[PackedPages, np.ndarray]:
    """Pages in one codec, and the vectors that the codec holds, variants as points: (pages * K, M, D)."""
    codec = get_codec(request.param)
    blobs = [codec.pack(page) for page in PAGES]
    return PackedPages.from_blobs(blobs), np.concatenate([codec.unpack(blob) for blob in blobs])


def test_equals_plain_torch(packed: tuple[PackedPages, np.ndarray]) -> None:
    pages, points = packed
    theirs = torch.einsum("td,pmd->ptm", torch.from_numpy(QUERY), torch.from_numpy(points)).amax(2).sum(1)
    torch.testing.assert_close(score_packed([QUERY], pages).variants[0], theirs.view(-1, K), atol=2e-4, rtol=0)


def test_equals_maxsim_cpu(packed: tuple[PackedPages, np.ndarray]) -> None:
    peer = pytest.importorskip("maxsim_cpu")
    pages, points = packed
    theirs = torch.from_numpy(np.asarray(peer.maxsim_scores(QUERY, points))).view(-1, K)
    torch.testing.assert_close(score_packed([QUERY], pages).variants[0], theirs, atol=2e-4, rtol=0)


def test_equals_qdrant(packed: tuple[PackedPages, np.ndarray]) -> None:
    qdrant = pytest.importorskip("qdrant_client")
    models = qdrant.models
    pages, points = packed
    client = qdrant.QdrantClient(":memory:")
    client.create_collection(
        "pages",
        vectors_config=models.VectorParams(
            size=DIM,
            distance=models.Distance.DOT,
            multivector_config=models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM),
        ),
    )
    client.upsert("pages", [models.PointStruct(id=i, vector=point.tolist()) for i, point in enumerate(points)])
    hits = client.query_points("pages", query=QUERY.tolist(), limit=len(points)).points
    theirs = torch.tensor([hit.score for hit in sorted(hits, key=lambda hit: hit.id)]).view(-1, K)
    torch.testing.assert_close(score_packed([QUERY], pages).variants[0], theirs, atol=2e-4, rtol=0)
