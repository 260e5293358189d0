"""The one codec: JSON for the wire and for what is stored.

`encode` writes every answer, event and ready-made record: a `Decimal` is a JSON number with
its own decimals, never a float. `dump` and `load` keep values of the core in columns.
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
"""Any plain structure (dict, list, str, int, Decimal, date, enum) as JSON bytes."""

decode = _decoder.decode
"""JSON bytes or text as plain structures; numbers with a fraction become floats."""

RawJson = msgspec.Raw
"""Ready-made JSON bytes: `encode` writes them unchanged inside a larger structure."""

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
    rare = override(omit_if_default=True)
    hours = make_dict_unstructure_fn(Calendar, converter, busy=rare, busy_until=rare)
    converter.register_unstructure_hook(Calendar, hours)
    return converter


def _unstructure_interval(span: Interval) -> list[int]:
    """Unix times: a calendar may hold thousands of intervals."""
    return [int(span.starts_at.timestamp()), int(span.ends_at.timestamp())]


def _structure_interval(seconds: Sequence[int]) -> Interval:
    starts_at, ends_at = seconds
    return Interval(datetime.fromtimestamp(starts_at, UTC), datetime.fromtimestamp(ends_at, UTC))


async def iterate_json(record: Mapping[str, Any]) -> AsyncGenerator[bytes]:
    """An object that outgrows the memory as JSON bytes, as it is taken: a value that is an
    iterator of pages is one list."""
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
    """A value of the core as JSON text for a column."""
    return _converter().dumps(value, as_type or type(value)).decode()


def load(text: str, as_type: type[T]) -> T:
    """What `dump` wrote, as the type it was."""
    return _converter().structure(decode(text), as_type)


def load_command(kind: OperationKind, text: str) -> OperationCommand:
    """The frozen command of an operation."""
    return load(text, COMMAND_TYPES[kind])


def load_calendar(text: str) -> Calendar:
    """A stored calendar; the parsed ones are kept, since they are immutable, but for long ones:
    thousands of them would be a lot."""
    return (_load_calendar_cached if len(text) <= MAX_CACHED_CALENDAR_LENGTH else _load_calendar)(
        text
    )


def _load_calendar(text: str) -> Calendar:
    return load(text, Calendar)


MAX_CACHED_CALENDAR_LENGTH = 8 * 1024
"""Characters: no text of hours that many may keep (`calendar.are_common`) has more."""
_load_calendar_cached = lru_cache(maxsize=4096)(_load_calendar)
