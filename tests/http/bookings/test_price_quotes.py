"""Quotes over HTTP: the price of a booking before it is requested (CONTRACT 10)."""

from __future__ import annotations

from typing import Any

import pytest

from staffbooking_adapters.testing.builders import add_companion
from tests.http.deployment import HttpDeployment, error_body, error_fields, json_body

pytestmark = pytest.mark.anyio


def quote_body(world: HttpDeployment, **given: Any) -> dict[str, Any]:
    body = world.request_body(**given)
    return {name: body[name] for name in body if name not in ("customer_email", "location")}


async def quote(world: HttpDeployment, **given: Any) -> dict[str, Any]:
    answer = await world.client_with_key().post("/api/v1/quotes", json=quote_body(world, **given))
    found: dict[str, Any] = json_body(answer)["quote"]
    return found


async def test_a_quote_is_the_price_of_the_booking(each_world: HttpDeployment) -> None:
    """The quoted amounts and times are those of the booking that is then requested, on each
    store."""
    quoted = await quote(each_world, cancellation_insurance=True)
    request = each_world.request_body(cancellation_insurance=True)
    answer = await each_world.client_with_key().post("/api/v1/bookings", json=request)
    booking = json_body(answer, 201)["booking"]
    for name in ("price", "insurance_premium", "total_amount", "starts_at", "ends_at", "timezone"):
        assert quoted[name] == booking[name], name
    cents = [round(line["amount"] * 100) for line in quoted["lines"]]
    assert sum(cents) == round(quoted["total_amount"] * 100)
    assert [line["kind"] for line in quoted["lines"]] == ["hours", "insurance"]
    assert quoted["available"] is True
    assert "reason" not in quoted


async def test_a_daily_rate_caps_the_hours(world: HttpDeployment) -> None:
    """The difference to a lower daily rate is a negative line."""
    capped = await add_companion(world.store, hourly_rate=10_000, daily_rate=60_000)
    quoted = await quote(
        world, companion_id=capped.id, duration_hours=8, service_type=capped.service_types[0]
    )
    assert quoted["lines"] == [
        {"kind": "hours", "amount": 800.0},
        {"kind": "daily_cap", "amount": -200.0},
    ]
    assert (quoted["price"], quoted["total_amount"]) == (600.0, 600.0)


@pytest.mark.parametrize(
    ("insured", "tiers"),
    [(False, [(48, 100), (24, 50), (0, 0)]), (True, [(48, 100), (0, 50)])],
)
async def test_a_quote_has_the_refunds_of_a_cancellation(
    world: HttpDeployment, insured: bool, tiers: list[tuple[int, int]]
) -> None:
    """The refund tiers end 48 and 24 hours before the start, and at the start; insured bookings
    give back half to the end."""
    quoted = await quote(world, event_date="2027-03-20", cancellation_insurance=insured)
    ends = {48: "2027-03-18T18:00:00Z", 24: "2027-03-19T18:00:00Z", 0: "2027-03-20T18:00:00Z"}
    assert [(one["until"], one["refund_percent"]) for one in quoted["cancellation"]] == [
        (ends[hours], percent) for hours, percent in tiers
    ]
    assert quoted["cancellation"][0]["refund_amount"] == quoted["total_amount"]


async def test_tiers_that_are_over_are_not_shown(world: HttpDeployment) -> None:
    """A booking within 48 hours starts with the tier that holds now."""
    quoted = await quote(world, event_date="2027-03-02", start_time="18:00")
    assert [one["refund_percent"] for one in quoted["cancellation"]] == [50, 0]


async def test_a_taken_time_is_not_available(world: HttpDeployment) -> None:
    """A quote of a booked time says so, and a booking of it is refused with the same reason."""
    staff = await world.signed_in_client(world.companion.id)
    program = world.client_with_key()
    booking = json_body(await program.post("/api/v1/bookings", json=world.request_body()), 201)
    json_body(await staff.post(f"/bookings/{booking['booking']['id']}/accept"))
    quoted = await quote(world)
    assert (quoted["available"], quoted["reason"]) == (False, "booked")
    refused = await program.post("/api/v1/bookings", json=world.request_body())
    assert error_body(refused, 400, "companion_unavailable")["reason"] == "booked"


async def test_a_quote_is_validated_like_a_booking(world: HttpDeployment) -> None:
    """Past dates, unknown services and wrong types are 422 by field, missing fields 400, and an
    unknown companion is 404."""
    program = world.client_with_key()
    wrong = quote_body(world, event_date="2027-02-01", service_type="juggling")
    answer = await program.post("/api/v1/quotes", json=wrong)
    error_body(answer, 422, "invalid_field")
    assert error_fields(answer) == {"event_date", "service_type"}
    answer = await program.post("/api/v1/quotes", json=quote_body(world, duration_hours="4"))
    assert error_fields(answer) == {"duration_hours"}
    answer = await program.post("/api/v1/quotes", json={})
    error_body(answer, 400, "missing_field")
    answer = await program.post("/api/v1/quotes", json=quote_body(world, companion_id=999_999))
    error_body(answer, 404, "not_found")


async def test_anybody_signed_in_gets_a_quote(world: HttpDeployment) -> None:
    """Sessions get quotes at /quotes; a key there and a session at the interface are 401."""
    customer = await world.signed_in_client(world.customer.id)
    assert json_body(await customer.post("/quotes", json=quote_body(world)))["quote"]["available"]
    program = world.client_with_key()
    error_body(await program.post("/quotes", json=quote_body(world)), 401, "session_required")
    answer = await customer.post("/api/v1/quotes", json=quote_body(world))
    error_body(answer, 401, "unauthenticated")


async def test_a_quote_keeps_nothing_and_spends_no_booking(world: HttpDeployment) -> None:
    """Twelve quotes leave the limit of bookings and the list of bookings as they were."""
    program = world.client_with_key()
    for _ in range(12):
        await quote(world)
    answer = await program.post("/api/v1/bookings", json=world.request_body())
    assert answer.headers["x-ratelimit-remaining"] == "9"
    assert len(json_body(await program.get("/api/v1/bookings"))["bookings"]) == 1


async def test_a_price_above_the_processors_maximum_is_not_quoted(world: HttpDeployment) -> None:
    """A quote of more than a payment can be is 422 on the duration, as a booking."""
    dear = await add_companion(world.store, hourly_rate=50_000_000_000, daily_rate=None)
    wanted = {
        "companion_id": dear.id,
        "duration_hours": 2,
        "service_type": dear.service_types[0],
    }
    program = world.client_with_key()
    quoted = await program.post("/api/v1/quotes", json=quote_body(world, **wanted))
    requested = await program.post("/api/v1/bookings", json=world.request_body(**wanted))
    for answer in (quoted, requested):
        [fault] = error_body(answer, 422, "invalid_field")["errors"]
        assert fault == {
            "field": "duration_hours",
            "message": "must cost at most 999999999.99 usd",
        }
