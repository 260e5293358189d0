"""Ordered endpoints: the events of a booking arrive in their sequence (CONTRACT 10)."""

from __future__ import annotations

import json

import pytest

from staffbooking_adapters.testing.builders import add_booking, add_companion
from staffbooking_adapters.testing.builders_webhooks import add_delivery, add_event
from staffbooking_core.domain.webhooks.deliveries import DeliveryStatus, WebhookEndpoint
from staffbooking_core.inputs import ChangeWebhook
from staffbooking_core.representations.webhooks import delivery_record
from staffbooking_core.usecases.webhooks import deliveries, endpoints
from tests.support.webhook_deployment import WebhookScenario

pytestmark = pytest.mark.anyio


async def add_booking_events(post: WebhookScenario, endpoint: WebhookEndpoint, count: int) -> None:
    """Publish events of a booking of the endpoint's owner."""
    store = post.ports.store
    owner = await post.owner_of(endpoint)
    booking = await add_booking(store, await add_companion(store), owner)
    for _ in range(count):
        await add_event(store, booking)
    await deliveries.publish_events(post.ports)


def sequences(post: WebhookScenario) -> list[int]:
    """The sequence numbers of the events that were sent, one for each attempt."""
    return [json.loads(sent.body)["sequence"] for sent in post.sent]


async def set_ordered(post: WebhookScenario, endpoint: WebhookEndpoint, ordered: bool) -> None:
    owner = await post.owner_of(endpoint)
    command = ChangeWebhook(ordered=ordered)
    assert (
        await endpoints.update_endpoint(post.ports, owner, endpoint.id, command)
    ).ordered is ordered


async def test_events_arrive_in_their_sequence(post: WebhookScenario) -> None:
    """The events of a booking are delivered one after the other."""
    endpoint = await post.add_endpoint(ordered=True)
    post.set_response(endpoint, 200)
    await add_booking_events(post, endpoint, 3)
    await post.deliver()
    assert [n - sequences(post)[0] for n in sequences(post)] == [0, 1, 2]


async def test_a_later_event_waits_for_the_retries(post: WebhookScenario) -> None:
    """After a failed attempt nothing of its booking is sent before its retry; after the last one
    the next event is."""
    endpoint = await post.add_endpoint(ordered=True)
    post.set_response(endpoint, 500)
    await add_booking_events(post, endpoint, 2)
    await post.deliver_until_exhausted()
    first, *rest = sequences(post)
    assert rest == [first, first, first, first + 1]
    waiting = await post.newest_delivery(endpoint)
    assert delivery_record(waiting, [])["status"] == "pending"


async def test_a_later_event_waits_for_a_retry_that_is_ordered(post: WebhookScenario) -> None:
    """An event that is published while an earlier one waits for its retry waits for it too."""
    endpoint = await post.add_endpoint(ordered=True)
    post.set_response(endpoint, 500)
    store, owner = post.ports.store, await post.owner_of(endpoint)
    booking = await add_booking(store, await add_companion(store), owner)
    for _ in range(2):
        await add_event(store, booking)
        await deliveries.publish_events(post.ports)
        await post.deliver()
    assert len(post.sent) == 1


async def test_another_booking_does_not_wait(post: WebhookScenario) -> None:
    """A failure delays only the events of its own booking."""
    endpoint = await post.add_endpoint(ordered=True)
    post.set_response(endpoint, 500)
    await add_booking_events(post, endpoint, 2)
    await post.deliver()
    post.set_response(endpoint, 200)
    await add_booking_events(post, endpoint, 2)
    assert await post.deliver() == 2


async def test_a_waiting_delivery_shows_as_pending_without_a_time(post: WebhookScenario) -> None:
    """The record of a waiting delivery is `pending`, without `next_attempt_at`."""
    endpoint = await post.add_endpoint(ordered=True)
    post.set_response(endpoint, 500)
    await add_booking_events(post, endpoint, 2)
    await post.deliver()
    record = delivery_record(await post.newest_delivery(endpoint), [])
    assert (record["status"], record["next_attempt_at"]) == ("pending", None)


async def test_without_order_nothing_waits(post: WebhookScenario) -> None:
    """When an endpoint is no longer ordered, its waiting deliveries are sent at once."""
    endpoint = await post.add_endpoint(ordered=True)
    post.set_response(endpoint, 500)
    await add_booking_events(post, endpoint, 3)
    await post.deliver()
    await set_ordered(post, endpoint, False)
    assert await post.deliver() == 2


async def test_order_may_be_asked_for_later(post: WebhookScenario) -> None:
    """When an endpoint becomes ordered, deliveries that are pending already wait in line."""
    endpoint = await post.add_endpoint()
    post.set_response(endpoint, 500)
    await add_booking_events(post, endpoint, 3)
    await set_ordered(post, endpoint, True)
    assert await post.deliver() == 1


async def test_what_waits_for_a_held_event_is_sent_once_that_is_given_up(
    post: WebhookScenario,
) -> None:
    """When an event is cancelled since it was held for a week, the next one of its booking is
    sent."""
    endpoint = await post.add_endpoint(ordered=True)
    post.set_response(endpoint, 200)
    store, owner = post.ports.store, await post.owner_of(endpoint)
    booking = await add_booking(store, await add_companion(store), owner)
    events = [await add_event(store, booking) for _ in range(2)]
    held_at = post.clock.wall() - post.ports.policy.webhook_held_retention
    await add_delivery(store, endpoint, events[0], status=DeliveryStatus.HELD, held_at=held_at)
    await deliveries.publish_events(post.ports)
    assert await post.deliver() == 0
    assert await deliveries.cancel_held_deliveries(post.ports) == 1
    assert await post.deliver() == 1
    assert sequences(post) == [events[1].sequence]


async def test_resumed_deliveries_keep_their_order(post: WebhookScenario) -> None:
    """Deliveries that were held while the endpoint was paused arrive in their sequence."""
    endpoint = await post.add_endpoint(ordered=True)
    post.set_response(endpoint, 200)
    await post.pause_endpoint(endpoint)
    await add_booking_events(post, endpoint, 3)
    owner = await post.owner_of(endpoint)
    await endpoints.enable_endpoint(post.ports, owner, endpoint.id)
    await post.deliver()
    assert [n - sequences(post)[0] for n in sequences(post)] == [0, 1, 2]
