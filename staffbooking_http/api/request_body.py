"""Reading a request's body: within bounds of size and time, and strict JSON (CONTRACT 1)."""

import asyncio
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NoReturn

from staffbooking_http.api.endpoint import Call
from staffbooking_http.api.errors import ClientDisconnected, HttpError

MAX_BODY_BYTES = 64 * 1024
BODY_TIMEOUT_SECONDS = 10.0
"""Seconds that a body may take to come."""
_MAX_JSON_DEPTH = 64
_MAX_INTEGER_DIGITS = 40
"""Digits; what is longer is out of every bound, and slow to convert."""

_CONNECTION_CLOSE_HEADERS = ((b"connection", b"close"),)
"""What was not read to its end can't be followed by another request."""


async def read(call: Call, max_bytes: int = MAX_BODY_BYTES) -> bytes:
    """The whole body, of at most so many bytes. Raises as `hand_over`."""
    body = bytearray()
    await stream_body(call, body.extend, max_bytes, BODY_TIMEOUT_SECONDS)
    return bytes(body)


async def stream_body(
    call: Call,
    consume: Callable[[bytes], None],
    max_bytes: int,
    timeout_seconds: float,
    *,
    checks_content_length: bool = True,
    too_large_error: HttpError | None = None,
) -> None:
    """Give the body away piece by piece, as it comes: at most so many bytes, within so many
    seconds. Raises Refused: 413 or the `refusal`, by the length that is announced unless told
    otherwise, or 400 `body_timeout`; ClientGone."""
    for length in call.headers(b"content-length") if checks_content_length else ():
        if length.isdigit() and int(length[:10]) > max_bytes:
            raise too_large_error or body_too_large(max_bytes)
    try:
        async with asyncio.timeout(timeout_seconds):
            await _receive_chunks(call, consume, max_bytes, too_large_error)
    except TimeoutError:
        raise HttpError(
            400, "body_timeout", "The body took too long to come", _CONNECTION_CLOSE_HEADERS
        ) from None


async def _receive_chunks(
    call: Call, consume: Callable[[bytes], None], max_bytes: int, too_large_error: HttpError | None
) -> None:
    size = 0
    while True:
        message = await call.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnected
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > max_bytes:
            raise too_large_error or body_too_large(max_bytes)
        consume(chunk)
        if not message.get("more_body", False):
            return


def body_too_large(max_bytes: int, subject: str = "A body") -> HttpError:
    """The refusal of a body of more bytes than these: 413."""
    return HttpError(
        413,
        "body_too_large",
        f"{subject} has at most {max_bytes} bytes here",
        _CONNECTION_CLOSE_HEADERS,
    )


def check_media_type(call: Call, expected_type: str = "application/json") -> None:
    """Refuse what is not declared as the wanted type in UTF-8: 415. A page of somebody else's
    can send forms and plain text with a browser's cookies, but not this."""
    declared = call.headers(b"content-type")
    media, *parameters = declared[0].lower().split(b";") if len(declared) == 1 else [b""]
    charsets = [
        value.strip(b' "')
        for name, _, value in (parameter.partition(b"=") for parameter in parameters)
        if name.strip() == b"charset"
    ]
    if media.strip() != expected_type.encode() or any(name != b"utf-8" for name in charsets):
        raise HttpError(415, "unsupported_media_type", f"The body must be {expected_type} in UTF-8")


def parse_object(raw: bytes, max_depth: int = _MAX_JSON_DEPTH) -> dict[str, Any]:
    """A JSON object, to the letter: no NaN, no key twice, no deeper than so many levels. Numbers
    with a fraction are Decimal. Raises Refused 400 `malformed_json`."""
    value = decode_json(raw, max_depth)
    if not isinstance(value, dict):
        raise _malformed_json("The body is not a JSON object")
    return value


def decode_json(raw: bytes, max_depth: int) -> Any:
    """Any JSON, as strictly as `parse` takes an object."""
    try:
        value = _decoder.decode(raw.decode())
    except (ValueError, ArithmeticError, RecursionError):
        raise _malformed_json("The body is not JSON, or has a key twice") from None
    if raw.count(b"{") + raw.count(b"[") > max_depth and _is_too_deep(value, max_depth):
        raise _malformed_json(f"The body is deeper than {max_depth} levels")
    return value


def _malformed_json(message: str) -> HttpError:
    return HttpError(400, "malformed_json", message)


def _is_too_deep(value: Any, max_depth: int) -> bool:
    """Level by level, so that no depth exhausts the stack."""
    level = [value]
    for _ in range(max_depth):
        level = [inner for outer in level for inner in _nested_values(outer)]
        if not level:
            return False
    return True


def _nested_values(value: dict[str, Any] | list[Any]) -> list[Any]:
    inner = value.values() if isinstance(value, dict) else value
    return [each for each in inner if isinstance(each, dict | list)]


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        raise ValueError("a key comes twice")
    return result


def _parse_integer(digits: str) -> int:
    if len(digits) <= _MAX_INTEGER_DIGITS:
        return int(digits)
    huge: int = 10**_MAX_INTEGER_DIGITS
    return -huge if digits.startswith("-") else huge


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_decoder = json.JSONDecoder(
    object_pairs_hook=_build_object,
    parse_float=Decimal,
    parse_int=_parse_integer,
    parse_constant=_reject_constant,
)
