"""Put the variant of a K=1 checkpoint first in another one on the same trunk, and write it in int8.

    python scripts/seat_variant.py SEVERAL SINGLE --instead-of 1 --out FOLDER

SEVERAL loses its variant of that number (`varsdoc eval` says which never win); everything else stays as it is.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from varsdoc.model import VarsDoc
from varsdoc.training.seat import seat


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("several", type=Path)
    parser.add_argument("single", type=Path)
    parser.add_argument("--instead-of", type=int, required=True, help="the variant that goes, counted from 0")
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    several, single = (
        VarsDoc.from_pretrained(path, device="cpu", dtype="float32") for path in (asked.several, asked.single)
    )
    seat(several, single, asked.instead_of).save_pretrained(asked.out, dtype="int8")
    print(f"{several.config.variants} variants in {asked.out}, the first from {asked.single}")


if __name__ == "__main__":
    main()
