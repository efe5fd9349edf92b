"""Frames between the parent and its workers: a JSON header and raw bytes. Never pickle: a worker that a hostile file
has taken over must not be able to run code in its parent."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any

_SIZES = struct.Struct("<II")
MAX_HEADER = 16 << 20
MAX_BODY = 1 << 30


class BadFrameError(Exception):
    """The other side speaks no frames, or broke off within one."""


def frame(header: dict[str, Any], body: bytes = b"") -> bytes:
    encoded = json.dumps(header).encode()
    return _SIZES.pack(len(encoded), len(body)) + encoded + body


def receive(read: Callable[[int], bytes]) -> tuple[dict[str, Any], bytes] | None:
    """The next frame, None at the end of the stream.

    >>> import io
    >>> receive(io.BytesIO(frame({"event": "page"}, b"jpeg")).read)
    ({'event': 'page'}, b'jpeg')
    """
    start = read(_SIZES.size)
    if not start:
        return None
    if len(start) < _SIZES.size:
        raise BadFrameError
    header_size, body_size = _SIZES.unpack(start)
    if header_size > MAX_HEADER or body_size > MAX_BODY:
        raise BadFrameError
    header, body = read(header_size), read(body_size) if body_size else b""
    if len(header) < header_size or len(body) < body_size:
        raise BadFrameError
    try:
        values = json.loads(header)
    except ValueError as error:
        raise BadFrameError from error
    if not isinstance(values, dict):
        raise BadFrameError
    return values, body
