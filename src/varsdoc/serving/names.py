"""File names that strangers give: one for people to read, one for the disk."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from pathlib import PurePosixPath

_DEVICE = re.compile(r"(?i)con|prn|aux|nul|(com|lpt)[0-9]")  # Windows keeps these for itself, whatever follows the dot
_LONGEST = 200


def display_name(given: str) -> str:
    """The last part, in one line that prints; text and nothing else, wherever it is shown.

    >>> display_name("..\\\\..\\\\etc/<b>Q1</b>\\n report.pdf"), display_name(".."), display_name("a/")
    ('b> report.pdf', 'document', 'document')
    """
    last = unicodedata.normalize("NFC", given.replace("\\", "/")).rpartition("/")[2]
    plain = "".join(c for c in last if c.isprintable()).strip()
    if len(plain) > _LONGEST:
        suffix = PurePosixPath(plain).suffix[:20]
        plain = plain[: _LONGEST - len(suffix)] + suffix
    return plain if plain.strip(". ") else "document"


def disk_name(shown: str) -> str:
    """A name without surprises for any file system; the suffix stays, as it tells office files apart.

    >>> disk_name("Bericht März (1).PDF"), disk_name("<b>.pdf"), disk_name(".."), disk_name("con.pdf")
    ('Bericht_Marz_1_.pdf', 'b_.pdf', 'document', '_con.pdf')
    """
    plain = unicodedata.normalize("NFKD", shown).encode("ascii", "ignore").decode()
    path = PurePosixPath(plain.replace("/", "_"))
    suffix = re.sub(r"[^a-z0-9.]", "", path.suffix.lower())[:10]
    stem = re.sub(r"[^A-Za-z0-9_-]+", "_", path.name[: len(path.name) - len(path.suffix)]).lstrip("_-")[:80]
    return ("_" if _DEVICE.fullmatch(stem) else "") + (stem or "document") + suffix


def place(shown: str) -> str:
    """Where an upload of this name lies, below the folder of uploads: the same name, the same place.

    >>> place("a.pdf") == place("a.pdf"), place("a.pdf") == place("A.pdf"), place("a.pdf").endswith("/a.pdf")
    (True, False, True)
    """
    return f"{hashlib.sha256(shown.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}/{disk_name(shown)}"
