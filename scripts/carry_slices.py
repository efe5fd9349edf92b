"""Spread packs and judged folders over slices that fit one call to another machine.

    python scripts/carry_slices.py PACKS_OR_FOLDERS... --into data [--mib 50] [--judged FOLDER...]

Every pack below the named folders goes, whole, into DATA/slice-0, slice-1, ... of at most --mib; judged folders into
DATA/dev (queries, judgements and images as they are). Prints the slices with their sizes: carry them one or two a call.
The reading stage finds packs anywhere below a folder (`pairs: [data]`). Files are hard links where the disk allows it.
"""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def link(source: Path, target: Path) -> None:
    """Copy a folder by hard links, or as it is where the disks differ."""
    for path in sorted(source.rglob("*")):
        if path.is_file():
            place = target / path.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(path, place)
            except OSError:
                shutil.copyfile(path, place)


def spread(packs: list[Path], limit: int) -> list[list[Path]]:
    """Largest first, each into the first slice with room."""
    slices: list[list[Path]] = []
    sizes: list[int] = []
    for pack in sorted(packs, key=lambda pack: (-size_of(pack), pack.name)):
        size = size_of(pack)
        room = next((i for i, held in enumerate(sizes) if held + size <= limit), len(sizes))
        if room == len(sizes):
            slices.append([])
            sizes.append(0)
        slices[room].append(pack)
        sizes[room] += size
    return slices


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packs", nargs="+", type=Path)
    parser.add_argument("--into", type=Path, default=Path("data"))
    parser.add_argument("--mib", type=int, default=50)
    parser.add_argument("--judged", nargs="*", type=Path, default=[])
    options = parser.parse_args()
    for old in (*options.into.glob("slice-*"), options.into / "dev"):
        shutil.rmtree(old, ignore_errors=True)
    packs = [path.parent for folder in options.packs for path in folder.rglob("pack.npz")]
    for i, some in enumerate(spread(packs, options.mib * 1024**2)):
        for pack in some:
            link(pack, options.into / f"slice-{i}" / pack.name)
    for folder in options.judged:
        link(folder, options.into / "dev" / folder.name)
    for made in sorted(path for path in options.into.iterdir() if path.is_dir()):
        print(f"{made}  {size_of(made) / 1024**2:.1f} MiB")


if __name__ == "__main__":
    main()
