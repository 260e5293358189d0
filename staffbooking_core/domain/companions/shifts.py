"""Working hours as people say them: a shift starts on a day and may run over midnight.

A calendar stores slots, each within one day. A night is the slot that ends one day at 24:00 and the
slot that begins the next day at 00:00: the functions here join the two at reading and split them
at writing. They are joined only if the night lasts less than 24 hours, so that a day that is open
all day stays a day.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date

from attrs import evolve, frozen

from staffbooking_core.domain.companions.availability import (
    DAY,
    Calendar,
    DateOverride,
    Slot,
    WeeklySlot,
)

__all__ = ["Shift"]

MAX_DAYS_AT_ONCE = 366
"""As many days in a row can be changed at once, so that many are listed as one."""
_MIDNIGHT = 24 * 60
_DAYS_PER_WEEK = 7
_Slots = tuple[Slot, ...]


@frozen
class Shift:
    """Hours that start on a day, in minutes from its 00:00. An end above 1440 is on the next day;
    a shift lasts at most 24 hours."""

    start: int
    end: int

    def __attrs_post_init__(self) -> None:
        if not 0 <= self.start < _MIDNIGHT or not self.start < self.end <= self.start + _MIDNIGHT:
            raise ValueError("a shift starts within its day and lasts up to 24 hours")

    @property
    def is_overnight(self) -> bool:
        """Whether it ends on the next day, later than at 00:00."""
        return self.end > _MIDNIGHT


@frozen
class WeeklyShift:
    """A shift of every week; Monday is 0."""

    weekday: int
    shift: Shift


# The week -------------------------------------------------------------------------------


def join_week(weekly: Iterable[WeeklySlot]) -> tuple[WeeklyShift, ...]:
    """The shifts of weekly slots, in order; Sunday's night ends on Monday."""
    slots = _weekly_slots(weekly)
    return tuple(
        WeeklyShift(weekday, shift)
        for weekday in range(_DAYS_PER_WEEK)
        for shift in _join_day(
            slots[weekday - 1], slots[weekday], slots[(weekday + 1) % _DAYS_PER_WEEK]
        )
    )


def split_week(shifts: Iterable[WeeklyShift]) -> tuple[WeeklySlot, ...]:
    """The weekly slots of shifts, in order; slots that overlap or touch are merged."""
    parts: dict[int, list[Slot]] = {weekday: [] for weekday in range(_DAYS_PER_WEEK)}
    for each in shifts:
        today, tomorrow = _split(each.shift)
        parts[each.weekday] += today
        parts[(each.weekday + 1) % _DAYS_PER_WEEK] += tomorrow
    return tuple(
        WeeklySlot(weekday, slot) for weekday, slots in parts.items() for slot in _merge(slots)
    )


def find_overlaps(shifts: Sequence[WeeklyShift]) -> list[int]:
    """The positions of shifts that overlap one before them in the sequence."""
    spans = [[(each.weekday, slot) for slot in _split(each.shift)[0]] for each in shifts]
    for span, each in zip(spans, shifts, strict=True):
        tomorrow = (each.weekday + 1) % _DAYS_PER_WEEK
        span += [(tomorrow, slot) for slot in _split(each.shift)[1]]
    return [
        position
        for position, span in enumerate(spans)
        if any(
            _overlap(part, other)
            for part in span
            for before in spans[:position]
            for other in before
        )
    ]


def _overlap(one: tuple[int, Slot], other: tuple[int, Slot]) -> bool:
    (weekday, slot), (other_weekday, other_slot) = one, other
    return weekday == other_weekday and slot.start < other_slot.end and other_slot.start < slot.end


# Single days ----------------------------------------------------------------------------


def shifts_on(calendar: Calendar, day: date) -> tuple[Shift, ...]:
    """The shifts that start on a local day, in order, before bookings and busy times."""
    return _join_day(*(_merge(calendar.slots_on(day + step * DAY)) for step in (-1, 0, 1)))


def without_overrides(calendar: Calendar) -> Calendar:
    """The calendar with its weekly hours alone, to ask it for the shifts of many days."""
    return evolve(calendar, overrides=(), busy=())


@frozen
class SpecialDays:
    """Consecutive local days on which the same shifts start, which are not the weekly ones; at most
    as many as can be changed at once."""

    first: date
    last: date
    shifts: tuple[Shift, ...]

    def can_be_restored(self, calendar: Calendar) -> bool:
        """Whether giving them their weekly hours back changes the calendar. It does not where only
        an override of the next or the previous day takes or gives a night."""
        restored = with_shifts(calendar, self.first, self.last, None)
        return restored.overrides != calendar.overrides


def list_special_days(calendar: Calendar, since: date) -> list[SpecialDays]:
    """The days from `since` on whose shifts differ from the weekly ones, in order."""
    weekly = without_overrides(calendar)
    overrides = {each.date: each.slots for each in calendar.overrides}

    def slots_on(day: date) -> _Slots:
        return _merge(overrides[day] if day in overrides else weekly.slots_on(day))

    found: list[SpecialDays] = []
    # An override may also take or give the night that begins or ends on it.
    for day in sorted({day + step * DAY for day in overrides for step in (-1, 0, 1)}):
        shifts = _join_day(*(slots_on(day + step * DAY) for step in (-1, 0, 1)))
        if day < since or shifts == shifts_on(weekly, day):
            continue
        if (
            found
            and (found[-1].last + DAY, found[-1].shifts) == (day, shifts)
            and (day - found[-1].first).days < MAX_DAYS_AT_ONCE
        ):
            found[-1] = evolve(found[-1], last=day)
        else:
            found.append(SpecialDays(day, day, shifts))
    return found


def with_shifts(
    calendar: Calendar, first: date, last: date, shifts: Sequence[Shift] | None
) -> Calendar:
    """The calendar with these shifts starting on each of the local days `first` to `last`, in place
    of those that did; None for the weekly ones. Nights that start on other days stay whole.

    A date whose slots become those of its weekly hours has no override any more.
    """
    weekly = without_overrides(calendar)
    overrides = {each.date: each.slots for each in calendar.overrides}

    def slots_on(day: date) -> _Slots:
        return _merge(overrides[day] if day in overrides else weekly.slots_on(day))

    days = [first + number * DAY for number in range((last - first).days + 1)]
    today, after = slots_on(first), slots_on(last + DAY)
    morning, night_end = _night_end(slots_on(first - DAY), today), _night_end(slots_on(last), after)
    if shifts is None and not morning and today and today[0].start == 0:
        # The weekly night of the day before may have joined the hours that are taken back.
        morning = _night_end(slots_on(first - DAY), _merge(weekly.slots_on(first)))
    changed: dict[date, list[Slot]] = {day: [] for day in days}
    changed[first] += [Slot(0, morning)] if morning else []
    usual_last, usual_after = (_merge(weekly.slots_on(day)) for day in (last, last + DAY))
    own = usual_after[1:] if _night_end(usual_last, usual_after) else usual_after
    rest = after[1:] if night_end else after
    # The night may have joined the weekly hours of that morning.
    joined = [slot for slot in own if slot.end <= night_end]
    changed[last + DAY] = [*(own if _merge((*joined, *rest)) == own else rest)]
    for day in days:
        for shift in shifts_on(weekly, day) if shifts is None else shifts:
            own, tail = _split(shift)
            changed[day] += own
            changed[day + DAY] += tail
    for day, slots in changed.items():
        merged, usual = _merge(slots), _merge(weekly.slots_on(day))
        if (shifts is None and day not in overrides) or (day > last and merged == slots_on(day)):
            continue  # Its hours stay as they are.
        overrides[day] = merged
        if merged == usual:
            del overrides[day]
    return evolve(calendar, overrides=tuple(map(DateOverride, overrides, overrides.values())))


# Slots ----------------------------------------------------------------------------------


def _weekly_slots(weekly: Iterable[WeeklySlot]) -> Sequence[_Slots]:
    """The merged slots of each day of the week."""
    slots = list(weekly)
    return [
        _merge(each.slot for each in slots if each.weekday == weekday)
        for weekday in range(_DAYS_PER_WEEK)
    ]


def _join_day(before: _Slots, today: _Slots, after: _Slots) -> tuple[Shift, ...]:
    """The shifts that start today, of the merged slots of three days."""
    own = today[1:] if _night_end(before, today) else today
    shifts = [Shift(slot.start, slot.end) for slot in own]
    if end := _night_end(today, after):
        shifts[-1] = Shift(shifts[-1].start, _MIDNIGHT + end)
    return tuple(shifts)


def _night_end(today: _Slots, after: _Slots) -> int:
    """The minute of the next day at which today's night ends; 0 without a night."""
    is_night = (
        today
        and after
        and today[-1].end == _MIDNIGHT
        and after[0].start == 0
        and after[0].end < today[-1].start
    )
    return after[0].end if is_night else 0


def _split(shift: Shift) -> tuple[_Slots, _Slots]:
    """The parts of a shift on its day and on the next one."""
    if not shift.is_overnight:
        return (Slot(shift.start, shift.end),), ()
    return (Slot(shift.start, _MIDNIGHT),), (Slot(0, shift.end - _MIDNIGHT),)


def _merge(slots: Iterable[Slot]) -> _Slots:
    """The slots in order; those that overlap or touch become one."""
    merged: list[Slot] = []
    for slot in sorted(slots, key=lambda each: each.start):
        if merged and slot.start <= merged[-1].end:
            merged[-1] = Slot(merged[-1].start, max(merged[-1].end, slot.end))
        else:
            merged.append(slot)
    return tuple(merged)
