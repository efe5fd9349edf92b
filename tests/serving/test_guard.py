"""Strangers: tokens, foreign sites and names, sizes, slowness. Refused, and the server goes on."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from serving.conftest import running
from varsdoc.serving import Limits, Settings
from varsdoc.serving.guard import HEADERS

TOKEN = "a token of many words"


@pytest.fixture(scope="module")
def guarded(made: Path) -> Iterator[httpx.Client]:
    """With a token, a name of its own and little patience."""
    limits = Limits(
        header_seconds=0.6, body_seconds=0.6, body=4096, upload=64 << 10, linger_seconds=5, linger_silence=1
    )
    settings = Settings(TOKEN, ("search.example",), device="cpu", limits=limits)
    with running(made, settings=settings) as client:
        del client.headers["Authorization"]
        yield client


@pytest.fixture
def bearer() -> dict[str, str]:
    return {"Authorization": f"Bearer {TOKEN}"}


def alive(client: httpx.Client) -> bool:
    return client.get("/health").status_code == 200


@pytest.mark.parametrize(
    "path",
    ["/documents", "/collections", "/stats", "/jobs", "/pages/x-0", "/pages/x-0/image", "/pages/x-0/heatmap?query=x"],
)
def test_no_data_without_the_token(guarded: httpx.Client, path: str) -> None:
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic eA=="}, {"Cookie": "varsdoc=x"}):
        answered = guarded.get(path, headers=headers)
        assert answered.status_code == 401
        assert answered.headers["www-authenticate"] == "Bearer"
        assert answered.headers["content-type"] == "application/problem+json"


def test_writing_and_searching_need_the_token(guarded: httpx.Client) -> None:
    assert guarded.post("/search", json={"query": "valve"}).status_code == 401
    assert guarded.post("/documents", files={"files": ("a.pdf", b"%PDF-1.4")}).status_code == 401
    assert guarded.delete("/documents/x").status_code == 401
    assert guarded.delete("/jobs/x").status_code == 401


def test_the_page_and_health_need_none(guarded: httpx.Client) -> None:
    assert guarded.get("/health").json()["token_required"] is True
    assert guarded.get("/", follow_redirects=True).status_code == 200
    assert guarded.get("/openapi.json").status_code == 200


def test_the_token_opens(guarded: httpx.Client, bearer: dict[str, str]) -> None:
    assert guarded.get("/documents", headers=bearer).status_code == 200


def test_a_session_is_not_the_token_and_ends(guarded: httpx.Client) -> None:
    with httpx.Client(base_url=guarded.base_url) as browser:
        assert browser.post("/session", json={"token": "wrong"}).status_code == 401
        given = browser.post("/session", json={"token": TOKEN})
        assert given.status_code == 204
        cookie = given.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        (name,) = browser.cookies
        value = browser.cookies[name]
        assert "token" not in value
        assert browser.get("/documents").status_code == 200
        forged = value[:-1] + ("0" if value[-1] != "0" else "1")
        assert guarded.get("/documents", headers={"Cookie": f"{name}={forged}"}).status_code == 401
        later = value.replace(value.split(".")[1], str(int(value.split(".")[1]) + 9999))
        assert guarded.get("/documents", headers={"Cookie": f"{name}={later}"}).status_code == 401
        assert browser.delete("/session").status_code == 204
        assert guarded.get("/documents", headers={"Cookie": f"{name}={value}"}).status_code == 401


@pytest.mark.parametrize(
    ("host", "status"),
    [("evil.example", 421), ("127.0.0.1.evil.example", 421), ("", 421), ("search.example", 200), ("LOCALHOST:1", 200)],
)
def test_only_its_own_names_are_answered(guarded: httpx.Client, host: str, status: int) -> None:
    """DNS rebinding: a foreign name that points here is still a foreign name."""
    assert guarded.get("/health", headers={"Host": host}).status_code == status


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_another_sites_page_changes_nothing(client: httpx.Client, headers: dict[str, str]) -> None:
    assert client.post("/search", json={"query": "valve"}, headers=headers).status_code == 403
    assert client.delete("/documents/x", headers=headers).status_code == 403
    answered = client.get("/documents", headers=headers)
    assert "access-control-allow-origin" not in answered.headers


def test_its_own_page_may(client: httpx.Client) -> None:
    own = {"Origin": str(client.base_url).rstrip("/"), "Sec-Fetch-Site": "same-origin"}
    assert client.post("/search", json={"query": "valve"}, headers=own).status_code == 200


def test_every_answer_has_the_headers(client: httpx.Client) -> None:
    for path in ("/", "/health", "/documents", "/nothing", "/static/nothing"):
        answered = client.get(path)
        for name, value in HEADERS.items():
            assert answered.headers[name] == value, path
        assert "server" not in answered.headers
    assert "unsafe-inline" not in HEADERS["Content-Security-Policy"]


@pytest.mark.parametrize(
    "path",
    ["/pages/..%2f..%2fetc%2fpasswd", "/pages/../../etc/passwd", "/pages/%2e%2e/image", "/static/../app.py",
     "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/jobs/..%2f..%2fvarsdoc.lock", "/pages/a%00b"],
)  # fmt: skip
def test_no_path_leads_out(client: httpx.Client, path: str) -> None:
    """As written: httpx would tidy the path, a stranger does not."""
    address = client.base_url
    with socket.create_connection((address.host, address.port), 10) as raw:
        raw.sendall(f"GET {path} HTTP/1.1\r\nHost: {address.host}\r\nConnection: close\r\n\r\n".encode())
        answered = b"".join(iter(lambda: raw.recv(65536), b""))
    assert answered.split()[1] in (b"404", b"422", b"400")
    assert b"root:" not in answered
    assert b"def " not in answered


def test_a_large_body_is_refused_with_and_without_its_length(guarded: httpx.Client, bearer: dict[str, str]) -> None:
    large = b'{"query": "' + b"x" * 10_000 + b'"}'
    headers = bearer | {"content-type": "application/json"}
    assert guarded.post("/search", content=large, headers=headers).status_code == 413
    assert guarded.post("/search", content=iter([large[:5000], large[5000:]]), headers=headers).status_code == 413
    assert alive(guarded)


@pytest.mark.parametrize(
    ("path", "kind", "token", "status"),
    [
        ("/search", "application/json", TOKEN, b"413"),
        ("/documents", "multipart/form-data; boundary=b", TOKEN, b"413"),
        ("/documents", "text/plain", TOKEN, b"415"),
        ("/search", "application/json", "wrong", b"401"),
        ("/documents/x", "application/json", TOKEN, b"405"),
    ],
)
@pytest.mark.parametrize("length", [True, False])
def test_whoever_sends_all_before_reading_still_hears_why(
    guarded: httpx.Client, path: str, kind: str, token: str, status: bytes, length: bool
) -> None:
    """Closing on unread bytes would reset the connection and lose the answer, now and then."""
    size, piece = 8 << 20, b"x" * (1 << 20)
    framing = f"Content-Length: {size}" if length else "Transfer-Encoding: chunked"
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: {kind}\r\n{framing}\r\n\r\n"
    )
    if kind.startswith("multipart"):
        part = b'--b\r\nContent-Disposition: form-data; name="files"; filename="a.pdf"\r\n\r\n%PDF-'
        piece = part + piece[len(part) :]
    with socket.create_connection((guarded.base_url.host, guarded.base_url.port), 10) as raw:
        raw.sendall(head.encode("latin-1"))
        for _ in range(8):
            raw.sendall(piece if length else b"%x\r\n%s\r\n" % (len(piece), piece))
        raw.sendall(b"" if length else b"0\r\n\r\n")
        answered = b"".join(iter(lambda: raw.recv(65536), b""))
    top, _, body = answered.partition(b"\r\n\r\n")
    status = b"413" if length and status != b"401" else status
    assert top.split()[1] == status
    assert b"connection: close" in top.lower()
    assert json.loads(body)["status"] == int(status)
    assert alive(guarded)


def test_whoever_never_stops_sending_is_cut_off_after_the_answer(guarded: httpx.Client) -> None:
    started = time.monotonic()
    with socket.create_connection((guarded.base_url.host, guarded.base_url.port), 10) as raw:
        raw.sendall(b"POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000000000\r\n\r\n")
        assert b" 401 " in raw.recv(65536)
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            while time.monotonic() < started + 30:
                raw.sendall(b"x" * 1000)
                time.sleep(0.05)
    assert 4 < time.monotonic() - started < 20
    assert alive(guarded)


def slow(client: httpx.Client, *pieces: bytes, pause: float = 0.3) -> tuple[bytes, float]:
    """Send pieces slowly; what came back until the server closed, and how long that took."""
    started = time.monotonic()
    with socket.create_connection((client.base_url.host, client.base_url.port), 10) as raw:
        raw.settimeout(10)
        try:
            for piece in pieces:
                raw.sendall(piece)
                time.sleep(pause)
            answered = b"".join(iter(lambda: raw.recv(65536), b""))
        except (ConnectionResetError, BrokenPipeError):
            answered = b""
    return answered, time.monotonic() - started


def test_a_client_that_never_ends_its_head_is_cut_off(guarded: httpx.Client) -> None:
    _, seconds = slow(guarded, b"GET /health HTTP/1.1\r\n", *[b"X-A: b\r\n"] * 6)
    assert seconds < 8
    _, seconds = slow(guarded)
    assert seconds < 8
    assert alive(guarded)


def test_a_client_that_never_ends_its_body_is_cut_off(guarded: httpx.Client, bearer: dict[str, str]) -> None:
    head = (
        f"POST /search HTTP/1.1\r\nHost: localhost\r\nAuthorization: {bearer['Authorization']}\r\n"
        "Content-Type: application/json\r\nContent-Length: 500\r\n\r\n"
    ).encode("latin-1")
    answered, seconds = slow(guarded, head, b'{"que')
    assert b" 408 " in answered.split(b"\r\n")[0]
    assert seconds < 8
    answered, _ = slow(guarded, head, *[b"x"] * 6)  # a trickle is no better
    assert b" 408 " in answered.split(b"\r\n")[0]
    assert alive(guarded)


def test_a_slow_upload_is_cut_off(guarded: httpx.Client, bearer: dict[str, str]) -> None:
    head = (
        f"POST /documents HTTP/1.1\r\nHost: localhost\r\nAuthorization: {bearer['Authorization']}\r\n"
        "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 50000\r\n\r\n"
        '--b\r\nContent-Disposition: form-data; name="files"; filename="a.pdf"\r\n\r\n%PDF-'
    ).encode("latin-1")
    answered, seconds = slow(guarded, head, *[b"x"] * 6)
    assert b" 408 " in answered.split(b"\r\n")[0]
    assert seconds < 8
    assert alive(guarded)


def test_a_client_that_never_reads_is_cut_off_and_holds_nothing(made: Path) -> None:
    """More answers than a connection's buffers take."""
    limits = Limits(send_seconds=0.5)
    with running(made, settings=Settings(device="cpu", limits=limits)) as client:
        size = len(client.get("/openapi.json").content)
        asked = 64_000_000 // size
        with socket.socket() as raw:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            raw.connect((client.base_url.host, client.base_url.port))
            raw.settimeout(30)
            raw.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * asked)
            time.sleep(3)
            got = 0
            with contextlib.suppress(ConnectionResetError):
                while piece := raw.recv(1 << 20):
                    got += len(piece)
        assert got < asked * size
        assert alive(client)


def test_too_many_at_a_time_are_told_to_come_back(made: Path) -> None:
    limits = Limits(requests=2, body_seconds=3)
    with running(made, settings=Settings(device="cpu", limits=limits)) as client:
        address = (client.base_url.host, client.base_url.port)
        head = (
            b"POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n"
        )
        held = [socket.create_connection(address, 10) for _ in range(2)]
        for one in held:
            one.sendall(head)
        deadline, codes = time.monotonic() + 5, []
        while 503 not in codes and time.monotonic() < deadline:
            answered = client.get("/health")
            codes.append(answered.status_code)
        assert codes[-1] == 503
        assert answered.headers["retry-after"] == "1"
        for one in held:
            one.close()
        while client.get("/health").status_code != 200:
            assert time.monotonic() < deadline + 5
