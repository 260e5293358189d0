"""The access log: one line for each request (CONTRACT 10).

Lines are collected and written together, so that a request costs no system call of its own.
"""

from __future__ import annotations

import asyncio
import logging
import re
import sys
from collections.abc import Callable, Mapping
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
    """What a line says of one request. The pipeline and the pages set the caller."""

    __slots__ = ("key_id", "size", "started", "status", "user_id")

    def __init__(self) -> None:
        self.user_id: int | None = None
        self.key_id: int | None = None
        self.started = perf_counter()
        self.status = 0
        self.size = 0

    def note(self, message: AsgiMessage) -> None:
        """Note the status and the size of a response as it is sent."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.size += len(message.get("body", b""))


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
        self._lines: list[str] = []

    def is_enabled(self) -> bool:
        return logging.getLogger(ACCESS_LOGGER_NAME).isEnabledFor(logging.INFO)

    def begin(self, scope: Scope, send: Send) -> tuple[RequestEntry, Send]:
        """The entry of a request, and its `send` that notes the response."""
        entry = scope[ENTRY_KEY] = RequestEntry()

        async def send_noted(message: AsgiMessage) -> None:
            entry.note(message)
            await send(message)

        return entry, send_noted

    def end(self, scope: Scope, entry: RequestEntry) -> None:
        """Add the line of a finished request; status 0 stands for a client that disconnected."""
        peer = scope.get("client")
        fields = {
            "request_id": scope[REQUEST_ID_KEY],
            "method": scope["method"],
            "path": shown_path(scope["path"]),
            "status": entry.status,
            "duration_ms": round((perf_counter() - entry.started) * 1000, 2),
            "bytes": entry.size,
            "user_id": entry.user_id,
            "key_id": entry.key_id,
            "peer": peer[0] if peer else None,
        }
        if not self._lines:
            asyncio.get_running_loop().call_later(FLUSH_INTERVAL_SECONDS, self.flush)
        self._lines.append(self._render(self._now(), fields))

    def flush(self) -> None:
        """Write the collected lines."""
        if self._lines:
            lines, self._lines = self._lines, []
            self._stream.write("\n".join(lines) + "\n")
            self._stream.flush()


ENTRY_KEY = "staffbooking_request_entry"


def note_caller(scope: Scope, user_id: int, key_id: int | None = None) -> None:
    """Note who makes a request, where an access log is kept."""
    if (entry := scope.get(ENTRY_KEY)) is not None:
        entry.user_id, entry.key_id = user_id, key_id


def shown_path(path: str) -> str:
    """The path without its secret, in one line."""
    if (secret := _SECRET_PATH.fullmatch(path)) is not None:
        return f"{secret[1]}..."
    return escape_text(path[:_MAX_PATH_CHARACTERS])
