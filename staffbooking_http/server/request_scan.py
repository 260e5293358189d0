"""Reads no more of a request than its refusal needs, at a tenth of the cost of a full parse."""

from __future__ import annotations

import re

import httptools

HOST_PATTERN = (
    r"(?:\[[0-9A-Fa-f:.]+\]|(?:[A-Za-z0-9._~!$&'()*+;=-]|%[0-9A-Fa-f]{2})+)(?::[0-9]{0,5})?"
)
VALID_HOST = re.compile(HOST_PATTERN.encode())
"""A Host (RFC 9110, 7.2). A comma would be two Hosts that a proxy joined."""

_HOST_HEADER = b"\r\nhost:"


class RequestScanner:
    """Scans bytes that begin where a request does. llhttp checks the framing."""

    def __init__(self) -> None:
        self._restart()

    def on_message_begin(self) -> None:
        self._begun += 1

    def on_headers_complete(self) -> None:
        self._keeps_alive = self._parser.should_keep_alive()

    def on_message_complete(self) -> None:
        self._completed += 1

    def scan(self, data: bytes) -> tuple[str, str] | None:
        """The method and the path of the one request that `data` is, without its query. None for
        anything less usual: a part of a request, several, a request that is not valid, upgrades, or
        ends its connection, or has a path with escapes."""
        self._begun = self._completed = 0
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._restart()
            return None
        is_whole = (self._begun, self._completed) == (1, 1) and self._keeps_alive
        if not is_whole or not _has_usual_head(data.lower()):
            self._restart()
            return None
        method, target, _ = data.split(b" ", 2)
        path = target.partition(b"?")[0]
        if not path.startswith(b"/") or b"%" in path or b"#" in target:
            return None
        return method.decode(), path.decode()

    def _restart(self) -> None:
        """Begin anew: a parser that has seen anything but whole requests waits for their rest."""
        self._parser = httptools.HttpRequestParser(self)
        self._begun = self._completed = 0
        self._keeps_alive = False


def _has_usual_head(lowered: bytes) -> bool:
    """Whether a request in lower case is HTTP/1.1 with one valid Host, and without a coding."""
    before, _, rest = lowered.partition(_HOST_HEADER)
    host = rest.partition(b"\r\n")[0].strip(b" \t")
    return (
        VALID_HOST.fullmatch(host) is not None
        and _HOST_HEADER not in rest
        and b"transfer-encoding" not in lowered
        and b" http/1.1\r\n" in before + b"\r\n"
    )
