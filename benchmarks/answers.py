"""Whether both targets answer alike, byte for byte: a yardstick that says less is none."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.load import Request
from benchmarks.measure import ask

EACH = 8
"""Requests of each operation that are compared."""

CREATES = "POST"
NEW_EACH_TIME = {"id", "booking_code", "created_at", "at"}
"""What two creations of the same booking differ in."""

HEADERS = ("content-type", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset")


def compare(service: int, yardstick: int, requests: Mapping[str, Sequence[Request]]) -> list[str]:
    """What differs, in a line each; empty where the two say the same."""
    found = []
    for name, variants in requests.items():
        for request in variants[:EACH]:
            mine, other = _answer(service, request), _answer(yardstick, request)
            if mine != other or mine[0] != request.status:
                found.append(f"{name}: {request.text!r}\n  {mine}\n  {other}")
    return found


def _answer(port: int, request: Request) -> tuple[int, dict[str, str], Any]:
    head, _, body = request.text.partition("\r\n\r\n")
    first, *lines = head.split("\r\n")
    method, path, _ = first.split()
    headers = dict(line.split(": ", 1) for line in lines)
    status, got, content = ask(port, method, path, headers, body.encode() or None)
    shown = {name: _shown(name, got.get(name, "is missing")) for name in HEADERS}
    return status, shown, _masked(json.loads(content)) if method == CREATES else content


def _shown(name: str, value: str) -> str:
    """The window's figures move on from request to request: that they are there is enough."""
    moving = name in ("x-ratelimit-remaining", "x-ratelimit-reset")
    return "a number" if moving and value.isdigit() else value


def _masked(value: Any) -> Any:
    """Objects as pairs in their order, for that is part of the bytes."""
    if isinstance(value, dict):
        return [(key, "new" if key in NEW_EACH_TIME else _masked(value[key])) for key in value]
    return [_masked(each) for each in value] if isinstance(value, list) else value
