"""The events of a calendar file are counted: those that give busy times, and others by reason."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from staffbooking_adapters.ics.calendars import IcsCalendars
from staffbooking_core.domain.companions.availability import Interval
from tests.support.ics import make_ics_calendar, make_ics_hour

pytestmark = pytest.mark.anyio

WINDOW = Interval(datetime(2027, 3, 1, tzinfo=UTC), datetime(2027, 5, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (make_ics_hour("20270310T090000Z", "TRANSP:TRANSPARENT"), "free"),
        ("TRANSP:TRANSPARENT", "free"),
        ("DTSTART:20270230T090000Z\nTRANSP:TRANSPARENT", "free"),
        ("DTSTART:20270230T090000Z\nSTATUS:CANCELLED", "cancelled"),
        (make_ics_hour("20270310T090000Z", "TRANSP:TRANSPARENT", "RRULE:FREQ=HOURLY"), "free"),
        (make_ics_hour("20270310T090000Z", "STATUS:CANCELLED"), "cancelled"),
        (make_ics_hour("20270310T090000Z", "EXDATE:20270310T090000Z"), "cancelled"),
        (make_ics_hour("20270310T090000Z", "UID:BK0123456789AB@book.example.com"), "own_booking"),
        ("DTSTART:20270310T090000Z", "moment"),
        (make_ics_hour("20270201T090000Z"), "past"),
        (make_ics_hour("20260201T090000Z", "RRULE:FREQ=DAILY;COUNT=9"), "past"),
        (make_ics_hour("20280201T090000Z", "RRULE:FREQ=DAILY"), "too_far"),
    ],
)
async def test_events_without_busy_times_are_counted_by_reason(lines, reason):
    """Each event that gives no busy time counts once, with the reason; a repeated one that gives
    some counts once too."""
    weekly = make_ics_hour("20270302T110000Z", "RRULE:FREQ=WEEKLY;COUNT=3")
    found = await IcsCalendars("https://book.example.com").parse_busy_times(
        make_ics_calendar(weekly, lines), "UTC", WINDOW
    )
    assert (len(found.times), found.events, found.skipped) == (3, 1, {reason: 1})


async def test_periods_of_free_busy_are_counted():
    """A busy period counts as an event, a free one as left out."""
    periods = "BEGIN:VFREEBUSY\nFREEBUSY:20270310T090000Z/PT1H,20270311T090000Z/PT1H\n"
    free = "FREEBUSY;FBTYPE=FREE:20270312T090000Z/PT1H\nEND:VFREEBUSY\n"
    found = await IcsCalendars("https://book.example.com").parse_busy_times(
        make_ics_calendar(before=periods + free), "UTC", WINDOW
    )
    assert (found.events, found.skipped) == (2, {"free": 1})
