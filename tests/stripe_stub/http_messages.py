"""Requests and answers as they go over the wire."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

import msgspec
from attrs import evolve, field, frozen


class Ending(Enum):
    """What becomes of the connection."""

    KEPT = "kept"
    RESET = "reset"
    """It breaks without an answer."""
    CUT = "cut"
    """It breaks within the answer."""


@frozen
class Request:
    """`headers` have lower-case names."""

    verb: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes


def _nothing() -> None:
    """Nobody waits for the answer to be sent."""


@frozen
class Answer:
    """`seconds` is how long to wait before it is sent, `sent` is called thereafter."""

    status: int
    body: bytes
    headers: dict[str, str] = field(factory=dict)
    ending: Ending = Ending.KEPT
    seconds: float = 0.0
    sent: Callable[[], None] = _nothing

    def repeated(self) -> Answer:
        return evolve(self, headers={**self.headers, "Idempotent-Replayed": "true"})


def as_json(document: dict[str, Any], status: int = 200, **headers: str) -> Answer:
    """`headers` with underscores for hyphens."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(
        status, msgspec.json.encode(document), {"Content-Type": "application/json", **named}
    )
