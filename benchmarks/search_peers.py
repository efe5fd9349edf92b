"""Other engines on the same pages, for benchmarks/search_cpu.py: every variant a point, points grouped by page.

Each engine is given float vectors (pages * K, M, D) and answers with the pages of its best points, best first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

Search = Callable[[np.ndarray], list[int]]
PEERS = ("torch float32", "torch float16", "maxsim-cpu", "lancedb flat", "qdrant local")
ON_DEMAND = ("lancedb ivf_pq",)  # its training takes long on two cores: name it in --peers


@dataclass
class Points:
    """Vectors of all points on disk, one length."""

    array: np.ndarray  # (points, M, D) float16, memory-mapped
    variants: int

    def pages(self, points: np.ndarray | list[int], k: int = 10) -> list[int]:
        """Points, best first -> their pages, each once."""
        return list(dict.fromkeys(int(point) // self.variants for point in points))[:k]


def plain_torch(points: Points, half: bool) -> tuple[Search, int]:
    """One matrix product and a maximum for 200 points at a time; float16 is widened block by block."""
    held = torch.from_numpy(np.array(points.array, np.float16 if half else np.float32))
    count, m, d = held.shape

    def search(query: np.ndarray) -> list[int]:
        q = torch.from_numpy(query).T.contiguous()
        scores = torch.cat(
            [(held[i : i + 200].float().view(-1, d) @ q).view(-1, m, q.shape[1]).amax(1).sum(1)
             for i in range(0, count, 200)]
        )  # fmt: skip
        best = scores.view(-1, points.variants).amax(1)
        return best.topk(10).indices.tolist()

    return search, held.nbytes


def maxsim_cpu(points: Points) -> tuple[Search, int]:
    import maxsim_cpu as peer

    held = np.array(points.array, np.float32)

    def search(query: np.ndarray) -> list[int]:
        scores = np.asarray(peer.maxsim_scores(query, held))
        return np.argsort(-scores.reshape(-1, points.variants).max(1))[:10].tolist()

    return search, held.nbytes


def lancedb(points: Points, folder: Path, index: bool) -> tuple[Search, int]:
    import lancedb as peer
    import pyarrow as pa

    count, m, d = points.array.shape
    kind = pa.list_(pa.list_(pa.float16(), d))
    schema = pa.schema([("point", pa.int64()), ("vector", kind)])

    def batches(size: int = 500):
        for start in range(0, count, size):
            block = np.ascontiguousarray(points.array[start : start + size])
            inner = pa.FixedSizeListArray.from_arrays(pa.array(block.reshape(-1)), d)
            outer = pa.ListArray.from_arrays(np.arange(0, (len(block) + 1) * m, m, dtype=np.int32), inner)
            yield pa.record_batch([pa.array(np.arange(start, start + len(block))), outer], schema=schema)

    table = peer.connect(str(folder)).create_table(
        f"points_{index}", pa.RecordBatchReader.from_batches(schema, batches()), schema=schema
    )
    if index:
        table.create_index(metric="cosine", vector_column_name="vector", index_type="IVF_PQ")
    limit = 10 * points.variants

    def search(query: np.ndarray) -> list[int]:
        found = (
            table.search(query.astype(np.float16)).distance_type("cosine").limit(limit).select(["point", "_distance"])
        )
        if index:
            found = found.refine_factor(4)
        return points.pages(found.to_arrow()["point"].to_pylist())

    return search, sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def qdrant_local(points: Points) -> tuple[Search, int]:
    from qdrant_client import QdrantClient, models

    client = QdrantClient(":memory:")
    count, m, d = points.array.shape
    several = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
    client.create_collection(
        "points", models.VectorParams(size=d, distance=models.Distance.DOT, multivector_config=several)
    )
    for start in range(0, count, 100):
        block = np.asarray(points.array[start : start + 100], np.float32)
        client.upsert("points", [models.PointStruct(id=start + i, vector=v.tolist()) for i, v in enumerate(block)])

    def search(query: np.ndarray) -> list[int]:
        hits = client.query_points("points", query=query.tolist(), limit=10 * points.variants).points
        return points.pages([int(hit.id) for hit in hits])

    return search, count * m * d * 4


def open_peer(name: str, points: Points, folder: Path) -> tuple[Search, int]:
    """A peer made ready, and the bytes it holds for its vectors. ImportError where it is not installed."""
    if name.startswith("torch"):
        return plain_torch(points, name.endswith("float16"))
    if name == "maxsim-cpu":
        return maxsim_cpu(points)
    if name.startswith("lancedb"):
        return lancedb(points, folder / name.replace(" ", "_"), name.endswith("ivf_pq"))
    return qdrant_local(points)
