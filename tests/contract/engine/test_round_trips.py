"""How often the store goes to PostgreSQL for what is asked most: once."""

from __future__ import annotations

import asyncio

import pytest
from attrs import evolve

from staffbooking_core.domain.accounts.api_keys import Permission
from staffbooking_core.domain.accounts.users import Role
from staffbooking_core.domain.bookings.booking import PaymentIntent
from staffbooking_core.domain.companions.companion import CompanionQuery
from staffbooking_core.domain.shared.rate_limits import RateLimit
from tests.contract.stores import STORES
from tests.support.builders import (
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
    next_version,
)
from tests.support.messages import add_direct, add_group, add_messages_by, make_new_message
from tests.support.webhooks import (
    add_delivery,
    add_endpoint,
    claim_endpoint_batches,
    make_attempt,
    make_new_delivery,
    published_event,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
async def store(request):
    async with STORES["postgresql"](request) as opened:
        yield opened


async def trips(database, work):
    """How often the driver is called for some work."""
    before = database.round_trips
    await work
    return database.round_trips - before


async def test_a_request_is_read_and_saved_in_one_trip_each(store):
    """Its context, with a number of its own; then booking, timer, event and answer together."""
    companion, customer = await add_companion(store), await add_user(store)
    async with store.read_view() as view:
        context = view.bookings.request_context(companion.id, customer.email, None, TODAY)
        assert await trips(store.database, context) == 1
    number = await next_booking_id(store)
    booking = make_booking(id=number, companion_id=companion.id, customer_id=customer.id)
    change = make_booking_write(booking, event=make_event(booking), response=make_stored_response())
    assert await trips(store.database, store.add_booking(change)) == 1


async def test_a_step_is_saved_in_one_trip(store):
    """Between the two that begin and commit, whatever comes with it but postings."""
    booking = await add_booking(store)
    change = make_booking_write(
        next_version(booking), orders=(make_refund_order(),), alerts=("look",)
    )
    saved = store.run_transaction(lambda unit: unit.bookings.save_booking(change))
    assert await trips(store.database, saved) == 3


@pytest.mark.parametrize(
    "query",
    [
        CompanionQuery(),
        CompanionQuery("lis", "gala dinner", 1, 20_000, TODAY, page=3),
        CompanionQuery(min_price=1),
    ],
)
async def test_a_search_is_one_trip(store, query):
    """Whatever its filters and its page."""
    async with store.read_view() as view:
        assert await trips(store.database, view.companions.search(query)) == 1


async def test_calls_at_once_are_admitted_in_one_trip(store):
    """Keys and hits of the same moment are looked up, judged and counted together."""
    owner = await add_subscriber(store)
    keys = [await add_api_key(store, owner.id) for _ in range(3)]
    rule, admission = RateLimit("general", 50, HOUR), store.admission
    calls = [
        admission.authenticate_api_key(key.digest, Permission.READ, (rule,), NOW)
        for key in keys
        for _ in "ab"
    ]
    calls += [admission.count_hit("contact:203.0.113.7", rule, NOW) for _ in range(5)]
    assert await trips(admission.counter_database, asyncio.gather(*calls)) == 1


async def test_a_batch_of_cash_books_is_one_trip(store):
    """And so of one moment, whatever belongs to its bookings."""
    await add_booking(
        store, intent=PaymentIntent(1, NOW), change={"orders": (make_refund_order(),)}
    )
    async with store.read_view() as view:
        assert await trips(store.database, view.ledger.cash_books(0, 100)) == 1


async def test_turns_are_claimed_in_three_trips(store):
    """Between the two that begin and commit, however many: endpoints, deliveries, owners."""
    endpoints = [await add_endpoint(store) for _ in range(3)]
    for endpoint in endpoints * 2:
        await add_delivery(store, endpoint)
    assert await trips(store.database, claim_endpoint_batches(store)) == 5


async def test_outcomes_are_saved_in_a_trip_for_each_step(store):
    """However many deliveries of however many endpoints there are."""
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

    assert await trips(store.database, store.run_transaction(settle)) == 6 + 2


async def test_events_are_published_in_few_trips(store):
    """Two to lock the feed, two to place, two for the deliveries, whatever their number."""
    endpoint = await add_endpoint(store)
    events = [published_event(make_event(make_booking(id=number))) for number in range(1, 4)]

    async def publish(tx):
        await tx.webhooks.lock_feed()
        await tx.webhooks.unsequenced_events(10)
        await tx.webhooks.save_feed_positions([(event, n) for n, event in enumerate(events)])
        await tx.webhooks.lock_endpoints_of([endpoint.owner_id])
        await tx.webhooks.add_deliveries([make_new_delivery(endpoint.id) for _ in events])

    assert await trips(store.database, store.run_transaction(publish)) == 8 + 2


async def test_messages_are_sent_in_few_trips(store):
    """However many: two to hold their conversations, one to know repetitions, one to wait for
    the right to give ids, and one to keep them."""
    talks = [await add_direct(store), await add_group(store)]
    new = [make_new_message(talk, client_id="1") for talk in talks]

    async def send(tx):
        await tx.messages.lock_conversations([talk.id for talk in talks])
        await tx.messages.messages_by_client_id(
            [(each.conversation_id, each.sender_id, "1") for each in new]
        )
        await tx.messages.add_messages(new)

    assert await trips(store.database, store.run_transaction(send)) == 5 + 2


async def test_an_import_takes_as_many_trips_for_many_as_for_one(store):
    """For those who come and for those who are known."""

    async def put(*people):
        emails = [new.email for new, _ in people]

        async def unit(tx):
            known = await tx.imports.lock_users_by_email(emails)
            await tx.imports.save_staff_members(
                [(user, evolve(has, bio="x")) for user, has in known]
            )
            await tx.imports.add_staff_members([] if known else people)

        return await trips(store.database, store.run_transaction(unit))

    def newcomers(count):
        return [(make_new_user(role=Role.STAFF), make_companion()) for _ in range(count)]

    one, many = newcomers(1), newcomers(20)
    assert await put(*one) == await put(*many) == 2 + 7
    assert await put(*one) == await put(*many) == 2 + 10


async def test_a_page_of_conversations_is_one_trip(store):
    """With their members, last messages and whatever else belongs to them."""
    group = await add_group(store)
    await add_messages_by(store, group, "hello")
    async with store.read_view() as view:
        page = view.messages.overviews(group.customer_id, 1, 10, NOW)
        assert await trips(store.database, page) == 1


async def test_a_connection_is_counted_in_two_trips(store):
    """Between the two that begin and commit."""
    user = await add_user(store)
    connected = store.run_transaction(
        lambda unit: unit.presence.add_connection(user.id, "a", NOW, 10)
    )
    assert await trips(store.database, connected) == 2 + 2
