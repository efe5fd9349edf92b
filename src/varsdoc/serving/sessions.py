"""Who may ask: the token as a bearer header, or a session that a browser got for it.

A session is a random name with its end and a signature made with a key derived from the token: the cookie never holds
the token, another token ends all sessions, and nothing needs to be stored. Logging out remembers the name until then.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie

SECONDS = 7 * 24 * 3600
_MOST_ENDED = 10_000


class Sessions:
    """Checks tokens and cookies; everything passes where there is no token."""

    def __init__(self, token: str | None) -> None:
        self._token = None if token is None else token.encode()
        self._key = hashlib.sha256(b"varsdoc session\0" + (self._token or b"")).digest()
        self._ended: dict[str, int] = {}

    @property
    def required(self) -> bool:
        return self._token is not None

    def is_token(self, given: bytes) -> bool:
        """In constant time, whatever is given.

        >>> Sessions("grüße").is_token("grüße".encode()), Sessions("a").is_token(b"b"), Sessions(None).is_token(b"")
        (True, False, True)
        """
        if self._token is None:
            return True
        ours, theirs = (hashlib.sha256(one).digest() for one in (self._token, given))
        return hmac.compare_digest(ours, theirs)

    def may(self, headers: Mapping[str, str]) -> bool:
        """Whether a request with these headers (names in lower case, values as latin-1) passes."""
        if self._token is None:
            return True
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if given:
            return scheme.lower() == "bearer" and self.is_token(given.strip().encode("latin-1", "replace"))
        return self.is_session(read_cookie(headers))

    def new(self) -> str:
        body = f"{secrets.token_urlsafe(18)}.{int(time.time()) + SECONDS}"
        return f"{body}.{self._sign(body)}"

    def is_session(self, value: str) -> bool:
        body, _, signature = value.rpartition(".")
        if not hmac.compare_digest(self._sign(body).encode(), signature.encode("utf-8", "replace")):
            return False
        name, _, end = body.partition(".")
        return int(end) > time.time() and name not in self._ended

    def end(self, value: str) -> None:
        if self.is_session(value):
            name, end, _ = value.split(".")
            now = time.time()
            self._ended = {n: e for n, e in [*self._ended.items(), (name, int(end))][-_MOST_ENDED:] if e > now}

    def _sign(self, body: str) -> str:
        return hmac.new(self._key, body.encode("utf-8", "replace"), hashlib.sha256).hexdigest()


def cookie_name(headers: Mapping[str, str]) -> str:
    """Cookies do not know ports: two servers on one machine need two names.

    >>> cookie_name({"host": "127.0.0.1:8787"}), cookie_name({"host": "[::1]"})
    ('varsdoc_8787', 'varsdoc_80')
    """
    port = headers.get("host", "").rpartition("]")[2].rpartition(":")[2]
    return f"varsdoc_{port if port.isascii() and port.isdigit() else '80'}"


def read_cookie(headers: Mapping[str, str]) -> str:
    try:
        cookies: SimpleCookie = SimpleCookie(headers.get("cookie", ""))
    except CookieError:
        return ""
    found = cookies.get(cookie_name(headers))
    return "" if found is None else found.value
