"""Query strings: the parameters of each endpoint, and their strict parser (CONTRACT 1)."""

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

from staffbooking_adapters.inputs import (
    QueryDate,
    QueryPriceBound,
    structure_form,
    structure_query,
)
from staffbooking_core.bounds import MAX_ID, AllowedCharacters, IntegerBounds, TextBounds
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.domain.companions.companion import Approval, CompanionQuery
from staffbooking_core.domain.companions.portfolio import PortfolioItemStatus
from staffbooking_core.domain.shared.money import Currency
from staffbooking_core.inputs import Id, Name

T = TypeVar("T")

MAX_CACHED_QUERY_BYTES = 256
"""Longest query, in bytes, whose parsed input is cached."""

_MAX_REPORTED_KEY_BYTES = 100
"""Bytes of an unknown key that an error includes."""

PageNumber = Annotated[int, IntegerBounds(1, 100_000)]
PageSize = Annotated[int, IntegerBounds(1, 50)]
PriceBound = Annotated[Decimal, QueryPriceBound()]
SearchDate = Annotated[date, QueryDate()]


class BookingRole(StrEnum):
    CUSTOMER = "customer"
    STAFF = "staff"


@frozen(kw_only=True)
class NoParameters:
    """The query of an endpoint that has no parameters: others are ignored, but none may be given
    twice."""


@frozen(kw_only=True)
class SearchCompanions:
    """The search for companions (SPECIFICATION 4.2)."""

    location: Name | None = None
    service: Name | None = None
    min_price: PriceBound | None = None
    max_price: PriceBound | None = None
    date: SearchDate | None = None
    page: PageNumber = 1
    limit: PageSize = 12

    def to_core(self, currency: Currency) -> CompanionQuery:
        """Convert prices to minor units. A bound finer than the currency is rounded inwards."""
        low, high = self.min_price, self.max_price
        return CompanionQuery(
            location=self.location,
            service=self.service,
            min_price=None if low is None else _to_minor_units(low, currency, ROUND_CEILING),
            max_price=None if high is None else _to_minor_units(high, currency, ROUND_FLOOR),
            date=self.date,
            page=self.page,
            limit=self.limit,
        )


@frozen(kw_only=True)
class ReadAvailability:
    """Reading availability (SPECIFICATION 4.4)."""

    start_date: date
    end_date: date


@frozen(kw_only=True)
class ListBookings:
    """Listing bookings with an API key (CONTRACT 4)."""

    status: BookingStatus | None = None
    page: PageNumber = 1
    limit: PageSize = 12


@frozen(kw_only=True)
class ListMyBookings(ListBookings):
    """Listing one's bookings with a session (CONTRACT 4)."""

    role: BookingRole | None = None


@frozen(kw_only=True)
class ListReviews:
    """Listing reviews (CONTRACT 5)."""

    page: PageNumber = 1
    limit: PageSize = 12


@frozen(kw_only=True)
class ListForOperators:
    """A list of the operators (CONTRACT 10)."""

    page: PageNumber = 1
    limit: PageSize = 50


@frozen(kw_only=True)
class ListCompanionsForOperators(ListForOperators):
    """Listing companions; with a status, those alone."""

    status: Approval | None = None


@frozen(kw_only=True)
class ListPortfolioForOperators(ListForOperators):
    """Listing portfolio items; with a status, those alone."""

    status: PortfolioItemStatus | None = None


@frozen(kw_only=True)
class ListDeliveries:
    """Listing webhook deliveries (CONTRACT 7)."""

    page: PageNumber = 1
    limit: PageSize = 12


@frozen(kw_only=True)
class ReadEvents:
    """Reading the pull feed (CONTRACT 7)."""

    after: Annotated[str, TextBounds(100, 0, characters=AllowedCharacters.OPAQUE)] | None = None
    """The id of the last event that was read. Default: the beginning of the feed."""
    limit: Annotated[int, IntegerBounds(1, 100)] = 50


@frozen(kw_only=True)
class ListConversations:
    """Listing conversations (CONTRACT 6)."""

    page: PageNumber = 1
    limit: Annotated[int, IntegerBounds(1, 100)] = 100


@frozen(kw_only=True)
class ConnectQuery:
    """The query of the handshake at `/ws`."""

    after: Annotated[int, IntegerBounds(0, MAX_ID)] | None = None
    """The last message that the client has. Later messages are sent as after a resume request,
    but without a race against new messages."""


@frozen(kw_only=True)
class ReadHistory:
    """Reading the messages of a conversation (CONTRACT 6)."""

    before: Id | None = None
    after: Annotated[int, IntegerBounds(0, MAX_ID)] | None = None
    """Return messages after this id; 0 is the beginning."""
    limit: Annotated[int, IntegerBounds(1, 100)] = 50


def _to_minor_units(amount: Decimal, currency: Currency, rounding: str) -> int:
    return int(amount.scaleb(currency.decimals).to_integral_value(rounding))


def parse_query(cls: type[T], raw: bytes) -> T:
    """Parse a query string. Raises MissingField and InvalidField."""
    parse = _parse_cached if len(raw) <= MAX_CACHED_QUERY_BYTES else _parse
    parsed: T = parse(cls, raw)
    return parsed


def requested_address(scope: Mapping[str, Any]) -> str:
    """The requested path, with its query string unless that is too long."""
    path, query = scope["path"], scope["query_string"]
    return f"{path}?{query.decode('latin-1')}" if 0 < len(query) <= MAX_CACHED_QUERY_BYTES else path


def parse_form(cls: type[T], raw: bytes) -> T:
    """Parse a form as `parse_query` does, but without the cache. Unknown fields may repeat, since
    other code reads them. MissingField lists the invalid fields too."""
    parsed: T = _parse(cls, raw, is_strict=False)
    return parsed


def _parse(cls: type, raw: bytes, *, is_strict: bool = True) -> Any:
    """`is_strict` also refuses repeated unknown keys."""
    names = _field_names(cls)
    values: dict[str, str] = {}
    errors: dict[str, str] = {}
    unknown_keys: set[bytes] = set()
    for part in raw.split(b"&"):
        encoded, _, value = part.replace(b"+", b" ").partition(b"=")
        key = _unquote(encoded)
        if (name := names.get(key)) is None:
            if key in unknown_keys:
                errors[key[:_MAX_REPORTED_KEY_BYTES].decode(errors="replace")] = "is given twice"
            if is_strict and key:
                unknown_keys.add(key)
            continue
        if name in values:
            errors[name] = "is given twice"
        try:
            values[name] = _unquote(value).decode()
        except UnicodeDecodeError:
            values[name], errors[name] = "", "must be in UTF-8"
    convert = structure_query if is_strict else structure_form
    return convert(cls, values, errors)


def _unquote(encoded: bytes) -> bytes:
    return unquote_to_bytes(encoded) if b"%" in encoded else encoded


_parse_cached = lru_cache(maxsize=1024)(_parse)
"""Queries repeat, and parsed inputs are immutable."""


@lru_cache(maxsize=16)
def _field_names(cls: type) -> Mapping[bytes, str]:
    return {name.encode(): name for name in attrs.fields_dict(cls)}
