"""The scan of requests that are refused early: what it takes for one whole, usual request."""

from __future__ import annotations

import pytest

from staffbooking_http.server.request_scan import RequestScanner

HEAD = b" HTTP/1.1\r\nHost: example.com\r\n"
GET = b"GET /a/b?c=d" + HEAD + b"\r\n"
POST = b"POST /a" + HEAD + b"content-length: 2\r\n\r\n{}"


def test_a_whole_request_is_recognized() -> None:
    """The scan returns the method and the path without the query, with a body or without."""
    scanner = RequestScanner()
    assert scanner.scan(GET) == ("GET", "/a/b")
    assert scanner.scan(POST) == ("POST", "/a")
    assert scanner.scan(GET) == ("GET", "/a/b")


UNUSUAL = {
    "a part of a head": GET[:-2],
    "a part of a body": POST[:-1],
    "two requests": GET + GET,
    "a request and a part": GET + b"GET",
    "the last of a connection": GET[:-2] + b"connection: close\r\n\r\n",
    "HTTP/1.0": b"GET / HTTP/1.0\r\nhost: x\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\nx: y\r\n\r\n",
    "two hosts": GET[:-2] + b"host: other\r\n\r\n",
    "a list of hosts": b"GET / HTTP/1.1\r\nhost: a,b\r\n\r\n",
    "a coding": b"POST /a" + HEAD + b"transfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "an upgrade": GET[:-2] + b"connection: upgrade\r\nupgrade: websocket\r\n\r\n",
    "two lengths": b"POST /a" + HEAD + b"content-length: 2\r\ncontent-length: 3\r\n\r\n{}",
    "a bare line feed": b"GET / HTTP/1.1\r\nhost: x\n\nGET / HTTP/1.1\r\n\r\n",
    "an absolute target": b"GET http://example.com/" + HEAD + b"\r\n",
    "a fragment": b"GET /a#b" + HEAD + b"\r\n",
    "an escape in the path": b"GET /%61" + HEAD + b"\r\n",
    "a path that is not ASCII": b"GET /\xff" + HEAD + b"\r\n",
    "not HTTP": b"\x16\x03\x01\x02",
}


@pytest.mark.parametrize("sent", UNUSUAL.values(), ids=UNUSUAL.keys())
def test_anything_else_is_left_to_the_full_parser(sent: bytes) -> None:
    """The scan returns None for what is not one whole request on a connection that stays open, and
    takes the next one."""
    scanner = RequestScanner()
    assert scanner.scan(sent) is None
    assert scanner.scan(GET) == ("GET", "/a/b")
