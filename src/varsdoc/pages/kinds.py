"""What a file is, by its first bytes; its name decides only where the bytes leave it open."""

from __future__ import annotations

from pathlib import PurePath

HEAD = 4096  # bytes that `sniff` wants to see

PDF = "pdf"
OFFICE = "office"
PICTURES = {"png": "PNG", "jpeg": "JPEG", "tiff": "TIFF", "webp": "WEBP", "gif": "GIF", "bmp": "BMP"}  # Pillow's names

_WRITER = (".doc", ".docx", ".docm", ".dot", ".dotx", ".odt", ".ott", ".rtf")
_IMPRESS = (".ppt", ".pptx", ".pptm", ".pps", ".ppsx", ".pot", ".potx", ".odp", ".otp", ".odg")
_CALC = (".xls", ".xlsx", ".xlsm", ".ods")
OFFICE_SUFFIXES = frozenset(_WRITER + _IMPRESS + _CALC)
_SUFFIXES = {
    ".pdf": PDF,
    ".png": "png",
    ".jpg": "jpeg",
    ".jpeg": "jpeg",
    ".jpe": "jpeg",
    ".tif": "tiff",
    ".tiff": "tiff",
}
_SUFFIXES |= {".webp": "webp", ".gif": "gif", ".bmp": "bmp"} | dict.fromkeys(OFFICE_SUFFIXES, OFFICE)

OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # Word, Excel, PowerPoint up to 2003, and newer ones under a password
_ZIP = b"PK\x03\x04"
_TIFF = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_BMP_HEADERS = (12, 40, 52, 56, 64, 108, 124)


def promised(name: str) -> str | None:
    """The kind that a file's name promises, None where it promises none of ours.

    >>> promised("Report.PDF"), promised("notes.txt")
    ('pdf', None)
    """
    return _SUFFIXES.get(PurePath(name).suffix.lower())


def sniff(head: bytes, name: str = "") -> str | None:
    """The kind of a file from its first bytes, None where it is none of ours.

    >>> sniff(b"%PDF-1.7 ..."), sniff(b"II*\\0...", "scan.png"), sniff(b"hello", "hello.pdf")
    ('pdf', 'tiff', None)
    """
    if head.lstrip(b"\xef\xbb\xbf\0 \t\r\n").startswith(b"%PDF-") or (
        promised(name) == PDF and b"%PDF-" in head[:1024]
    ):
        return PDF
    return _picture(head) or (OFFICE if _is_office(head, PurePath(name).suffix.lower()) else None)


def _picture(head: bytes) -> str | None:
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "png"
    if head.startswith(b"\xff\xd8\xff"):
        return "jpeg"
    if head.startswith(_TIFF):
        return "tiff"
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "webp"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "gif"
    if head.startswith(b"BM") and int.from_bytes(head[14:18], "little") in _BMP_HEADERS:
        return "bmp"
    return None


def _is_office(head: bytes, suffix: str) -> bool:
    if head.startswith(b"{\\rtf"):
        return True
    if head.startswith(OLE):
        return suffix in OFFICE_SUFFIXES  # mail and installers share this container
    if not head.startswith(_ZIP):
        return False
    opendocument = head[30:38] == b"mimetype" and b"application/vnd.oasis.opendocument." in head[38:120]
    return opendocument or suffix in OFFICE_SUFFIXES
