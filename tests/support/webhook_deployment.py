"""A deployment whose webhooks go to receivers in the same process, on virtual time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from attrs import frozen

from staffbooking_adapters.memory.doubles import RecordingNotifier, VirtualClock
from staffbooking_adapters.memory.webhooks.receivers import MemorySender, Sent as Request
from staffbooking_core.domain.accounts.users import User
from staffbooking_core.domain.webhooks.deliveries import (
    Attempt,
    Delivery,
    DeliveryStatus,
    Endpoint,
    Failure,
    Outcome,
)
from staffbooking_core.inputs import ChangeWebhook
from staffbooking_core.ports import Letter, Ports, Turn
from staffbooking_core.usecases.webhooks import deliveries, endpoints
from staffbooking_core.usecases.webhooks.deliveries import Sent
from tests.support.builders import NOW, SECOND
from tests.support.memory_deployment import memory_ports
from tests.support.webhooks import add_endpoint

WAITS = (1 * SECOND, 4 * SECOND, 16 * SECOND)
"""Before the retries (CONTRACT 7)."""


@frozen
class Post:
    ports: Ports
    clock: VirtualClock
    sender: MemorySender

    # Acting -----------------------------------------------------------------------------

    async def endpoint(self, **given: Any) -> Endpoint:
        """One with a sealed secret, where nobody listens yet."""
        return await add_endpoint(self.ports.store, vault=self.ports.vault, **given)

    def answer(
        self, endpoint: Endpoint, status: int | Failure, takes: timedelta = 0 * SECOND
    ) -> None:
        """Let an endpoint's receiver answer so from now on, after some time."""

        def receive(_: Any, body: bytes) -> int | Failure:
            self.clock.advance(takes)
            return status

        self.sender.receivers[endpoint.url] = receive

    async def deliver(self) -> int:
        """Send all that is due; how many attempts were made."""
        return await deliveries.deliver_due(self.ports)

    async def deliver_to_the_end(self) -> None:
        """Send what is due, and wait for the retries."""
        for wait in (*WAITS, SECOND):
            await self.deliver()
            self.clock.advance(wait)

    async def pause(self, endpoint: Endpoint) -> None:
        owner = await self.owner_of(endpoint)
        await endpoints.change(self.ports, owner, endpoint.id, ChangeWebhook(active=False))

    async def claim(self) -> Turn:
        """The turn of the one endpoint that has work."""
        [turn] = await deliveries.claim(self.ports, 10, troubled=False)
        return turn

    async def save(self, endpoint: Endpoint) -> None:
        await self.ports.store.write(lambda tx: tx.webhooks.save_endpoints([endpoint]))

    # Looking ----------------------------------------------------------------------------

    @property
    def sent(self) -> list[Request]:
        return self.sender.sent

    @property
    def letters(self) -> list[Letter]:
        assert isinstance(self.ports.notifier, RecordingNotifier)
        return self.ports.notifier.letters

    async def owner_of(self, endpoint: Endpoint) -> User:
        async with self.ports.store.reading() as view:
            found = await view.accounts.user(endpoint.owner_id)
        assert found is not None
        return found

    async def found(self, endpoint: Endpoint) -> Endpoint:
        """An endpoint as it is now."""
        async with self.ports.store.reading() as view:
            found = await view.webhooks.endpoint(endpoint.id)
        assert found is not None
        return found

    async def logged(self, endpoint: Endpoint) -> list[tuple[Delivery, list[Attempt]]]:
        """The deliveries to an endpoint with their attempts, the newest first."""
        async with self.ports.store.reading() as view:
            found = await view.webhooks.deliveries(endpoint.id, 1, 10_000)
        return [(delivery, list(attempts)) for delivery, attempts in found]

    async def newest(self, endpoint: Endpoint) -> Delivery:
        return (await self.logged(endpoint))[0][0]

    async def statuses(self, endpoint: Endpoint) -> list[DeliveryStatus]:
        return [delivery.status for delivery, _ in await self.logged(endpoint)]


def outcomes(turn: Turn, failure: Failure | None = Failure.TIMEOUT) -> list[Sent]:
    """What came of all deliveries of a turn: that failure, or a success, after a second."""
    status = 200 if failure is None else None
    return [
        Sent(turn, parcel.delivery, Outcome(NOW, NOW + SECOND, status, failure))
        for parcel in turn.parcels
    ]


def make_post(**ports: Any) -> Post:
    """A deployment in memory; any of its ports may be given instead."""
    made = memory_ports(**ports)
    assert isinstance(made.clock, VirtualClock)
    assert isinstance(made.sender, MemorySender)
    return Post(made, made.clock, made.sender)
