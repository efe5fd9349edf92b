"""Documents made for a test: a PDF writer of one page, good ones and hostile ones, and a look at our own processes."""

from __future__ import annotations

import hashlib
import io
import os
import random
import time
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

from PIL import Image

from varsdoc.pages import Document, DocumentEnd, Failure, Limits, Page, find, read

A4 = (595, 842)
_PAD = bytes.fromhex("28BF4E5E4E758A4164004E56FFFA01082E2E00B6D0683E802F0CA9FE6453697A")


def assemble(objects: list[bytes], trailer: bytes = b"") -> bytes:
    """Objects 1, 2, ... (1 is the catalogue) -> a file with a right cross-reference table."""
    out, offsets = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    size = len(objects) + 1
    end = b"trailer\n<< /Size %d /Root 1 0 R %s >>\nstartxref\n%d\n%%%%EOF\n" % (size, trailer, len(out))
    return out + b"xref\n0 %d\n0000000000 65535 f \n%s" % (size, table) + end


def stream(data: bytes, entries: bytes = b"") -> bytes:
    return b"<< /Length %d %s >>\nstream\n%s\nendstream" % (len(data), entries, data)


def pdf(
    texts: Iterable[str] = ("Hello page",),
    size: tuple[float, float] | str = A4,
    entries: bytes = b"",
    resources: bytes = b"",
    more: Iterable[bytes] = (),
    count: int | None = None,
    trailer: bytes = b"",
) -> bytes:
    """One page for each text (or content stream, where it starts with a %). `more` objects follow number 3."""
    texts, more = list(texts), list(more)
    box = size if isinstance(size, str) else f"0 0 {size[0]} {size[1]}"
    first = 4 + len(more)
    kids = b" ".join(b"%d 0 R" % (first + 2 * index) for index in range(len(texts)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, len(texts) if count is None else count),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        *more,
    ]
    for index, text in enumerate(texts):
        drawn = text if text.startswith("%") else f"BT /F1 24 Tf 60 700 Td ({text}) Tj ET"
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [%s] /Contents %d 0 R %s"
            b" /Resources << /Font << /F1 3 0 R >> %s >> >>" % (box.encode(), first + 2 * index + 1, entries, resources)
        )
        objects.append(stream(drawn.encode("latin-1")))
    return assemble(objects, trailer)


def endless_pdf(pages: int = 1, at: int = 0) -> bytes:
    """Page `at` draws a form that draws a form ten times, sixteen levels deep: 10^16 lines."""
    forms = []
    for level in range(16):
        inner = b"/Next Do " * 10 if level < 15 else b"0 0 m 9 9 l S "
        nested = b"/Resources << /XObject << /Next %d 0 R >> >>" % (5 + level) if level < 15 else b""
        forms.append(stream(inner, b"/Type /XObject /Subtype /Form /BBox [0 0 600 800] " + nested))
    texts = [f"Page {number}" if number != at else "%\n/Next Do" for number in range(pages)]
    return pdf(texts, more=forms, resources=b"/XObject << /Next 4 0 R >>")


def heavy_pdf(mebibytes: int) -> bytes:
    """A page whose drawing is a thousandth of its size when packed: so many MiB of blanks."""
    squeeze = zlib.compressobj(1)
    packed = b"".join(squeeze.compress(b" " * (1 << 20)) for _ in range(mebibytes)) + squeeze.flush()
    return pdf(["%"]).replace(stream(b"%"), stream(packed, b"/Filter /FlateDecode"))


def encrypted_pdf() -> bytes:
    """The standard handler, 40-bit RC4, under a user password that is not empty."""
    identity = hashlib.md5(b"identity").digest()
    padded = (b"secret" + _PAD)[:32]
    owner = _rc4(hashlib.md5(padded).digest()[:5], padded)
    key = hashlib.md5(padded + owner + (-4).to_bytes(4, "little", signed=True) + identity).digest()[:5]
    user = _rc4(key, _PAD)
    entry = b"/Encrypt << /Filter /Standard /V 1 /R 2 /Length 40 /P -4 /O <%s> /U <%s> >> /ID [<%s> <%s>]"
    return pdf(trailer=entry % tuple(part.hex().encode() for part in (owner, user, identity, identity)))


def _rc4(key: bytes, data: bytes) -> bytes:
    state, j, out = list(range(256)), 0, bytearray()
    for i in range(256):
        j = (j + state[i] + key[i % len(key)]) % 256
        state[i], state[j] = state[j], state[i]
    i = j = 0
    for byte in data:
        i = (i + 1) % 256
        j = (j + state[i]) % 256
        state[i], state[j] = state[j], state[i]
        out.append(byte ^ state[(state[i] + state[j]) % 256])
    return bytes(out)


def damaged(seed: int) -> bytes:
    """A good PDF, spoilt in one of five ways."""
    chance, good = random.Random(seed), pdf([f"Page {number} of {seed}" for number in range(4)])
    way = seed % 5
    if way == 0:
        return good[: chance.randrange(1, len(good) - 40)]
    if way == 1:
        spoilt = bytearray(good)
        for _ in range(60):
            spoilt[chance.randrange(len(spoilt))] ^= chance.randrange(1, 256)
        return bytes(spoilt)
    if way == 2:
        return good.replace(b"startxref\n", b"startxref\n9").replace(b" 00000 n", b" 00007 f")
    if way == 3:
        return encrypted_pdf()
    return good.replace(b" 0 obj", b" 0 obx")


def picture(mode: str = "RGB", size: tuple[int, int] = (200, 100), format: str = "PNG", **options: object) -> bytes:
    """A picture whose left half is dark and right half light."""
    image = Image.new("L", size, 250)
    image.paste(20, (0, 0, size[0] // 2, size[1]))
    buffer = io.BytesIO()
    image.convert(mode).save(buffer, format, **options)
    return buffer.getvalue()


def write(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


Item = Page | Failure | DocumentEnd


def read_all(*paths: Path | str, limits: Limits | None = None, **options: object) -> list[Item]:
    return list(read(find(paths), limits=limits or Limits(), **options))  # type: ignore[arg-type]


def only_failure(*paths: Path | str, **options: object) -> str:
    """The reason of the one failure, where no page came."""
    items = read_all(*paths, **options)  # type: ignore[arg-type]
    assert not [item for item in items if isinstance(item, Page)]
    (failure,) = [item for item in items if isinstance(item, Failure)]
    return failure.reason


def shape(items: Iterable[Item | Document]) -> list[str]:
    """`name:page` for each page, `name!` or `name!page` for a failure, `name.` for an end."""
    said = []
    for item in items:
        if isinstance(item, Page):
            said.append(f"{item.document.name}:{item.number}")
        elif isinstance(item, Failure):
            said.append(f"{Path(item.source).name}!{'' if item.page is None else item.page}")
        elif isinstance(item, DocumentEnd):
            said.append(f"{item.document.name}.")
        else:
            said.append(item.name)
    return said


def children(pid: int | None = None) -> list[int]:
    """Page workers started by any thread of `pid` (Linux), zombies left out; other rooms' tests have children too."""
    found = []
    for entry in os.listdir("/proc"):
        status = _status(int(entry)) if entry.isdigit() else None
        if status and status[1] == (pid or os.getpid()) and b"varsdoc.pages" in _command(int(entry)):
            found.append(int(entry))
    return found


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def alive(pid: int) -> bool:
    return _status(pid) is not None


def _status(pid: int) -> tuple[str, int] | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else (fields[0], int(fields[1]))


def wait_until(holds: Callable[[], object], seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(0.02)
    return bool(holds())


def resident(pid: int) -> int:
    """Bytes of memory that a process holds, 0 when it is gone (Linux)."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
