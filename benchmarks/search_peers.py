"""Other engines on the same pages, for benchmarks/search_cpu.py: every variant a point, points grouped by page.

Each engine is given the float vectors of every point and answers with the pages of its best points, best first.
All are exhaustive but two: LanceDB's IVF_PQ, and Qdrant Edge's binary quantisation, which scans one-bit codes and
scores the best again by floats. An HNSW graph over multi-vectors is left out: building one compares whole points, some
eight million multiplications each, and fifty thousand points would take hours here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

Search = Callable[[np.ndarray], list[int]]
Peer = tuple[Search, int]  # how it searches, and the bytes it holds for its vectors
PEERS = (
    "torch float32",
    "torch float16",
    "maxsim-cpu",
    "qdrant edge",
    "qdrant edge, binary",
    "lancedb flat",
    "lancedb ivf_pq",
)
ON_DEMAND = ("qdrant local",)  # qdrant-client's own engine, in numpy, to be named in --peers: Qdrant Edge is the faster
PARTITIONS = 512  # of IVF_PQ: the default, sqrt(vectors), trains for many minutes on two cores
OVERSAMPLING = 3.0
BLOCK = 200  # points


@dataclass
class Points:
    """Vectors of all points, one after another on disk."""

    flat: np.ndarray  # (vectors, D) float16, memory-mapped
    lengths: np.ndarray  # (points,)
    variants: int

    @property
    def starts(self) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(self.lengths)])

    def __len__(self) -> int:
        return len(self.lengths)

    def blocks(self, size: int = BLOCK) -> Iterator[tuple[int, list[np.ndarray]]]:
        """The first point's number, and the vectors (M, D) of up to `size` points."""
        starts = self.starts
        for first in range(0, len(self), size):
            last = min(first + size, len(self))
            yield first, [np.asarray(self.flat[starts[i] : starts[i + 1]]) for i in range(first, last)]

    def pages(self, points: np.ndarray | list[int], k: int = 10) -> list[int]:
        """Points, best first -> their pages, each once."""
        return list(dict.fromkeys(int(point) // self.variants for point in points))[:k]

    def best_pages(self, scores: np.ndarray, k: int = 10) -> list[int]:
        """Scores of all points -> the best pages."""
        return np.argsort(-scores.reshape(-1, self.variants).max(1), kind="stable")[:k].tolist()


def plain_torch(points: Points, half: bool) -> Peer:
    """One matrix product and a maximum for 200 points of one length at a time; float16 is widened block by block."""
    order = np.argsort(points.lengths, kind="stable")
    starts = points.starts
    held = torch.empty(points.flat.shape, dtype=torch.float16 if half else torch.float32)
    at, groups = 0, []
    for length in np.unique(points.lengths).tolist():
        mine = order[points.lengths[order] == length]
        for first in range(0, len(mine), BLOCK):
            some = mine[first : first + BLOCK]
            for i, point in enumerate(some):
                vectors = np.asarray(points.flat[starts[point] : starts[point + 1]])
                held[at + i * length : at + (i + 1) * length] = torch.from_numpy(vectors)
            groups.append((some, slice(at, at + len(some) * length), length))
            at += len(some) * length

    def search(query: np.ndarray) -> list[int]:
        q = torch.from_numpy(query).T.contiguous()
        scores = np.empty(len(points), np.float32)
        for some, where, length in groups:
            products = (held[where].float() @ q).view(len(some), length, -1)
            scores[some] = products.amax(1).sum(1).numpy()
        return points.best_pages(scores)

    return search, held.nbytes


def maxsim_cpu(points: Points) -> Peer:
    import maxsim_cpu as peer

    size = points.flat.size * 4
    if len(set(points.lengths.tolist())) == 1:
        whole = np.array(points.flat, np.float32).reshape(len(points), -1, points.flat.shape[1])
        return lambda query: points.best_pages(np.asarray(peer.maxsim_scores(query, whole))), size
    held = [vectors.astype(np.float32) for _, block in points.blocks() for vectors in block]
    return lambda query: points.best_pages(np.asarray(peer.maxsim_scores_variable(query, held))), size


def lancedb(points: Points, folder: Path, index: bool) -> Peer:
    """In float32: LanceDB's k-means takes four times as long over float16 vectors (docs/search.md)."""
    import lancedb as peer
    import pyarrow as pa
    from lancedb.index import IvfPq

    dim = points.flat.shape[1]
    schema = pa.schema([("point", pa.int64()), ("vector", pa.list_(pa.list_(pa.float32(), dim)))])

    def batches() -> Iterator[Any]:
        for first, block in points.blocks(500):
            inner = pa.FixedSizeListArray.from_arrays(
                pa.array(np.concatenate(block).astype(np.float32).reshape(-1)), dim
            )
            ends = np.concatenate([[0], np.cumsum([len(vectors) for vectors in block])]).astype(np.int32)
            numbers = pa.array(np.arange(first, first + len(block)))
            yield pa.record_batch([numbers, pa.ListArray.from_arrays(ends, inner)], schema=schema)

    database = peer.connect(str(folder))
    if "points" in database.list_tables().tables:  # the flat peer's
        table = database.open_table("points")
    else:
        table = database.create_table("points", pa.RecordBatchReader.from_batches(schema, batches()), schema=schema)
    if index:
        partitions = min(PARTITIONS, max(1, len(points.flat) // 256))
        table.create_index(
            "vector", config=IvfPq(distance_type="cosine", num_partitions=partitions, num_sub_vectors=dim // 8)
        )

    def search(query: np.ndarray) -> list[int]:
        asked = table.search(query).distance_type("cosine").limit(10 * points.variants).select(["point", "_distance"])
        asked = asked.refine_factor(10).nprobes(20) if index else asked.bypass_vector_index()
        return points.pages(asked.to_arrow()["point"].to_pylist())

    return search, sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def qdrant_local(points: Points) -> Peer:
    from qdrant_client import QdrantClient, models

    client = QdrantClient(":memory:")
    several = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
    size = points.flat.shape[1]
    client.create_collection(
        "points", models.VectorParams(size=size, distance=models.Distance.DOT, multivector_config=several)
    )
    for first, block in points.blocks(100):
        client.upsert("points", [models.PointStruct(id=first + i, vector=v.tolist()) for i, v in enumerate(block)])

    def search(query: np.ndarray) -> list[int]:
        hits = client.query_points("points", query=query.tolist(), limit=10 * points.variants).points
        return points.pages([int(hit.id) for hit in hits])

    return search, points.flat.size * 4


def qdrant_edge(points: Points, folder: Path, binary: bool, threads: int) -> Peer:
    """Qdrant's engine in this process: float16 vectors scanned, or one-bit codes scanned and the best scored again."""
    import qdrant_edge as peer

    if folder.exists():  # the other kind of search has made it
        shard = peer.EdgeShard.load(str(folder))
    else:
        folder.mkdir(parents=True)
        vectors = peer.EdgeVectorParams(
            points.flat.shape[1],
            peer.Distance.Dot,
            multivector_config=peer.MultiVectorConfig(peer.MultiVectorComparator.MaxSim),
            datatype=peer.VectorStorageDatatype.Float16,
            hnsw_config=peer.HnswIndexConfig(0, 16, 0),  # no edges: a scan
            quantization_config=peer.BinaryQuantizationConfig(memory=peer.Memory.Pinned),
        )
        settings = peer.EdgeConfig(vectors=vectors, max_search_threads=threads, wal_enabled=False)
        shard = peer.EdgeShard.create(str(folder), settings)
        for first, block in points.blocks(100):
            some = [peer.Point(first + i, v.astype(np.float32)) for i, v in enumerate(block)]
            shard.update(peer.UpdateOperation.upsert_points(some))
        shard.optimize()
        shard.flush()
    how = {"rescore": True, "oversampling": OVERSAMPLING} if binary else {"ignore": True}
    params = peer.SearchParams(exact=not binary, quantization=peer.QuantizationSearchParams(**how))

    def search(query: np.ndarray) -> list[int]:
        nearest = peer.Query.Nearest(query.tolist())
        hits = shard.query(peer.QueryRequest(limit=10 * points.variants, query=nearest, params=params))
        return points.pages([int(hit.id) for hit in hits])

    size = points.flat.size * 2 + (points.flat.size // 8 if binary else 0)
    return search, size


def open_peer(name: str, points: Points, folder: Path, threads: int) -> Peer:
    """A peer made ready. ImportError where it is not installed."""
    if name.startswith("torch"):
        return plain_torch(points, name.endswith("float16"))
    if name == "maxsim-cpu":
        return maxsim_cpu(points)
    if name.startswith("lancedb"):
        return lancedb(points, folder / "lancedb", name.endswith("ivf_pq"))
    if name.startswith("qdrant edge"):
        return qdrant_edge(points, folder / "qdrant", name.endswith("binary"), threads)
    return qdrant_local(points)
