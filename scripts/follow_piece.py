"""Let all variants of a checkpoint learn what one of them learnt in a piece of its own, and write it in int8.

    python scripts/follow_piece.py SEVERAL PIECE --out FOLDER [--variant 0] [--share 1.0]

PIECE began as that variant of SEVERAL (`source_variant` of its config). --share below 1 is a step towards it only:
between a start and what a piece ended with there is often something better than both.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from varsdoc.model import VarsDoc
from varsdoc.training.follow import follow


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("several", type=Path)
    parser.add_argument("piece", type=Path)
    parser.add_argument("--variant", type=int, default=0, help="which one the piece began as, counted from 0")
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    several, piece = (
        VarsDoc.from_pretrained(path, device="cpu", dtype="float32") for path in (asked.several, asked.piece)
    )
    follow(several, piece, asked.variant, asked.share).save_pretrained(asked.out, dtype="int8")
    print(f"{several.config.variants} variants in {asked.out}, {asked.share:g} of the way with {asked.piece}")


if __name__ == "__main__":
    main()
