"""Which documents are found, under which names, and what is said of the rest."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pages import made
from varsdoc.pages import Document, Failure, Limits, Tally, find
from varsdoc.pages.kinds import sniff


def names(*paths: Path | str, **options: object) -> list[str]:
    return made.shape(find(paths, **options))  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    good, png = made.pdf(), made.picture()
    files = {"b.pdf": good, "a/2.png": png, "a/1.pdf": made.pdf(["other"]), "c.txt": b"text", ".hidden.pdf": good}
    return made.write(tmp_path / "docs", files)


def test_a_folder_is_walked_in_order_and_the_rest_is_counted(folder: Path) -> None:
    tally = Tally()
    assert names(folder, tally=tally) == ["a/1.pdf", "a/2.png", "b.pdf"]
    assert (tally.hidden, tally.unsupported) == (1, 1)


def test_a_document_knows_its_hash_size_and_resolved_path(folder: Path) -> None:
    import hashlib

    (document,) = find([folder / "a" / ".." / "b.pdf"])
    assert isinstance(document, Document)
    data = (folder / "b.pdf").read_bytes()
    assert document == Document(str((folder / "b.pdf").resolve()), "b.pdf", hashlib.sha256(data).hexdigest(), len(data))


def test_globs_match_files_and_whole_folders(folder: Path) -> None:
    assert names(f"{folder}/*.pdf") == ["b.pdf"]
    assert names(f"{folder}/**/*.pdf") == ["a/1.pdf", "b.pdf"]
    assert names(f"{folder}/[a-b]") == ["a/1.pdf", "a/2.png"]
    assert names(f"{folder}/*/?.png") == ["a/2.png"]
    made.write(folder, {"odd[1].pdf": made.pdf()})
    assert names(folder / "odd[1].pdf") == ["odd[1].pdf"]  # a file of that name goes before a pattern


def test_the_kind_is_told_by_content_and_not_by_name(tmp_path: Path) -> None:
    made.write(
        tmp_path, {"scan.dat": made.pdf(), "photo.pdf": made.picture(), "notes.md": b"It says %PDF-1.4 somewhere"}
    )
    assert names(tmp_path) == ["photo.pdf", "scan.dat"]
    assert sniff(b"PK\x03\x04" + b"\0" * 26 + b"mimetypeapplication/vnd.oasis.opendocument.text", "letter") == "office"
    assert sniff(b"PK\x03\x04", "archive.zip") is None
    assert sniff(b"BMW is a maker of cars", "a.bmp") is None


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.pdf", b"", "It is empty (0 bytes)."),
        ("a.pdf", b"no pdf", "Its name says .pdf, but its content is not"),
        ("a.xyz", b"text", "It is none of the kinds that can be read"),
    ],
)
def test_a_named_file_that_cannot_be_used_is_a_failure(tmp_path: Path, name: str, data: bytes, said: str) -> None:
    made.write(tmp_path, {name: data})
    (failure,) = find([tmp_path / name])
    assert isinstance(failure, Failure)
    assert failure.reason.startswith(said)
    assert failure.source == str(tmp_path / name)


def test_what_is_not_there_is_said_in_one_sentence(tmp_path: Path) -> None:
    made.write(tmp_path, {"empty/note.txt": b"text"})
    os.mkfifo(tmp_path / "pipe.pdf")
    cases = {
        str(tmp_path / "gone.pdf"): "does not exist",
        str(tmp_path / "empty"): "holds no document that can be read",
        f"{tmp_path}/*.png": "Nothing matches",
        str(tmp_path / "pipe.pdf"): "It is not a regular file",
        "": "The path is empty",
        "a\0b": "The path is empty or has a NUL in it",
    }
    for path, said in cases.items():
        (failure,) = find([path])
        assert isinstance(failure, Failure)
        assert said in failure.reason


def test_a_file_over_the_limit_is_named_and_not_read(folder: Path) -> None:
    (failure,) = find([folder / "b.pdf"], limits=Limits(max_file_bytes=100))
    assert isinstance(failure, Failure)
    assert "more than the limit of 100" in failure.reason


def test_links_to_files_are_read_links_to_folders_are_not_entered(folder: Path, tmp_path: Path) -> None:
    outside = made.write(tmp_path / "outside", {"far.pdf": made.pdf(["far"]), "near.pdf": made.pdf(["near"])})
    (folder / "loop").symlink_to(folder)
    (folder / "away").symlink_to(outside)
    (folder / "linked.pdf").symlink_to(outside / "far.pdf")
    (folder / "twice.pdf").symlink_to(folder / "b.pdf")
    (folder / "broken.pdf").symlink_to(tmp_path / "nowhere.pdf")
    tally = Tally()
    assert names(folder, tally=tally) == ["a/1.pdf", "a/2.png", "b.pdf", "broken.pdf!", "linked.pdf"]
    assert (tally.linked_folders, tally.repeated) == (2, 1)
    assert names(f"{folder}/**/*.pdf") == ["a/1.pdf", "b.pdf", "broken.pdf!", "linked.pdf"]


def test_names_are_unique_over_several_arguments(tmp_path: Path) -> None:
    for place in ("x/2023", "x/2024", "y/2024"):
        made.write(tmp_path / place, {"report.pdf": made.pdf([place])})
    found = names(
        tmp_path / "x/2023", tmp_path / "x/2024", tmp_path / "y/2024/report.pdf", tmp_path / "x/2023/report.pdf"
    )
    assert found == ["report.pdf", "2024/report.pdf", "y/2024/report.pdf"]


def test_odd_names_are_shown_on_one_line_and_broken_ones_refused(tmp_path: Path) -> None:
    good = made.pdf()
    made.write(tmp_path, {"new\nline \u00e4\u4e2d.pdf": good})
    (tmp_path / os.fsdecode(b"caf\xe9.pdf")).write_bytes(good)
    failure, document = find([tmp_path])
    assert isinstance(failure, Failure)
    assert failure.reason == "Its name is not valid UTF-8; rename the file."
    assert failure.source.endswith("caf\\xe9.pdf")
    assert isinstance(document, Document)
    assert document.name == "new\\nline \u00e4\u4e2d.pdf"
    assert made.shape(made.read_all(document.source))[0].endswith(":0")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_named(folder: Path) -> None:
    (folder / "b.pdf").chmod(0)
    assert names(folder) == ["a/1.pdf", "a/2.png", "b.pdf!"]
