"""What a staff member's hours show can be booked, whatever they are."""

from __future__ import annotations

import asyncio
from datetime import date, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from staffbooking_adapters.inputs import structure
from staffbooking_core.domain.calendar import format_hhmm, parse_hhmm, resolve_local
from staffbooking_core.domain.companions import CompanionQuery
from staffbooking_core.domain.records import availability_record
from staffbooking_core.errors import RuleBroken
from staffbooking_core.inputs import SetAvailability
from staffbooking_core.usecases import companions, staff
from tests.support.builders import NOW, POLICY
from tests.support.ports import make_scene, memory_ports

DAYS = [date(2027, 3, 27) + number * timedelta(days=1) for number in range(3)]
"""In the middle one the clocks of Europe are set forward."""
ZONES = ("Europe/Zurich", "Asia/Kolkata", "America/Los_Angeles", "Pacific/Auckland")
HALF_HOURS = [format_hhmm(30 * number) for number in range(49)]
EVERY_HOUR = [format_hhmm(60 * number) for number in range(24)]


@st.composite
def slots(draw: st.DrawFn) -> dict[str, Any]:
    start, end = sorted(draw(st.sets(st.sampled_from(HALF_HOURS), min_size=2, max_size=2)))
    return {"start": start, "end": end}


@st.composite
def hours(draw: st.DrawFn) -> dict[str, Any]:
    """Hours as they stand on the wire, about the weekend of the change."""
    weekly = st.builds(lambda day, slot: {"weekday": day, **slot}, st.integers(0, 6), slots())
    days = draw(st.lists(st.sampled_from(DAYS), max_size=2, unique=True))
    return {
        "timezone": draw(st.sampled_from(ZONES)),
        "weekly": draw(st.lists(weekly, max_size=10)),
        "overrides": [
            {"date": day.isoformat(), "slots": draw(st.lists(slots(), max_size=2))} for day in days
        ],
    }


class Looks:
    """A companion with hours, and what others see of them."""

    async def open(self, wanted: dict[str, Any]) -> None:
        self.scene = await make_scene(POLICY, memory_ports(POLICY, now=NOW))
        self.ports, self.timezone = self.scene.ports, wanted["timezone"]
        given = structure(SetAvailability, wanted)
        self.kept = await staff.set_availability(self.ports, self.scene.staff, given)

    async def shown(self, day: date) -> list[tuple[int, int]]:
        """The free slots of a day, in minutes."""
        number = self.scene.staff.user_id
        (found,) = (await companions.availability(self.ports, number, day, day))["availability"]
        return [
            (parse_hhmm(slot["start"]), parse_hhmm(slot["end"], ending=True))
            for slot in found["slots"]
        ]

    async def is_found(self, day: date) -> bool:
        return bool(await companions.search(self.ports, CompanionQuery(date=day)))

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
    """After any hours are set: an hour of a shown slot is booked, one outside is refused, and a
    search by the day finds whom it shows an hour of."""

    async def look() -> None:
        looks = Looks()
        await looks.open(wanted)
        for day in DAYS:
            shown = await looks.shown(day)
            known = [text for text in EVERY_HOUR if _exists(wanted["timezone"], day, text)]
            for text in known:
                start = parse_hhmm(text)
                # An hour of the clock is an hour of time but where the clock is set.
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
        resolve_local(timezone, day, parse_hhmm(text))
    except ValueError:
        return False
    return True


def _after_an_hour(day: date, start: int) -> int:
    return start + (120 if day == DAYS[1] else 60)


@given(hours())
@settings(max_examples=60)
def test_hours_read_back_as_they_were_set(wanted: dict[str, Any]) -> None:
    """To the letter, in their order; setting them again changes nothing."""

    async def look() -> None:
        looks = Looks()
        await looks.open(wanted)
        assert availability_record(looks.kept) == wanted
        found = await staff.profile(looks.ports, looks.scene.staff)
        assert found.calendar == looks.kept
        again = structure(SetAvailability, availability_record(looks.kept))
        await staff.set_availability(looks.ports, looks.scene.staff, again)
        assert await staff.profile(looks.ports, looks.scene.staff) == found

    asyncio.run(look())
