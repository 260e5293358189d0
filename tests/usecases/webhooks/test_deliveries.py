"""Webhook deliveries: sequencing, fan-out, retries and settlement."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import (
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
from staffbooking_adapters.testing.builders_webhooks import (
    ENDPOINT_SECRET,
    add_delivery,
    add_endpoint,
    add_event,
)
from staffbooking_core.domain.accounts.users import Role
from staffbooking_core.domain.bookings.lifecycle import EventName
from staffbooking_core.domain.webhooks.deliveries import (
    WEBHOOK_EVENTS,
    DeliveryFailure,
    DeliveryStatus,
    EndpointSecrets,
    WebhookEndpoint,
)
from staffbooking_core.errors import SealBroken
from staffbooking_core.ports import Store, Transaction
from staffbooking_core.usecases.webhooks import deliveries, delivery_log
from staffbooking_core.usecases.webhooks.deliveries import WEBHOOK_SECRET_PURPOSE
from staffbooking_core.webhook_receiver import WebhookReceiver, WebhookRefused, hex_signature
from tests.support.webhook_deployment import RETRY_DELAYS, WebhookScenario, attempt_results

pytestmark = pytest.mark.anyio

TICK = timedelta.resolution
PENDING, HELD = DeliveryStatus.PENDING, DeliveryStatus.HELD
NEXT = ENDPOINT_SECRET.replace("c2", "d2")


# Sequencing and fan-out -------------------------------------------------------------------


async def test_events_get_positions_in_their_order(post: WebhookScenario) -> None:
    """Positions are consecutive and follow all earlier ones."""
    events = [await add_event(post.ports.store) for _ in range(3)]
    assert await deliveries.publish_events(post.ports) == 3
    events.append(await add_event(post.ports.store))
    assert await deliveries.publish_events(post.ports) == 1
    async with post.ports.store.read_view() as view:
        positions = [await view.webhooks.feed_position(event.id, None) for event in events]
    assert positions == [1, 2, 3, 4]


async def test_without_events_nothing_is_published(post: WebhookScenario) -> None:
    """Published events are not published again."""
    await add_event(post.ports.store)
    await deliveries.publish_events(post.ports)
    assert await deliveries.publish_events(post.ports) == 0


async def test_a_step_has_a_bound(post: WebhookScenario) -> None:
    """A long backlog is published in batches."""
    for _ in range(5):
        await add_event(post.ports.store)
    steps = [await deliveries.publish_events(post.ports, 2) for _ in range(4)]
    assert steps == [2, 2, 1, 0]


class Ended(BaseException):
    """The process ends."""


class EndingStore:
    """The store of a process that ends right after its first commit."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.read_view = store.read_view

    async def run_transaction(self, work: Callable[[Transaction], Awaitable[object]]) -> object:
        await self._store.run_transaction(work)
        raise Ended


async def test_an_event_is_published_with_its_deliveries(post: WebhookScenario) -> None:
    """A process that ends right after an event got its position has added its deliveries too."""
    subscriber = await add_user(post.ports.store, role=Role.ADMIN)
    endpoint = await add_endpoint(post.ports.store, subscriber, vault=post.ports.vault)
    await add_event(post.ports.store)
    ending: Any = EndingStore(post.ports.store)
    with pytest.raises(Ended):
        await deliveries.publish_events(evolve(post.ports, store=ending))
    assert await post.delivery_statuses(endpoint) == [PENDING]


async def test_parties_and_admins_get_an_event(post: WebhookScenario) -> None:
    """Each endpoint of a party or an admin gets one delivery."""
    store = post.ports.store
    customer, booker = await add_subscriber(store), await add_subscriber(store)
    companion = await add_companion(store)
    async with store.read_view() as view:
        staff = await view.accounts.user(companion.id)
    boss, stranger = await add_user(store, role=Role.ADMIN), await add_subscriber(store)
    owners = (customer, customer, booker, staff, boss)
    reached = [await add_endpoint(store, owner) for owner in owners]
    unreached = await add_endpoint(store, stranger)
    booking = await add_booking(store, companion, customer, booked_by=booker.id)
    event = await add_event(store, booking)

    await deliveries.publish_events(post.ports)

    for endpoint in reached:
        [(delivery, _)] = await post.deliveries_with_attempts(endpoint)
        assert (delivery.event_id, delivery.attempts) == (event.id, 0)
    assert await post.deliveries_with_attempts(unreached) == []


async def test_an_endpoint_gets_what_it_subscribed_to(post: WebhookScenario) -> None:
    """Other events and deleted endpoints get no delivery."""
    boss = await add_user(post.ports.store, role=Role.ADMIN)
    created = frozenset({EventName.BOOKING_CREATED})
    wants = await add_endpoint(post.ports.store, boss, events=created)
    other = await add_endpoint(post.ports.store, boss, events=frozenset(EventName) - created)
    deleted = await add_endpoint(post.ports.store, boss, deleted_at=NOW)
    await add_event(post.ports.store)
    await deliveries.publish_events(post.ports)
    reached = [
        len(await post.deliveries_with_attempts(endpoint)) for endpoint in (wants, other, deleted)
    ]
    assert reached == [1, 0, 0]


async def test_a_paused_endpoints_events_are_kept(post: WebhookScenario) -> None:
    """Deliveries of a paused endpoint are held from the start."""
    boss = await add_user(post.ports.store, role=Role.ADMIN)
    endpoint = await add_endpoint(post.ports.store, boss, active=False)
    await add_event(post.ports.store)
    await deliveries.publish_events(post.ports)
    delivery = await post.newest_delivery(endpoint)
    assert (delivery.status, delivery.held_at, delivery.next_at) == (HELD, NOW, NOW)
    assert await post.deliver() == 0


# The schedule -----------------------------------------------------------------------------


@pytest.mark.parametrize("takes", [0 * SECOND, 3 * SECOND, 10 * SECOND])
async def test_no_retry_is_early(
    post: WebhookScenario, endpoint: WebhookEndpoint, takes: timedelta
) -> None:
    """Retries wait 1, 4 and 16 seconds from the end of the failed attempt."""
    await add_delivery(post.ports.store, endpoint)
    post.set_response(endpoint, 500, takes)
    assert await post.deliver() == 1
    for wait in RETRY_DELAYS:
        post.clock.advance(wait - TICK)
        assert await post.deliver() == 0
        post.clock.advance(TICK)
        assert await post.deliver() == 1
    [(delivery, attempts)] = await post.deliveries_with_attempts(endpoint)
    ends = [attempt.at + takes for attempt in attempts]
    begins = [attempt.at for attempt in attempts]
    assert [later - end for later, end in zip(begins[1:], ends, strict=False)] == [*RETRY_DELAYS]
    assert delivery.status is DeliveryStatus.FAILED


async def test_business_time_makes_no_retry_early(
    post: WebhookScenario, endpoint: WebhookEndpoint
) -> None:
    """A retry is due by wall time, however far business time was moved on."""
    await add_delivery(post.ports.store, endpoint)
    await post.deliver()
    await post.clock.set_business(NOW + DAY)
    assert await deliveries.claim_batches(post.ports, 10, degraded=True) == []


async def test_a_delivery_is_tried_four_times(
    post: WebhookScenario, endpoint: WebhookEndpoint
) -> None:
    """After four attempts a delivery has failed and counts once for the endpoint."""
    await add_delivery(post.ports.store, endpoint)
    made = 0
    for _ in range(10):
        made += await post.deliver()
        post.clock.advance(DAY)
    [(delivery, attempts)] = await post.deliveries_with_attempts(endpoint)
    assert (made, [attempt.number for attempt in attempts]) == (4, [1, 2, 3, 4])
    assert {attempt.error for attempt in attempts} == {DeliveryFailure.CONNECTION_FAILED}
    assert (delivery.status, delivery.next_at) == (DeliveryStatus.FAILED, None)
    assert (await post.reload_endpoint(endpoint)).consecutive_failures == 1


async def test_a_retry_may_succeed(post: WebhookScenario, endpoint: WebhookEndpoint) -> None:
    """A successful retry ends the delivery and resets the endpoint's failures."""
    await post.save_endpoint(evolve(endpoint, consecutive_failures=9))
    await add_delivery(post.ports.store, endpoint)
    await post.deliver()
    post.set_response(endpoint, 204)
    post.clock.advance(SECOND)
    assert await post.deliver() == 1
    [(delivery, attempts)] = await post.deliveries_with_attempts(endpoint)
    assert [attempt.response_status for attempt in attempts] == [None, 204]
    assert (delivery.status, delivery.next_at) == (DeliveryStatus.SUCCEEDED, None)
    after = await post.reload_endpoint(endpoint)
    assert (after.consecutive_failures, after.degraded) == (0, False)
    assert (after.succeeded, after.failed) == (1, 1)


async def test_all_that_is_due_is_sent(
    post: WebhookScenario, endpoint: WebhookEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All due deliveries are sent over several batches, without endpoints that may not be
    served."""
    monkeypatch.setattr(deliveries, "DELIVERY_BATCH_SIZE", 2)
    owner = await add_subscriber(post.ports.store, subscription_expires_at=NOW)
    for _ in range(5):
        await add_delivery(post.ports.store, await add_endpoint(post.ports.store, owner))
    post.set_response(endpoint, 200)
    for _ in range(5):
        await add_delivery(post.ports.store, endpoint)
    assert await post.deliver() == 5
    assert await post.delivery_statuses(endpoint) == [DeliveryStatus.SUCCEEDED] * 5


# Requests ---------------------------------------------------------------------------------


async def test_the_stored_bytes_are_sent_each_time(post: WebhookScenario) -> None:
    """Every attempt has the feed's bytes and the same id, and a rising attempt number."""
    boss = await add_user(post.ports.store, role=Role.ADMIN)
    endpoint = await post.add_endpoint(owner=boss)
    event = await add_event(post.ports.store)
    await deliveries.publish_events(post.ports)
    for wait in (*RETRY_DELAYS, DAY):
        await post.deliver()
        post.clock.advance(wait)
    await delivery_log.redeliver(post.ports, boss, (await post.newest_delivery(endpoint)).id)
    await post.deliver()

    async with post.ports.store.read_view() as view:
        [body] = await view.webhooks.feed_events_after(None, 0, WEBHOOK_EVENTS, 10)
    sent = post.sent
    assert [each.body for each in sent] == [body] * 5
    assert [each.headers["X-Webhook-Id"] for each in sent] == [event.id] * 5
    assert [each.headers["X-Webhook-Attempt"] for each in sent] == [*"12345"]


async def test_both_signatures_hold(post: WebhookScenario, endpoint: WebhookEndpoint) -> None:
    """The receiver library accepts the signatures, and refuses them with another secret."""
    event = await add_event(post.ports.store)
    await deliveries.publish_events(post.ports)
    await add_delivery(post.ports.store, endpoint, event)
    await post.deliver()
    [sent] = post.sent
    received = WebhookReceiver([ENDPOINT_SECRET]).receive(sent.headers, sent.body, NOW.timestamp())
    assert received.envelope["id"] == event.id
    for missing in ("X-Webhook-Signature", "webhook-signature"):
        rest = {name: value for name, value in sent.headers.items() if name != missing}
        WebhookReceiver([ENDPOINT_SECRET]).receive(rest, sent.body, NOW.timestamp())
        with pytest.raises(WebhookRefused):
            WebhookReceiver([NEXT]).receive(rest, sent.body, NOW.timestamp())


@pytest.mark.parametrize(
    ("ago", "published", "signing"),
    [(24 * HOUR - TICK, ENDPOINT_SECRET, [ENDPOINT_SECRET, NEXT]), (24 * HOUR, NEXT, [NEXT])],
    ids=["while it lasts", "when it is over"],
)
async def test_a_rotation_has_two_steps(
    post: WebhookScenario,
    endpoint: WebhookEndpoint,
    ago: timedelta,
    published: str,
    signing: list[str],
) -> None:
    """For a day the published header uses the old secret and the standard one both; then only the
    new one signs."""
    sealed = post.ports.vault.seal(WEBHOOK_SECRET_PURPOSE, NEXT.encode(), endpoint.id)
    secrets = EndpointSecrets(endpoint.secrets.current, sealed, NOW - ago + 24 * HOUR)
    await post.save_endpoint(evolve(endpoint, secrets=secrets))
    await add_delivery(post.ports.store, endpoint)
    await post.deliver()
    [sent] = post.sent
    assert sent.headers["X-Webhook-Signature"] == hex_signature(published, sent.body)
    assert len(sent.headers["webhook-signature"].split()) == len(signing)
    for secret in signing:
        WebhookReceiver([secret]).receive(sent.headers, sent.body, NOW.timestamp())


async def test_without_its_key_nothing_is_sent(post: WebhookScenario) -> None:
    """A delivery whose secret cannot be unsealed is not sent."""
    endpoint = await add_endpoint(post.ports.store)
    await add_delivery(post.ports.store, endpoint)
    with pytest.raises(SealBroken):
        await post.deliver()
    assert post.sent == []
    assert (await post.newest_delivery(endpoint)).status is PENDING


# Claims -----------------------------------------------------------------------------------


async def test_a_claimed_endpoint_is_nobody_elses(
    post: WebhookScenario, endpoint: WebhookEndpoint
) -> None:
    """A claimed endpoint is exclusive until its lease ends; a renewal extends it."""
    await add_delivery(post.ports.store, endpoint)
    turn = await post.claim_batch()
    post.clock.advance(14 * SECOND)
    assert await deliveries.claim_batches(post.ports, 10, degraded=False) == []
    await deliveries.renew_claims(post.ports, [turn])
    post.clock.advance(14 * SECOND)
    assert await deliveries.claim_batches(post.ports, 10, degraded=False) == []
    post.clock.advance(SECOND)
    assert (await post.claim_batch()).endpoint.id == endpoint.id


async def test_who_lost_the_claim_settles_nothing(
    post: WebhookScenario, endpoint: WebhookEndpoint
) -> None:
    """Only the current holder's outcome is saved, and once."""
    await add_delivery(post.ports.store, endpoint)
    late = await post.claim_batch()
    post.clock.advance(MINUTE)
    mine = await post.claim_batch()
    assert await deliveries.settle_results(post.ports, attempt_results(late), [late]) == {}
    [(delivery, attempts)] = await post.deliveries_with_attempts(endpoint)
    assert (delivery.status, attempts) == (PENDING, [])
    served = await deliveries.settle_results(
        post.ports, attempt_results(mine, failure=None), [mine]
    )
    [(delivery, attempts)] = await post.deliveries_with_attempts(endpoint)
    assert (served, delivery.status, len(attempts)) == (
        {mine.claim: ()},
        DeliveryStatus.SUCCEEDED,
        1,
    )


async def test_a_lost_claim_beside_the_one_that_took_its_place(
    post: WebhookScenario, endpoint: WebhookEndpoint
) -> None:
    """Of a lost and a current claim settled together, only the current one is saved."""
    for _ in range(2):
        await add_delivery(post.ports.store, endpoint)
    late = await post.claim_batch()
    post.clock.advance(MINUTE)
    mine = await post.claim_batch()
    first, second = attempt_results(mine, failure=None)
    stale = attempt_results(late, failure=None)[1]
    assert await deliveries.settle_results(post.ports, [first, stale], [late]) == {mine.claim: ()}
    statuses = [delivery.status for delivery, _ in await post.deliveries_with_attempts(endpoint)]
    assert sorted(statuses) == [PENDING, DeliveryStatus.SUCCEEDED]
    assert await deliveries.settle_results(post.ports, [second], [mine]) == {mine.claim: ()}
    statuses = [delivery.status for delivery, _ in await post.deliveries_with_attempts(endpoint)]
    assert statuses == [DeliveryStatus.SUCCEEDED, DeliveryStatus.SUCCEEDED]


async def test_a_late_end_of_a_turn_ends_no_other(
    post: WebhookScenario, endpoint: WebhookEndpoint
) -> None:
    """Releasing a lost claim keeps the current one."""
    await add_delivery(post.ports.store, endpoint)
    late = await post.claim_batch()
    post.clock.advance(MINUTE)
    await post.claim_batch()
    await deliveries.settle_results(post.ports, [], [late])
    assert await deliveries.claim_batches(post.ports, 10, degraded=False) == []


async def test_to_settle_twice_is_to_settle_once(
    post: WebhookScenario, endpoint: WebhookEndpoint
) -> None:
    """Settling the same outcome twice saves it once."""
    await add_delivery(post.ports.store, endpoint)
    turn = await post.claim_batch()
    for _ in range(2):
        assert await deliveries.settle_results(post.ports, attempt_results(turn)) == {
            turn.claim: ()
        }
    [(delivery, attempts)] = await post.deliveries_with_attempts(endpoint)
    assert (delivery.tries, len(attempts)) == (1, 1)
    assert (await post.reload_endpoint(endpoint)).failed == 1


async def test_a_batch_goes_on(post: WebhookScenario, endpoint: WebhookEndpoint) -> None:
    """With its outcomes settled, a batch that is to go on has what is due after its last delivery;
    its claim stays."""
    for _ in range(20):
        await add_delivery(post.ports.store, endpoint)
    turn = await post.claim_batch()
    results = attempt_results(turn, failure=None)
    last = {turn.claim: results[-1].delivery}
    continued = await deliveries.settle_results(post.ports, results[:3], [], last)
    ids = [due.delivery.id for due in continued[turn.claim]]
    assert ids == [results[-1].delivery.id + n for n in range(1, 5)]
    assert await deliveries.claim_batches(post.ports, 10, degraded=False) == []


async def test_a_batch_without_its_claim_does_not_go_on(
    post: WebhookScenario, endpoint: WebhookEndpoint
) -> None:
    """A batch whose claim is lost, or whose endpoint is paused, gets nothing more."""
    for _ in range(20):
        await add_delivery(post.ports.store, endpoint)
    lost = await post.claim_batch()
    post.clock.advance(MINUTE)
    mine = await post.claim_batch()
    last = {turn.claim: turn.due_deliveries[-1].delivery for turn in (lost, mine)}
    assert (await deliveries.settle_results(post.ports, [], [], last)).keys() == {mine.claim}
    await post.pause_endpoint(endpoint)
    assert await deliveries.settle_results(post.ports, [], [], last) == {}


async def test_many_endpoints_are_settled_at_once(post: WebhookScenario) -> None:
    """Outcomes of several endpoints are saved in their order."""
    made = [await post.add_endpoint() for _ in range(3)]
    for endpoint in made:
        await add_delivery(post.ports.store, endpoint)
    turns = await deliveries.claim_batches(post.ports, 10, degraded=False)
    sent = [
        *attempt_results(turns[0], failure=None),
        *attempt_results(turns[1]),
        *attempt_results(turns[2], failure=None),
    ]
    await deliveries.settle_results(post.ports, sent, turns)
    found = [(await post.newest_delivery(endpoint)).status for endpoint in made]
    assert found == [DeliveryStatus.SUCCEEDED, PENDING, DeliveryStatus.SUCCEEDED]
    assert await deliveries.claim_batches(post.ports, 10, degraded=False) == []
