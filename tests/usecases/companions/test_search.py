"""Search, detail and availability of companions."""

from __future__ import annotations

import json
from datetime import date, timedelta

import pytest

from staffbooking_adapters.testing.builders import add_companion, make_calendar
from staffbooking_core.domain.companions.availability import Calendar, Slot, WeeklySlot
from staffbooking_core.domain.companions.companion import Approval, CompanionQuery
from staffbooking_core.errors import InvalidField, NotFound
from staffbooking_core.usecases.companions import search
from tests.support.memory_deployment import with_another_companion

pytestmark = pytest.mark.anyio

DAY = date(2027, 3, 4)


async def found(scene, **query):
    rows = await search.search(scene.ports, CompanionQuery(**query))
    return [json.loads(row)["id"] for row in rows]


async def test_only_listed_companions_are_found(scene):
    """Pending and suspended companions are not found."""
    for approval in (Approval.PENDING, Approval.SUSPENDED):
        await add_companion(scene.ports.store, approval=approval)
    assert await found(scene) == [scene.staff.user_id]


@pytest.mark.parametrize("place", ["\N{COMBINING ACUTE ACCENT}", "\u0301 \u0308"])
async def test_a_place_of_accents_alone_finds_nobody(scene, place):
    """A place of which nothing is left without its accents finds nobody."""
    await add_companion(scene.ports.store, location_city="São Paulo")
    assert await found(scene, location=place) == []


async def test_bounds_the_wrong_way_round_are_refused(scene):
    """A minimum price above the maximum is refused; equal ones are not."""
    assert await found(scene, min_price=10_000, max_price=10_000) == [scene.staff.user_id]
    with pytest.raises(InvalidField) as caught:
        await found(scene, min_price=10_001, max_price=10_000)
    assert [fault.field for fault in caught.value.field_errors] == ["min_price"]


async def test_a_date_that_is_over_or_too_far_finds_nobody(scene):
    """Dates before today in every time zone, and beyond the days that can be booked, find
    nobody."""
    today = (await scene.now()).date()
    for day, count in (
        (today - timedelta(days=2), 0),
        (date(2020, 1, 1), 0),
        (today, 1),
        (today + timedelta(days=3 * 365), 1),
        (today + timedelta(days=3 * 366 + 2), 0),
        (date.max, 0),
    ):
        assert len(await found(scene, date=day)) == count, day


async def test_today_finds_who_has_an_hour_left(scene):
    """On the current day only companions with a free hour ahead of now are found, page by page."""
    now = await scene.now()
    minute = now.hour * 60 + now.minute
    early = [WeeklySlot(day, Slot(0, minute + 60)) for day in range(7)]
    late = [WeeklySlot(day, Slot(0, minute + 61)) for day in range(7)]
    ids = [scene.staff.user_id]
    for number in range(150):
        hours = late if number % 30 == 0 else early
        companion = await add_companion(scene.ports.store, calendar=Calendar("UTC", tuple(hours)))
        ids += [companion.id] * (hours is late)
    assert sorted(await found(scene, date=now.date(), limit=50)) == sorted(ids)
    pages = [await found(scene, date=now.date(), limit=2, page=page) for page in (1, 2, 3, 4)]
    assert [len(page) for page in pages] == [3, 3, 2, 0]
    assert sorted(number for page in pages for number in page[:2]) == sorted(ids)


async def test_hours_that_have_begun_are_not_free(scene):
    """Availability shows the rest of today, nothing of the past, and nothing beyond the days that
    can be booked."""
    now = await scene.now()
    today = now.date()
    far = today + timedelta(days=3 * 366 + 2)
    days = {
        day: (await search.get_availability(scene.ports, scene.staff.user_id, day, day))[
            "availability"
        ][0]["slots"]
        for day in (today - timedelta(days=1), today, far)
    }
    begin = now + timedelta(minutes=1)
    assert list(days.values()) == [[], [{"start": f"{begin:%H:%M}", "end": "24:00"}], []]


async def test_a_page_shows_whether_more_follow(scene):
    """A page has one more row when another page follows."""
    for _ in range(3):
        await add_companion(scene.ports.store)
    assert len(await found(scene, limit=2)) == 3
    assert len(await found(scene, limit=2, page=2)) == 2


async def test_a_detail_is_of_a_listed_companion(scene):
    """A companion that is not listed has no detail."""
    detail = json.loads(await search.get_detail(scene.ports, scene.staff.user_id))
    assert detail["companion"]["id"] == scene.staff.user_id
    hidden = await add_companion(scene.ports.store, approval=Approval.PENDING)
    for number in (hidden.id, 999):
        with pytest.raises(NotFound):
            await search.get_detail(scene.ports, number)
        with pytest.raises(NotFound):
            await search.get_availability(scene.ports, number, DAY, DAY)


async def slots(scene, start, end):
    said = await search.get_availability(scene.ports, scene.staff.user_id, start, end)
    return {
        day["date"]: [f"{slot['start']}-{slot['end']}" for slot in day["slots"]]
        for day in said["availability"]
    }


async def test_availability_is_hours_less_bookings(scene):
    """Accepted bookings take time, pending ones do not."""
    await scene.request(start_time="06:00", duration_hours=2)
    await scene.accepted()
    assert await slots(scene, DAY, DAY) == {"2027-03-04": ["00:00-12:00", "16:00-24:00"]}


async def test_a_day_without_a_slot_is_not_available(scene):
    """A day without free slots is listed as such."""
    hours = make_calendar(weekly=(WeeklySlot(4, Slot(540, 1020)),))
    other = await with_another_companion(scene, calendar=hours)
    said = await search.get_availability(
        other.ports, other.staff.user_id, DAY, DAY + timedelta(days=1)
    )
    assert said == {
        "companion_id": other.staff.user_id,
        "timezone": "UTC",
        "start_date": "2027-03-04",
        "end_date": "2027-03-05",
        "availability": [
            {"date": "2027-03-04", "available": False, "slots": []},
            {
                "date": "2027-03-05",
                "available": True,
                "slots": [{"start": "09:00", "end": "17:00"}],
            },
        ],
    }


async def test_a_booking_over_midnight_takes_of_both_days(scene):
    """A booking over midnight takes time of both local days."""
    berlin = await with_another_companion(scene, calendar=make_calendar("Europe/Berlin"))
    await berlin.accepted(start_time="22:00", duration_hours=5)
    assert await slots(berlin, DAY, DAY + timedelta(days=1)) == {
        "2027-03-04": ["00:00-22:00"],
        "2027-03-05": ["03:00-24:00"],
    }


@pytest.mark.parametrize(
    "days, fields",
    [
        (0, []),
        (91, []),
        (92, ["end_date"]),
        (-1, ["end_date"]),
    ],
)
async def test_a_range_has_at_most_92_days(scene, days, fields):
    """A range has 92 days at most, both ends included, in order."""
    if not fields:
        assert len(await slots(scene, DAY, DAY + timedelta(days=days))) == days + 1
        return
    with pytest.raises(InvalidField) as caught:
        await slots(scene, DAY, DAY + timedelta(days=days))
    assert [fault.field for fault in caught.value.field_errors] == fields


@pytest.mark.parametrize(
    "start, end, fields",
    [
        (date.min, date.min, ["start_date", "end_date"]),
        (date.max, date.max, ["start_date", "end_date"]),
        (DAY, date.max, ["end_date"]),
    ],
)
async def test_days_that_no_calendar_knows_are_refused(scene, start, end, fields):
    """Dates outside the calendar are refused by field."""
    with pytest.raises(InvalidField) as caught:
        await slots(scene, start, end)
    assert [fault.field for fault in caught.value.field_errors] == fields


async def test_the_farthest_days_are_shown(scene):
    """The first and last calendar dates are accepted."""
    assert len(await slots(scene, date(1900, 1, 1), date(1900, 1, 2))) == 2
    assert len(await slots(scene, date(2999, 12, 30), date(2999, 12, 31))) == 2


async def test_services_are_counted_over_listed_companions(scene):
    """Service types are counted in any spelling, by name."""
    await add_companion(scene.ports.store, service_types=("gala dinner", "Hosting"))
    await add_companion(scene.ports.store, service_types=("Secret",), approval=Approval.PENDING)
    assert list(await search.count_service_types(scene.ports)) == [
        ("Gala dinner", 2),
        ("Hosting", 1),
        ("Trade fair", 1),
    ]
