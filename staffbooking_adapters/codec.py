"""The one codec: JSON for the wire and for what is stored.

`encode` writes every answer, event and ready-made record: a `Decimal` is a JSON number with
its own decimals, never a float. `dump` and `load` keep values of the core in columns.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeVar

import msgspec
from cattrs.preconf.msgspec import MsgspecJsonConverter, make_converter

from staffbooking_core.domain.calendar import Calendar
from staffbooking_core.domain.payments import (
    CloseCheckout,
    Command,
    OpenCheckout,
    OpKind,
    PayOut,
    Refund,
    ReversePayout,
)

T = TypeVar("T")

_encoder = msgspec.json.Encoder(decimal_format="number")
_decoder = msgspec.json.Decoder()

encode = _encoder.encode
"""Any plain structure (dict, list, str, int, Decimal, date, enum) as JSON bytes."""

decode = _decoder.decode
"""JSON bytes or text as plain structures; numbers with a fraction become floats."""

COMMANDS: dict[OpKind, type[Command]] = {
    OpKind.OPEN_CHECKOUT: OpenCheckout,
    OpKind.CLOSE_CHECKOUT: CloseCheckout,
    OpKind.REFUND: Refund,
    OpKind.PAY_OUT: PayOut,
    OpKind.REVERSE_PAYOUT: ReversePayout,
}


@lru_cache(maxsize=1)
def _converter() -> MsgspecJsonConverter:
    return make_converter()


def dump(value: object, as_type: Any = None) -> str:
    """A value of the core as JSON text for a column."""
    return _converter().dumps(value, as_type or type(value)).decode()


def load(text: str, as_type: type[T]) -> T:
    """What `dump` wrote, as the type it was."""
    return _converter().structure(decode(text), as_type)


def load_command(kind: OpKind, text: str) -> Command:
    """The frozen command of an operation."""
    return load(text, COMMANDS[kind])


@lru_cache(maxsize=4096)
def load_calendar(text: str) -> Calendar:
    """A stored calendar; the parsed ones are kept, since they are immutable."""
    return load(text, Calendar)
