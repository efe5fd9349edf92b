"""Damaged, encrypted and hostile files: each is named with its reason, no crash, no hang, the rest goes on."""

from __future__ import annotations

import io
import os
import signal
import struct
import sys
import threading
import time
import zlib
from pathlib import Path

import pytest
from PIL import Image

from pages import made
from varsdoc.pages import DocumentEnd, Failure, Limits, Page, find, read

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc, or needs RLIMIT_AS to hold")


def test_fifty_damaged_pdfs_in_one_folder_are_each_read_or_named(tmp_path: Path) -> None:
    made.write(tmp_path, {f"{seed:02d}.pdf": made.damaged(seed) for seed in range(50)})
    made.write(tmp_path, {"good.pdf": made.pdf(["still", "here"])})
    began = time.monotonic()
    items = made.read_all(tmp_path)
    assert time.monotonic() - began < 60
    assert made.shape(items)[-3:] == ["good.pdf:0", "good.pdf:1", "good.pdf."]
    spoken = {Path(item.source).name for item in items if isinstance(item, Failure)}
    whole = {end.document.name for end in items if isinstance(end, DocumentEnd) and end.ok}  # PDFium mended it
    assert spoken.isdisjoint(whole)
    assert spoken | whole == {path.name for path in tmp_path.iterdir()}
    assert {f"{seed:02d}.pdf" for seed in range(50) if seed % 5 in (3, 4)} <= spoken
    assert all(item.reason.endswith(".") and "\n" not in item.reason for item in items if isinstance(item, Failure))


def test_an_encrypted_pdf_says_so(tmp_path: Path) -> None:
    made.write(tmp_path, {"a.pdf": made.encrypted_pdf()})
    assert made.only_failure(tmp_path) == "It is encrypted and needs a password; save a copy without one."


def test_a_pdf_of_a_hundred_thousand_pages_is_refused_by_its_count(tmp_path: Path) -> None:
    made.write(tmp_path, {"a.pdf": made.pdf(count=100_000)})
    assert made.only_failure(tmp_path) == "It has 100,000 pages, more than the limit of 10,000; split it."


def test_a_pdf_that_promises_pages_it_has_not_is_given_up_before_it_names_them_all(tmp_path: Path) -> None:
    made.write(tmp_path, {"a.pdf": made.pdf(["one", "two"], count=500)})
    items = made.read_all(tmp_path)
    end = items[-1]
    assert isinstance(end, DocumentEnd)
    assert end.unreadable
    assert end.failures[-1].reason.startswith("More than 20 of its pages cannot be read")
    assert len(items) < 30


@pytest.mark.parametrize(
    ("box", "said"),
    [
        ("0 0 300000 300000", "more than 100,000"),
        ("0 0 10 5000", "one side is over 200 times the other"),
    ],
)
def test_absurd_page_sizes_cost_the_page_and_not_the_document(tmp_path: Path, box: str, said: str) -> None:
    good = made.pdf(["a", "b"])
    made.write(tmp_path, {"a.pdf": good.replace(b"[0 0 595 842]", f"[{box}]".encode(), 1)})
    items = made.read_all(tmp_path)
    assert made.shape(items) == ["a.pdf!0", "a.pdf:1", "a.pdf."]
    assert isinstance(items[0], Failure)
    assert said in items[0].reason
    assert isinstance(items[2], DocumentEnd)
    assert (items[2].pages, items[2].ok, items[2].unreadable, items[2].failures) == (1, False, False, (items[0],))


@pytest.mark.parametrize("box", ["0 0 0 0", "0 0 nan nan", "0 0 -5 -5", "0 0 1e99 1e99", "0 0 .01 .01", "a b c d", ""])
def test_nonsense_page_sizes_are_drawn_or_named(tmp_path: Path, box: str) -> None:
    made.write(tmp_path, {"a.pdf": made.pdf(size=box)})
    items = made.read_all(tmp_path)
    assert made.shape(items) in (["a.pdf:0", "a.pdf."], ["a.pdf!0", "a.pdf."])
    assert all(max(item.width, item.height) <= 1600 for item in items if isinstance(item, Page))


def test_a_page_that_never_ends_is_cut_off_and_the_pages_behind_it_come(tmp_path: Path) -> None:
    made.write(tmp_path, {"a.pdf": made.endless_pdf(pages=6, at=2), "b.pdf": made.pdf(["b"])})
    items = made.read_all(tmp_path, limits=Limits(seconds=2))
    expected = ["a.pdf:0", "a.pdf:1", "a.pdf!2", "a.pdf:3", "a.pdf:4", "a.pdf:5", "a.pdf.", "b.pdf:0", "b.pdf."]
    assert made.shape(items) == expected
    assert isinstance(items[2], Failure)
    assert items[2].reason == "It took more than the limit of 2 seconds."


def test_a_document_that_costs_worker_after_worker_is_given_up(tmp_path: Path) -> None:
    forms = made.endless_pdf(pages=8, at=0)
    for number in range(1, 8):
        forms = forms.replace(f"(Page {number})".encode(), b"/Next Do")
    endless = b"BT /F1 24 Tf 60 700 Td /Next Do Tj ET"
    assert forms.count(endless) == 7
    made.write(tmp_path, {"a.pdf": forms, "b.pdf": made.pdf(["b"])})
    began = time.monotonic()
    items = made.read_all(tmp_path, limits=Limits(seconds=1, max_crashes=2), workers=1)
    assert time.monotonic() - began < 30
    end = next(item for item in items if isinstance(item, DocumentEnd))
    assert end.unreadable
    assert end.failures[-1].reason.startswith("2 of its pages could not be drawn")
    assert made.shape(items)[-2:] == ["b.pdf:0", "b.pdf."]


@linux
def test_a_page_that_unpacks_to_more_than_its_memory_costs_a_worker_and_nothing_else(tmp_path: Path) -> None:
    made.write(tmp_path, {"a.pdf": made.heavy_pdf(400), "b.pdf": made.pdf(["b"])})
    seen, done = [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.01):
            seen.extend(made.resident(pid) for pid in made.children())

    watcher = threading.Thread(target=watch)
    watcher.start()
    items = made.read_all(tmp_path, limits=Limits(memory=200 << 20), workers=1)
    done.set()
    watcher.join()
    assert made.shape(items) == ["a.pdf!0", "a.pdf.", "b.pdf:0", "b.pdf."]
    assert isinstance(items[0], Failure)
    assert "memory" in items[0].reason
    assert isinstance(items[1], DocumentEnd)
    assert items[1].unreadable
    assert 0 < max(seen) < 300 << 20


def test_a_picture_larger_than_the_memory_is_named_and_the_next_one_comes(tmp_path: Path) -> None:
    made.write(tmp_path, {"a.png": made.picture(size=(9000, 9000)), "b.png": made.picture()})
    items = made.read_all(tmp_path, limits=Limits(memory=100 << 20), workers=1)
    if sys.platform.startswith("linux"):
        assert made.shape(items) == ["a.png!0", "a.png.", "b.png:0", "b.png."]
        assert items[0].reason == "It needs more than the 100 MiB of memory that a file may take."  # type: ignore
    assert made.shape(items)[-2:] == ["b.png:0", "b.png."]


@linux
def test_a_worker_that_crashes_costs_one_page(tmp_path: Path) -> None:
    made.write(tmp_path, {"a.pdf": made.endless_pdf(pages=3, at=1), "b.pdf": made.pdf(["b"])})
    stream = read(find([tmp_path]), limits=Limits(seconds=60), workers=1)
    assert made.shape([next(stream)]) == ["a.pdf:0"]
    (worker,) = made.children()
    time.sleep(0.5)  # within the endless page by now
    os.kill(worker, signal.SIGSEGV)
    items = list(stream)
    assert made.shape(items) == ["a.pdf!1", "a.pdf:2", "a.pdf.", "b.pdf:0", "b.pdf."]
    assert isinstance(items[0], Failure)
    assert items[0].reason == "The program that draws pages crashed (SIGSEGV) on it."


def test_a_file_that_changes_between_finding_and_reading_is_refused(tmp_path: Path) -> None:
    made.write(tmp_path, {"a.pdf": made.pdf(["before"]), "b.pdf": made.pdf(["b"]), "c.pdf": made.pdf(["c"])})
    found = list(find([tmp_path]))
    (tmp_path / "a.pdf").write_bytes(made.pdf(["after"]))
    (tmp_path / "b.pdf").unlink()
    items = list(read(found))
    assert made.shape(items) == ["a.pdf!", "a.pdf.", "b.pdf!", "b.pdf.", "c.pdf:0", "c.pdf."]
    assert [item.reason for item in items if isinstance(item, Failure)] == [
        "It changed while it was being read; add it again.",
        "It cannot be read: No such file or directory.",
    ]


def png_of(width: int, height: int) -> bytes:
    """A PNG that says how large it is and holds a few bytes."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(b"\0" * 1000)), (b"IEND", b""))
    body = b"".join(struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in chunks)
    return b"\x89PNG\r\n\x1a\n" + body


def test_picture_bombs_are_refused_before_they_are_decoded(tmp_path: Path) -> None:
    gif = b"GIF89a" + struct.pack("<HH", 65_000, 65_000) + bytes(20)
    made.write(tmp_path, {"a.png": png_of(100_000, 100_000), "b.png": png_of(20_000, 10_000), "c.gif": gif})
    items = made.read_all(tmp_path)
    assert made.shape(items) == ["a.png!", "a.png.", "b.png!", "b.png.", "c.gif!", "c.gif."]
    assert all("more than 178,956,970" in item.reason for item in items[:4:2])  # type: ignore[union-attr]
    made.write(tmp_path, {"d.png": made.picture(size=(300, 200))})
    assert "more than 50,000 pixels" in made.only_failure(tmp_path / "d.png", limits=Limits(max_pixels=50_000))


def test_damaged_pictures_are_named_and_a_bad_frame_costs_one_page(tmp_path: Path) -> None:
    good = {kind: made.picture(format=kind) for kind in ("PNG", "JPEG", "WEBP", "GIF", "BMP")}
    made.write(tmp_path, {f"{kind.lower()}.cut": data[: len(data) * 2 // 3] for kind, data in good.items()})
    items = made.read_all(tmp_path)
    assert len([item for item in items if isinstance(item, DocumentEnd)]) == 5
    assert {end.document.name for end in items if isinstance(end, DocumentEnd) and end.ok} == set()
    tiff = io.BytesIO()
    frames = [Image.new("RGB", (30, 20), colour) for colour in ("black", "white", "red")]
    frames[0].save(tiff, "TIFF", save_all=True, append_images=frames[1:], compression="tiff_adobe_deflate")
    data = bytearray(tiff.getvalue())
    packed = zlib.compress(bytes(1))[:2]
    second = data.index(packed, data.index(packed) + 2)
    data[second : second + 8] = b"\xff" * 8
    made.write(tmp_path / "tiff", {"a.tiff": bytes(data)})
    assert made.shape(made.read_all(tmp_path / "tiff")) == ["a.tiff:0", "a.tiff!1", "a.tiff:2", "a.tiff."]


def test_a_jpeg_with_baggage_behind_the_picture_is_encoded_anew(tmp_path: Path) -> None:
    made.write(tmp_path, {"a.jpg": made.picture(format="JPEG") + b"\0" * 500_000})
    page = made.read_all(tmp_path)[0]
    assert isinstance(page, Page)
    assert len(page.jpeg) < 20_000


def test_a_tiff_whose_frames_run_in_a_circle_ends(tmp_path: Path) -> None:
    tiff = io.BytesIO()
    Image.new("L", (8, 8)).save(tiff, "TIFF")
    data = bytearray(tiff.getvalue())
    (start,) = struct.unpack_from("<I", data, 4)
    (tags,) = struct.unpack_from("<H", data, start)
    struct.pack_into("<I", data, start + 2 + 12 * tags, start)
    made.write(tmp_path, {"a.tiff": bytes(data)})
    assert made.shape(made.read_all(tmp_path, limits=Limits(seconds=5)))[-1] == "a.tiff."
