"""What a server allows: every bound that a request can meet, in one place."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field

MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """Bounds of requests. What goes beyond is refused with a sentence; the server goes on."""

    query: int = 2_000  # characters of a question
    where: int = 2_000  # characters of a filter
    k: int = 100
    documents: int = 1_000  # ids in a filter
    body: int = 64 << 10  # bytes of a JSON body
    upload: int = 256 * MIB  # bytes of one upload, all its files together
    files: int = 50  # of one upload
    metadata: int = 16 << 10  # bytes of an upload's metadata
    pages: int = 2_000  # of one uploaded document
    jobs: int = 20  # that wait
    kept_jobs: int = 100  # that have ended and are remembered
    requests: int = 128  # at a time
    uploads: int = 4  # at a time
    connections: int = 512
    batch: int = 64  # questions of one forward pass
    header_seconds: float = 10.0  # to send a request's head
    body_seconds: float = 20.0  # of silence within a body
    send_seconds: float = 30.0  # for a client to take a piece of an answer
    linger_seconds: float = 30.0  # for a refused client to finish what it sends and read why
    linger_silence: float = 5.0  # of those, without a byte from it
    upload_rate: float = 4096.0  # bytes a second that an upload must keep, after the first silence
    picture_bytes: int = 32 * MIB  # of thumbnails that are kept


@dataclass(frozen=True)
class Settings:
    """How one server behaves."""

    token: str | None = None
    hosts: tuple[str, ...] = ()  # names that requests may be addressed to, beside this machine's own
    read_only: bool = False
    device: str | None = None
    dtype: str | None = None
    model: str | None = None  # a checkpoint in the place of the one that a collection names
    batch_ms: float = 3.0  # to wait for more questions before a forward pass
    limits: Limits = field(default_factory=Limits)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address.

    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
