"""Requests and answers as they go over the wire."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

import msgspec
from attrs import evolve, field, frozen


class ConnectionEnding(Enum):
    """What becomes of the connection."""

    KEEP_ALIVE = "kept"
    RESET_BEFORE_RESPONSE = "reset"
    """It breaks without an answer."""
    CUT_WITHIN_RESPONSE = "cut"
    """It breaks within the answer."""


@frozen
class StubRequest:
    """`headers` have lower-case names."""

    verb: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes


def _do_nothing() -> None:
    """Nobody waits for the answer to be sent."""


@frozen
class StubResponse:
    """`seconds` is how long to wait before it is sent, `sent` is called thereafter."""

    status: int
    body: bytes
    headers: dict[str, str] = field(factory=dict)
    ending: ConnectionEnding = ConnectionEnding.KEEP_ALIVE
    delay_seconds: float = 0.0
    on_sent: Callable[[], None] = _do_nothing

    def as_replayed(self) -> StubResponse:
        return evolve(self, headers={**self.headers, "Idempotent-Replayed": "true"})


def json_response(document: dict[str, Any], status: int = 200, **headers: str) -> StubResponse:
    """`headers` with underscores for hyphens."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return StubResponse(
        status, msgspec.json.encode(document), {"Content-Type": "application/json", **named}
    )
