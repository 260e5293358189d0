"""The asynchronous client against the application."""

from __future__ import annotations

from typing import Any

import pytest

from staffbooking_core.usecases.webhooks import deliveries
from staffbooking_http.client import AsyncClient, errors
from tests.http.deployment import BASE_URL, HttpDeployment

pytestmark = pytest.mark.anyio


def client_of(world: HttpDeployment, key: str | None = None) -> AsyncClient:
    """A client with the subscriber's key that fails rather than waits."""

    async def refuse_to_wait(seconds: float) -> None:
        raise AssertionError(f"waits {seconds} s")

    return AsyncClient(BASE_URL, key or world.api_key, http=world.client(), sleep=refuse_to_wait)


async def test_a_booking_from_search_to_record(world: HttpDeployment) -> None:
    """A companion is found, quoted and booked, and the booking is read and listed."""
    client = client_of(world)
    (found,) = [each async for each in client.search()]
    assert (await client.get_companion(found["id"]))["id"] == found["id"]
    days = await client.get_availability(found["id"], "2027-03-03", "2027-03-04")
    assert len(days["availability"]) == 2
    assert (await client.get_reviews(found["id"]))["reviews"] == []
    assert [each["companions"] for each in await client.get_service_types()]
    body: dict[str, Any] = world.request_body()
    asked = {name: body[name] for name in body if name not in ("location", "customer_email")}
    quote = await client.quote(**asked)
    booking = await client.book(**body)
    assert booking["total_amount"] == quote["total_amount"]
    assert await client.get_booking(booking["booking_code"]) == booking
    assert [each async for each in client.get_bookings(status="pending")] == [booking]
    assert await client.wait_for(booking, "pending", timeout=0) == booking
    await deliveries.publish_events(world.ports)
    events = [each["event"] async for each in client.get_events()]
    assert events == ["booking.created"]


async def test_a_booking_is_made_once(world: HttpDeployment) -> None:
    """Two calls with one idempotency key make one booking."""
    client, body = client_of(world), world.request_body()
    first = await client.book(**body, idempotency_key="order-1")
    assert await client.book(**body, idempotency_key="order-1") == first


async def test_the_endpoints_of_a_user(world: HttpDeployment) -> None:
    """An endpoint is registered, changed, tested, given a new secret and deleted."""
    client = client_of(world)
    made = await client.create_webhook("https://example.com/hooks", description="ours")
    assert made["secret"].startswith("whsec_")
    number = made["webhook"]["id"]
    assert (await client.update_webhook(number, active=False))["active"] is False
    assert (await client.try_webhook(number))["status"] in {"succeeded", "failed"}
    assert [each["event"] async for each in client.get_deliveries(number)] == ["webhook.test"]
    assert (await client.rotate_webhook_secret(number))["secret"] != made["secret"]
    assert (await client.activate_webhook_secret(number))["id"] == number
    await client.delete_webhook(number)
    assert await client.get_webhooks() == []


async def test_faulty_fields_are_named(world: HttpDeployment) -> None:
    """A past date and an unknown customer are both named."""
    body = world.request_body(event_date="2027-02-28", customer_email="nobody@example.com")
    with pytest.raises(errors.InvalidInput) as raised:
        await client_of(world).book(**body)
    assert set(raised.value.fields) == {"event_date", "customer_email"}


async def test_a_broken_rule_has_a_code(world: HttpDeployment) -> None:
    """An event that is not in the caller's feed is refused with a code."""

    class Lost:
        def load(self) -> str:
            return "evt_lost"

        def save(self, event_id: str) -> None:
            raise AssertionError(event_id)

    with pytest.raises(errors.RuleBroken) as raised:
        [each async for each in client_of(world).get_events(Lost())]
    assert raised.value.code == "unknown_event"


async def test_a_spent_window_is_a_rate_limit(world: HttpDeployment) -> None:
    """The eleventh booking of an hour raises with the seconds to wait."""
    client = client_of(world)
    for hour in range(10):
        await client.book(**world.request_body(start_time=f"{hour:02}:00", duration_hours=1))
    with pytest.raises(errors.RateLimited) as raised:
        await client.book(**world.request_body())
    assert raised.value.retry_after == 3600


async def test_unknown_things_and_keys_have_errors(world: HttpDeployment) -> None:
    """An unknown booking is not found, and an unknown key is not let in."""
    with pytest.raises(errors.NotFound):
        await client_of(world).get_booking("BK000000000000")
    with pytest.raises(errors.Unauthenticated):
        await client_of(world, "ps_wrong").get_webhooks()
