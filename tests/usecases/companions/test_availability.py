"""Shown free slots can be booked; hours of single dates."""

from __future__ import annotations

import asyncio
from datetime import date, timedelta
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings, strategies as st

from staffbooking_adapters.inputs import structure
from staffbooking_adapters.testing.builders import DAY, NOW, POLICY, add_user
from staffbooking_core.domain.accounts.users import Actor, Role
from staffbooking_core.domain.companions.availability import (
    Calendar,
    DateOverride,
    Slot,
    WeeklySlot,
    format_hhmm,
    local_time_to_utc,
    parse_hhmm,
)
from staffbooking_core.domain.companions.companion import CompanionQuery
from staffbooking_core.errors import InvalidField, NotFound, RuleBroken
from staffbooking_core.inputs import MAX_DATE_OVERRIDES, DateHours, SetAvailability
from staffbooking_core.representations.calendars import availability_record
from staffbooking_core.usecases.companions import profiles, search
from tests.support.memory_deployment import (
    BookingScenario,
    actor_of,
    make_booking_scenario,
    memory_ports,
    with_another_companion,
)

DAYS = [date(2027, 3, 27) + number * timedelta(days=1) for number in range(3)]
"""Three days with the change to summer time of Europe on the middle one."""
ZONES = ("Europe/Zurich", "Asia/Kolkata", "America/Los_Angeles", "Pacific/Auckland")
HALF_HOURS = [format_hhmm(30 * number) for number in range(49)]
EVERY_HOUR = [format_hhmm(60 * number) for number in range(24)]


@st.composite
def slots(draw: st.DrawFn) -> dict[str, Any]:
    start, end = sorted(draw(st.sets(st.sampled_from(HALF_HOURS), min_size=2, max_size=2)))
    return {"start": start, "end": end}


_DAYS_AHEAD = (DAYS[0] - NOW.date()).days
limits = st.fixed_dictionaries(
    {},
    optional={
        "buffer_minutes": st.integers(0, 240),
        "min_notice_hours": st.integers(24 * (_DAYS_AHEAD - 1), 24 * (_DAYS_AHEAD + 3)),
        "horizon_days": st.integers(_DAYS_AHEAD - 1, _DAYS_AHEAD + 3),
    },
)


@st.composite
def hours(draw: st.DrawFn) -> dict[str, Any]:
    """Availability input around the weekend of the change to summer time."""
    weekly = st.builds(lambda day, slot: {"weekday": day, **slot}, st.integers(0, 6), slots())
    days = draw(st.lists(st.sampled_from(DAYS), max_size=2, unique=True))
    return {
        "timezone": draw(st.sampled_from(ZONES)),
        "weekly": draw(st.lists(weekly, max_size=10)),
        "overrides": [
            {"date": day.isoformat(), "slots": draw(st.lists(slots(), max_size=2))} for day in days
        ],
        **draw(limits),
    }


class Looks:
    """A companion with hours, and the public views of them."""

    async def open(self, wanted: dict[str, Any]) -> None:
        self.scene = await make_booking_scenario(POLICY, memory_ports(POLICY, now=NOW))
        self.ports, self.timezone = self.scene.ports, wanted["timezone"]
        given = structure(SetAvailability, wanted)
        self.kept = await profiles.set_availability(self.ports, self.scene.staff, given)

    async def shown(self, day: date) -> list[tuple[int, int]]:
        """The free slots of a day, in minutes."""
        number = self.scene.staff.user_id
        (found,) = (await search.get_availability(self.ports, number, day, day))["availability"]
        return [
            (parse_hhmm(slot["start"]), parse_hhmm(slot["end"], ending=True))
            for slot in found["slots"]
        ]

    async def is_found(self, day: date) -> bool:
        return bool(await search.search(self.ports, CompanionQuery(date=day)))

    async def is_bookable(self, day: date, start: str) -> bool:
        """Whether an hour from then on can be booked; no request holds any time."""
        try:
            await self.scene.request(event_date=day, start_time=start, duration_hours=1)
        except RuleBroken as error:
            if error.code != "companion_unavailable":
                raise
            return False
        return True


@given(hours())
@settings(max_examples=60)
def test_what_is_shown_can_be_booked_and_nothing_else(wanted: dict[str, Any]) -> None:
    """For any hours, a shown hour can be booked, another cannot, and the search by date agrees."""

    async def look() -> None:
        looks = Looks()
        await looks.open(wanted)
        for day in DAYS:
            shown = await looks.shown(day)
            known = [text for text in EVERY_HOUR if _exists(wanted["timezone"], day, text)]
            for text in known:
                start = parse_hhmm(text)
                # A local hour is an elapsed hour except at a clock change.
                if any(low <= start and _after_an_hour(day, start) <= high for low, high in shown):
                    assert await looks.is_bookable(day, text), (day, text)
                elif not any(low <= start < high for low, high in shown):
                    assert not await looks.is_bookable(day, text), (day, text)
            if not shown:
                assert not await looks.is_found(day)
            if any(high - low >= 180 for low, high in shown):
                assert await looks.is_found(day)

    asyncio.run(look())


def _exists(timezone: str, day: date, text: str) -> bool:
    try:
        local_time_to_utc(timezone, day, parse_hhmm(text))
    except ValueError:
        return False
    return True


def _after_an_hour(day: date, start: int) -> int:
    return start + (120 if day == DAYS[1] else 60)


@given(hours())
@settings(max_examples=60)
def test_hours_read_back_as_they_were_set(wanted: dict[str, Any]) -> None:
    """Hours are returned as set, and setting them again changes nothing."""

    async def look() -> None:
        looks = Looks()
        await looks.open(wanted)
        defaults = {"buffer_minutes": 0, "min_notice_hours": 0, "horizon_days": 1095}
        assert availability_record(looks.kept) == defaults | wanted
        found = await profiles.get_profile(looks.ports, looks.scene.staff)
        assert found.calendar == looks.kept
        again = structure(SetAvailability, availability_record(looks.kept))
        await profiles.set_availability(looks.ports, looks.scene.staff, again)
        assert await profiles.get_profile(looks.ports, looks.scene.staff) == found

    asyncio.run(look())


# Single dates ---------------------------------------------------------------------------

TODAY = NOW.date()


async def with_dates(scene: BookingScenario, *days: date, **given: Any) -> BookingScenario:
    """Set dates off for the staff member."""
    calendar = Calendar("UTC", overrides=tuple(map(DateOverride, days)), **given)
    return await with_another_companion(scene, calendar=calendar)


async def set_day(scene: BookingScenario, day: date, *slots: tuple[str, str]) -> Calendar:
    hours = [{"start": start, "end": end} for start, end in slots]
    wanted = structure(DateHours, {"date": day.isoformat(), "slots": hours})
    return await profiles.set_date_hours(scene.ports, scene.staff, wanted)


async def stored(scene: BookingScenario) -> Calendar:
    return (await profiles.get_profile(scene.ports, scene.staff)).calendar


async def faults(scene: BookingScenario, day: date, *slots: tuple[str, str]) -> list[str]:
    """The fields that the hours of a date are refused for."""
    with pytest.raises(InvalidField) as caught:
        await set_day(scene, day, *slots)
    return [fault.field for fault in caught.value.field_errors]


@pytest.mark.anyio
async def test_a_date_is_set_beside_the_others(scene: BookingScenario) -> None:
    """The hours of a date are replaced, and the rest of the calendar stays."""
    weekly = (WeeklySlot(0, Slot(540, 1020)),)
    scene = await with_dates(scene, TODAY, TODAY + DAY, weekly=weekly, busy_until=TODAY)
    before = await stored(scene)
    after = await set_day(scene, TODAY, ("09:00", "12:00"), ("13:00", "24:00"))
    changed = DateOverride(TODAY, (Slot(540, 720), Slot(780, 1440)))
    assert after == evolve(before, overrides=(DateOverride(TODAY + DAY), changed))
    assert await stored(scene) == after


@pytest.mark.anyio
async def test_a_date_can_be_set_before_the_profile(scene: BookingScenario) -> None:
    """Setting a date creates the companion."""
    newcomer = actor_of(await add_user(scene.ports.store, role=Role.STAFF))
    scene = evolve(scene, staff=newcomer)
    await set_day(scene, TODAY)
    assert (await stored(scene)).overrides == (DateOverride(TODAY),)


@pytest.mark.anyio
async def test_dates_that_are_over_go_when_one_is_set(scene: BookingScenario) -> None:
    """Past dates are dropped and do not count for the limit."""
    past = [TODAY - (number + 1) * DAY for number in range(MAX_DATE_OVERRIDES)]
    scene = await with_dates(scene, *past)
    assert (await set_day(scene, TODAY + DAY)).overrides == (DateOverride(TODAY + DAY),)


@pytest.mark.anyio
async def test_so_many_dates_can_be_set(scene: BookingScenario) -> None:
    """A date over the limit is refused; existing ones can be changed."""
    scene = await with_dates(scene, *(TODAY + number * DAY for number in range(MAX_DATE_OVERRIDES)))
    before = await stored(scene)
    assert await faults(scene, TODAY + MAX_DATE_OVERRIDES * DAY) == ["date"]
    assert await stored(scene) == before
    assert len((await set_day(scene, TODAY, ("09:00", "10:00"))).overrides) == MAX_DATE_OVERRIDES


@pytest.mark.anyio
async def test_a_date_that_is_over_is_refused(scene: BookingScenario) -> None:
    """A past date in the staff member's timezone is refused."""
    assert await faults(scene, TODAY - DAY) == ["date"]
    east = Calendar("Pacific/Kiritimati")
    scene = await with_another_companion(scene, calendar=east)
    assert await faults(scene, TODAY) == ["date"]
    assert await stored(scene) == east


@pytest.mark.anyio
async def test_every_bad_slot_of_a_date_is_told(scene: BookingScenario) -> None:
    """Every invalid slot is reported by its path, and nothing is stored."""
    wrong = (("12:00", "12:00"), ("09:00", "10:00"), ("23:00", "02:00"))
    assert await faults(scene, TODAY, *wrong) == ["slots.0.start", "slots.2.start"]
    assert (await stored(scene)).overrides == ()


@pytest.mark.anyio
async def test_a_date_is_cleared(scene: BookingScenario) -> None:
    """Clearing a date keeps the others, and may be repeated."""
    scene = await with_dates(scene, TODAY, TODAY + DAY)
    for _ in range(2):
        await profiles.clear_date_hours(scene.ports, scene.staff, TODAY)
        assert (await stored(scene)).overrides == (DateOverride(TODAY + DAY),)


@pytest.mark.anyio
async def test_who_is_not_there_sets_no_date(scene: BookingScenario) -> None:
    """An unknown user neither sets nor clears dates."""
    scene = evolve(scene, staff=Actor(999, Role.STAFF))
    with pytest.raises(NotFound):
        await set_day(scene, TODAY)
    await profiles.clear_date_hours(scene.ports, scene.staff, TODAY)
    with pytest.raises(NotFound):
        await stored(scene)
