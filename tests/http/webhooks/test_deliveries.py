"""Deliveries and the pull feed over HTTP, and requests to receivers against the document (CONTRACT
7)."""

from __future__ import annotations

import json
import random
from typing import Any

import httpx
import pytest

from staffbooking_adapters.testing.builders import DAY, SECOND
from staffbooking_core.domain.bookings.lifecycle import EventName
from staffbooking_core.domain.webhooks.deliveries import DeliveryFailure
from staffbooking_core.operator_inputs import ResolutionOutcome
from staffbooking_core.usecases import due_work
from staffbooking_core.usecases.bookings import disputes
from staffbooking_core.usecases.payments import payouts
from staffbooking_core.webhook_receiver import hex_signature, standard_signature
from tests.http.bookings.test_booking_flow import paid, set_clock
from tests.http.deployment import HttpDeployment, error_body, error_fields, json_body
from tests.http.docs.openapi_validation import document_of, validator
from tests.http.webhooks.webhook_calls import (
    RECEIVER_URL,
    WEBHOOKS_PATH,
    add_endpoint_path,
    deliver_due_events,
    list_deliveries,
    register_endpoint,
    request_booking,
    set_receiver_status,
)

pytestmark = pytest.mark.anyio

FEED = "/api/events"


# Tests ----------------------------------------------------------------------------------


async def test_a_test_succeeds(world: HttpDeployment) -> None:
    """A test sends one signed event at once and returns its delivery."""
    set_receiver_status(world, 204)
    program = world.client_with_key()
    record, secret = await register_endpoint(program)
    answer = json_body(await program.post(f"{WEBHOOKS_PATH}/{record['id']}/test"))
    delivery = {"status": "succeeded", "response_status": 204, "duration_ms": 0, "error": None}
    number = answer["delivery"]["id"]
    assert answer == {"success": True, "delivery": {"id": number, **delivery}}
    (sent,) = world.sender.sent
    body = json.loads(sent.body)
    assert (sent.url, sent.headers["X-Webhook-Event"]) == (RECEIVER_URL, "webhook.test")
    assert sent.headers["X-Webhook-Signature"] == hex_signature(secret, sent.body)
    assert body == {
        "id": sent.headers["X-Webhook-Id"],
        "event": "webhook.test",
        "created_at": "2027-03-01T12:00:00Z",
        "api_version": "v1",
        "sequence": 0,
        "data": {"webhook_id": record["id"]},
    }


@pytest.mark.parametrize(
    ("answer", "status", "error"),
    [
        (500, 500, "http_status"),
        (301, 301, "redirect"),
        (DeliveryFailure.TIMEOUT, None, "timeout"),
        (DeliveryFailure.UNSAFE_ADDRESS, None, "unsafe_address"),
    ],
)
async def test_a_test_fails(world: HttpDeployment, answer: Any, status: Any, error: str) -> None:
    """A failed test is 200 with the error, is not retried, and does not count as a failure of the
    endpoint."""
    set_receiver_status(world, answer)
    program = world.client_with_key()
    path = await add_endpoint_path(program)
    told = json_body(await program.post(f"{path}/test"))
    assert told["success"] is False
    assert told["delivery"] == {
        "id": told["delivery"]["id"],
        "status": "failed",
        "response_status": status,
        "duration_ms": 0,
        "error": error,
    }
    world.clock.advance(60 * SECOND)
    await deliver_due_events(world)
    assert len(world.sender.sent) == 1
    assert json_body(await program.get(WEBHOOKS_PATH))["webhooks"][0]["consecutive_failures"] == 0


async def test_a_paused_endpoint_may_be_tested(world: HttpDeployment) -> None:
    """A paused endpoint can be tested."""
    set_receiver_status(world)
    program = world.client_with_key()
    path = await add_endpoint_path(program)
    json_body(await program.patch(path, json={"active": False}))
    assert json_body(await program.post(f"{path}/test"))["success"] is True


# Deliveries -----------------------------------------------------------------------------


async def test_deliveries_are_listed_with_their_attempts(each_world: HttpDeployment) -> None:
    """A delivery is listed with its failed attempt, and then with its successful one."""
    world, program = each_world, each_world.client_with_key()
    set_receiver_status(world, 503)
    path = await add_endpoint_path(program)
    await request_booking(world)
    await deliver_due_events(world)
    (pending,) = await list_deliveries(program, path)
    first = {"number": 1, "at": "2027-03-01T12:00:00Z", "response_status": 503}
    first |= {"duration_ms": 0, "error": "http_status"}
    assert pending == {
        "id": pending["id"],
        "event_id": world.sender.sent[0].headers["X-Webhook-Id"],
        "event": "booking.created",
        "status": "pending",
        "attempts": [first],
        "next_attempt_at": "2027-03-01T12:00:01Z",
        "created_at": "2027-03-01T12:00:00Z",
    }
    set_receiver_status(world)
    world.clock.advance(SECOND)
    await deliver_due_events(world)
    second = {"number": 2, "at": "2027-03-01T12:00:01Z", "response_status": 200}
    second |= {"duration_ms": 0, "error": None}
    attempts = [first, second]
    done = {**pending, "status": "succeeded", "attempts": attempts, "next_attempt_at": None}
    assert await list_deliveries(program, path) == [done]


async def test_deliveries_come_in_pages(world: HttpDeployment) -> None:
    """Deliveries are listed newest first, 12 to a page by default."""
    world.raise_limits()
    program = world.client_with_key()
    path = await add_endpoint_path(program)
    numbers = [json_body(await program.post(f"{path}/test"))["delivery"]["id"] for _ in range(13)]
    pages = [json_body(await program.get(f"{path}/deliveries?page={page}")) for page in (1, 2, 3)]
    found = [[each["id"] for each in page["deliveries"]] for page in pages]
    assert found == [numbers[:0:-1], numbers[:1], []]
    assert [page["has_more"] for page in pages] == [True, False, False]
    page = json_body(await program.get(f"{path}/deliveries?page=2&limit=1"))
    assert [each["id"] for each in page["deliveries"]] == [numbers[-2]]
    assert page.keys() == {"deliveries", "has_more"}


@pytest.mark.parametrize("query", ["page=0", "limit=0", "limit=51", "page=x", "page=1&page=2"])
async def test_a_wrong_page_is_422(world: HttpDeployment, query: str) -> None:
    """An invalid page or limit of deliveries is 422 and named."""
    program = world.client_with_key()
    answer = await program.get(f"{await add_endpoint_path(program)}/deliveries?{query}")
    error_body(answer, 422, "invalid_field")
    assert error_fields(answer) == {query.partition("=")[0]}


async def test_an_event_is_redelivered(each_world: HttpDeployment) -> None:
    """A redelivery sends the same id and bytes as the next attempt of the same delivery."""
    world, program = each_world, each_world.client_with_key()
    set_receiver_status(world)
    path = await add_endpoint_path(program)
    await request_booking(world)
    await deliver_due_events(world)
    (done,) = await list_deliveries(program, path)
    again = json_body(await program.post(f"{path}/deliveries/{done['id']}/redeliver"))
    due = {"status": "pending", "next_attempt_at": "2027-03-01T12:00:00Z"}
    assert again == {"success": True, "delivery": {**done, **due}}
    await deliver_due_events(world)
    first, second = world.sender.sent
    assert (first.body, first.headers["X-Webhook-Id"]) == (
        second.body,
        second.headers["X-Webhook-Id"],
    )
    assert second.headers["X-Webhook-Attempt"] == "2"
    (twice,) = await list_deliveries(program, path)
    assert [each["number"] for each in twice["attempts"]] == [1, 2]


async def test_a_test_is_redelivered(each_world: HttpDeployment) -> None:
    """A redelivery of a test sends the same bytes."""
    world, program = each_world, each_world.client_with_key()
    path = await add_endpoint_path(program)
    number = json_body(await program.post(f"{path}/test"))["delivery"]["id"]
    set_receiver_status(world)
    json_body(await program.post(f"{path}/deliveries/{number}/redeliver"))
    await deliver_due_events(world)
    first, second = world.sender.sent
    assert first.body == second.body
    assert [each["status"] for each in await list_deliveries(program, path)] == ["succeeded"]


async def test_a_delivery_of_another_endpoint_is_404(world: HttpDeployment) -> None:
    """A delivery of another endpoint is 404, also where both have the same owner."""
    program = world.client_with_key()
    first, second = [await add_endpoint_path(program) for _ in "ab"]
    number = json_body(await program.post(f"{first}/test"))["delivery"]["id"]
    error_body(await program.post(f"{second}/deliveries/{number}/redeliver"), 404, "not_found")
    json_body(await program.post(f"{first}/deliveries/{number}/redeliver"))


# The pull feed --------------------------------------------------------------------------


async def read(client: httpx.AsyncClient, query: str = "") -> tuple[list[str], bool]:
    """The ids of the events on a page of the feed, and whether more follow."""
    page = json_body(await client.get(FEED + query))
    assert page.keys() == {"events", "has_more"}
    return [event["id"] for event in page["events"]], page["has_more"]


async def test_the_feed_is_read_to_its_end(each_world: HttpDeployment) -> None:
    """The feed is read in pages, oldest first, each after the last event of the previous one."""
    world, program = each_world, each_world.client_with_key()
    codes = [await request_booking(world) for _ in range(3)]
    events = json_body(await program.get(FEED))["events"]
    assert [event["data"]["booking"]["booking_code"] for event in events] == codes
    first, second, third = [event["id"] for event in events]
    assert await read(program, "?limit=2") == ([first, second], True)
    assert await read(program, f"?limit=2&after={second}") == ([third], False)
    assert await read(program, f"?after={third}") == ([], False)
    await request_booking(world)
    found, has_more = await read(program, f"?after={third}")
    assert (len(found), has_more) == (1, False)


async def test_the_feed_has_the_bytes_that_are_sent(world: HttpDeployment) -> None:
    """The feed has the same bytes that are sent to endpoints."""
    set_receiver_status(world)
    program = world.client_with_key()
    await register_endpoint(program)
    await request_booking(world)
    await request_booking(world)
    await deliver_due_events(world)
    bodies = b",".join(sent.body for sent in world.sender.sent)
    assert (await program.get(FEED)).content == b'{"events":[' + bodies + b'],"has_more":false}'


async def test_everybody_reads_their_own_and_admins_all(world: HttpDeployment) -> None:
    """Users read the events of their own bookings and admins all events, and after an event of
    others is 400."""
    world.raise_limits()
    await request_booking(world)
    program, outsider = (
        world.client_with_key(),
        world.client_with_key(await world.add_api_key(world.outsider)),
    )
    body = world.request_body(start_time="06:00")
    json_body(await outsider.post("/api/v1/bookings", json=body), 201)
    await deliver_due_events(world)
    (mine,), (theirs,) = (await read(program))[0], (await read(outsider))[0]
    admin = await world.signed_in_client(world.admin.id)
    assert await read(admin) == ([mine, theirs], False)
    assert await read(admin, f"?after={mine}") == ([theirs], False)
    path = await add_endpoint_path(program)
    json_body(await program.post(f"{path}/test"))
    test = world.sender.sent[-1].headers["X-Webhook-Id"]
    for after in (theirs, test, "evt_unknown", ""):
        error_body(await program.get(f"{FEED}?after={after}"), 400, "unknown_event")
    error_body(await admin.get(f"{FEED}?after={test}"), 400, "unknown_event")


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=101", "limit=x", "after=a&after=b", "after=%00", "after=%ff"]
)
async def test_a_wrong_query_of_the_feed_is_422(world: HttpDeployment, query: str) -> None:
    """An invalid query of the feed is 422 and named."""
    answer = await world.client_with_key().get(f"{FEED}?{query}")
    error_body(answer, 422, "invalid_field")
    assert error_fields(answer) == {query.partition("=")[0]}


async def test_the_feed_has_fifty_events_by_default(world: HttpDeployment) -> None:
    """A page of the feed has 50 events by default, and more by a limit."""
    world.raise_limits()
    for _ in range(51):
        await request_booking(world)
    program = world.client_with_key()
    found, has_more = await read(program)
    assert (len(found), has_more) == (50, True)
    found, has_more = await read(program, "?limit=100")
    assert (len(found), has_more) == (51, False)


# Requests to receivers ------------------------------------------------------------------


async def walk(world: HttpDeployment, chance: random.Random) -> None:
    """Take random steps with a booking: some are refused, some create events."""
    customer = await world.signed_in_client(world.customer.id)
    staff = await world.signed_in_client(world.companion.id)
    day = (await world.clock.business() + 3 * DAY).date().isoformat()
    body = world.request_body(event_date=day)
    made = await world.client_with_key().post("/api/v1/bookings", json=body)
    if made.status_code != 201:
        return  # The companion is booked at that time already.
    path = f"/bookings/{made.json()['booking']['id']}"
    for _ in range(6):
        match chance.randrange(8):
            case 0 | 1:
                await staff.post(f"{path}/accept")
            case 2 | 3:
                page = (await customer.post(f"{path}/checkout")).json().get("checkout_url")
                if page is not None:
                    await customer.post(page, json={"outcome": "succeed"})
            case 4:
                await chance.choice((customer, staff)).post(f"{path}/cancel")
            case 5:
                await staff.post(f"{path}/decline")
            case 6:
                hours = {"advance_seconds": chance.randrange(80) * 3600}
                json_body(await world.client().post("/sandbox/clock", json=hours))
            case 7:
                await customer.post(f"{path}/confirm")


async def finish(world: HttpDeployment) -> None:
    """Cancel a paid booking, and complete another one, with check-in, both reviews, a dispute, and
    a payout that is refused and made later."""
    path, customer, staff = await paid(world)
    json_body(await staff.post(f"{path}/cancel"))
    path, customer, staff = await paid(world)
    await set_clock(world, "2027-03-03T17:00:00Z")
    json_body(await staff.post(f"{path}/check-in"))
    await set_clock(world, "2027-03-03T22:00:00Z")
    record = json_body(await customer.post(f"{path}/confirm"))["booking"]
    for side in (customer, staff):
        said = {"rating": 5, "comment": "Great", "punctuality": 4}
        json_body(await side.post(path.replace("bookings", "reviews/booking"), json=said), 201)
    json_body(await customer.post(f"{path}/dispute", json={"reason": "Too short"}))
    await disputes.resolve_dispute(world.ports, record["booking_code"], ResolutionOutcome.RELEASE)
    fault = {"op": "pay_out", "kind": "refuse"}
    json_body(await world.client().post("/sandbox/payments/faults", json=fault))
    await set_clock(world, "2027-03-05T22:00:00Z")
    await due_work.run_all_due(world.ports)
    await payouts.retry_payout(world.ports, record["booking_code"])


@pytest.mark.parametrize("seed", range(3))
async def test_requests_to_receivers_match_the_document(world: HttpDeployment, seed: int) -> None:
    """Bodies, headers and signatures of every event match the document, after random steps of
    bookings."""
    world.raise_limits()
    set_receiver_status(world)
    document = await document_of(world)
    admin = await world.signed_in_client(world.admin.id)
    record, secret = await register_endpoint(admin, events=[*EventName])
    await finish(world)
    chance = random.Random(seed)
    for _ in range(6):
        await walk(world, chance)
    await deliver_due_events(world)
    json_body(await admin.post(f"{WEBHOOKS_PATH}/{record['id']}/test"))
    checks = {name: validator(document, _schema(item)) for name, item in _items(document)}
    seen = set()
    for sent in world.sender.sent:
        name = sent.headers["X-Webhook-Event"]
        body = json.loads(sent.body)
        checks[name].validate(body)
        told = {header["name"] for header in document["webhooks"][name]["post"]["parameters"]}
        assert sent.headers.keys() == told | {"Content-Type"}
        at = int(sent.headers["webhook-timestamp"])
        signature = standard_signature(secret, body["id"], at, sent.body)
        assert sent.headers["webhook-signature"] == signature
        seen.add(name)
    assert seen == set(document["webhooks"])


def _items(document: dict[str, Any]) -> list[tuple[str, Any]]:
    return list(document["webhooks"].items())


def _schema(item: Any) -> Any:
    return item["post"]["requestBody"]["content"]["application/json"]["schema"]
