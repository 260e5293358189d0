"""The responses of an operation of the OpenAPI document."""

from __future__ import annotations

from typing import Any


def reply_of(operation: dict[str, Any], status: int) -> dict[str, Any]:
    """The documented response with a status, or with its range."""
    responses = operation["responses"]
    reply: dict[str, Any] = responses.get(str(status)) or responses[f"{status // 100}XX"]
    return reply
