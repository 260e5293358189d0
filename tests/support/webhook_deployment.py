"""A deployment with webhook receivers in the same process and a virtual clock."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from attrs import frozen

from staffbooking_adapters.memory.doubles import RecordingNotifier, VirtualClock
from staffbooking_adapters.memory.webhooks.receivers import MemorySender, SentWebhook as Request
from staffbooking_adapters.testing.builders import NOW, SECOND
from staffbooking_adapters.testing.builders_webhooks import add_endpoint
from staffbooking_core.domain.accounts.users import User
from staffbooking_core.domain.webhooks.deliveries import (
    AttemptOutcome,
    Delivery,
    DeliveryAttempt,
    DeliveryFailure,
    DeliveryStatus,
    WebhookEndpoint,
)
from staffbooking_core.inputs import ChangeWebhook
from staffbooking_core.ports import Email, EndpointBatch, Ports
from staffbooking_core.usecases.webhooks import deliveries, endpoints
from staffbooking_core.usecases.webhooks.deliveries import DeliveryResult
from tests.support.memory_deployment import memory_ports

RETRY_DELAYS = (1 * SECOND, 4 * SECOND, 16 * SECOND)
"""The delays before the retries (CONTRACT 7)."""


@frozen
class WebhookScenario:
    ports: Ports
    clock: VirtualClock
    sender: MemorySender

    # Actions ----------------------------------------------------------------------------

    async def add_endpoint(self, **given: Any) -> WebhookEndpoint:
        """Add an endpoint with a sealed secret and no receiver yet."""
        return await add_endpoint(self.ports.store, vault=self.ports.vault, **given)

    def set_response(
        self,
        endpoint: WebhookEndpoint,
        status: int | DeliveryFailure,
        duration: timedelta = 0 * SECOND,
    ) -> None:
        """Set the response of an endpoint's receiver; requests advance the clock by `duration`."""

        def receive(_: Any, body: bytes) -> int | DeliveryFailure:
            self.clock.advance(duration)
            return status

        self.sender.receivers[endpoint.url] = receive

    async def deliver(self) -> int:
        """Send all due deliveries and return the number of attempts."""
        return await deliveries.deliver_all_due(self.ports)

    async def deliver_until_exhausted(self) -> None:
        """Send due deliveries and wait for their retries."""
        for wait in (*RETRY_DELAYS, SECOND):
            await self.deliver()
            self.clock.advance(wait)

    async def pause_endpoint(self, endpoint: WebhookEndpoint) -> None:
        owner = await self.owner_of(endpoint)
        await endpoints.update_endpoint(self.ports, owner, endpoint.id, ChangeWebhook(active=False))

    async def claim_batch(self) -> EndpointBatch:
        """Claim the batch of the only endpoint with due deliveries."""
        [batch] = await deliveries.claim_batches(self.ports, 10, degraded=False)
        return batch

    async def save_endpoint(self, endpoint: WebhookEndpoint) -> None:
        await self.ports.store.run_transaction(lambda tx: tx.webhooks.save_endpoints([endpoint]))

    # Reading ----------------------------------------------------------------------------

    @property
    def sent(self) -> list[Request]:
        return self.sender.sent

    @property
    def emails(self) -> list[Email]:
        assert isinstance(self.ports.notifier, RecordingNotifier)
        return self.ports.notifier.emails

    async def owner_of(self, endpoint: WebhookEndpoint) -> User:
        async with self.ports.store.read_view() as view:
            found = await view.accounts.user(endpoint.owner_id)
        assert found is not None
        return found

    async def reload_endpoint(self, endpoint: WebhookEndpoint) -> WebhookEndpoint:
        """The stored endpoint."""
        async with self.ports.store.read_view() as view:
            found = await view.webhooks.endpoint(endpoint.id)
        assert found is not None
        return found

    async def deliveries_with_attempts(
        self, endpoint: WebhookEndpoint
    ) -> list[tuple[Delivery, list[DeliveryAttempt]]]:
        """The deliveries to an endpoint with their attempts, the newest first."""
        async with self.ports.store.read_view() as view:
            found = await view.webhooks.deliveries(endpoint.id, 1, 10_000)
        return [(delivery, list(attempts)) for delivery, attempts in found]

    async def newest_delivery(self, endpoint: WebhookEndpoint) -> Delivery:
        return (await self.deliveries_with_attempts(endpoint))[0][0]

    async def delivery_statuses(self, endpoint: WebhookEndpoint) -> list[DeliveryStatus]:
        return [delivery.status for delivery, _ in await self.deliveries_with_attempts(endpoint)]


def attempt_results(
    batch: EndpointBatch, failure: DeliveryFailure | None = DeliveryFailure.TIMEOUT
) -> list[DeliveryResult]:
    """Results of all deliveries of a batch after one second: the failure, or a success if None."""
    status = 200 if failure is None else None
    return [
        DeliveryResult(batch, due.delivery, AttemptOutcome(NOW, NOW + SECOND, status, failure))
        for due in batch.due_deliveries
    ]


def make_webhook_scenario(**ports: Any) -> WebhookScenario:
    """A scenario with ports in memory; given ports replace them."""
    made = memory_ports(**ports)
    assert isinstance(made.clock, VirtualClock)
    assert isinstance(made.webhook_sender, MemorySender)
    return WebhookScenario(made, made.clock, made.webhook_sender)
