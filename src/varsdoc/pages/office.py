"""Office files -> PDF, through LibreOffice where it is installed: headless, with a profile of its own and no macros.

Only ever run in a worker, which lends LibreOffice its process group: killing the group ends all of it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from varsdoc.errors import InputError
from varsdoc.pages.kinds import OFFICE_SUFFIXES, OLE
from varsdoc.pages.stream import Limits

MISSING = (
    "It is an office file, and LibreOffice, which turns these into pages, is not installed; install it (Debian, "
    "Ubuntu: apt install libreoffice-impress libreoffice-writer libreoffice-calc; macOS: brew install --cask "
    "libreoffice; Windows: winget install TheDocumentFoundation.LibreOffice) or export the file as PDF."
)
_PLACES = (
    "/Applications/LibreOffice.app/Contents/MacOS/soffice",
    r"C:\Program Files\LibreOffice\program\soffice.exe",
)
_ENCRYPTED_PACKAGE = "EncryptedPackage".encode("utf-16-le")
# No macros, no pictures or links fetched from elsewhere: a document shows what is in it.
_SCRIPTING = "/org.openoffice.Office.Common/Security/Scripting"
_SAFE = (
    (_SCRIPTING, "MacroSecurityLevel", "3"),
    (_SCRIPTING, "DisableMacrosExecution", "true"),
    (_SCRIPTING, "BlockUntrustedRefererLinks", "true"),
    ("/org.openoffice.Office.Writer/Content/Update", "Link", "0"),
    ("/org.openoffice.Office.Calc/Content/Update", "Link", "1"),
)
_PROFILE = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<oor:items xmlns:oor="http://openoffice.org/2001/registry">\n'
    + "".join(
        f'<item oor:path="{path}"><prop oor:name="{name}" oor:op="fuse"><value>{value}</value></prop></item>\n'
        for path, name, value in _SAFE
    )
    + "</oor:items>\n"
)


def soffice() -> str | None:
    """Where LibreOffice is."""
    found = shutil.which("soffice") or shutil.which("libreoffice")
    return found or next((place for place in _PLACES if os.path.exists(place)), None)


def refuse_hostile(data: bytes, limits: Limits) -> None:
    """Passwords, broken archives and zip bombs, seen before LibreOffice sees them."""
    if data.startswith(OLE):
        if _ENCRYPTED_PACKAGE in data:
            raise InputError("It is encrypted and needs a password; save a copy without one.")
        return
    if not data.startswith(b"PK"):
        return
    import io

    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, ValueError, EOFError, NotImplementedError) as error:
        raise InputError(f"It is a damaged office file ({error}).") from error
    if any(member.flag_bits & 1 for member in members):
        raise InputError("It is encrypted and needs a password; save a copy without one.")
    unpacked = sum(member.file_size for member in members)
    if unpacked > limits.max_unpacked_bytes:
        raise InputError(f"It unpacks to {unpacked:,} bytes, more than the limit of {limits.max_unpacked_bytes:,}.")


def convert(data: bytes, name: str, scratch: str) -> str:
    """The path of the PDF made in `scratch`. Takes as long as it takes: the parent holds the clock."""
    program = soffice()
    if program is None:
        raise InputError(MISSING)
    suffix = Path(name).suffix.lower()
    folder = Path(scratch)
    given = folder / f"document{suffix if suffix in OFFICE_SUFFIXES else '.odt'}"
    given.write_bytes(data)
    profile = folder / "profile"
    (profile / "user").mkdir(parents=True)
    (profile / "user" / "registrymodifications.xcu").write_text(_PROFILE, encoding="utf-8")
    command = [program, "--headless", "--norestore", "--nologo", "--nodefault", "--nolockcheck", "--nofirststartwizard"]
    command += [f"-env:UserInstallation={profile.as_uri()}", "--convert-to", "pdf", "--outdir", str(folder), str(given)]
    log = folder / "log"
    with log.open("wb") as said:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={**os.environ, "HOME": str(folder), "TMPDIR": str(folder)},
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0) if sys.platform == "win32" else 0,
            check=False,
        )
    made = folder / "document.pdf"
    if not made.is_file() or made.stat().st_size == 0:
        raise InputError(_why(log.read_bytes()[-2000:].decode("utf-8", "replace"), done.returncode))
    shutil.rmtree(profile, ignore_errors=True)
    given.unlink(missing_ok=True)
    return str(made)


def _why(log: str, code: int) -> str:
    """LibreOffice ends with 0 where it could not load a file; its reason is in what it said."""
    said = next(
        (line.strip().rstrip(".") for line in log.splitlines() if line.startswith("Error")), f"exit code {code}"
    )
    return (
        f"LibreOffice could not convert it ({said[:200]}); it is damaged, or the part of LibreOffice for such files "
        "is not installed."
    )
