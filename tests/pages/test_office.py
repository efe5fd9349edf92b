"""Office files: through LibreOffice where there is one, a hint where there is none, and never a process left behind."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

from pages import made
from varsdoc.pages import DocumentEnd, Failure, Limits, Page, find, read
from varsdoc.pages.office import soffice

needs_soffice = pytest.mark.skipif(soffice() is None, reason="LibreOffice is not installed")
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")

# What LibreOffice's own launcher is: a script whose child does the work. This one's child does nothing for long.
STUCK = """#!/bin/sh
echo $$ > "$VARSDOC_TEST_PIDS"
sleep 1000 &
echo $! >> "$VARSDOC_TEST_PIDS"
wait
"""


def docx(text: str = "Quarterly figures", **more: bytes) -> bytes:
    """The least that Word calls a document."""
    types = (
        '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Override PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument.'
        'wordprocessingml.document.main+xml"/></Types>'
    )
    links = (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1" '
        'Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" '
        'Target="word/document.xml"/></Relationships>'
    )
    body = (
        '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>'
        f'<w:p><w:r><w:t>{text}</w:t></w:r></w:p><w:p><w:r><w:br w:type="page"/><w:t>Second page</w:t></w:r></w:p>'
        "</w:body></w:document>"
    )
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", types)
        archive.writestr("_rels/.rels", links)
        archive.writestr("word/document.xml", body)
        for name, data in more.items():
            archive.writestr(name, data)
    return buffer.getvalue()


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made; must be empty again in the end."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


@needs_soffice
def test_a_word_file_becomes_its_pages_in_its_place(tmp_path: Path, scratch: Path) -> None:
    made.write(tmp_path / "docs", {"a.pdf": made.pdf(["a"]), "b.docx": docx(), "c.pdf": made.pdf(["c"])})
    items = made.read_all(tmp_path / "docs")
    assert made.shape(items) == ["a.pdf:0", "a.pdf.", "b.docx:0", "b.docx:1", "b.docx.", "c.pdf:0", "c.pdf."]
    assert [item.text for item in items if isinstance(item, Page)] == ["a", "Quarterly figures", "Second page", "c"]
    assert list(scratch.iterdir()) == []


@needs_soffice
def test_a_damaged_office_file_is_named_and_leaves_nothing(tmp_path: Path, scratch: Path) -> None:
    rtf = b"{\\rtf1 nothing"
    made.write(tmp_path / "docs", {"a.docx": docx()[:300], "b.pptx": docx().replace(b"word/", b"wurd/"), "c.rtf": rtf})
    items = made.read_all(tmp_path / "docs")
    ends = {item.document.name: item for item in items if isinstance(item, DocumentEnd)}
    assert ends["a.docx"].failures[0].reason.startswith("It is a damaged office file")
    assert set(ends) == {"a.docx", "b.pptx", "c.rtf"}
    assert list(scratch.iterdir()) == []


def test_without_libreoffice_the_reason_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made.write(tmp_path, {"a.docx": docx(), "b.pdf": made.pdf(["b"])})
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("varsdoc.pages.office._PLACES", ())
    items = made.read_all(tmp_path)
    assert made.shape(items) == ["a.docx!", "a.docx.", "b.pdf:0", "b.pdf."]
    assert isinstance(items[0], Failure)
    assert "apt install libreoffice-impress" in items[0].reason


@pytest.fixture
def stuck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A LibreOffice that never ends; the file in which it and its child write their process numbers."""
    program, pids = tmp_path / "bin" / "soffice", tmp_path / "pids"
    made.write(tmp_path, {"bin/soffice": STUCK.encode()})
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("VARSDOC_TEST_PIDS", str(pids))
    return pids


def numbers(pids: Path) -> list[int]:
    return [int(line) for line in pids.read_text().split()] if pids.exists() else []


@linux
def test_a_conversion_that_never_ends_is_cut_off_with_all_its_processes(
    tmp_path: Path, stuck: Path, scratch: Path
) -> None:
    made.write(tmp_path / "docs", {"a.docx": docx(), "b.pdf": made.pdf(["b"])})
    items = made.read_all(tmp_path / "docs", limits=Limits(office_seconds=1.5))
    assert made.shape(items) == ["a.docx!", "a.docx.", "b.pdf:0", "b.pdf."]
    assert isinstance(items[0], Failure)
    assert items[0].reason == "LibreOffice took more than the limit of 1.5 seconds."
    assert len(numbers(stuck)) == 2
    assert made.wait_until(lambda: not any(made.alive(pid) for pid in numbers(stuck)), 3)
    assert list(scratch.iterdir()) == []


@linux
def test_a_killed_parent_leaves_no_libreoffice_and_no_temporary_folder(
    tmp_path: Path, stuck: Path, scratch: Path
) -> None:
    made.write(tmp_path / "docs", {"a.docx": docx()})
    code = "import sys; from varsdoc.pages import find, read; list(read(find([sys.argv[1]])))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    parent = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "docs")], env=environment)
    try:
        assert made.wait_until(lambda: len(numbers(stuck)) == 2, 20)
        assert list(scratch.iterdir())
        workers = made.children(parent.pid)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        everyone = numbers(stuck) + workers
        assert len(everyone) == 3
        assert made.wait_until(lambda: not any(made.alive(pid) for pid in everyone), 5)
        assert list(scratch.iterdir()) == []
    finally:
        parent.kill()
        parent.wait()


def test_zip_bombs_and_passwords_are_seen_before_libreoffice_is_started(tmp_path: Path, stuck: Path) -> None:
    encrypted = bytes.fromhex("d0cf11e0a1b11ae1") + bytes(600) + "EncryptedPackage".encode("utf-16-le")
    made.write(tmp_path / "docs", {"a.docx": docx(bomb=bytes(30 << 20)), "b.docx": encrypted})
    items = list(read(find([tmp_path / "docs"]), limits=Limits(max_unpacked_bytes=20 << 20)))
    reasons = [item.reason for item in items if isinstance(item, Failure)]
    assert reasons[0].startswith("It unpacks to 31,4")
    assert reasons[1] == "It is encrypted and needs a password; save a copy without one."
    assert numbers(stuck) == []
