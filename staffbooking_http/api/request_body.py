"""Reading a request's body: within bounds of size and time, and strict JSON (CONTRACT 1)."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NoReturn

from staffbooking_http.api.endpoint import Call
from staffbooking_http.api.errors import ClientDisconnected, HttpError

MAX_BODY_BYTES = 64 * 1024
BODY_TIMEOUT_SECONDS = 10.0
"""Seconds that a body may take to arrive."""
_MAX_JSON_DEPTH = 64
_MAX_INTEGER_DIGITS = 40
"""Longer integers exceed every bound and are slow to convert."""
_MAX_NAMED_KEY_LENGTH = 50
"""Characters of a repeated key that an error includes."""

_CONNECTION_CLOSE_HEADERS = ((b"connection", b"close"),)
"""A connection whose body was not read to its end cannot carry another request."""


async def read(call: Call, max_bytes: int = MAX_BODY_BYTES) -> bytes:
    """The whole body, of at most `max_bytes`. Raises as `stream_body`."""
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
    """Pass the body to `consume` chunk by chunk. Raises HttpError 413 (or `too_large_error`) over
    `max_bytes`, HttpError 400 `body_timeout` after `timeout_seconds`, and ClientDisconnected.
    `checks_content_length` also refuses by the announced length, before the body is read."""
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
    """The 413 error for a body of more than `max_bytes`."""
    return HttpError(
        413,
        "body_too_large",
        f"{subject} has at most {max_bytes} bytes here",
        _CONNECTION_CLOSE_HEADERS,
    )


def check_media_type(call: Call, expected_type: str = "application/json") -> None:
    """Raise HttpError 415 unless the body is declared as the expected type in UTF-8, without a
    content coding. A foreign page can send forms and plain text with a browser's cookies, but not
    JSON."""
    if any(coding.strip().lower() != b"identity" for coding in call.headers(b"content-encoding")):
        raise HttpError(
            415,
            "unsupported_media_type",
            "The body must have no Content-Encoding",
            ((b"accept-encoding", b"identity"),),
        )
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
    """Parse a strict JSON object: no NaN, no duplicate keys, at most `max_depth` levels. Numbers
    with a fraction become Decimal. Raises HttpError 400 `malformed_json`."""
    value = decode_json(raw, max_depth)
    if not isinstance(value, dict):
        raise _malformed_json("The body is not a JSON object")
    return value


def decode_json(raw: bytes, max_depth: int) -> Any:
    """Parse any JSON value, as strictly as `parse_object`."""
    if not raw.strip():
        raise _malformed_json("The body is empty")
    try:
        value = _decoder.decode(raw.decode())
    except UnicodeDecodeError as error:
        raise _malformed_json(f"The body is not UTF-8 at byte {error.start + 1}") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise _malformed_json(f"The body is not JSON at {place}: {error.msg}") from None
    except _Refused as error:
        raise _malformed_json(str(error)) from None
    except RecursionError:
        raise _too_deep(max_depth) from None
    except (ValueError, ArithmeticError):
        raise _malformed_json("The body has a number out of range") from None
    if raw.count(b"{") + raw.count(b"[") > max_depth and _is_too_deep(value, max_depth):
        raise _too_deep(max_depth)
    return value


def _malformed_json(message: str) -> HttpError:
    return HttpError(400, "malformed_json", message)


def _too_deep(max_depth: int) -> HttpError:
    return _malformed_json(f"The body is deeper than {max_depth} levels")


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


class _Refused(ValueError):
    """JSON that the decoder takes and the contract refuses; the message says why."""


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        name = next(key for key, count in counts.items() if count > 1)
        # As JSON in ASCII: a key may hold a lone surrogate, which no answer can.
        raise _Refused(f"The body has the key {json.dumps(name[:_MAX_NAMED_KEY_LENGTH])} twice")
    return result


def _parse_integer(digits: str) -> int:
    if len(digits) <= _MAX_INTEGER_DIGITS:
        return int(digits)
    huge: int = 10**_MAX_INTEGER_DIGITS
    return -huge if digits.startswith("-") else huge


def _reject_constant(name: str) -> NoReturn:
    raise _Refused(f"The body is not JSON: it has {name}")


_decoder = json.JSONDecoder(
    object_pairs_hook=_build_object,
    parse_float=Decimal,
    parse_int=_parse_integer,
    parse_constant=_reject_constant,
)
