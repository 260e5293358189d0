"""HTTP requests and responses of the stub."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

import msgspec
from attrs import evolve, field, frozen


class ConnectionEnding(Enum):
    """The state of the connection after a response."""

    KEEP_ALIVE = "kept"
    RESET_BEFORE_RESPONSE = "reset"
    """Reset without a response."""
    CUT_WITHIN_RESPONSE = "cut"
    """Closed in the middle of the response."""


@frozen
class StubRequest:
    """A received request. Names of `headers` are in lower case."""

    verb: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes


def _do_nothing() -> None:
    """The default of `on_sent`."""


@frozen
class StubResponse:
    """A response, sent after `delay_seconds`. `on_sent` is called just before it is sent."""

    status: int
    body: bytes
    headers: dict[str, str] = field(factory=dict)
    ending: ConnectionEnding = ConnectionEnding.KEEP_ALIVE
    delay_seconds: float = 0.0
    on_sent: Callable[[], None] = _do_nothing

    def as_replayed(self) -> StubResponse:
        return evolve(self, headers={**self.headers, "Idempotent-Replayed": "true"})


def json_response(document: dict[str, Any], status: int = 200, **headers: str) -> StubResponse:
    """A JSON response. Names of `headers` have underscores in place of hyphens."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return StubResponse(
        status, msgspec.json.encode(document), {"Content-Type": "application/json", **named}
    )
