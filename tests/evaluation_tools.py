"""What evaluation's tests share: a judged folder on disk, and a retriever whose vectors are drawn from the content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from varsdoc.evaluation.retrievers.protocol import Identity

PAGES = ("p0", "p1", "p2", "p3", "p4", "p5")
QUERIES = {
    "q0": ("alpha pump", "english"),
    "q1": ("beta valve", "english"),
    "q2": ("gamma tank", "english"),
    "q3": ("delta motor", "english"),
    "q4": ("pompe alpha", "french"),
    "q5": ("vanne beta", "french"),
    "q6": ("cuve gamma", "french"),
    "q7": ("moteur delta", "french"),
}
WORDS = ("alpha pump", "beta valve", "gamma tank", "delta motor", "epsilon gear", "zeta bolt")


def picture(text: str, size: tuple[int, int] = (140, 112)) -> Image.Image:
    image = Image.new("RGB", size, "white")
    ImageDraw.Draw(image).text((8, 20), text, fill="black")
    return image


def write_folder(root: Path, pages: Sequence[str] = PAGES, extra_rows: Sequence[str] = ()) -> Path:
    """A BEIR folder with pictures; query i is answered by page i % 4, and q0 also a little by p5."""
    (root / "images").mkdir(parents=True)
    (root / "qrels").mkdir()
    for page, words in zip(pages, WORDS, strict=False):
        picture(words).save(root / "images" / f"{page}.png")
    write_lines(root / "corpus.jsonl", [{"_id": page, "image": f"images/{page}.png"} for page in pages])
    write_lines(
        root / "queries.jsonl", [{"_id": q, "text": text, "language": lang} for q, (text, lang) in QUERIES.items()]
    )
    rows = [f"q{i}\tp{i % 4}\t2" for i in range(8)] + ["q0\tp5\t1", "q1\tp5\t0", *extra_rows]
    (root / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *rows]) + "\n")
    return root


def write_lines(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


class RandomRetriever:
    """Vectors drawn from a hash of the content: the same page has the same vectors, and nothing is learned."""

    def __init__(self, variants: int = 3, dim: int = 16, name: str = "random") -> None:
        self.identity = Identity(name, "random", f"{variants:08d}{dim:08d}", variants, 12, "float32", "cpu", "a test's")
        self.dim = dim
        self.pages_encoded = self.queries_encoded = 0
        self.fail_after: int | None = None

    def encode_pages(self, images: Sequence[Any]) -> list[np.ndarray]:
        if self.fail_after is not None and self.pages_encoded >= self.fail_after:
            raise KeyboardInterrupt
        self.pages_encoded += len(images)
        k = self.identity.variants
        return [draw(image.tobytes(), (k, 4 + image.width % 5, self.dim)) for image in images]

    def encode_queries(self, texts: Sequence[str]) -> list[np.ndarray]:
        self.queries_encoded += len(texts)
        return [draw(text.encode(), (3 + len(text) % 4, self.dim)) for text in texts]


def draw(content: bytes, shape: tuple[int, ...]) -> np.ndarray:
    seed = int.from_bytes(hashlib.sha256(content).digest()[:8], "little")
    vectors = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def write_pdf(path: Path, texts: list[str]) -> None:
    """A plain PDF by hand: one line of Helvetica a page, 200 x 100 points."""
    kids = " ".join(f"{4 + 2 * i} 0 R" for i in range(len(texts)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(texts)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for i, text in enumerate(texts):
        stream = f"BT /F1 12 Tf 10 50 Td ({text}) Tj ET"
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 100] /Contents {5 + 2 * i} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>"
        )
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    out, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n".encode()
    start = len(out)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode()
    out += b"".join(f"{place:010d} 00000 n \n".encode() for place in places)
    out += f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n".encode()
    path.write_bytes(out)
