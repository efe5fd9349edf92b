"""Make the generator's word list: English words with frequency, parts of speech and near synonyms.

    pip install wordfreq && apt-get download wordnet-base && dpkg-deb -x wordnet-base*.deb wn
    python scripts/make_lexicon.py wn/usr/share/wordnet src/varsdoc/training/generator/lexicon.txt.gz

Frequencies come from the package wordfreq (Apache-2.0; data CC-BY-SA 4.0, Robyn Speer and others), parts of speech and
synonyms from WordNet 3.0 (Princeton University, WordNet licence: free use with notice). One line a word: word, Zipf
frequency x 100, parts of speech (n, v, a, r, p for names; empty for function words and names), synonyms. Deterministic.
"""

from __future__ import annotations

import gzip
import re
import sys
from collections import defaultdict
from pathlib import Path

SIZE = 32_000
PARTS = {"noun": "n", "verb": "v", "adj": "a", "adv": "r"}
COARSE = re.compile(
    r"fuck|shit|cunt|cock|nigg|fag|whor|slut|bitch|porn|sex|rape|rapist|penis|vagin|cum$|tits|dick|puss|wank|nazi"
)
NOTICE = (
    "# wordfreq (data CC-BY-SA 4.0, R. Speer et al.); WordNet 3.0 (c) 2006 Princeton University, all rights reserved"
)


def read_index(folder: Path) -> dict[str, dict[str, int]]:
    """word -> part of speech -> offset of its first (commonest) sense."""
    parts: dict[str, dict[str, int]] = defaultdict(dict)
    for name, letter in PARTS.items():
        for line in (folder / f"index.{name}").read_text(encoding="latin-1").splitlines():
            if line.startswith(" "):
                continue
            cells = line.split()
            pointers = int(cells[3])
            parts[cells[0]][letter] = int(cells[6 + pointers])
    return parts


def read_synsets(folder: Path) -> dict[tuple[str, int], list[str]]:
    synsets = {}
    for name, letter in PARTS.items():
        for line in (folder / f"data.{name}").read_text(encoding="latin-1").splitlines():
            if line.startswith(" "):
                continue
            cells = line.split()
            words = [cells[4 + 2 * i].split("(")[0] for i in range(int(cells[3], 16))]
            synsets[letter, int(cells[0])] = [word for word in words if word.isalpha()]
    return synsets


def main(wordnet: str, target: str) -> None:
    from wordfreq import top_n_list, zipf_frequency

    index, synsets = read_index(Path(wordnet)), read_synsets(Path(wordnet))
    words = [w for w in top_n_list("en", 3 * SIZE) if w.isascii() and w.isalpha() and (len(w) > 1 or w in "ai")]
    words = [w for w in words if not COARSE.search(w)]
    # Beyond the common words keep what WordNet knows: the tail of the web is misspellings and foreign names.
    words = [w for i, w in enumerate(words) if i < 8000 or w in index][:SIZE]
    known = set(words)
    lines = [NOTICE]
    for word in words:
        senses = index.get(word, {})
        # A noun that WordNet writes with a capital is a name: it is printed as one, and has no plural.
        names = synsets.get(("n", senses.get("n", -1)), [])
        named = any(name.lower() == word and name[0].isupper() for name in names)
        parts = "".join(sorted(senses)).replace("n", "p" if named else "n")
        synonyms = [s for letter, offset in senses.items() for s in synsets[letter, offset] if s != word and s in known]
        frequency = round(100 * zipf_frequency(word, "en"))
        lines.append(f"{word}\t{frequency}\t{parts}\t{' '.join(dict.fromkeys(synonyms[:3]))}")
    with open(target, "wb") as out, gzip.GzipFile(fileobj=out, mode="wb", mtime=0, filename="") as packed:
        packed.write("\n".join(lines).encode())
    print(f"{target}: {len(words)} words, {Path(target).stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main(*sys.argv[1:])
