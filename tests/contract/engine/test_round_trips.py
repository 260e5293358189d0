"""Numbers of round trips to PostgreSQL for the most frequent operations."""

from __future__ import annotations

import asyncio

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import (
    HOUR,
    NOW,
    TODAY,
    add_api_key,
    add_booking,
    add_companion,
    add_subscriber,
    add_user,
    make_booking,
    make_booking_write,
    make_companion,
    make_event,
    make_new_user,
    make_refund_order,
    make_stored_response,
    next_booking_id,
    next_revision,
)
from staffbooking_adapters.testing.builders_messages import (
    add_direct,
    add_group,
    add_messages_by,
    make_new_message,
)
from staffbooking_adapters.testing.builders_webhooks import (
    add_delivery,
    add_endpoint,
    claim_endpoint_batches,
    make_attempt,
    make_new_delivery,
    published_event,
)
from staffbooking_core.domain.accounts.api_keys import Permission
from staffbooking_core.domain.accounts.users import Role
from staffbooking_core.domain.bookings.alerts import Alert
from staffbooking_core.domain.bookings.booking import PaymentIntent
from staffbooking_core.domain.companions.companion import CompanionQuery
from staffbooking_core.domain.shared.rate_limits import RateLimit
from tests.contract.stores import STORES

pytestmark = pytest.mark.anyio


@pytest.fixture
async def store(request):
    async with STORES["postgresql"](request) as opened:
        yield opened


async def count_round_trips(database, work):
    """The number of round trips that awaiting `work` takes."""
    before = database.round_trips
    await work
    return database.round_trips - before


async def test_a_request_is_two_round_trips(store):
    """A booking request takes one round trip to read its context and one to save it."""
    companion, customer = await add_companion(store), await add_user(store)
    async with store.read_view() as view:
        context = view.bookings.request_context(companion.id, customer.email, None, TODAY)
        assert await count_round_trips(store.database, context) == 1
    number = await next_booking_id(store)
    booking = make_booking(id=number, companion_id=companion.id, customer_id=customer.id)
    change = make_booking_write(booking, event=make_event(booking), response=make_stored_response())
    assert await count_round_trips(store.database, store.add_booking(change)) == 1


async def test_a_booking_is_saved_in_one_round_trip(store):
    """Saving a booking with orders and alerts takes BEGIN, one round trip, and COMMIT."""
    booking = await add_booking(store)
    change = make_booking_write(
        next_revision(booking), orders=(make_refund_order(),), alerts=(Alert("look"),)
    )
    saved = store.run_transaction(lambda unit: unit.bookings.save_booking(change))
    assert await count_round_trips(store.database, saved) == 3


@pytest.mark.parametrize(
    "query",
    [
        CompanionQuery(),
        CompanionQuery("lis", "gala dinner", 1, 20_000, TODAY, page=3),
        CompanionQuery(min_price=1),
    ],
)
async def test_a_search_is_one_round_trip(store, query):
    """A search takes one round trip, whatever its filters and page, once it is known whether the
    weekday of its date is common."""
    async with store.read_view() as view:
        await view.companions.search(query)
        assert await count_round_trips(store.database, view.companions.search(query)) == 1


async def test_concurrent_admissions_are_one_round_trip(store):
    """Concurrent authentications and hits take one round trip together."""
    owner = await add_subscriber(store)
    keys = [await add_api_key(store, owner.id) for _ in range(3)]
    rule, admission = RateLimit("general", 50, HOUR), store.admission
    calls = [
        admission.authenticate_api_key(key.digest, Permission.READ, (rule,), NOW)
        for key in keys
        for _ in "ab"
    ]
    calls += [admission.count_hit("contact:203.0.113.7", rule, NOW) for _ in range(5)]
    assert await count_round_trips(admission.counter_database, asyncio.gather(*calls)) == 1


async def test_a_batch_of_cash_books_is_one_round_trip(store):
    """A batch of cash books takes one round trip."""
    await add_booking(
        store, intent=PaymentIntent(1, NOW), change={"orders": (make_refund_order(),)}
    )
    async with store.read_view() as view:
        assert await count_round_trips(store.database, view.ledger.cash_books(0, 100)) == 1


async def test_endpoint_batches_are_claimed_in_three_round_trips(store):
    """Claiming batches of several endpoints takes BEGIN, three round trips, and COMMIT."""
    endpoints = [await add_endpoint(store) for _ in range(3)]
    for endpoint in endpoints * 2:
        await add_delivery(store, endpoint)
    assert await count_round_trips(store.database, claim_endpoint_batches(store)) == 5


async def test_delivery_results_are_saved_in_six_round_trips(store):
    """Saving the results of several deliveries takes one round trip for each step."""
    endpoints = [await add_endpoint(store) for _ in range(3)]
    deliveries = [await add_delivery(store, endpoint) for endpoint in endpoints * 2]
    claims = [turn.claim for turn in await claim_endpoint_batches(store)]

    async def settle(tx):
        await tx.webhooks.lock_claims(claims)
        await tx.webhooks.lock_deliveries([each.id for each in deliveries])
        await tx.webhooks.save_deliveries(deliveries)
        await tx.webhooks.add_attempts([(each.id, make_attempt()) for each in deliveries])
        await tx.webhooks.save_endpoints(endpoints)
        await tx.webhooks.release_endpoints([endpoint.id for endpoint in endpoints], NOW)

    assert await count_round_trips(store.database, store.run_transaction(settle)) == 6 + 2


async def test_events_are_published_in_eight_round_trips(store):
    """Publishing several events takes BEGIN, eight round trips, and COMMIT."""
    endpoint = await add_endpoint(store)
    events = [published_event(make_event(make_booking(id=number))) for number in range(1, 4)]

    async def publish(tx):
        await tx.webhooks.lock_feed()
        await tx.webhooks.unsequenced_events(10)
        await tx.webhooks.save_feed_positions([(event, n) for n, event in enumerate(events)])
        await tx.webhooks.lock_endpoints_of([endpoint.owner_id])
        await tx.webhooks.add_deliveries([make_new_delivery(endpoint.id) for _ in events])

    assert await count_round_trips(store.database, store.run_transaction(publish)) == 8 + 2


async def test_messages_are_sent_in_five_round_trips(store):
    """Sending messages in several conversations takes five round trips: two to lock these, one to
    find duplicates, one to lock the ids, and one to insert."""
    conversations = [await add_direct(store), await add_group(store)]
    new = [make_new_message(conversation, client_id="1") for conversation in conversations]

    async def send(tx):
        await tx.messages.lock_conversations([conversation.id for conversation in conversations])
        await tx.messages.messages_by_client_id(
            [(each.conversation_id, each.sender_id, "1") for each in new]
        )
        await tx.messages.add_messages(new)

    assert await count_round_trips(store.database, store.run_transaction(send)) == 5 + 2


async def test_round_trips_of_an_import_are_constant(store):
    """An import of 20 staff members takes as many round trips as one, for new and known ones."""

    async def import_staff(*staff_members):
        emails = [new.email for new, _ in staff_members]

        async def unit(tx):
            known = await tx.imports.lock_users_by_email(emails)
            await tx.imports.save_staff_members(
                [(user, evolve(has, bio="x")) for user, has in known]
            )
            await tx.imports.add_staff_members([] if known else staff_members)

        return await count_round_trips(store.database, store.run_transaction(unit))

    def new_staff_members(count):
        return [(make_new_user(role=Role.STAFF), make_companion()) for _ in range(count)]

    one, many = new_staff_members(1), new_staff_members(20)
    assert await import_staff(*one) == await import_staff(*many) == 2 + 8
    assert await import_staff(*one) == await import_staff(*many) == 2 + 12


async def test_a_page_of_conversations_is_one_round_trip(store):
    """A page of conversations takes one round trip."""
    group = await add_group(store)
    await add_messages_by(store, group, "hello")
    async with store.read_view() as view:
        page = view.messages.overviews(group.customer_id, 1, 10, NOW)
        assert await count_round_trips(store.database, page) == 1


async def test_a_connection_is_added_in_two_round_trips(store):
    """Adding a connection takes BEGIN, two round trips, and COMMIT."""
    user = await add_user(store)
    connected = store.run_transaction(
        lambda unit: unit.presence.add_connection(user.id, "a", NOW, 10)
    )
    assert await count_round_trips(store.database, connected) == 2 + 2
