"""Held deliveries of endpoints that are disabled, paused or without a subscription."""

from __future__ import annotations

from datetime import timedelta

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import DAY, HOUR, NOW, SECOND, add_subscriber
from staffbooking_adapters.testing.builders_webhooks import add_delivery, add_endpoint
from staffbooking_core.domain.accounts.users import Subscription
from staffbooking_core.domain.webhooks.deliveries import (
    AttemptOutcome,
    Delivery,
    DeliveryStatus,
    WebhookEndpoint,
)
from staffbooking_core.ports import NotificationKind
from staffbooking_core.usecases.accounts import administration
from staffbooking_core.usecases.bookings import disabling
from staffbooking_core.usecases.notifications import notifications
from staffbooking_core.usecases.webhooks import deliveries, delivery_log, endpoints
from tests.support.webhook_deployment import WebhookScenario, attempt_results

pytestmark = pytest.mark.anyio

TICK = timedelta.resolution
HELD = DeliveryStatus.HELD


# Disabling --------------------------------------------------------------------------------


async def exhaust(post: WebhookScenario, endpoint: WebhookEndpoint) -> None:
    """Let one more delivery fail for good."""
    await add_delivery(post.ports.store, endpoint, next_at=post.clock.wall())
    await post.deliver_until_exhausted()


async def test_the_tenth_failure_in_a_row_disables(
    post: WebhookScenario, endpoint: WebhookEndpoint
) -> None:
    """The tenth consecutive failure disables the endpoint and notifies the owner once."""
    for _ in range(9):
        await exhaust(post, endpoint)
    assert (await post.reload_endpoint(endpoint)).active
    await exhaust(post, endpoint)
    after = await post.reload_endpoint(endpoint)
    assert (after.active, after.consecutive_failures) == (False, 10)
    assert after.disabled_at is not None
    assert after.disabled_reason == "10 deliveries in a row failed"
    assert await notifications.send_notifications(post.ports) == 1
    assert await notifications.send_notifications(post.ports) == 0
    [letter] = post.emails
    assert (letter.user_id, letter.kind) == (endpoint.owner_id, NotificationKind.WEBHOOK_DISABLED)
    assert f"endpoint {endpoint.id}" in letter.text


async def test_a_success_between_starts_the_count_anew(
    post: WebhookScenario, endpoint: WebhookEndpoint
) -> None:
    """A success resets the count of failures."""
    for _ in range(9):
        await exhaust(post, endpoint)
    post.set_response(endpoint, 200)
    await exhaust(post, endpoint)
    post.sender.receivers.clear()
    for _ in range(9):
        await exhaust(post, endpoint)
    after = await post.reload_endpoint(endpoint)
    assert (after.active, after.consecutive_failures) == (True, 9)


async def about_to_be_disabled(post: WebhookScenario) -> tuple[WebhookEndpoint, Delivery, Delivery]:
    """An endpoint one failure before it is disabled, with another due delivery."""
    endpoint = await post.add_endpoint(consecutive_failures=9)
    last = await add_delivery(post.ports.store, endpoint, attempts=3, tries=3)
    return endpoint, last, await add_delivery(post.ports.store, endpoint)


async def test_what_is_pending_is_held_when_it_is_disabled(post: WebhookScenario) -> None:
    """Disabling holds the remaining deliveries, also in the same batch."""
    endpoint, last, behind = await about_to_be_disabled(post)
    assert await post.deliver() == 1
    assert len(post.sent) == 1
    (held, attempts), (failed, _) = await post.deliveries_with_attempts(endpoint)
    assert (failed.id, failed.status) == (last.id, DeliveryStatus.FAILED)
    assert (held.id, held.status, held.next_at, attempts) == (behind.id, HELD, NOW, [])


async def test_what_was_in_flight_then_is_logged(post: WebhookScenario) -> None:
    """The outcome of a delivery in flight is saved although it is held."""
    endpoint, _, _ = await about_to_be_disabled(post)
    turn = await post.claim_batch()
    last, behind = attempt_results(turn)
    assert await deliveries.settle_results(post.ports, [last]) == {}
    assert await post.delivery_statuses(endpoint) == [HELD, DeliveryStatus.FAILED]
    done = evolve(behind, outcome=AttemptOutcome(NOW, NOW, 200))
    assert await deliveries.settle_results(post.ports, [done], [turn]) == {}
    assert await post.delivery_statuses(endpoint) == [
        DeliveryStatus.SUCCEEDED,
        DeliveryStatus.FAILED,
    ]


async def test_what_was_held_is_sent_when_it_is_enabled(post: WebhookScenario) -> None:
    """Enabling sends overdue held deliveries at once."""
    endpoint, _, _ = await about_to_be_disabled(post)
    await post.deliver()
    post.set_response(endpoint, 200)
    post.clock.advance(DAY)
    assert await post.deliver() == 0
    await endpoints.enable_endpoint(post.ports, None, endpoint.id)
    assert await post.deliver() == 1
    assert (await post.newest_delivery(endpoint)).status is DeliveryStatus.SUCCEEDED


async def test_a_failed_redelivery_disables_nothing(
    post: WebhookScenario, endpoint: WebhookEndpoint
) -> None:
    """Failed redeliveries do not count for the endpoint."""
    await exhaust(post, endpoint)
    await delivery_log.redeliver(post.ports, None, (await post.newest_delivery(endpoint)).id)
    await post.deliver_until_exhausted()
    [(delivery, attempts)] = await post.deliveries_with_attempts(endpoint)
    assert (delivery.status, len(attempts)) == (DeliveryStatus.FAILED, 8)
    assert (await post.reload_endpoint(endpoint)).consecutive_failures == 1


# Holding ----------------------------------------------------------------------------------


async def test_a_pause_shortens_no_wait(post: WebhookScenario, endpoint: WebhookEndpoint) -> None:
    """A resumed retry keeps its due time and its count."""
    await add_delivery(post.ports.store, endpoint)
    await post.deliver()
    post.clock.advance(SECOND)
    await post.deliver()
    await post.pause_endpoint(endpoint)
    assert (await post.newest_delivery(endpoint)).status is HELD
    await endpoints.enable_endpoint(post.ports, None, endpoint.id)
    post.clock.advance(4 * SECOND - TICK)
    assert await post.deliver() == 0
    post.clock.advance(TICK)
    assert await post.deliver() == 1
    delivery = await post.newest_delivery(endpoint)
    assert delivery.next_at == post.clock.wall() + 16 * SECOND


async def test_a_lost_subscription_holds_deliveries(post: WebhookScenario) -> None:
    """Deliveries are held without a subscription and sent with a new one."""
    owner = await add_subscriber(post.ports.store, subscription_expires_at=NOW + HOUR)
    endpoint = await post.add_endpoint(owner=owner)
    post.set_response(endpoint, 200)
    await add_delivery(post.ports.store, endpoint, next_at=NOW + HOUR)
    post.clock.advance(HOUR)
    assert await post.deliver() == 0
    assert (await post.newest_delivery(endpoint)).status is HELD
    assert await deliveries.resume_held_deliveries(post.ports) == 0

    await administration.set_subscription(post.ports, owner.email, Subscription.ENTERPRISE, None)
    assert await deliveries.resume_held_deliveries(post.ports) == 1
    assert await post.deliver() == 1
    assert (await post.newest_delivery(endpoint)).status is DeliveryStatus.SUCCEEDED


async def test_a_locked_account_is_not_sent_to(
    post: WebhookScenario, endpoint: WebhookEndpoint
) -> None:
    """Deliveries of a disabled owner are held until the account is enabled."""
    owner = await post.owner_of(endpoint)
    await add_delivery(post.ports.store, endpoint)
    await disabling.disable_user(post.ports, owner.email)
    assert await post.deliver() == 0
    assert (await post.newest_delivery(endpoint)).status is HELD
    await administration.enable_user(post.ports, owner.email)
    assert await deliveries.resume_held_deliveries(post.ports) == 1
    assert await post.deliver() == 1


async def test_a_paused_endpoint_is_not_resumed_by_itself(
    post: WebhookScenario, endpoint: WebhookEndpoint
) -> None:
    """A paused endpoint is resumed only by its owner."""
    await add_delivery(post.ports.store, endpoint)
    await post.pause_endpoint(endpoint)
    assert await deliveries.resume_held_deliveries(post.ports) == 0
    assert await post.deliver() == 0


async def test_every_page_of_held_endpoints_is_resumed(
    post: WebhookScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All endpoints that may be served again are resumed, over several pages."""
    monkeypatch.setattr(deliveries, "ENDPOINT_PAGE_SIZE", 2)
    for _ in range(5):
        endpoint = await add_endpoint(post.ports.store)
        await add_delivery(post.ports.store, endpoint, status=HELD, held_at=NOW)
    assert await deliveries.resume_held_deliveries(post.ports) == 5


async def test_what_is_held_for_a_week_is_given_up(
    post: WebhookScenario, endpoint: WebhookEndpoint
) -> None:
    """A delivery held for a week is cancelled and not sent later."""
    await add_delivery(post.ports.store, endpoint)
    await post.pause_endpoint(endpoint)
    post.clock.advance(7 * DAY - TICK)
    assert await deliveries.cancel_held_deliveries(post.ports) == 0
    post.clock.advance(2 * TICK)
    assert await deliveries.cancel_held_deliveries(post.ports) == 1
    await endpoints.enable_endpoint(post.ports, None, endpoint.id)
    assert await post.deliver() == 0
    assert (await post.newest_delivery(endpoint)).status is DeliveryStatus.CANCELLED
