"""Kept by content, whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from varsdoc.errors import InputError
from varsdoc.evaluation.cache import Cache, default_folder

SOURCE = str(Path(__file__).parent.parent.parent / "src")


def test_what_was_stored_comes_back_in_float16(tmp_path: Path, random: np.random.Generator) -> None:
    cache = Cache(tmp_path)
    array = random.standard_normal((2, 3, 4)).astype(np.float32)
    cache.write_array("space", "ab12", array)
    found = cache.read_array("space", "ab12")
    assert found is not None
    assert found.dtype == np.float16
    np.testing.assert_array_equal(found, array.astype(np.float16))
    assert cache.read_array("other space", "ab12") is None


@pytest.mark.parametrize("damage", [b"", b"\x93NUMPY", b"something else entirely"])
def test_a_damaged_entry_is_made_again(tmp_path: Path, damage: bytes) -> None:
    cache = Cache(tmp_path)
    cache.write_array("s", "ab", np.ones((1, 2, 3)))
    cache.place("s", "ab", ".npy").write_bytes(damage)
    assert cache.read_array("s", "ab") is None
    assert cache.fill("s", ["ab"], lambda rows: [np.zeros((1, 2, 3))], 4) == 1
    assert cache.read_array("s", "ab") is not None


def test_a_truncated_entry_is_made_again(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.write_array("s", "ab", np.ones((10, 20, 30)))
    place = cache.place("s", "ab", ".npy")
    place.write_bytes(place.read_bytes()[:-100])
    assert not cache.has_array("s", "ab")


def test_only_what_is_missing_is_made_and_equal_content_once(tmp_path: Path) -> None:
    cache, made, told = Cache(tmp_path), [], []

    def make(rows: list[int]) -> list[np.ndarray]:
        made.extend(rows)
        return [np.full((1, 1, 1), row) for row in rows]

    cache.write_array("s", "b0", np.zeros((1, 1, 1)))
    assert cache.fill("s", ["a0", "b0", "a0", "c0"], make, 1, told.append) == 2
    assert made == [0, 3]
    assert sum(told) == 4
    assert [float(x.item()) for x in cache.arrays("s", ["a0", "c0"])] == [0.0, 3.0]


def test_a_killed_writer_leaves_whole_entries_only(tmp_path: Path) -> None:
    program = f"""
import numpy as np
from varsdoc.evaluation.cache import Cache
cache = Cache({str(tmp_path)!r})
print("go", flush=True)
for i in range(10**6):
    cache.write_array("s", f"{{i:032d}}", np.full((5, 200, 128), i % 100))
"""
    run = subprocess.Popen(
        [sys.executable, "-c", program], env=os.environ | {"PYTHONPATH": SOURCE}, stdout=subprocess.PIPE
    )
    assert run.stdout is not None
    run.stdout.readline()
    time.sleep(0.7)
    run.kill()
    run.wait()
    cache = Cache(tmp_path)
    entries = sorted(tmp_path.rglob("*.npy"))
    assert entries
    for entry in entries:
        found = cache.read_array("s", entry.stem)
        assert found is not None
        assert (found == int(entry.stem) % 100).all()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="give another folder with --cache"):
        Cache(tmp_path / "file").write_text("s", "ab", "x")


def test_the_default_place_is_the_users_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "varsdoc" / "eval"
