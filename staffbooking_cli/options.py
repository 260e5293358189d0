"""Shared command options and arguments, and strict parsers of their values."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Literal

import typer

MAX_ID = 2**63 - 1

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")]
Email = Annotated[str, typer.Argument(metavar="EMAIL", help="The account's e-mail address.")]
Id = Annotated[int, typer.Argument(metavar="ID", min=1, max=MAX_ID)]
Code = Annotated[str, typer.Argument(metavar="CODE", help="The booking code: BK...")]
Reason = Annotated[str | None, typer.Option("--reason", "--note", help="Why, for the audit.")]
By = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Who, for the audit; the system's user name by default."),
]
Limit = Annotated[int, typer.Option(help="Rows per page.", min=1, max=1000)]
Page = Annotated[int, typer.Option(help="The page number, from 1.", min=1, max=100_000)]

# Copies of the core's values, so that help does not load the core; a test compares them.
Role = Literal["customer", "staff", "admin"]
Tier = Literal["none", "basic", "enterprise"]
Status = Literal["pending", "accepted", "paid", "completed", "cancelled", "disputed"]
Approval = Literal["pending", "approved", "suspended"]
BookingsDecisionOption = Literal["cancel", "keep"]
ItemStatus = Literal["pending", "approved", "rejected"]


class PermissionOption(StrEnum):
    """An enum because a repeatable option can't be a Literal."""

    READ = "read"
    BOOK = "book"


_INSTANT_PATTERN = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?"
    r"(Z|[+-][0-9]{2}:[0-9]{2})"
)
_AMOUNT_PATTERN = re.compile(r"[0-9]{1,11}(\.[0-9]{1,3})?")


def instant(text: str) -> datetime:
    """Parse an ISO 8601 instant with Z or an offset, as UTC, within the calendar's date range.

    Raises BadParameter.
    """
    from staffbooking_core.domain.companions.availability import (
        MAX_CALENDAR_DATE,
        MIN_CALENDAR_DATE,
    )

    try:
        if _INSTANT_PATTERN.fullmatch(text):
            given = datetime.fromisoformat(text).astimezone(UTC)
            if MIN_CALENDAR_DATE <= given.date() <= MAX_CALENDAR_DATE:
                return given
    except (ValueError, OverflowError):
        pass
    raise typer.BadParameter(f"{text!r} is not an instant such as 2027-03-01T18:00:00Z")


def duration(text: str) -> timedelta:
    """Parse a duration such as `90s`, `30m` or `72h`. Raises BadParameter."""
    from staffbooking_core.domain.shared.durations import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} {error}") from None


def amount(text: str) -> Decimal:
    """Parse an amount in major units, such as `120` or `120.50`. Raises BadParameter."""
    if not _AMOUNT_PATTERN.fullmatch(text):
        raise typer.BadParameter(f"{text!r} is not an amount such as 120.50")
    return Decimal(text)
