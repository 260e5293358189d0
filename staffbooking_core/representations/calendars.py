"""Records of availability: weekly hours, free slots, calendar feeds (CONTRACT 3)."""

from collections.abc import Iterable
from datetime import date, datetime
from typing import Annotated, TypedDict

from staffbooking_core.domain.companions.availability import (
    Calendar,
    DayAvailability,
    Interval,
    Slot,
    format_hhmm,
)
from staffbooking_core.domain.companions.booking_limits import (
    MAX_BUFFER_MINUTES,
    MAX_HORIZON_DAYS,
    MAX_NOTICE_HOURS,
)
from staffbooking_core.domain.companions.calendar_subscriptions import CalendarSubscription
from staffbooking_core.representations.json_types import (
    ClockEndTime,
    ClockTime,
    Date,
    Id,
    JsonSchema,
    Timestamp,
    Timezone,
    format_instant,
)

__all__ = [
    "BusyTimeRecord",
    "CalendarAddressRecord",
    "CalendarFeedRecord",
    "DayRecord",
    "FreeDaysRecord",
]


class _SlotRecord(TypedDict):
    """A span of local time on one day."""

    start: ClockTime
    end: ClockEndTime


def _slot_record(slot: Slot) -> _SlotRecord:
    """The record of a slot."""
    return {"start": format_hhmm(slot.start), "end": format_hhmm(slot.end)}


class _WeeklySlotRecord(_SlotRecord):
    """A slot of every week."""

    weekday: Annotated[int, JsonSchema(minimum=0, maximum=6, description="Monday is 0")]


class _DateOverrideRecord(TypedDict):
    """The slots of one date, instead of the weekly ones."""

    date: Date
    slots: list[_SlotRecord]


class AvailabilityRecord(TypedDict):
    """The working hours and booking limits that the staff member set, without bookings."""

    timezone: Timezone
    weekly: list[_WeeklySlotRecord]
    overrides: list[_DateOverrideRecord]
    buffer_minutes: Annotated[
        int,
        JsonSchema(
            minimum=0,
            maximum=MAX_BUFFER_MINUTES,
            description="Free time kept before and after each booking",
        ),
    ]
    min_notice_hours: Annotated[
        int,
        JsonSchema(
            minimum=0,
            maximum=MAX_NOTICE_HOURS,
            description="The least time from a request to the start of its booking",
        ),
    ]
    horizon_days: Annotated[
        int,
        JsonSchema(
            minimum=1,
            maximum=MAX_HORIZON_DAYS,
            description="The last day on which a booking may start, counted from the current one",
        ),
    ]


def availability_record(calendar: Calendar) -> AvailabilityRecord:
    """The record of a calendar's hours and limits."""
    return {
        "timezone": calendar.timezone,
        "weekly": [
            {"weekday": weekly.weekday, **_slot_record(weekly.slot)} for weekly in calendar.weekly
        ],
        "overrides": [
            {
                "date": override.date.isoformat(),
                "slots": [_slot_record(slot) for slot in override.slots],
            }
            for override in calendar.overrides
        ],
        "buffer_minutes": calendar.limits.buffer_minutes,
        "min_notice_hours": calendar.limits.min_notice_hours,
        "horizon_days": calendar.limits.horizon_days,
    }


class DayRecord(TypedDict):
    """The free slots of one local day."""

    date: Date
    available: bool
    slots: list[_SlotRecord]


class FreeDaysRecord(TypedDict):
    """The free slots of a companion, day by day, both ends of the range included."""

    companion_id: Id
    timezone: str
    start_date: Date
    end_date: Date
    availability: list[DayRecord]


def free_days_record(
    companion_id: int, timezone: str, start: date, end: date, days: Iterable[DayAvailability]
) -> FreeDaysRecord:
    """The record of the free slots of the days from `start` to `end`."""
    return {
        "companion_id": companion_id,
        "timezone": timezone,
        "start_date": start.isoformat(),
        "end_date": end.isoformat(),
        "availability": [
            {
                "date": day.date.isoformat(),
                "available": bool(day.slots),
                "slots": [_slot_record(slot) for slot in day.slots],
            }
            for day in days
        ],
    }


class BusyTimeRecord(TypedDict):
    """A time in which a companion cannot be booked."""

    starts_at: Timestamp
    ends_at: Timestamp


def busy_time_record(interval: Interval) -> BusyTimeRecord:
    """The record of a busy time."""
    return {
        "starts_at": format_instant(interval.starts_at),
        "ends_at": format_instant(interval.ends_at),
    }


class CalendarAddressRecord(TypedDict):
    """Another calendar that is read each hour; the address itself is a secret."""

    name: str
    host: str
    created_at: Timestamp
    read_at: Timestamp
    busy_times: list[BusyTimeRecord]


def calendar_address_record(subscription: CalendarSubscription) -> CalendarAddressRecord:
    """The record of a subscription, without its address."""
    return {
        "name": subscription.name,
        "host": subscription.host,
        "created_at": format_instant(subscription.created_at),
        "read_at": format_instant(subscription.read_at),
        "busy_times": [busy_time_record(each) for each in subscription.busy],
    }


class CalendarFeedRecord(TypedDict):
    """A calendar feed, without its secret address."""

    created_at: Timestamp


def calendar_feed_record(created_at: datetime | None) -> CalendarFeedRecord | None:
    """The record of a calendar feed; None where there is none."""
    return None if created_at is None else {"created_at": format_instant(created_at)}
