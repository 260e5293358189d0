"""Whether both targets answer alike, byte for byte: a yardstick that says less is none."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from benchmarks.load_generator import Request
from benchmarks.measure import ask

EACH = 8
"""Requests of each operation that are compared."""

Answer: TypeAlias = tuple[int, dict[str, str], bytes]

CREATED = 201
NEW_EACH_TIME = {"id", "booking_code", "created_at", "at"}
"""What two creations of the same booking differ in."""

HEADERS = ("content-type", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset")


def compare(service: int, yardstick: int, requests: Mapping[str, Sequence[Request]]) -> list[str]:
    """What differs, in a line each; empty where the two say the same."""
    found = []
    for name, variants in requests.items():
        for request in variants[:EACH]:
            mine, other = _ask(service, request), _ask(yardstick, request)
            if _comparable(request, mine) != _comparable(request, other):
                found.append(f"{name}: {request.text!r}\n  {mine}\n  {other}")
            elif request.status == CREATED:
                found += _misread(service, request, other)
    return found


def _ask(port: int, request: Request) -> Answer:
    head, _, body = request.text.partition("\r\n\r\n")
    first, *lines = head.split("\r\n")
    method, path, _ = first.split()
    headers = dict(line.split(": ", 1) for line in lines)
    return ask(port, method, path, headers, body.encode() or None)


def _comparable(request: Request, answer: Answer) -> Any:
    status, got, content = answer
    if status != request.status:
        raise AssertionError(f"{status} in place of {request.status}: {request.text!r} {content!r}")
    shown = {name: _shown(name, got.get(name, "is missing")) for name in HEADERS}
    return shown, _masked(json.loads(content)) if status == CREATED else content


def _misread(service: int, request: Request, answer: Answer) -> list[str]:
    """What the yardstick stored is what it said: the service reads the same."""
    said = json.loads(answer[2])["booking"]
    key = request.text.partition("Authorization: ")[2].partition("\r\n")[0]
    path = f"/api/v1/bookings/{said['booking_code']}"
    _, _, content = ask(service, "GET", path, {"Authorization": key})
    read = json.loads(content).get("booking")
    return [] if read == said else [f"stored otherwise:\n  {said}\n  {read}"]


def _shown(name: str, value: str) -> str:
    """The window's figures move on from request to request: that they are there is enough."""
    moving = name in ("x-ratelimit-remaining", "x-ratelimit-reset")
    return "a number" if moving and value.isdigit() else value


def _masked(value: Any) -> Any:
    """Objects as pairs in their order, for that is part of the bytes."""
    if isinstance(value, dict):
        return [(key, "new" if key in NEW_EACH_TIME else _masked(value[key])) for key in value]
    return [_masked(each) for each in value] if isinstance(value, list) else value
