"""A staff member's hours as shifts, which may run over midnight, and the days that follow from
them. The interface sets the same hours as slots of single days (`profiles.set_availability`)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import Annotated

from attrs import evolve, frozen

from staffbooking_core.bounds import IntegerBounds, ListBounds
from staffbooking_core.domain.accounts.users import Actor
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.guidance import NextAction, guide
from staffbooking_core.domain.bookings.lifecycle import Party
from staffbooking_core.domain.companions.availability import (
    DAY,
    Calendar,
    Interval,
    Slot,
    format_hhmm,
    local_date,
    merge_intervals,
    parse_hhmm,
    slot_interval,
)
from staffbooking_core.domain.companions.booking_limits import add_years
from staffbooking_core.domain.companions.companion import draft_companion
from staffbooking_core.domain.companions.shifts import (
    MAX_DAYS_AT_ONCE,
    Shift,
    WeeklyShift,
    find_overlaps,
    shifts_on,
    split_week,
    with_shifts,
    without_overrides,
)
from staffbooking_core.errors import FieldError, InvalidField, NotFound, invalid_field
from staffbooking_core.inputs import (
    MAX_DATE_OVERRIDES,
    SetAvailability,
    TimeOfDay,
    TimezoneName,
    WeeklyHours,
)
from staffbooking_core.ports import Ports, Transaction
from staffbooking_core.usecases.companions.profiles import lock_staff_member, set_availability
from staffbooking_core.validation import validated

__all__ = [
    "Agenda",
    "AgendaDay",
    "SetDays",
    "SetWeek",
    "ShiftHours",
    "WeeklyShiftHours",
    "get_agenda",
    "set_days",
    "set_week",
]

_MAX_YEARS_AHEAD = 3
_MAX_BOOKINGS = 500
_MINUTES_PER_DAY = 24 * 60


# Inputs ---------------------------------------------------------------------------------


@frozen(kw_only=True)
class ShiftHours:
    """Hours that start on a day. An end that is not after the start is on the next day; 00:00 to
    00:00 is the whole day."""

    start: TimeOfDay
    end: TimeOfDay


@frozen(kw_only=True)
class WeeklyShiftHours(ShiftHours):
    """The hours of a shift on a day of the week."""

    weekday: Annotated[int, IntegerBounds(0, 6)]
    """Monday is 0."""


@frozen(kw_only=True)
class SetWeek:
    """The weekly hours. Without any, every day is open all day."""

    timezone: TimezoneName
    shifts: Annotated[tuple[WeeklyShiftHours, ...], ListBounds(50, unique=False)]
    """A night takes two of the 100 slots of a calendar."""


@frozen(kw_only=True)
class SetDays:
    """The hours that start on each of some days, instead of the weekly ones; none close the
    days."""

    first: date
    last: date
    shifts: Annotated[tuple[ShiftHours, ...], ListBounds(20, unique=False)] | None = None
    """None for the weekly hours."""


# The week -------------------------------------------------------------------------------


@validated
async def set_week(ports: Ports, actor: Actor, command: SetWeek) -> Calendar:
    """Replace the weekly hours and the time zone. Locks the user, then the companion.

    Raises InvalidField for shifts that end when they start and for shifts that overlap, and
    NotFound.
    """
    faults = _length_faults(command.shifts)
    if not faults:
        weekly = [WeeklyShift(given.weekday, _to_shift(given)) for given in command.shifts]
        faults = [
            FieldError(f"shifts.{position}.start", "must not overlap other hours")
            for position in find_overlaps(weekly)
        ]
    if faults:
        raise InvalidField(faults)
    slots = tuple(
        WeeklyHours(
            weekday=each.weekday,
            start=format_hhmm(each.slot.start),
            end=format_hhmm(each.slot.end),
        )
        for each in split_week(weekly)
    )
    given = SetAvailability(timezone=command.timezone, weekly=slots)
    return await set_availability(ports, actor, given)


# Single days ----------------------------------------------------------------------------


@validated
async def set_days(ports: Ports, actor: Actor, command: SetDays) -> Calendar:
    """Set the hours that start on each of some days, or restore the weekly ones. Drops the hours of
    past dates. Locks the user, then the companion.

    Raises InvalidField for days in the past, more than 366 days or too many special dates, and for
    shifts that end when they start or overlap; and NotFound.
    """
    given = command.shifts
    faults = _day_faults(command.first, command.last) + _length_faults(given or ())
    shifts = None
    if given is not None and not faults:
        shifts = tuple(map(_to_shift, given))
        faults = [
            FieldError(f"shifts.{position}.start", "must not overlap other hours")
            for position in find_overlaps([WeeklyShift(0, shift) for shift in shifts])
        ]
    if faults:
        raise InvalidField(faults)
    now = await ports.clock.business()

    async def unit(tx: Transaction) -> Calendar:
        _, companion = await lock_staff_member(tx, actor)
        calendar = companion.calendar
        today = local_date(calendar.timezone, now)
        if command.first < today:
            raise invalid_field("first", "lies in the past")
        if command.last > add_years(today, _MAX_YEARS_AHEAD):
            raise invalid_field("last", "lies more than three years ahead")
        changed = with_shifts(calendar, command.first, command.last, shifts)
        kept = tuple(each for each in changed.overrides if each.date >= today)
        if len(kept) > MAX_DATE_OVERRIDES:
            raise invalid_field("last", f"is too far: at most {MAX_DATE_OVERRIDES} days may differ")
        calendar = evolve(changed, overrides=kept)
        await tx.companions.save_companion(evolve(companion, calendar=calendar))
        return calendar

    return await ports.store.run_transaction(unit)


def _day_faults(first: date, last: date) -> list[FieldError]:
    if last < first:
        return [FieldError("last", "must not be before the first day")]
    if (last - first).days >= MAX_DAYS_AT_ONCE:
        return [FieldError("last", f"is too far: at most {MAX_DAYS_AT_ONCE} days at once")]
    return []


def _length_faults(shifts: Sequence[ShiftHours]) -> list[FieldError]:
    """The faults of shifts that end when they start; from 00:00 to 00:00 is a whole day."""
    return [
        FieldError(f"shifts.{position}.end", "must differ from the start")
        for position, given in enumerate(shifts)
        if given.start == given.end != "00:00"
    ]


def _to_shift(hours: ShiftHours) -> Shift:
    start, end = parse_hhmm(hours.start), parse_hhmm(hours.end)
    return Shift(start, end if end > start else end + _MINUTES_PER_DAY)


# The agenda -----------------------------------------------------------------------------


@frozen
class AgendaDay:
    """A local day of a staff member."""

    date: date
    span: Interval | None
    """From its start to its end; None for a day that its zone skipped."""
    shifts: tuple[Shift, ...]
    """The shifts that start on it, before bookings and busy times."""
    is_special: bool
    """Whether its hours differ from the weekly ones."""
    bookings: tuple[Booking, ...]
    """The bookings whose event is on this date, by their start; none that is cancelled."""
    busy: tuple[Interval, ...]
    """The external busy times within it."""


@frozen
class Agenda:
    """Consecutive days of a staff member."""

    calendar: Calendar
    now: datetime
    """Business time."""
    today: date
    days: tuple[AgendaDay, ...]
    to_check_in: frozenset[int]
    """The ids of the bookings at which the staff member can check in now."""

    def find_day(self, wanted: date | None) -> AgendaDay | None:
        """The day of a date; None where it is not among them."""
        return next((day for day in self.days if day.date == wanted), None)


@validated
async def get_agenda(ports: Ports, actor: Actor, first: date, last: date) -> Agenda:
    """The staff member's local days `first` to `last`, with at most 500 bookings. Raises
    NotFound."""
    now = await ports.clock.business()
    async with ports.store.read_view() as view:
        companion = await view.companions.companion(actor.user_id)
        if companion is None:
            user = await view.accounts.user(actor.user_id)
            if user is None:
                raise NotFound("User")
            companion = draft_companion(user)
        calendar = companion.calendar
        # The zone of an event may differ from that of the calendar: a day more on either side.
        span = _local_span(calendar, first - DAY, last + DAY)
        bookings = (
            await view.bookings.bookings_within(companion.id, span, _MAX_BOOKINGS) if span else ()
        )
    weekly = without_overrides(calendar)
    busy = merge_intervals((*calendar.busy, *calendar.subscribed_busy))
    return Agenda(
        calendar,
        now,
        local_date(calendar.timezone, now),
        tuple(
            _agenda_day(calendar, weekly, first + number * DAY, bookings, busy)
            for number in range((last - first).days + 1)
        ),
        frozenset(
            booking.id
            for booking in bookings
            if guide(booking, Party.STAFF, now, ports.policy).action is NextAction.CHECK_IN
        ),
    )


def _agenda_day(
    calendar: Calendar,
    weekly: Calendar,
    day: date,
    bookings: Sequence[Booking],
    busy: Sequence[Interval],
) -> AgendaDay:
    shifts, span = shifts_on(calendar, day), _local_span(calendar, day, day)
    return AgendaDay(
        day,
        span,
        shifts,
        shifts != shifts_on(weekly, day),
        tuple(booking for booking in bookings if booking.event_date == day),
        tuple(
            Interval(max(each.starts_at, span.starts_at), min(each.ends_at, span.ends_at))
            for each in busy
            if span and each.starts_at < span.ends_at and span.starts_at < each.ends_at
        ),
    )


def _local_span(calendar: Calendar, first: date, last: date) -> Interval | None:
    """From the start of a local day to the end of another one; None for a day that its zone
    skipped."""
    whole_day = Slot(0, _MINUTES_PER_DAY)
    days = (first + number * DAY for number in range((last - first).days + 1))
    spans = [span for day in days if (span := slot_interval(calendar.timezone, day, whole_day))]
    return Interval(spans[0].starts_at, spans[-1].ends_at) if spans else None
