"""Deliveries on request: test events and redeliveries."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from attrs import evolve

from staffbooking_adapters.memory.webhooks.receivers import MemorySender
from staffbooking_adapters.testing.builders import DAY, NOW, SECOND, make_user
from staffbooking_adapters.testing.builders_webhooks import add_delivery
from staffbooking_core.domain.webhooks.deliveries import (
    Delivery,
    DeliveryAttempt,
    DeliveryFailure,
    DeliveryStatus,
    WebhookEndpoint,
)
from staffbooking_core.errors import NotFound
from staffbooking_core.usecases.webhooks import delivery_log, endpoints
from tests.support.webhook_deployment import RETRY_DELAYS, WebhookScenario

pytestmark = pytest.mark.anyio

PENDING, HELD, CANCELLED = DeliveryStatus.PENDING, DeliveryStatus.HELD, DeliveryStatus.CANCELLED
SUCCEEDED, FAILED = DeliveryStatus.SUCCEEDED, DeliveryStatus.FAILED
DONE = (SUCCEEDED, FAILED, CANCELLED)


# Tests ------------------------------------------------------------------------------------


async def test_a_tests_success_sets_the_count_to_zero(post: WebhookScenario) -> None:
    """A successful test event resets the failure count and changes nothing else."""
    endpoint = await post.add_endpoint(consecutive_failures=9)
    post.set_response(endpoint, 200, duration=2 * SECOND)
    logged = await delivery_log.send_test_event(
        post.ports, await post.owner_of(endpoint), endpoint.id
    )
    assert await post.reload_endpoint(endpoint) == evolve(endpoint, consecutive_failures=0)
    attempt = DeliveryAttempt(1, NOW, 2000, 200)
    assert (logged.delivery.status, logged.attempts) == (SUCCEEDED, [attempt])
    assert await post.deliveries_with_attempts(endpoint) == [(logged.delivery, [attempt])]


@pytest.mark.parametrize("answer", [500, 302, DeliveryFailure.TIMEOUT])
async def test_a_tests_failure_counts_nowhere(
    post: WebhookScenario, answer: int | DeliveryFailure
) -> None:
    """A failed test event is not counted and not retried."""
    endpoint = await post.add_endpoint(consecutive_failures=9)
    post.set_response(endpoint, answer)
    owner = await post.owner_of(endpoint)
    for _ in range(3):
        logged = await delivery_log.send_test_event(post.ports, owner, endpoint.id)
        assert (logged.delivery.status, logged.delivery.next_at) == (FAILED, None)
    await post.deliver_until_exhausted()
    assert await post.reload_endpoint(endpoint) == endpoint
    assert len(post.sent) == 3


async def test_nobody_tests_what_is_not_theirs(
    post: WebhookScenario, endpoint: WebhookEndpoint
) -> None:
    """A test of another user's endpoint sends and logs nothing."""
    with pytest.raises(NotFound):
        await delivery_log.send_test_event(
            post.ports, make_user(id=endpoint.owner_id + 1), endpoint.id
        )
    assert (post.sent, await post.deliveries_with_attempts(endpoint)) == ([], [])


class Meanwhile(MemorySender):
    """A sender that runs a callback first and then fails."""

    def __init__(self, work: Callable[[], Awaitable[None]]) -> None:
        super().__init__()
        self.work = work

    async def send(self, *_: Any) -> DeliveryFailure:
        await self.work()
        return DeliveryFailure.TIMEOUT


async def test_a_test_under_way_is_logged_as_cancelled(
    post: WebhookScenario, endpoint: WebhookEndpoint
) -> None:
    """A test event in flight is stored as cancelled, and no worker sends it."""

    async def look() -> None:
        ((delivery, attempts),) = await post.deliveries_with_attempts(endpoint)
        assert (delivery.status, attempts) == (CANCELLED, [])
        assert await post.deliver() == 0

    ports = evolve(post.ports, webhook_sender=Meanwhile(look))
    await delivery_log.send_test_event(ports, await post.owner_of(endpoint), endpoint.id)
    assert await post.delivery_statuses(endpoint) == [FAILED]


async def test_a_test_may_be_sent_again_while_under_way(
    post: WebhookScenario, endpoint: WebhookEndpoint
) -> None:
    """A redelivery during a test is kept, and the test's attempt is logged."""
    owner = await post.owner_of(endpoint)
    post.set_response(endpoint, 200)

    async def send_again() -> None:
        delivery = await post.newest_delivery(endpoint)
        await delivery_log.redeliver(post.ports, owner, delivery.id)
        await post.deliver()

    ports = evolve(post.ports, webhook_sender=Meanwhile(send_again))
    logged = await delivery_log.send_test_event(ports, owner, endpoint.id)
    assert [attempt.error for attempt in logged.attempts] == [DeliveryFailure.TIMEOUT]
    ((delivery, attempts),) = await post.deliveries_with_attempts(endpoint)
    assert (delivery.status, delivery.attempts) == (SUCCEEDED, 2)
    assert [(attempt.number, attempt.error) for attempt in attempts] == [
        (1, None),
        (2, DeliveryFailure.TIMEOUT),
    ]


async def test_a_test_outlives_its_endpoint(
    post: WebhookScenario, endpoint: WebhookEndpoint
) -> None:
    """An endpoint deleted during a test stays deleted."""
    owner = await post.owner_of(endpoint)
    sender = Meanwhile(lambda: endpoints.delete_endpoint(post.ports, owner, endpoint.id))
    await delivery_log.send_test_event(
        evolve(post.ports, webhook_sender=sender), owner, endpoint.id
    )
    assert (await post.reload_endpoint(endpoint)).deleted_at == NOW


# Redelivery -------------------------------------------------------------------------------


async def redeliver(post: WebhookScenario, delivery: Delivery) -> Delivery:
    return (await delivery_log.redeliver(post.ports, None, delivery.id)).delivery


@pytest.mark.parametrize("status", DONE)
async def test_what_is_done_is_sent_once_more(
    post: WebhookScenario, endpoint: WebhookEndpoint, status: DeliveryStatus
) -> None:
    """A finished delivery is sent again with all retries, and its attempt numbers continue."""
    post.set_response(endpoint, 500)
    delivery = await add_delivery(
        post.ports.store, endpoint, status=status, next_at=None, attempts=4, tries=4
    )
    post.clock.advance(DAY)
    again = await redeliver(post, delivery)
    assert (again.status, again.next_at, again.tries) == (PENDING, NOW + DAY, 0)
    await post.deliver_until_exhausted()
    assert [sent.headers["X-Webhook-Attempt"] for sent in post.sent] == ["5", "6", "7", "8"]
    assert await post.delivery_statuses(endpoint) == [FAILED]


async def test_what_is_pending_keeps_its_time(
    post: WebhookScenario, endpoint: WebhookEndpoint
) -> None:
    """Redelivering a pending delivery changes nothing."""
    post.set_response(endpoint, 500)
    delivery = await add_delivery(post.ports.store, endpoint)
    await post.deliver()
    waiting = await post.newest_delivery(endpoint)
    assert await redeliver(post, delivery) == waiting
    assert await post.deliver() == 0
    post.clock.advance(RETRY_DELAYS[0])
    assert await post.deliver() == 1


@pytest.mark.parametrize("status", [HELD, *DONE])
async def test_at_a_paused_endpoint_it_is_held(
    post: WebhookScenario, status: DeliveryStatus
) -> None:
    """A redelivery to a paused endpoint is held."""
    endpoint = await post.add_endpoint(active=False)
    delivery = await add_delivery(post.ports.store, endpoint, status=status)
    assert (await redeliver(post, delivery)).status is HELD
    assert await post.deliver() == 0
    await endpoints.enable_endpoint(post.ports, None, endpoint.id)
    assert await post.deliver() == 1


async def test_only_the_owner_and_operators_send_again(
    post: WebhookScenario, endpoint: WebhookEndpoint
) -> None:
    """Other users and other endpoints get the same NotFound."""
    delivery = await add_delivery(post.ports.store, endpoint, status=SUCCEEDED)
    owner, stranger = await post.owner_of(endpoint), make_user(id=endpoint.owner_id + 1)
    told = set()
    for user, wanted, named in (
        (stranger, delivery.id, endpoint.id),
        (stranger, delivery.id, None),
        (owner, delivery.id, endpoint.id + 1),
        (owner, delivery.id + 1, endpoint.id),
        (None, delivery.id + 1, None),
    ):
        with pytest.raises(NotFound) as caught:
            await delivery_log.redeliver(post.ports, user, wanted, named)
        told.add(str(caught.value))
    assert told == {"Delivery not found"}
    logged = await delivery_log.redeliver(post.ports, owner, delivery.id, endpoint.id)
    assert logged.delivery.status is PENDING
