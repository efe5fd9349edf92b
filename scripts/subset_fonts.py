"""Cut fonts to Latin and copy them into a folder, at most four faces a family and 20 MB in all.

    pip install fonttools && python scripts/subset_fonts.py UNPACKED_PACKAGES TARGET

Called by collect_fonts.sh. Non-Latin scripts, icons, mathematics and broken files are left out by asking each file
whether it has the printable ASCII characters.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTFont

# ASCII, Latin-1 and the marks that documents print: dashes, quotes, bullets, euro, trade mark.
KEEP = [*range(0x20, 0x7F), *range(0xA0, 0x100), 0x2013, 0x2014, 0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2026]
KEEP += [0x20AC, 0x2122]
LIMIT = 20_000_000
FACES = 4
LARGEST = 200_000  # a variable or very detailed face takes the room of five others
UNWANTED = re.compile(
    r"^noto|icon|emoji|math|symbol|braille|ding|barcode|smallcap|caps\b|outline|shadow|invisible|^[ds]050000l",
    re.IGNORECASE,
)
WANTED_NOTO = re.compile(r"^noto(sans|serif|sansmono|sansdisplay|serifdisplay)-", re.IGNORECASE)
ORDER = ("regular", "roman", "book", "medium", "bold", "italic", "oblique")


def family(path: Path) -> str:
    return re.split(r"[-_ ]", path.stem)[0].lower()


def rank(path: Path) -> tuple[int, int, str]:
    """Regular, bold and italic before light, black and condensed."""
    name = path.stem.lower()
    odd = any(word in name for word in ("cond", "narrow", "extra", "thin", "hair", "black", "heavy", "semi", "light"))
    place = next((i for i, word in enumerate(ORDER) if word in name), 0)
    return (int(odd), place, name)


def shrink(source: Path, target: Path) -> int:
    font = TTFont(source, lazy=False)
    missing = set(range(0x21, 0x7F)) - set(font.getBestCmap() or {})
    if missing:
        raise ValueError(f"no {chr(min(missing))!r}")
    # Instructions are half of a large file; without them FreeType hints by itself.
    options = subset.Options(
        hinting=source.stat().st_size < 150_000,
        layout_features=["kern", "liga"],
        name_IDs=[1, 2, 4, 6],
        notdef_outline=True,
    )
    options.drop_tables += ["DSIG", "FFTM", "PfEd"]
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=KEEP)
    subsetter.subset(font)
    font.save(target)
    return target.stat().st_size


def main(source: str, target: str) -> None:
    out = Path(target)
    out.mkdir(parents=True, exist_ok=True)
    families: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(Path(source).rglob("*")):
        if path.suffix.lower() in (".ttf", ".otf") and path.is_file():
            if UNWANTED.search(path.stem) and not WANTED_NOTO.search(path.stem):
                continue
            families[family(path)].append(path)
    # One face of every family before the second of any: when the limit is reached, no family is missing.
    queues = [sorted(families[name], key=rank) for name in sorted(families)]
    copied = total = 0
    seen: set[str] = set()
    for place in range(FACES):
        for path in (queue[place] for queue in queues if len(queue) > place):
            copy = out / (path.stem + path.suffix.lower())
            if total > LIMIT or path.stem.lower() in seen:
                continue
            try:
                size = shrink(path, copy)
            except Exception as reason:  # whatever fontTools cannot read is simply left out
                copy.unlink(missing_ok=True)
                print(f"left out {path.name}: {reason}", file=sys.stderr)
                continue
            if size > LARGEST:
                copy.unlink()
                continue
            seen.add(path.stem.lower())
            total += size
            copied += 1
    print(f"{copied} fonts, {total / 1e6:.1f} MB in {out}")


if __name__ == "__main__":
    main(*sys.argv[1:])
