"""Reading a request's body: within bounds of size and time, and strict JSON (CONTRACT 1)."""

import asyncio
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NoReturn

from staffbooking_http.api.endpoint import Call
from staffbooking_http.api.errors import ClientGone, Refused

MOST_BYTES = 64 * 1024
DEADLINE = 10.0
"""Seconds that a body may take to come."""
DEEPEST = 64
LONGEST_INT = 40
"""Digits; what is longer is out of every bound, and slow to convert."""

_CLOSE = ((b"connection", b"close"),)
"""What was not read to its end can't be followed by another request."""


async def read(call: Call, most: int = MOST_BYTES) -> bytes:
    """The whole body, of at most so many bytes. Raises as `hand_over`."""
    body = bytearray()
    await hand_over(call, body.extend, most, DEADLINE)
    return bytes(body)


async def hand_over(
    call: Call,
    take: Callable[[bytes], None],
    most: int,
    seconds: float,
    *,
    by_length: bool = True,
    refusal: Refused | None = None,
) -> None:
    """Give the body away piece by piece, as it comes: at most so many bytes, within so many
    seconds. Raises Refused: 413 or the `refusal`, by the length that is announced unless told
    otherwise, or 400 `body_timeout`; ClientGone."""
    for length in call.headers(b"content-length") if by_length else ():
        if length.isdigit() and int(length[:10]) > most:
            raise refusal or too_large(most)
    try:
        async with asyncio.timeout(seconds):
            await _receive(call, take, most, refusal)
    except TimeoutError:
        raise Refused(400, "body_timeout", "The body took too long to come", _CLOSE) from None


async def _receive(
    call: Call, take: Callable[[bytes], None], most: int, refusal: Refused | None
) -> None:
    size = 0
    while True:
        message = await call.receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        piece = message.get("body", b"")
        size += len(piece)
        if size > most:
            raise refusal or too_large(most)
        take(piece)
        if not message.get("more_body", False):
            return


def too_large(most: int, what: str = "A body") -> Refused:
    """The refusal of a body of more bytes than these: 413."""
    return Refused(413, "body_too_large", f"{what} has at most {most} bytes here", _CLOSE)


def check_media(call: Call, wanted: str = "application/json") -> None:
    """Refuse what is not declared as the wanted type in UTF-8: 415. A page of somebody else's
    can send forms and plain text with a browser's cookies, but not this."""
    declared = call.headers(b"content-type")
    media, *parameters = declared[0].lower().split(b";") if len(declared) == 1 else [b""]
    charsets = [
        value.strip(b' "')
        for name, _, value in (parameter.partition(b"=") for parameter in parameters)
        if name.strip() == b"charset"
    ]
    if media.strip() != wanted.encode() or any(name != b"utf-8" for name in charsets):
        raise Refused(415, "unsupported_media_type", f"The body must be {wanted} in UTF-8")


def parse(raw: bytes, deepest: int = DEEPEST) -> dict[str, Any]:
    """A JSON object, to the letter: no NaN, no key twice, no deeper than so many levels. Numbers
    with a fraction are Decimal. Raises Refused 400 `malformed_json`."""
    value = decode(raw, deepest)
    if not isinstance(value, dict):
        raise _malformed("The body is not a JSON object")
    return value


def decode(raw: bytes, deepest: int) -> Any:
    """Any JSON, as strictly as `parse` takes an object."""
    try:
        value = _decoder.decode(raw.decode())
    except (ValueError, ArithmeticError, RecursionError):
        raise _malformed("The body is not JSON, or has a key twice") from None
    if raw.count(b"{") + raw.count(b"[") > deepest and _is_too_deep(value, deepest):
        raise _malformed(f"The body is deeper than {deepest} levels")
    return value


def _malformed(message: str) -> Refused:
    return Refused(400, "malformed_json", message)


def _is_too_deep(value: Any, deepest: int) -> bool:
    """Level by level, so that no depth exhausts the stack."""
    level = [value]
    for _ in range(deepest):
        level = [inner for outer in level for inner in _children(outer)]
        if not level:
            return False
    return True


def _children(value: dict[str, Any] | list[Any]) -> list[Any]:
    inner = value.values() if isinstance(value, dict) else value
    return [each for each in inner if isinstance(each, dict | list)]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key comes twice")
    return made


def _integer(digits: str) -> int:
    if len(digits) <= LONGEST_INT:
        return int(digits)
    huge: int = 10**LONGEST_INT
    return -huge if digits.startswith("-") else huge


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_decoder = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_float=Decimal,
    parse_int=_integer,
    parse_constant=_refuse_constant,
)
