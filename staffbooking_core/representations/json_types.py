"""Types of the fields of published records, with JSON Schema keywords.

A record is a `TypedDict`: its class defines the fields, their types and which are optional; the
value is a plain dictionary, which `codec.encode` writes unchanged. The documents derive a JSON
schema from the class; `Annotated` adds the keywords that a Python type cannot express.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Literal, overload


class JsonSchema:
    """JSON Schema keywords of a field, as metadata of `Annotated`."""

    def __init__(self, **keywords: object) -> None:
        self.keywords = keywords


Success = Literal[True]
Id = Annotated[int, JsonSchema(minimum=1)]
PositiveCount = Annotated[int, JsonSchema(minimum=1)]
Count = Annotated[int, JsonSchema(minimum=0)]
Money = Annotated[
    Decimal,
    JsonSchema(title="Money", description="with the currency's exact decimals", examples=[120.5]),
]
Date = Annotated[str, JsonSchema(format="date")]
Timestamp = Annotated[str, JsonSchema(title="Timestamp", format="date-time", pattern="Z$")]
ClockTime = Annotated[
    str,
    JsonSchema(title="ClockTime", pattern="^([01][0-9]|2[0-3]):[0-5][0-9]$", examples=["18:00"]),
]
ClockEndTime = Annotated[
    str,
    JsonSchema(
        title="ClockEndTime", pattern="^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$", examples=["22:00"]
    ),
]
Timezone = Annotated[
    str, JsonSchema(title="Timezone", description="IANA name", examples=["Europe/Lisbon"])
]
ImagePath = Annotated[
    str,
    JsonSchema(
        title="ImagePath", description="relative path of an image", examples=["media/7q2m4x9t.jpg"]
    ),
]
AverageRating = Annotated[Decimal, JsonSchema(minimum=0, maximum=5)]
Rating = Annotated[int, JsonSchema(minimum=1, maximum=5)]
BookingCode = Annotated[
    str,
    JsonSchema(
        title="BookingCode", pattern="^BK[0-9A-HJKMNP-TV-Z]{12}$", examples=["BK7Q2M4X9T6HVC"]
    ),
]
EventId = Annotated[str, JsonSchema(pattern="^evt_", examples=["evt_7q2m4x9t"])]


@overload
def format_instant(at: datetime) -> str: ...


@overload
def format_instant(at: datetime | None) -> str | None: ...


def format_instant(at: datetime | None) -> str | None:
    """Format an instant in ISO 8601: UTC with Z, with microseconds if not zero."""
    if at is None:
        return None
    return at.astimezone(UTC).isoformat().removesuffix("+00:00") + "Z"
