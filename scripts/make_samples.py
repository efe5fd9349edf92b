"""Write the sample documents of `varsdoc demo`: a dozen files, two dozen pages, all invented.

    python scripts/make_samples.py [--into src/varsdoc/samples]

The PDFs of printed.py and columns.py are written by hand and have a text layer; the others are pictures. Pixels are
the same each time; bytes are as far as the JPEG and TIFF writers at hand allow.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from PIL import Image

from sample_documents import columns, pictured, printed
from sample_documents.scans import scanned
from sample_documents.sheets import PictureSheet, pdf_bytes

HERE = Path(__file__).resolve().parent
DAY = time.gmtime(1735689600)  # in the PDFs' dates; the clock's would change the bytes


def write_all(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, sheets in (
        ("annual-report.pdf", printed.annual_report()),
        ("ferry-app-slides.pdf", printed.slides()),
        ("lab-safety-manual.pdf", printed.manual()),
        ("moss-paper.pdf", columns.paper()),
        ("newsletter.pdf", columns.newsletter()),
    ):
        (folder / name).write_bytes(pdf_bytes(sheets, name.removesuffix(".pdf")))
    for name, sheet in (
        ("travel-claim-form.pdf", pictured.travel_form()),
        ("invoice.pdf", pictured.invoice()),
        ("bus-timetable.pdf", pictured.timetable()),
    ):
        _picture_pdf(sheet, folder / name)
    _flat(pictured.rainfall_chart()).save(folder / "rainfall-chart.png", optimize=True)
    scanned(pictured.letter().image, seed=1, skew=1.2).save(folder / "letter-scan.jpg", quality=55)
    scanned(pictured.receipt().image, seed=2, skew=-0.8, noise=3).save(folder / "receipt.jpg", quality=60)
    pages = [
        scanned(sheet.image, seed=3 + i, skew=0.7 - 1.1 * i, noise=2)
        .point(lambda grey: 255 * (grey > 150))
        .convert("1")
        for i, sheet in enumerate(pictured.minutes())
    ]
    pages[0].save(folder / "minutes-fax.tif", save_all=True, append_images=pages[1:], compression="group4")


def _flat(sheet: PictureSheet) -> Image.Image:
    """Few colours: drawn pages need no more, and the file is a quarter."""
    return sheet.image.quantize(32, dither=Image.Dither.NONE)


def _picture_pdf(sheet: PictureSheet, path: Path) -> None:
    sheet.image.save(
        path,
        quality=60,
        resolution=72 * sheet.scale,
        title=path.stem,
        creationDate=DAY,
        modDate=DAY,
        producer="varsdoc",
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=Path, default=HERE.parent / "src" / "varsdoc" / "samples")
    write_all(parser.parse_args().into)
