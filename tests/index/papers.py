"""Documents for tests: pictures, and PDFs with a text layer written by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image


def picture(path: Path, seed: int = 0, size: tuple[int, int] = (84, 112)) -> Path:
    """A page of coarse random squares, so that JPEG keeps what tells pages apart."""
    path.parent.mkdir(parents=True, exist_ok=True)
    squares(seed, size).save(path)
    return path


def squares(seed: int, size: tuple[int, int] = (84, 112)) -> Image.Image:
    colours = np.random.default_rng([seed, *size]).integers(0, 256, (size[1] // 14, size[0] // 14, 3), dtype=np.uint8)
    return Image.fromarray(colours).resize(size, Image.Resampling.NEAREST)


def tiff(path: Path, seeds: list[int]) -> Path:
    """A document of several small pages, which renders fast."""
    path.parent.mkdir(parents=True, exist_ok=True)
    first, *rest = [squares(seed) for seed in seeds]
    first.save(path, save_all=True, append_images=rest)
    return path


def pdf(path: Path, texts: list[str]) -> Path:
    """One page per text, in Helvetica."""
    path.parent.mkdir(parents=True, exist_ok=True)
    count = len(texts)
    kids = " ".join(f"{4 + 2 * i} 0 R" for i in range(count))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {count} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for i, text in enumerate(texts):
        drawn = f"BT /F1 18 Tf 30 150 Td ({text}) Tj ET"
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 200] /Contents {5 + 2 * i} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>"
        )
        objects.append(f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream")
    content, offsets = "%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        offsets.append(len(content))
        content += f"{number} 0 obj\n{body}\nendobj\n"
    start = len(content)
    content += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n" + "".join(f"{o:010d} 00000 n \n" for o in offsets)
    content += f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n"
    path.write_bytes(content.encode("latin-1"))
    return path
