"""The text layer as a searcher wants it: whole words, plain letters, no control characters."""

from __future__ import annotations

import re
import unicodedata

# Ligatures are typesetting, not spelling. Not NFKC: it would turn 10 to the power of 2 into 102.
_LIGATURES = {code: unicodedata.normalize("NFKC", chr(code)) for code in range(0xFB00, 0xFB07)}
_BROKEN_WORD = re.compile("[\u00ad\ufffe\x02][ \t]*\r?\n?")  # PDFium writes U+FFFE for a hyphen at the end of a line
_INVISIBLE = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff\uffff]")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_BLANKS = re.compile(r"[^\S\n]+")
_LINES = re.compile(r" ?\n[ \n]*")


def normalise(text: str, most: int) -> str:
    """At most `most` characters, NFC, ligatures spelt out, hyphenated words joined, blanks and empty lines folded.

    >>> normalise("The e\ufb03cient fron\ufffe\\r\\ntier \\x00 is\\r\\n\\r\\n 10\\u00b2", 100)
    'The efficient frontier is\\n10\u00b2'
    """
    text = unicodedata.normalize("NFC", text[:most].translate(_LIGATURES))
    text = _CONTROL.sub(" ", _INVISIBLE.sub("", _BROKEN_WORD.sub("", text)))
    text = _LINES.sub("\n", _BLANKS.sub(" ", text.replace("\r\n", "\n").replace("\r", "\n")))
    return text.strip()[:most]
