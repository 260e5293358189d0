"""Responses and events match the OpenAPI document."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from staffbooking_adapters.testing.builders import add_booking, add_companion
from staffbooking_core.domain.bookings.lifecycle import (
    BookingStatus,
)
from staffbooking_core.usecases.webhooks import deliveries
from tests.http.api.endpoint_walks import (
    exercise_account_endpoints,
    exercise_admin_endpoints,
    exercise_calendar_endpoints,
    exercise_dispute_endpoints,
    exercise_image_endpoints,
    exercise_staff_endpoints,
)
from tests.http.bookings.test_booking_flow import accepted
from tests.http.deployment import TEST_PASSWORD, HttpDeployment, json_body
from tests.http.docs.openapi_validation import (
    ROWS,
    document_of,
    hold_to_document,
    jsonschema_rs_value,
    validator,
)

pytestmark = pytest.mark.anyio


async def test_stored_events_have_the_documented_shape(world: HttpDeployment) -> None:
    """Stored events match the schemas of the document."""
    document = await document_of(world)
    path, customer, _ = await accepted(world)
    json_body(await customer.post(f"{path}/cancel"))
    number = int(path.rpartition("/")[2])
    async with world.store.read_view() as view:
        told = [body for _, body in await view.bookings.events_of(number)]
    for body in told:
        name = re.search(rb'"event":"([a-z.]+)"', body)
        assert name
        item = document["webhooks"][name[1].decode()]["post"]
        schema = item["requestBody"]["content"]["application/json"]["schema"]
        validator(document, schema).validate(jsonschema_rs_value(body))
    assert len(told) == 3


async def test_responses_match_the_document(world: HttpDeployment, monkeypatch: Any) -> None:
    """Responses of the main flow and its usual errors, at every JSON endpoint, match the
    document."""
    world.raise_limits()
    seen = hold_to_document(world, await document_of(world), monkeypatch)
    await _walk(world)
    paths = {path for transport in seen for _, path in transport.checked}
    assert paths >= {row.path for row in ROWS} - {"/metrics", "/openapi.json", "/asyncapi.json"}


async def _walk(world: HttpDeployment) -> None:
    program, number = world.client_with_key(), world.companion.id
    search = "/api/v1/companions"
    for query in ("", "?limit=0", "?location=lisbon&page=2"):
        await program.get(search + query)
    days = "start_date=2027-03-01&end_date=2027-03-05"
    for tail in ("", "/availability", f"/availability?{days}"):
        for known in (number, 999):
            await program.get(f"{search}/{known}{tail}")
    await program.get("/api/v1/service-types")
    path, customer, staff = await accepted(world)
    for given in ({}, {"companion_id": 999}, {"event_date": "2020-01-01"}, {"duration_hours": 99}):
        await program.post("/api/v1/bookings", json=world.request_body(**given))
        await program.post("/api/v1/quotes", json=world.request_body(**given))
    await program.post("/api/v1/bookings", content=b"x" * 70_000)
    await program.post("/api/v1/bookings", content=b"{}")
    await program.get("/api/v1/bookings")
    code = json_body(await customer.get(path))["booking"]["booking_code"]
    for client in (
        program,
        world.client_with_key(await world.add_api_key(world.outsider)),
        world.client(),
    ):
        await client.get(f"/api/v1/bookings/{code}")
    for client in (customer, staff, await world.signed_in_client(world.stranger.id)):
        await _operations(client, path)
    await exercise_dispute_endpoints(world, path)
    await _people(world)
    await _reviews(world)
    await _messages(world)
    await _webhooks(world)
    await exercise_staff_endpoints(world)
    await exercise_admin_endpoints(world)
    await exercise_account_endpoints(world)
    await exercise_calendar_endpoints(world)
    await exercise_image_endpoints(world)
    await _payouts(world)
    await _bench(world, code)


async def _operations(client: httpx.AsyncClient, path: str) -> None:
    await client.get("/bookings?status=accepted")
    await client.get(path)
    await client.get(f"{path}/cancellation-quote")
    await client.post("/bookings", json={})
    await client.post("/quotes", json={})
    for word in ("accept", "decline", "checkout", "check-in", "confirm", "cancel", "dispute"):
        await client.post(f"{path}/{word}", json={"quote": "forged", "reason": "none"})


async def _people(world: HttpDeployment) -> None:
    client = world.client()
    await client.post("/auth/register", json={})
    sign_in = {"email": world.customer.email, "password": TEST_PASSWORD}
    for password in (TEST_PASSWORD, "wrong"):
        await client.post("/auth/login", json={**sign_in, "password": password})
    await client.get("/auth/session")
    owner = await world.signed_in_client(world.subscriber.id)
    made = await owner.post("/api/keys", json={"name": "x", "permissions": ["read"]})
    await owner.get("/api/keys")
    for _ in range(2):
        await owner.delete(f"/api/keys/{json_body(made, 201)['api_key']['id']}")
    await owner.delete("/api/keys/999")
    for _ in range(2):
        await owner.post("/auth/logout")


async def _reviews(world: HttpDeployment) -> None:
    people = (world.customer, world.companion)
    booking = await add_booking(world.store, *people[::-1], status=BookingStatus.COMPLETED)
    customer, staff = [await world.signed_in_client(one.id) for one in people]
    path, number = f"/reviews/booking/{booking.id}", 0
    for body in ({}, {"rating": 6}, {"rating": 5, "comment": "Great"}, {"rating": 5}):
        made = await customer.post(path, json=body)
        number = made.json().get("review", {}).get("id", number)
    await (await world.signed_in_client(world.admin.id)).post(path, json={"rating": 1})
    await customer.post("/reviews/booking/999", json={"rating": 1})
    for client in (customer, staff):
        for said in ({}, {"response": ""}, {"response": "Thank you"}, {"response": "Again"}):
            await client.post(f"/reviews/{number}/respond", json=said)
    await staff.post("/reviews/999/respond", json={"response": "Thank you"})
    for client in (customer, world.client_with_key(), world.client()):
        for user in (world.companion.id, 999):
            await client.get(f"/reviews/user/{user}?limit=1")
            await client.get(f"/reviews/user/{user}?limit=0")
    await world.client_with_key().get(f"/api/v1/companions/{world.companion.id}")


async def _messages(world: HttpDeployment) -> None:
    await world.client().get("/ws")
    people = (world.customer, world.companion, world.stranger)
    for client in [await world.signed_in_client(one.id) for one in people]:
        for to in (world.companion.id, world.customer.id, 999):
            for body in ({}, {"content": ""}, {"content": "Hello"}):
                await client.post(f"/messages/send/{to}", json=body)
        for query in ("", "?limit=0", "?limit=1"):
            listed = await client.get(f"/messages{query}")
        for one in (*listed.json()["conversations"], {"id": 999}):
            path = f"/messages/conversation/{one['id']}"
            for query in ("", "?after=x", "?after=0&limit=1"):
                await client.get(f"{path}{query}")
            for body in ({}, {"content": ""}, {"content": "Hello"}):
                await client.post(path, json=body)


async def _webhooks(world: HttpDeployment) -> None:
    path, program = "/api/webhooks", world.client_with_key()
    for body in ({}, {"url": "http://10.0.0.1"}, {"url": "https://x.example", "events": ["x"]}):
        await program.post(path, json=body)
    made = json_body(await program.post(path, json={"url": "https://x.example/in"}), 201)["webhook"]
    sent = json_body(await program.post(f"{path}/{made['id']}/test"))["delivery"]
    for client in (program, await world.signed_in_client(world.admin.id), world.client()):
        await client.get(path)
        one = f"{path}/{made['id']}"
        for change in ({"active": False}, {"active": "no"}):
            await client.patch(one, json=change)
        for word in ("test", "rotate-secret", "activate-secret", "activate-secret"):
            await client.post(f"{one}/{word}")
        await client.post(f"{one}/deliveries/{sent['id']}/redeliver")
        await client.post(f"{one}/deliveries/999/redeliver")
        for query in ("", "?limit=0"):
            await client.get(f"{one}/deliveries{query}")
    await deliveries.publish_events(world.ports)
    for query in ("", "?limit=1", "?limit=0", "?after=evt_unknown"):
        await (await world.signed_in_client(world.admin.id)).get(f"/api/events{query}")
    for _ in range(2):
        await program.delete(f"{path}/{made['id']}")


async def _payouts(world: HttpDeployment) -> None:
    companion = await add_companion(world.store, payout_account=None)
    for who in (companion.id, world.customer.id):
        browser = await world.signed_in_client(who)
        await browser.get("/staff/payout-account")
        for body in ({}, {"country": "USA"}, {"country": "PT"}):
            await browser.post("/staff/payout-account", json=body)
    url = json_body(
        await (await world.signed_in_client(companion.id)).post("/staff/payout-account")
    )
    for reference in (url["onboarding_url"].rpartition("/")[2], "nope"):
        await world.client().post(f"/sandbox/payees/{reference}", json={})
    for provider in ("fake", "other"):
        await world.client().post(f"/processor/{provider}/webhook", content=b"{}")
    await world.client().post("/processor/fake/webhook", content=b"x" * 300_000)


async def _bench(world: HttpDeployment, code: str) -> None:
    client = world.client()
    for body in ({}, {"advance_seconds": 60}, {"advance_seconds": -60}):
        await client.post("/sandbox/clock", json=body)
    await client.post("/sandbox/chargebacks", json={"booking_code": code, "outcome": "open"})
    for fault in ({"op": "refund", "kind": "slow"}, {"op": "x", "kind": "y"}):
        await client.post("/sandbox/payments/faults", json=fault)
    await client.delete("/sandbox/payments/faults")
    await client.get("/healthz")
    await client.get("/readyz")
