"""Query strings: what each endpoint takes, and the strict reading of it (CONTRACT 1)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Any, TypeVar
from urllib.parse import unquote_to_bytes

import attrs
from attrs import frozen

from staffbooking_adapters.inputs import Price, structure_query
from staffbooking_core.domain.bookings.lifecycle import Status
from staffbooking_core.domain.companions.companion import CompanionQuery
from staffbooking_core.domain.shared.money import Currency
from staffbooking_core.inputs import MAX_ID, Characters, Id, Name, Text, Whole

T = TypeVar("T")

SHORT = 256
"""Bytes of a query that is worth remembering."""

LONGEST_KEY = 100
"""Bytes of a key that we don't know, as an error names it."""

Page = Annotated[int, Whole(1, 100_000)]
PageSize = Annotated[int, Whole(1, 50)]
Rate = Annotated[Decimal, Price()]


class Side(StrEnum):
    CUSTOMER = "customer"
    STAFF = "staff"


@frozen(kw_only=True)
class SearchCompanions:
    """SPECIFICATION 4.2."""

    location: Name | None = None
    service: Name | None = None
    min_price: Rate | None = None
    max_price: Rate | None = None
    date: date | None = None
    page: Page = 1
    limit: PageSize = 12

    def to_core(self, currency: Currency) -> CompanionQuery:
        """The same in minor units: a bound finer than the currency moves inwards."""
        low, high = self.min_price, self.max_price
        return CompanionQuery(
            location=self.location,
            service=self.service,
            min_price=None if low is None else _minor(low, currency, ROUND_CEILING),
            max_price=None if high is None else _minor(high, currency, ROUND_FLOOR),
            date=self.date,
            page=self.page,
            limit=self.limit,
        )


@frozen(kw_only=True)
class ReadAvailability:
    """SPECIFICATION 4.4."""

    start_date: date
    end_date: date


@frozen(kw_only=True)
class ListBookings:
    """CONTRACT 4, by key."""

    status: Status | None = None
    page: Page = 1
    limit: PageSize = 12


@frozen(kw_only=True)
class ListMyBookings(ListBookings):
    """CONTRACT 4, by session."""

    role: Side | None = None


@frozen(kw_only=True)
class ListReviews:
    """CONTRACT 5."""

    page: Page = 1
    limit: PageSize = 12


@frozen(kw_only=True)
class ListDeliveries:
    """CONTRACT 7."""

    page: Page = 1
    limit: PageSize = 12


@frozen(kw_only=True)
class ReadEvents:
    """CONTRACT 7."""

    after: Annotated[str, Text(100, 0, characters=Characters.OPAQUE)] | None = None
    """The id of the last event that was read; the feed's beginning unless given."""
    limit: Annotated[int, Whole(1, 100)] = 50


@frozen(kw_only=True)
class ListConversations:
    """CONTRACT 6."""

    page: Page = 1
    limit: Annotated[int, Whole(1, 100)] = 100


@frozen(kw_only=True)
class Connect:
    """Of the handshake at /ws."""

    after: Annotated[int, Whole(0, MAX_ID)] | None = None
    """The last message that the client has: it is told of what came after it, as if it asked
    to resume, but with no race against what comes meanwhile."""


@frozen(kw_only=True)
class ReadHistory:
    """CONTRACT 6."""

    before: Id | None = None
    after: Annotated[int, Whole(0, MAX_ID)] | None = None
    """0 is the beginning."""
    limit: Annotated[int, Whole(1, 100)] = 50


def _minor(amount: Decimal, currency: Currency, rounding: str) -> int:
    return int(amount.scaleb(currency.decimals).to_integral_value(rounding))


def read(cls: type[T], raw: bytes) -> T:
    """The input that a query string holds. Raises MissingField and InvalidField."""
    made: T = (_remembered if len(raw) <= SHORT else _read)(cls, raw)
    return made


def read_form(cls: type[T], raw: bytes) -> T:
    """The input that a form holds, as `read`; nothing of it is remembered. What it holds besides
    may come more than once: a form has parts that others read."""
    made: T = _read(cls, raw, whole=False)
    return made


def _read(cls: type, raw: bytes, *, whole: bool = True) -> Any:
    """`whole` tells that all of it is for this input."""
    names = _names(cls)
    given: dict[str, str] = {}
    broken: dict[str, str] = {}
    strange: set[bytes] = set()
    for part in raw.split(b"&"):
        encoded, _, value = part.replace(b"+", b" ").partition(b"=")
        key = unquote_to_bytes(encoded)
        if (name := names.get(key)) is None:
            if key in strange:
                broken[key[:LONGEST_KEY].decode(errors="replace")] = "is given twice"
            if whole and key:
                strange.add(key)
            continue
        if name in given:
            broken[name] = "is given twice"
        try:
            given[name] = unquote_to_bytes(value).decode()
        except UnicodeDecodeError:
            given[name], broken[name] = "", "must be in UTF-8"
    return structure_query(cls, given, broken)


_remembered = lru_cache(maxsize=1024)(_read)
"""Queries come again and again, and what is made of them never changes."""


@lru_cache(maxsize=16)
def _names(cls: type) -> Mapping[bytes, str]:
    return {name.encode(): name for name in attrs.fields_dict(cls)}
