"""The JSON codec for responses, events and stored values.

`encode` serializes every response, event and prebuilt record: a `Decimal` becomes a JSON number
with its own decimals, never a float. `dump` and `load` convert core values for columns.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, TypeVar

import msgspec
from cattrs.gen import make_dict_unstructure_fn, override
from cattrs.preconf.msgspec import MsgspecJsonConverter, make_converter

from staffbooking_core.domain.companions.availability import Calendar, Interval
from staffbooking_core.domain.payments.processor import (
    CloseCheckout,
    OpenCheckout,
    OperationCommand,
    OperationKind,
    PayOut,
    RefundPayment,
    ReversePayout,
)

T = TypeVar("T")

_encoder = msgspec.json.Encoder(decimal_format="number")
_decoder = msgspec.json.Decoder()

encode = _encoder.encode
"""Serializes any plain structure (dict, list, str, int, Decimal, date, enum) to JSON bytes."""

decode = _decoder.decode
"""Parses JSON bytes or text into plain structures; numbers with a fraction become floats."""

RawJson = msgspec.Raw
"""Serialized JSON bytes that `encode` embeds unchanged in a larger structure."""

COMMAND_TYPES: dict[OperationKind, type[OperationCommand]] = {
    OperationKind.OPEN_CHECKOUT: OpenCheckout,
    OperationKind.CLOSE_CHECKOUT: CloseCheckout,
    OperationKind.REFUND: RefundPayment,
    OperationKind.PAY_OUT: PayOut,
    OperationKind.REVERSE_PAYOUT: ReversePayout,
}


@lru_cache(maxsize=1)
def _converter() -> MsgspecJsonConverter:
    converter = make_converter()
    converter.register_unstructure_hook(Interval, _unstructure_interval)
    converter.register_structure_hook(Interval, lambda seconds, _: _structure_interval(seconds))
    if_set = override(omit_if_default=True)
    unstructure_calendar = make_dict_unstructure_fn(
        Calendar, converter, busy=if_set, busy_until=if_set, limits=if_set, subscribed_busy=if_set
    )
    converter.register_unstructure_hook(Calendar, unstructure_calendar)
    return converter


def _unstructure_interval(span: Interval) -> list[int]:
    """Two Unix timestamps: compact, since a calendar may hold thousands of intervals."""
    return [int(span.starts_at.timestamp()), int(span.ends_at.timestamp())]


def _structure_interval(seconds: Sequence[int]) -> Interval:
    starts_at, ends_at = seconds
    return Interval(datetime.fromtimestamp(starts_at, UTC), datetime.fromtimestamp(ends_at, UTC))


async def iterate_json(record: Mapping[str, Any]) -> AsyncGenerator[bytes]:
    """Serialize an object piece by piece; it may be larger than memory. A value that is an
    async iterator of pages becomes one list."""
    prefix = b"{"
    for name, value in record.items():
        prefix += encode(name) + b":"
        if isinstance(value, AsyncIterator):
            prefix += b"["
            separator = b""
            async for page in value:
                if page:
                    yield prefix + separator + encode(page)[1:-1]
                    prefix, separator = b"", b","
            yield prefix + b"]"
        else:
            yield prefix + encode(value)
        prefix = b","
    yield b"}" if record else b"{}"


def dump(value: object, as_type: Any = None) -> str:
    """Serialize a core value to JSON text for a column."""
    return _converter().dumps(value, as_type or type(value)).decode()


def load(text: str, as_type: type[T]) -> T:
    """Parse a value that `dump` wrote, as the given type."""
    return _converter().structure(decode(text), as_type)


def load_command(kind: OperationKind, text: str) -> OperationCommand:
    """Parse the stored command of an operation."""
    return load(text, COMMAND_TYPES[kind])


def load_calendar(text: str) -> Calendar:
    """Parse a stored calendar. Parsed calendars are immutable and cached, except long ones, which
    would take too much memory."""
    if len(text) <= MAX_CACHED_CALENDAR_LENGTH:
        return _load_calendar_cached(text)
    return _load_calendar(text)


def _load_calendar(text: str) -> Calendar:
    return load(text, Calendar)


MAX_CACHED_CALENDAR_LENGTH = 8 * 1024
"""Maximum characters of a cached calendar; calendars that `is_cacheable` accepts are shorter."""
_load_calendar_cached = lru_cache(maxsize=4096)(_load_calendar)
