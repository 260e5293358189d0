"""From what is given of a profile to the domain, whether its owner or an operator gives it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

from staffbooking_core.domain.calendar import Override, Slot, WeeklySlot, parse_hhmm
from staffbooking_core.domain.money import Currency
from staffbooking_core.errors import Fault, InvalidField
from staffbooking_core.inputs import DateHours, Hours, WeeklyHours


def rate_faults(currency: Currency, rates: Mapping[str, Decimal]) -> list[Fault]:
    """What is wrong with amounts of money, by their fields, for a currency's decimals."""
    faults = []
    for field, amount in rates.items():
        try:
            currency.to_minor(amount)
        except ValueError as error:
            faults.append(Fault(field, str(error)))
    return faults


def to_hours(
    weekly: Sequence[WeeklyHours], overrides: Sequence[DateHours]
) -> tuple[tuple[WeeklySlot, ...], tuple[Override, ...]]:
    """The hours of a calendar. Raises InvalidField with every slot that does not start before it
    ends, and for a date that comes twice."""
    # The two are HH:MM to the letter: in the order of texts as in that of times.
    faults = [
        Fault(f"{place}.start", "must be before end")
        for place, slot in _places(weekly, overrides)
        if slot.start >= slot.end
    ]
    if len({given.date for given in overrides}) < len(overrides):
        faults.append(Fault("overrides", "names a date twice"))
    if faults:
        raise InvalidField(faults)
    return (
        tuple(WeeklySlot(given.weekday, _slot(given)) for given in weekly),
        tuple(Override(given.date, tuple(map(_slot, given.slots))) for given in overrides),
    )


def _places(
    weekly: Sequence[WeeklyHours], overrides: Sequence[DateHours]
) -> Iterator[tuple[str, Hours]]:
    """Each slot with its dotted path."""
    for position, slot in enumerate(weekly):
        yield f"weekly.{position}", slot
    for position, day in enumerate(overrides):
        for number, each in enumerate(day.slots):
            yield f"overrides.{position}.slots.{number}", each


def _slot(given: Hours) -> Slot:
    return Slot(parse_hhmm(given.start), parse_hhmm(given.end, ending=True))
