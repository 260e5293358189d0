"""A whole service in memory for tests: people who book, a fake processor, receivers of webhooks."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from attrs import define, field, frozen

from staffbooking_adapters.memory.doubles import VirtualClock
from staffbooking_adapters.memory.webhooks.receivers import MemorySender
from staffbooking_adapters.testing.builders import DAY, TODAY, add_companion, add_subscriber
from staffbooking_core.domain.accounts.users import Actor, Role, Subscription, User
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import EventName
from staffbooking_core.inputs import CreateWebhook, RequestBooking
from staffbooking_core.ports import Ports
from staffbooking_core.usecases import sandbox
from staffbooking_core.usecases.accounts.administration import set_subscription
from staffbooking_core.usecases.bookings import actions, requests
from staffbooking_core.usecases.due_work import run_all_due
from staffbooking_core.usecases.webhooks.endpoints import register_endpoint
from staffbooking_core.webhook_receiver import (
    Envelope,
    WebhookReceiver,
    WebhookRefused,
    booking_code,
)

__all__ = ["Receiver", "Service", "add_receiver", "make_booking_request", "make_service"]


@define
class Receiver:
    """A receiver of webhooks that verifies signatures, and ignores duplicates."""

    url: str
    _verifier: WebhookReceiver
    _clock: VirtualClock
    status: int = 204
    """What it answers; from 300 on it has not processed the event, which comes again."""
    received: list[Envelope] = field(factory=list)
    """The events that it processed, the oldest first."""

    def __call__(self, headers: Mapping[str, str], body: bytes) -> int:
        try:
            event = self._verifier.receive(headers, body, self._clock.wall().timestamp())
        except WebhookRefused:
            return 400
        if self.status < 300 and not event.is_duplicate:
            self._verifier.mark_processed(event)
            self.received.append(event.envelope)
        return self.status

    def events(self, booking: Booking) -> list[str]:
        """The names of the events of a booking that it processed, the oldest first."""
        return [each["event"] for each in self.received if booking_code(each) == booking.code]


@frozen
class Service:
    """Ports in memory with one customer and one companion, each with a receiver of webhooks. Events
    of payouts go to the companion's.

    The companion costs 100.00 an hour and is always free. Nothing is due by itself: `run_due`
    does what a worker would, and `clock.advance` moves time.
    """

    ports: Ports
    clock: VirtualClock
    customer: Actor
    companion: Actor
    receiver: Receiver
    """The customer's."""
    companion_receiver: Receiver

    async def run_due(self) -> None:
        """Do all work that is due now: events, payments, timers, webhooks, mails."""
        await run_all_due(self.ports)

    async def booking(self, booking: Booking) -> Booking:
        """A booking as it is stored now."""
        return await actions.get_by_code(self.ports, booking.code)

    async def request(self, **fields: Any) -> Booking:
        """Request four hours, three days from now at 12:00, unless other fields are given."""
        now = await self.ports.clock.business()
        defaults = {"companion_id": self.companion.user_id, "event_date": now.date() + 3 * DAY}
        wanted = make_booking_request(**{**defaults, **fields})
        return await requests.request_booking(self.ports, self.customer, wanted)

    async def accept(self, booking: Booking) -> Booking:
        return await actions.accept(self.ports, self.companion, booking.id)

    async def pay(self, booking: Booking, outcome: str = "succeed") -> Booking:
        """Act on the hosted page as the customer (succeed, decline, expire, challenge), and do
        what is due then. Raises TypeError without the fake processor."""
        if self.ports.sandbox is None:
            name = type(self.ports.payments).__name__
            raise TypeError(
                f"service.pay acts on the pages of the fake processor, and payments is {name}: pay "
                "the page of actions.open_checkout there, then call service.run_due()"
            )
        _, url, _ = await actions.open_checkout(self.ports, self.customer, booking.id)
        await sandbox.simulate_checkout(self.ports, url.rpartition("/")[2], outcome)
        await self.run_due()
        return await self.booking(booking)

    async def pass_time(self, duration: timedelta) -> None:
        """Advance the clock, and do what is due then."""
        self.clock.advance(duration)
        await self.run_due()

    async def finish(self, booking: Booking) -> Booking:
        """Let the event take place and the booking complete by itself, and pay the companion."""
        policy, now = self.ports.policy, await self.ports.clock.business()
        await self.pass_time(max(booking.ends_at - now, timedelta()) + policy.auto_complete_after)
        await self.pass_time(policy.payout_delay)
        return await self.booking(booking)


def make_booking_request(companion_id: int, **given: Any) -> RequestBooking:
    """A request for a gala dinner of four hours, three days after NOW at noon."""
    defaults: dict[str, Any] = {
        "companion_id": companion_id,
        "event_date": TODAY + 3 * DAY,
        "start_time": "12:00",
        "duration_hours": 4,
        "service_type": "Gala dinner",
        "location": "Rua Augusta 1, Lisbon",
    }
    return RequestBooking(**{**defaults, **given})


async def make_service(ports: Ports) -> Service:
    """A service on ports of `memory_ports(now=…)`, whose doubles it needs."""
    assert isinstance(ports.clock, VirtualClock)
    customer = await add_subscriber(ports.store)
    companion = await add_companion(ports.store)
    async with ports.store.read_view() as view:
        staff = await view.accounts.user(companion.id)
    assert staff is not None
    staff = await set_subscription(ports, staff.email, Subscription.ENTERPRISE)
    return Service(
        ports,
        ports.clock,
        Actor(customer.id, customer.role),
        Actor(companion.id, Role.STAFF),
        await add_receiver(ports, customer, "https://customer.example/hooks"),
        await add_receiver(ports, staff, "https://companion.example/hooks"),
    )


async def add_receiver(ports: Ports, owner: User, url: str) -> Receiver:
    """Register an endpoint for all events, with a receiver in this process."""
    clock, sender = ports.clock, ports.webhook_sender
    assert isinstance(clock, VirtualClock)
    assert isinstance(sender, MemorySender)
    wanted = CreateWebhook(url=url, events=tuple(EventName))
    _, secret = await register_endpoint(ports, owner, wanted)
    receiver = Receiver(url, WebhookReceiver([secret]), clock)
    sender.receivers[url] = receiver
    return receiver
