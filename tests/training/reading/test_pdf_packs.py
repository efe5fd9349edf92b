"""scripts/pdf_words.py: PDFs with text layers become packs whose words lie on their ink, without near-duplicates."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from reading_tools import script
from varsdoc.training.reading.packs import Pack

TEXT = "The annual report of the steel company says that net income rose in Europe and Asia while costs fell by half in"


def write_pdf(path: Path, pages: list[str]) -> None:
    """A PDF by hand: one text object a page, Helvetica, thirty lines of which each is numbered."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", "", "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    kids = []
    for text in pages:
        lines = "".join(f"1 0 0 1 60 {740 - 20 * i} Tm ({text} {i}) Tj\n" for i in range(12))
        stream = f"BT /F1 9 Tf\n{lines}ET"
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {len(objects)} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>"
        )
        kids.append(f"{len(objects)} 0 R")
    objects[1] = f"<< /Type /Pages /Count {len(kids)} /Kids [{' '.join(kids)}] >>"
    data, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(data))
        data += f"{number} 0 obj\n{content}\nendobj\n".encode()
    start = len(data)
    data += f"xref\n0 {len(places) + 1}\n0000000000 65535 f \n".encode()
    data += b"".join(f"{place:010d} 00000 n \n".encode() for place in places)
    data += f"trailer << /Size {len(places) + 1} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n".encode()
    path.write_bytes(data)


def test_pdfs_become_packs_of_different_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pypdfium2")
    folder, target = tmp_path / "pdfs", tmp_path / "packs"
    folder.mkdir()
    other = "Minutes of a meeting of the board in Paris about pumps valves and seven new bridges over the river Main"
    write_pdf(folder / "a.pdf", [TEXT, "short", other])
    write_pdf(folder / "b.pdf", [TEXT])  # the same page again
    (folder / "c.pdf").write_bytes(b"%PDF broken")
    command = ["pdf_words.py", f"made={folder}", "--into", str(target), "--licence", "made=none"]
    monkeypatch.setattr(sys, "argv", command)
    pdf_words = script("pdf_words")
    pdf_words.main()
    pack = Pack(target / "made-00")
    assert len(pack) == 2
    texts = sorted(" ".join(word.text for word in pack[i].words[:4]) for i in range(2))
    assert texts == ["Minutes of a meeting", "The annual report of"]
    for i in range(2):
        image = np.asarray(pack[i].image().convert("L")).astype(int)
        height, width = image.shape
        for word in pack[i].words:
            x0, y0, x1, y1 = (
                int(side * size) for side, size in zip(word.box, (width, height, width, height), strict=True)
            )
            assert np.ptp(image[y0 : y1 + 1, x0 : x1 + 1]) > 80
    facts = json.loads((target / "made.json").read_text())
    assert (facts["files"], facts["pages"], facts["licence"]) == (3, 2, "none")
    (folder / "a.pdf").unlink()
    pdf_words.main()
    assert len(Pack(target / "made-00")) == 2, "a packed source is left alone"
