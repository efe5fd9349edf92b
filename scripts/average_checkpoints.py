"""Average checkpoints that were trained from one start (varsdoc.training.average), and write them in int8.

    python scripts/average_checkpoints.py FIRST OTHER... --out FOLDER [--own]

The result has the variants of the first. Those with one variant take part in each of them; with --own, heads and probes
are those of checkpoints with as many variants, and the others take part in the rest.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from varsdoc.model import VarsDoc
from varsdoc.training.average import average


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoints", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--own", action="store_true", help="heads and probes of those with as many variants alone")
    asked = parser.parse_args()
    models = [VarsDoc.from_pretrained(folder, device="cpu", dtype="float32") for folder in asked.checkpoints]
    average(models, asked.own).save_pretrained(asked.out, dtype="int8")
    print(f"{len(models)} checkpoints averaged in {asked.out}")


if __name__ == "__main__":
    main()
