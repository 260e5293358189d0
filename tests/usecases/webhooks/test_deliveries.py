"""Events on their way to endpoints: placed, fanned out, sent by the schedule, settled."""

from __future__ import annotations

from datetime import timedelta

import pytest
from attrs import evolve

from staffbooking_core.domain.accounts.users import Role
from staffbooking_core.domain.bookings.lifecycle import EventName
from staffbooking_core.domain.webhooks.deliveries import DeliveryStatus, Endpoint, Failure, Secrets
from staffbooking_core.errors import SealBroken
from staffbooking_core.usecases.webhooks import deliveries, endpoints
from staffbooking_core.usecases.webhooks.deliveries import SEALED_FOR
from staffbooking_core.webhook_receiver import Receiver, Refused, hex_signature
from tests.support.builders import (
    DAY,
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    add_booking,
    add_companion,
    add_subscriber,
    add_user,
)
from tests.support.webhook_deployment import WAITS, Post, make_post, outcomes
from tests.support.webhooks import SECRET, add_delivery, add_endpoint, tell

pytestmark = pytest.mark.anyio

TICK = timedelta.resolution
PENDING, HELD = DeliveryStatus.PENDING, DeliveryStatus.HELD
NEXT = SECRET.replace("c2", "d2")


@pytest.fixture
def post() -> Post:
    return make_post()


@pytest.fixture
async def endpoint(post: Post) -> Endpoint:
    return await post.endpoint()


# Placing and fanning out ------------------------------------------------------------------


async def test_events_get_positions_in_their_order(post: Post) -> None:
    """Each stands behind all that were placed before it, without a gap."""
    events = [await tell(post.ports.store) for _ in range(3)]
    assert await deliveries.publish(post.ports) == 3
    events.append(await tell(post.ports.store))
    assert await deliveries.publish(post.ports) == 1
    async with post.ports.store.reading() as view:
        positions = [await view.webhooks.position(event.id, None) for event in events]
    assert positions == [1, 2, 3, 4]


async def test_without_events_nothing_is_published(post: Post) -> None:
    """What was published is not published again."""
    await tell(post.ports.store)
    await deliveries.publish(post.ports)
    assert await deliveries.publish(post.ports) == 0


async def test_a_step_has_a_bound(post: Post) -> None:
    """A long backlog is worked off step by step."""
    for _ in range(5):
        await tell(post.ports.store)
    steps = [await deliveries.publish(post.ports, 2) for _ in range(4)]
    assert steps == [2, 2, 1, 0]


async def test_parties_and_admins_get_an_event(post: Post) -> None:
    """One delivery for each of their endpoints, and none for anybody else's."""
    store = post.ports.store
    customer, booker = await add_subscriber(store), await add_subscriber(store)
    companion = await add_companion(store)
    async with store.reading() as view:
        staff = await view.accounts.user(companion.id)
    boss, stranger = await add_user(store, role=Role.ADMIN), await add_subscriber(store)
    owners = (customer, customer, booker, staff, boss)
    reached = [await add_endpoint(store, owner) for owner in owners]
    unreached = await add_endpoint(store, stranger)
    booking = await add_booking(store, companion, customer, booked_by=booker.id)
    event = await tell(store, booking)

    await deliveries.publish(post.ports)

    for endpoint in reached:
        [(delivery, _)] = await post.logged(endpoint)
        assert (delivery.event_id, delivery.attempts) == (event.id, 0)
    assert await post.logged(unreached) == []


async def test_an_endpoint_gets_what_it_subscribed_to(post: Post) -> None:
    """Other events, and those after it was deleted, don't reach it."""
    boss = await add_user(post.ports.store, role=Role.ADMIN)
    created = frozenset({EventName.BOOKING_CREATED})
    wants = await add_endpoint(post.ports.store, boss, events=created)
    other = await add_endpoint(post.ports.store, boss, events=frozenset(EventName) - created)
    deleted = await add_endpoint(post.ports.store, boss, deleted_at=NOW)
    await tell(post.ports.store)
    await deliveries.publish(post.ports)
    reached = [len(await post.logged(endpoint)) for endpoint in (wants, other, deleted)]
    assert reached == [1, 0, 0]


async def test_a_paused_endpoints_events_are_kept(post: Post) -> None:
    """Their deliveries are held from the start."""
    boss = await add_user(post.ports.store, role=Role.ADMIN)
    endpoint = await add_endpoint(post.ports.store, boss, active=False)
    await tell(post.ports.store)
    await deliveries.publish(post.ports)
    delivery = await post.newest(endpoint)
    assert (delivery.status, delivery.held_at, delivery.next_at) == (HELD, NOW, NOW)
    assert await post.deliver() == 0


# The schedule -----------------------------------------------------------------------------


@pytest.mark.parametrize("takes", [0 * SECOND, 3 * SECOND, 10 * SECOND])
async def test_no_retry_is_early(post: Post, endpoint: Endpoint, takes: timedelta) -> None:
    """The waits are 1, 4 and 16 seconds, from the end of the attempt that failed."""
    await add_delivery(post.ports.store, endpoint)
    post.answer(endpoint, 500, takes)
    assert await post.deliver() == 1
    for wait in WAITS:
        post.clock.advance(wait - TICK)
        assert await post.deliver() == 0
        post.clock.advance(TICK)
        assert await post.deliver() == 1
    [(delivery, attempts)] = await post.logged(endpoint)
    ends = [attempt.at + takes for attempt in attempts]
    begins = [attempt.at for attempt in attempts]
    assert [later - end for later, end in zip(begins[1:], ends, strict=False)] == [*WAITS]
    assert delivery.status is DeliveryStatus.FAILED


async def test_a_delivery_is_tried_four_times(post: Post, endpoint: Endpoint) -> None:
    """After that it has failed, however long one waits; the endpoint has one failure more."""
    await add_delivery(post.ports.store, endpoint)
    made = 0
    for _ in range(10):
        made += await post.deliver()
        post.clock.advance(DAY)
    [(delivery, attempts)] = await post.logged(endpoint)
    assert (made, [attempt.number for attempt in attempts]) == (4, [1, 2, 3, 4])
    assert {attempt.error for attempt in attempts} == {Failure.CONNECTION_FAILED}
    assert (delivery.status, delivery.next_at) == (DeliveryStatus.FAILED, None)
    assert (await post.found(endpoint)).consecutive_failures == 1


async def test_a_retry_may_succeed(post: Post, endpoint: Endpoint) -> None:
    """Then there is nothing more to do, and the endpoint's failures are forgotten."""
    await post.save(evolve(endpoint, consecutive_failures=9))
    await add_delivery(post.ports.store, endpoint)
    await post.deliver()
    post.answer(endpoint, 204)
    post.clock.advance(SECOND)
    assert await post.deliver() == 1
    [(delivery, attempts)] = await post.logged(endpoint)
    assert [attempt.response_status for attempt in attempts] == [None, 204]
    assert (delivery.status, delivery.next_at) == (DeliveryStatus.SUCCEEDED, None)
    after = await post.found(endpoint)
    assert (after.consecutive_failures, after.troubled) == (0, False)
    assert (after.succeeded, after.failed) == (1, 1)


async def test_all_that_is_due_is_sent(
    post: Post, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond the bound of a turn, and past endpoints that may not be sent to."""
    monkeypatch.setattr(deliveries, "TURN", 2)
    owner = await add_subscriber(post.ports.store, subscription_expires_at=NOW)
    for _ in range(5):
        await add_delivery(post.ports.store, await add_endpoint(post.ports.store, owner))
    post.answer(endpoint, 200)
    for _ in range(5):
        await add_delivery(post.ports.store, endpoint)
    assert await post.deliver() == 5
    assert await post.statuses(endpoint) == [DeliveryStatus.SUCCEEDED] * 5


# What is sent -----------------------------------------------------------------------------


async def test_the_stored_bytes_are_sent_each_time(post: Post) -> None:
    """Every attempt and a re-delivery have the bytes of the feed and the same id; the number
    of the attempt rises."""
    boss = await add_user(post.ports.store, role=Role.ADMIN)
    endpoint = await post.endpoint(owner=boss)
    event = await tell(post.ports.store)
    await deliveries.publish(post.ports)
    for wait in (*WAITS, DAY):
        await post.deliver()
        post.clock.advance(wait)
    await endpoints.redeliver(post.ports, boss, (await post.newest(endpoint)).id)
    await post.deliver()

    async with post.ports.store.reading() as view:
        [body] = await view.webhooks.feed(None, 0, 10)
    sent = post.sent
    assert [each.body for each in sent] == [body] * 5
    assert [each.headers["X-Webhook-Id"] for each in sent] == [event.id] * 5
    assert [each.headers["X-Webhook-Attempt"] for each in sent] == [*"12345"]


async def test_both_signatures_hold(post: Post, endpoint: Endpoint) -> None:
    """The receivers' kit takes what is sent, and refuses it with another secret."""
    event = await tell(post.ports.store)
    await deliveries.publish(post.ports)
    await add_delivery(post.ports.store, endpoint, event)
    await post.deliver()
    [sent] = post.sent
    received = Receiver([SECRET]).receive(sent.headers, sent.body, NOW.timestamp())
    assert received.envelope["id"] == event.id
    for missing in ("X-Webhook-Signature", "webhook-signature"):
        rest = {name: value for name, value in sent.headers.items() if name != missing}
        Receiver([SECRET]).receive(rest, sent.body, NOW.timestamp())
        with pytest.raises(Refused):
            Receiver([NEXT]).receive(rest, sent.body, NOW.timestamp())


@pytest.mark.parametrize(
    ("ago", "published", "signing"),
    [(24 * HOUR - TICK, SECRET, [SECRET, NEXT]), (24 * HOUR, NEXT, [NEXT])],
    ids=["while it lasts", "when it is over"],
)
async def test_a_rotation_has_two_steps(
    post: Post, endpoint: Endpoint, ago: timedelta, published: str, signing: list[str]
) -> None:
    """For a day the published signature is by the old secret, and the standard one by both;
    then the new one alone signs."""
    sealed = post.ports.vault.seal(SEALED_FOR, NEXT.encode(), endpoint.id)
    secrets = Secrets(endpoint.secrets.current, sealed, NOW - ago + 24 * HOUR)
    await post.save(evolve(endpoint, secrets=secrets))
    await add_delivery(post.ports.store, endpoint)
    await post.deliver()
    [sent] = post.sent
    assert sent.headers["X-Webhook-Signature"] == hex_signature(published, sent.body)
    assert len(sent.headers["webhook-signature"].split()) == len(signing)
    for secret in signing:
        Receiver([secret]).receive(sent.headers, sent.body, NOW.timestamp())


async def test_without_its_key_nothing_is_sent(post: Post) -> None:
    """An endpoint whose secret can't be opened is not sent to unsigned."""
    endpoint = await add_endpoint(post.ports.store)
    await add_delivery(post.ports.store, endpoint)
    with pytest.raises(SealBroken):
        await post.deliver()
    assert post.sent == []
    assert (await post.newest(endpoint)).status is PENDING


# Claims -----------------------------------------------------------------------------------


async def test_a_claimed_endpoint_is_nobody_elses(post: Post, endpoint: Endpoint) -> None:
    """Until the claim runs out; renewed it lasts longer."""
    await add_delivery(post.ports.store, endpoint)
    turn = await post.claim()
    post.clock.advance(14 * SECOND)
    assert await deliveries.claim(post.ports, 10, troubled=False) == []
    await deliveries.renew(post.ports, [turn])
    post.clock.advance(14 * SECOND)
    assert await deliveries.claim(post.ports, 10, troubled=False) == []
    post.clock.advance(SECOND)
    assert (await post.claim()).endpoint.id == endpoint.id


async def test_who_lost_the_claim_settles_nothing(post: Post, endpoint: Endpoint) -> None:
    """The outcome counts of the one who has it now, and once."""
    await add_delivery(post.ports.store, endpoint)
    late = await post.claim()
    post.clock.advance(MINUTE)
    mine = await post.claim()
    assert await deliveries.settle(post.ports, outcomes(late), [late]) == frozenset()
    [(delivery, attempts)] = await post.logged(endpoint)
    assert (delivery.status, attempts) == (PENDING, [])
    served = await deliveries.settle(post.ports, outcomes(mine, failure=None), [mine])
    [(delivery, attempts)] = await post.logged(endpoint)
    assert (served, delivery.status, len(attempts)) == (
        frozenset({mine.claim}),
        DeliveryStatus.SUCCEEDED,
        1,
    )


async def test_a_lost_claim_beside_the_one_that_took_its_place(
    post: Post, endpoint: Endpoint
) -> None:
    """Settled together, what came by the lost one is left out, and the other is saved."""
    for _ in range(2):
        await add_delivery(post.ports.store, endpoint)
    late = await post.claim()
    post.clock.advance(MINUTE)
    mine = await post.claim()
    first, second = outcomes(mine, failure=None)
    stale = outcomes(late, failure=None)[1]
    assert await deliveries.settle(post.ports, [first, stale], [late]) == {mine.claim}
    statuses = [delivery.status for delivery, _ in await post.logged(endpoint)]
    assert sorted(statuses) == [PENDING, DeliveryStatus.SUCCEEDED]
    assert await deliveries.settle(post.ports, [second], [mine]) == {mine.claim}
    statuses = [delivery.status for delivery, _ in await post.logged(endpoint)]
    assert statuses == [DeliveryStatus.SUCCEEDED, DeliveryStatus.SUCCEEDED]


async def test_a_late_end_of_a_turn_ends_no_other(post: Post, endpoint: Endpoint) -> None:
    """The claim of the one who has it now stays."""
    await add_delivery(post.ports.store, endpoint)
    late = await post.claim()
    post.clock.advance(MINUTE)
    await post.claim()
    await deliveries.settle(post.ports, [], [late])
    assert await deliveries.claim(post.ports, 10, troubled=False) == []


async def test_to_settle_twice_is_to_settle_once(post: Post, endpoint: Endpoint) -> None:
    """Where the answer of a commit never came the outcome is saved no second time."""
    await add_delivery(post.ports.store, endpoint)
    turn = await post.claim()
    for _ in range(2):
        assert await deliveries.settle(post.ports, outcomes(turn)) == {turn.claim}
    [(delivery, attempts)] = await post.logged(endpoint)
    assert (delivery.tries, len(attempts)) == (1, 1)
    assert (await post.found(endpoint)).failed == 1


async def test_many_endpoints_are_settled_at_once(post: Post) -> None:
    """Each has its own outcome, in the order in which they came."""
    made = [await post.endpoint() for _ in range(3)]
    for endpoint in made:
        await add_delivery(post.ports.store, endpoint)
    turns = await deliveries.claim(post.ports, 10, troubled=False)
    sent = [
        *outcomes(turns[0], failure=None),
        *outcomes(turns[1]),
        *outcomes(turns[2], failure=None),
    ]
    await deliveries.settle(post.ports, sent, turns)
    found = [(await post.newest(endpoint)).status for endpoint in made]
    assert found == [DeliveryStatus.SUCCEEDED, PENDING, DeliveryStatus.SUCCEEDED]
    assert await deliveries.claim(post.ports, 10, troubled=False) == []
