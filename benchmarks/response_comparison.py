"""Compares the responses of the service with those of the yardstick, byte by byte, and of the
peers, whose JSON has the same content: a target that returns less would not be comparable."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from benchmarks.load_generator import LoadRequest
from benchmarks.measure import send_request

COMPARED_REQUESTS_PER_OPERATION = 8
"""Requests of each operation that are compared."""

HttpResponse: TypeAlias = tuple[int, dict[str, str], bytes]

CREATED_STATUS = 201
VARYING_FIELDS = {"id", "booking_code", "created_at", "at"}
"""Fields in which two creations of the same booking differ."""

COMPARED_HEADERS = (
    "content-type",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
)


def whole_response(request: LoadRequest, response: HttpResponse) -> Any:
    """What must equal for the yardstick: headers and bytes; of a new booking its fields."""
    _, headers, content = response
    shown = {
        name: _normalized_header(name, headers.get(name, "is missing")) for name in COMPARED_HEADERS
    }
    is_new = request.status == CREATED_STATUS
    return shown, response_content(request, response) if is_new else content


def response_content(request: LoadRequest, response: HttpResponse) -> Any:
    """What must equal for a peer: the content of the JSON, numbers by their value."""
    content = json.loads(response[2])
    return _masked_fields(content) if request.status == CREATED_STATUS else content


def compare_responses(
    service: int,
    target: int,
    requests: Mapping[str, Sequence[LoadRequest]],
    compared: Callable[[LoadRequest, HttpResponse], Any] = whole_response,
) -> list[str]:
    """The differences of the responses, one line each; all must have the expected status."""
    found = []
    for name, variants in requests.items():
        for request in variants[:COMPARED_REQUESTS_PER_OPERATION]:
            mine, other = _send_request(service, request), _send_request(target, request)
            if compared(request, mine) != compared(request, other):
                found.append(f"{name}: {request.text!r}\n  {mine}\n  {other}")
            elif request.status == CREATED_STATUS:
                found += _stored_differences(service, request, other)
    return found


def _send_request(port: int, request: LoadRequest) -> HttpResponse:
    head, _, body = request.text.partition("\r\n\r\n")
    first, *lines = head.split("\r\n")
    method, path, _ = first.split()
    headers = dict(line.split(": ", 1) for line in lines)
    status, got, content = send_request(port, method, path, headers, body.encode() or None)
    if status != request.status:
        raise AssertionError(f"{status} in place of {request.status}: {request.text!r} {content!r}")
    return status, got, content


def _stored_differences(service: int, request: LoadRequest, answer: HttpResponse) -> list[str]:
    """Differences between the response of a target to a creation and what the service reads."""
    said = json.loads(answer[2])["booking"]
    key = request.text.partition("Authorization: ")[2].partition("\r\n")[0]
    path = f"/api/v1/bookings/{said['booking_code']}"
    _, _, content = send_request(service, "GET", path, {"Authorization": key})
    read = json.loads(content).get("booking")
    return [] if read == said else [f"stored otherwise:\n  {said}\n  {read}"]


def _normalized_header(name: str, value: str) -> str:
    """The value of a header; the changing figures of rate limits become a constant."""
    moving = name in ("x-ratelimit-remaining", "x-ratelimit-reset")
    return "a number" if moving and value.isdigit() else value


def _masked_fields(value: Any) -> Any:
    """A value with varying fields masked; objects become pairs, so that their order is compared."""
    if isinstance(value, dict):
        return [
            (key, "new" if key in VARYING_FIELDS else _masked_fields(value[key])) for key in value
        ]
    return [_masked_fields(each) for each in value] if isinstance(value, list) else value
