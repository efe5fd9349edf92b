"""Files of a repository that lacks some of its blobs."""

from __future__ import annotations

import subprocess
from pathlib import Path

from reading_tools import script


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@b.example"]
    done = subprocess.run(["git", "-C", str(folder), *who, *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_what_is_there_is_written_and_what_is_not_is_counted(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "papers").mkdir(parents=True)
    git(source, "init", "-q")
    for name, content in (("a.pdf", b"one\n"), ("a copy.pdf", b"one\n"), ("ö.pdf", b"\x00two\xff"), ("gone.pdf", b"3")):
        (source / "papers" / name).write_bytes(content)
    (source / "notes.txt").write_text("no PDF")
    git(source, "add", ".")
    git(source, "commit", "-qm", "all")
    blob = git(source, "rev-parse", "HEAD:papers/gone.pdf")
    (source / ".git" / "objects" / blob[:2] / blob[2:]).unlink()

    files = script("git_files")
    assert files.extract(str(source), tmp_path / "out", (".pdf",), []) == (3, 1)
    found = {
        path.relative_to(tmp_path / "out").as_posix(): path.read_bytes() for path in (tmp_path / "out").rglob("*.pdf")
    }
    assert found["papers/a.pdf"] == found["papers/a copy.pdf"] == b"one\n", "each path, whatever shares its content"
    assert found["papers/ö.pdf"] == b"\x00two\xff"
    assert files.extract(str(source), tmp_path / "rest", ("",), ["notes.txt"]) == (1, 0)
