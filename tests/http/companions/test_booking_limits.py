"""Buffers, notice and horizon of staff members over HTTP (CONTRACT 3 and 4)."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest

from tests.http.deployment import HttpDeployment, error_body, error_fields, json_body

pytestmark = pytest.mark.anyio

HOURS = "/staff/availability"
TODAY = date(2027, 3, 1)
"""The current day, at 12:00 UTC."""


async def set_limits(world: HttpDeployment, **limits: Any) -> dict[str, Any]:
    staff = await world.signed_in_client(world.companion.id)
    answer = json_body(await staff.put(HOURS, json={"timezone": "UTC", **limits}))
    found: dict[str, Any] = answer["availability"]
    return found


async def book(world: HttpDeployment, **given: Any) -> Any:
    program = world.client_with_key()
    return await program.post("/api/v1/bookings", json=world.request_body(**given))


async def reason_of(world: HttpDeployment, days: int, **given: Any) -> str | None:
    """Why a booking that many days ahead is refused, like its quote; None where it is made."""
    body = world.request_body(event_date=str(TODAY + timedelta(days=days)), **given)
    program = world.client_with_key()
    quote = json_body(await program.post("/api/v1/quotes", json=body))["quote"]
    answer = await program.post("/api/v1/bookings", json=body)
    reason: str | None = None
    if answer.status_code != 201:
        reason = error_body(answer, 400, "companion_unavailable")["reason"]
    assert (quote["available"], quote.get("reason")) == (reason is None, reason)
    return reason


async def days_found(world: HttpDeployment, *days: int) -> list[int]:
    """Those of the days, counted from today, on which a search finds the companion."""
    program, found = world.client_with_key(), []
    for number in days:
        params = {"date": str(TODAY + timedelta(days=number))}
        companions = json_body(await program.get("/api/v1/companions", params=params))["companions"]
        found += [number] * any(one["id"] == world.companion.id for one in companions)
    return found


async def slots_shown(world: HttpDeployment, *days: int) -> list[list[tuple[str, str]]]:
    """The free slots of each of the days, counted from today."""
    shown = []
    for number in days:
        day = str(TODAY + timedelta(days=number))
        path = f"/api/v1/companions/{world.companion.id}/availability"
        params = {"start_date": day, "end_date": day}
        answer = json_body(await world.client_with_key().get(path, params=params))
        shown.append([(slot["start"], slot["end"]) for slot in answer["availability"][0]["slots"]])
    return shown


async def test_limits_are_set_and_stay(each_world: HttpDeployment) -> None:
    """Limits have defaults, are stored as given, and stay where they are left out."""
    defaults = {"buffer_minutes": 0, "min_notice_hours": 0, "horizon_days": 1095}
    given = {"buffer_minutes": 240, "min_notice_hours": 720, "horizon_days": 1}
    assert defaults.items() <= (await set_limits(each_world)).items()
    assert given.items() <= (await set_limits(each_world, **given)).items()
    changed = await set_limits(each_world, min_notice_hours=3, weekly=[])
    assert (given | {"min_notice_hours": 3}).items() <= changed.items()
    staff = await each_world.signed_in_client(each_world.companion.id)
    assert json_body(await staff.get(HOURS))["availability"] == changed


async def test_limits_have_bounds(world: HttpDeployment) -> None:
    """Limits outside their bounds, and of a wrong type, are 422 with every field."""
    staff = await world.signed_in_client(world.companion.id)
    for values in ((241, 721, 1096), (-1, -1, 0), ("1", 1.5, True)):
        limits = zip(("buffer_minutes", "min_notice_hours", "horizon_days"), values, strict=True)
        given = dict(limits)
        answer = await staff.put(HOURS, json={"timezone": "UTC", **given})
        error_body(answer, 422, "invalid_field")
        assert error_fields(answer) == set(given)


async def test_a_notice_is_needed(each_world: HttpDeployment) -> None:
    """Time within the notice is not found, shown or booked; time after it is."""
    await set_limits(each_world, min_notice_hours=36)
    assert await days_found(each_world, 0, 1, 2, 3) == [2, 3]
    assert await slots_shown(each_world, 1, 2, 3) == [
        [],
        [("00:00", "24:00")],
        [("00:00", "24:00")],
    ]
    assert await reason_of(each_world, 1, start_time="23:59") == "notice"
    assert await reason_of(each_world, 2, start_time="00:00") is None


async def test_a_horizon_ends_the_days(each_world: HttpDeployment) -> None:
    """Days beyond the horizon are not found, shown or booked; the last day is."""
    await set_limits(each_world, horizon_days=5)
    assert await days_found(each_world, 0, 4, 5, 6, 7, 400) == [0, 4, 5]
    assert await slots_shown(each_world, 5, 6) == [[("00:00", "24:00")], []]
    assert await reason_of(each_world, 5) is None
    assert await reason_of(each_world, 6) == "horizon"


async def test_a_buffer_is_kept(each_world: HttpDeployment) -> None:
    """Time within the buffer of a booking is not shown or booked; time at its edge is."""
    await set_limits(each_world, buffer_minutes=90)
    staff = await each_world.signed_in_client(each_world.companion.id)
    made = json_body(await book(each_world, start_time="12:00", duration_hours=4), 201)
    json_body(await staff.post(f"/bookings/{made['booking']['id']}/accept"))
    assert await slots_shown(each_world, 2) == [[("00:00", "10:30"), ("17:30", "24:00")]]
    assert await reason_of(each_world, 2, start_time="17:29", duration_hours=1) == "booked"
    assert await reason_of(each_world, 2, start_time="09:31", duration_hours=1) == "booked"
    assert await reason_of(each_world, 2, start_time="09:30", duration_hours=1) is None
    assert await reason_of(each_world, 2, start_time="17:30", duration_hours=1) is None


async def test_an_acceptance_takes_the_buffers(each_world: HttpDeployment) -> None:
    """Accepting cancels the requests within the buffers, and asks for free buffers, but neither for
    notice nor for the horizon."""
    starts = ("06:00", "10:00", "15:00", "19:00")
    made = [
        json_body(await book(each_world, start_time=start, duration_hours=4), 201)["booking"]
        for start in starts
    ]
    await set_limits(each_world, buffer_minutes=61, min_notice_hours=720, horizon_days=1)
    staff = await each_world.signed_in_client(each_world.companion.id)
    json_body(await staff.post(f"/bookings/{made[1]['id']}/accept"))
    shown = [json_body(await staff.get(f"/bookings/{one['id']}"))["booking"] for one in made]
    assert [(one["status"], one["cancel_reason"]) for one in shown] == [
        ("cancelled", "slot_taken"),
        ("accepted", None),
        ("cancelled", "slot_taken"),
        ("pending", None),
    ]
    json_body(await staff.post(f"/bookings/{made[3]['id']}/accept"))


async def test_a_wider_buffer_holds_at_acceptance(each_world: HttpDeployment) -> None:
    """A request that is within the buffer of a booking by now can't be accepted."""
    staff = await each_world.signed_in_client(each_world.companion.id)
    first = json_body(await book(each_world, start_time="10:00", duration_hours=4), 201)["booking"]
    other = json_body(await book(each_world, start_time="15:00", duration_hours=4), 201)["booking"]
    json_body(await staff.post(f"/bookings/{first['id']}/accept"))
    await set_limits(each_world, buffer_minutes=61)
    refused = await staff.post(f"/bookings/{other['id']}/accept")
    assert error_body(refused, 400, "companion_unavailable")["reason"] == "booked"
    await set_limits(each_world, buffer_minutes=60)
    json_body(await staff.post(f"/bookings/{other['id']}/accept"))
