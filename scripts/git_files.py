"""The files of git repositories that are there, for scripts/pdf_words.py and scripts/chart_pages.py.

    python scripts/git_files.py REPOSITORY=FOLDER... [--ends .pdf .PDF] [--below PATH...]

REPOSITORY may be bare. Files of its HEAD are written under their paths. A mirror may lack its largest files, and
`git archive` and `git checkout` stop at the first of them; here they are counted and the rest goes on.
"""

from __future__ import annotations

import argparse
import os
import subprocess
from pathlib import Path


def listed(repository: str, ends: tuple[str, ...], below: list[str]) -> dict[str, bytes]:
    """Path -> blob. Paths may share one: captions of two charts can be the same."""
    command = ["git", "-C", repository, "ls-tree", "-r", "-z", "HEAD", *below]
    entries = subprocess.run(command, capture_output=True, check=True).stdout.split(b"\0")
    parted = (entry.partition(b"\t") for entry in entries if entry)
    return {
        os.fsdecode(path): facts.split()[2]
        for facts, _, path in parted
        if os.fsdecode(path).endswith(ends) and facts.split()[1] == b"blob"
    }


def extract(repository: str, folder: Path, ends: tuple[str, ...], below: list[str]) -> tuple[int, int]:
    """How many files were written, and how many are not in the repository."""
    files = listed(repository, ends, below)
    written = 0
    environment = {**os.environ, "GIT_NO_LAZY_FETCH": "1"}
    command = ["git", "-C", repository, "cat-file", "--batch"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as reader:
        questions, answers = reader.stdin, reader.stdout
        assert questions is not None
        assert answers is not None
        for path, blob in files.items():
            questions.write(blob + b"\n")
            questions.flush()
            answer = answers.readline().split()
            if len(answer) < 3:  # "BLOB missing" in place of "BLOB blob SIZE"
                continue
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(answers.read(int(answer[2])))
            answers.read(1)
            written += 1
        questions.close()
    return written, len(files) - written


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+", metavar="REPOSITORY=FOLDER")
    parser.add_argument("--ends", nargs="+", default=[""])
    parser.add_argument("--below", nargs="*", default=[])
    options = parser.parse_args()
    for source in options.sources:
        repository, folder = source.rsplit("=", 1)
        written, absent = extract(repository, Path(folder), tuple(options.ends), options.below)
        print(f"{folder}: {written} files{f'; {absent} are not in the repository' if absent else ''}")


if __name__ == "__main__":
    main()
