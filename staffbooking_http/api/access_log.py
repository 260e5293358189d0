"""The access log: one line for each request (CONTRACT 10).

Lines are collected and written together, so that a request costs no system call of its own.
"""

from __future__ import annotations

import asyncio
import logging
import re
import sys
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from time import perf_counter
from typing import TextIO

from staffbooking_adapters.logs import ACCESS_LOGGER_NAME, escape_text
from staffbooking_http.api.endpoint import REQUEST_ID_KEY, AsgiMessage, Scope, Send

FLUSH_INTERVAL_SECONDS = 0.2
_MAX_PATH_CHARACTERS = 500
_SECRET_PATH = re.compile(
    r"(/calendars/|/notifications/unsubscribe/|/account/(?:verify-email|reset-password)/).*", re.S
)
"""Paths that end in a secret."""


class RequestEntry:
    """What a line says of one request. The pipeline and the pages set the caller, and the response
    is noted as it is sent."""

    __slots__ = (
        "_send",
        "ended",
        "ended_at",
        "key_id",
        "method",
        "path",
        "peer",
        "request_id",
        "size",
        "started",
        "status",
        "user_id",
    )

    ended: float
    """The end by `perf_counter`, as `started`."""
    ended_at: datetime
    """The wall time of the end."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._send = send
        self.request_id: str = scope[REQUEST_ID_KEY]
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.peer: tuple[str, int] | None = scope.get("client")
        self.user_id: int | None = None
        self.key_id: int | None = None
        self.started = perf_counter()
        self.status = 0
        """0 stands for a client that disconnected."""
        self.size = 0

    def send(self, message: AsgiMessage) -> Awaitable[None]:
        """Send a part of the response."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.size += len(message.get("body", b""))
        return self._send(message)

    def fields(self) -> dict[str, object]:
        """The fields of the line, in their order."""
        return {
            "request_id": self.request_id,
            "method": self.method,
            "path": redact_path(self.path),
            "status": self.status,
            "duration_ms": round((self.ended - self.started) * 1000, 2),
            "bytes": self.size,
            "user_id": self.user_id,
            "key_id": self.key_id,
            "peer": self.peer[0] if self.peer else None,
        }


class AccessLog:
    """Writes the access lines of one server."""

    def __init__(
        self,
        render: Callable[[datetime, Mapping[str, object]], str],
        now: Callable[[], datetime],
        stream: TextIO | None = None,
    ) -> None:
        """`render` makes a line of a time and the fields; `now` gives the wall time."""
        self._render, self._now, self._stream = render, now, stream or sys.stderr
        self._unwritten: list[RequestEntry] = []
        """The requests without a line yet. Lines are made together: one by one, between other
        work, each would take three times as long."""

    def is_enabled(self) -> bool:
        return logging.getLogger(ACCESS_LOGGER_NAME).isEnabledFor(logging.INFO)

    def begin(self, scope: Scope, send: Send) -> RequestEntry:
        """The entry of a request, through which its response is sent."""
        entry = scope[ENTRY_KEY] = RequestEntry(scope, send)
        return entry

    def end(self, entry: RequestEntry) -> None:
        """Add a finished request."""
        entry.ended, entry.ended_at = perf_counter(), self._now()
        del entry._send  # The request's own memory is not kept until the line is written.
        if not self._unwritten:
            asyncio.get_running_loop().call_later(FLUSH_INTERVAL_SECONDS, self.flush)
        self._unwritten.append(entry)

    def flush(self) -> None:
        """Write the lines of finished requests."""
        if self._unwritten:
            entries, self._unwritten = self._unwritten, []
            lines = [self._render(entry.ended_at, entry.fields()) for entry in entries]
            self._stream.write("\n".join(lines) + "\n")
            self._stream.flush()


ENTRY_KEY = "staffbooking_request_entry"


def note_caller(scope: Scope, user_id: int, key_id: int | None = None) -> None:
    """Note who makes a request, where an access log is kept."""
    if (entry := scope.get(ENTRY_KEY)) is not None:
        entry.user_id, entry.key_id = user_id, key_id


def redact_path(path: str) -> str:
    """The path without its secret, in one line."""
    if (secret := _SECRET_PATH.fullmatch(path)) is not None:
        return f"{secret[1]}..."
    return escape_text(path[:_MAX_PATH_CHARACTERS])
