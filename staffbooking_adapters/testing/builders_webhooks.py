"""Endpoints, events and deliveries with defaults, like the values of `builders`."""

from __future__ import annotations

from itertools import count
from typing import Any

from attrs import evolve, fields

from staffbooking_adapters.testing.builders import (
    NOW,
    TODAY,
    add_subscriber,
    make_booking,
    make_booking_write,
    make_companion,
    make_event,
    make_lease,
    make_new_user,
    next_revision,
)
from staffbooking_core.domain.accounts.users import Role, User
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.webhooks.deliveries import (
    WEBHOOK_EVENTS,
    Delivery,
    DeliveryAttempt,
    DeliveryStatus,
    EndpointSecrets,
    NewDelivery,
    PublishedEvent,
    WebhookEndpoint,
    sort_for_feed,
)
from staffbooking_core.ports import EndpointBatch, Lease, NewWebhookEndpoint, Store, Vault
from staffbooking_core.representations.events import DomainEvent
from staffbooking_core.usecases.webhooks.deliveries import WEBHOOK_SECRET_PURPOSE

ENDPOINT_SECRET = "whsec_c2VjcmV0IG9mIGFuIGVuZHBvaW50LCBvZiAzMiBieXRlcw=="

FINAL_STATUSES = (DeliveryStatus.SUCCEEDED, DeliveryStatus.FAILED, DeliveryStatus.CANCELLED)

_sequence = count(1)

_NEW_ENDPOINT_FIELDS = {part.name for part in fields(NewWebhookEndpoint)}
_NEW_DELIVERY_FIELDS = {part.name for part in fields(NewDelivery)}


def make_new_endpoint(owner_id: int = 1, **given: Any) -> NewWebhookEndpoint:
    """An endpoint for all events, with a unique host, to be registered."""
    defaults = {
        "owner_id": owner_id,
        "url": f"https://hooks{next(_sequence)}.example.com/in",
        "events": frozenset(WEBHOOK_EVENTS),
        "description": None,
        "created_at": NOW,
    }
    return NewWebhookEndpoint(**{**defaults, **given})


def make_endpoint(owner_id: int = 1, **given: Any) -> WebhookEndpoint:
    """An active endpoint of user 1; the id is 1."""
    new = make_new_endpoint(owner_id)
    registered = {name: getattr(new, name) for name in _NEW_ENDPOINT_FIELDS}
    return WebhookEndpoint(
        **{"id": 1, "secrets": EndpointSecrets(b"sealed"), **registered, **given}
    )


async def add_endpoint(
    store: Store,
    owner: User | None = None,
    *,
    vault: Vault | None = None,
    secret: str = ENDPOINT_SECRET,
    **given: Any,
) -> WebhookEndpoint:
    """An endpoint in the store; a missing owner is created as a subscriber. The secret is sealed if
    a vault is given."""
    owner = owner or await add_subscriber(store)
    new = make_new_endpoint(
        owner.id, **{name: given[name] for name in given.keys() & _NEW_ENDPOINT_FIELDS}
    )

    async def unit(tx: Any) -> WebhookEndpoint:
        added = await tx.webhooks.add_endpoint(new)
        sealed = secret.encode()
        if vault is not None:
            sealed = vault.seal(WEBHOOK_SECRET_PURPOSE, sealed, added.id)
        endpoint: WebhookEndpoint = evolve(added, **{"secrets": EndpointSecrets(sealed), **given})
        await tx.webhooks.save_endpoints([endpoint])
        return endpoint

    return await store.run_transaction(unit)


# Events -----------------------------------------------------------------------------------


async def add_event(store: Store, booking: Booking | None = None, **given: Any) -> DomainEvent:
    """An event without a position, committed with the next version of a booking, or with a new
    booking if none is given."""

    async def unit(tx: Any) -> DomainEvent:
        step = (
            await _add_booking_request(tx)
            if booking is None
            else await _next_booking_version(tx, booking)
        )
        event = make_event(step, **given)
        save = tx.bookings.add_booking if booking is None else tx.bookings.save_booking
        await save(make_booking_write(step, event=event))
        return event

    return await store.run_transaction(unit)


async def _add_booking_request(tx: Any) -> Booking:
    staff, customer = [
        await tx.accounts.add_user(make_new_user(role=role)) for role in (Role.STAFF, Role.CUSTOMER)
    ]
    await tx.companions.save_companion(make_companion(id=staff.id))
    context = await tx.bookings.request_context(staff.id, None, customer.id, TODAY)
    return make_booking(id=context.booking_id, companion_id=staff.id, customer_id=customer.id)


async def _next_booking_version(tx: Any, booking: Booking) -> Booking:
    found = await tx.bookings.lock_booking(booking.id)
    return next_revision(found, events=found.events + 1)


def published_event(event: DomainEvent) -> PublishedEvent:
    """The event in the form used to find its readers."""
    return PublishedEvent(event.id, event.booking_id, event.sequence, event.name, event.parties)


async def place_events(store: Store, limit: int = 1_000) -> list[PublishedEvent]:
    """Give committed events their positions in order, without deliveries."""

    async def unit(tx: Any) -> list[PublishedEvent]:
        last = await tx.webhooks.lock_feed()
        events = sort_for_feed(await tx.webhooks.unsequenced_events(limit))
        await tx.webhooks.save_feed_positions(
            [(event, last + n) for n, event in enumerate(events, start=1)]
        )
        return events

    return await store.run_transaction(unit)


# Deliveries -------------------------------------------------------------------------------


def make_new_delivery(
    endpoint_id: int = 1, about: DomainEvent | None = None, **given: Any
) -> NewDelivery:
    """A new delivery that is due at NOW; a held one is held since NOW, a finished one not due."""
    status = given.get("status", DeliveryStatus.PENDING)
    defaults = {
        "endpoint_id": endpoint_id,
        "event_id": f"evt_{next(_sequence):026d}" if about is None else about.id,
        "event": WEBHOOK_EVENTS[0] if about is None else about.name,
        "created_at": NOW,
        "status": status,
        "next_at": None if status in FINAL_STATUSES else NOW,
        "held_at": NOW if status is DeliveryStatus.HELD else None,
    }
    return NewDelivery(**{**defaults, **given})


def make_delivery(**given: Any) -> Delivery:
    """A pending delivery to endpoint 1, due at NOW and without attempts; the id is 1."""
    new = make_new_delivery()
    ordered = {name: getattr(new, name) for name in _NEW_DELIVERY_FIELDS}
    return Delivery(**{"id": 1, **ordered, **given})


async def add_delivery(
    store: Store, endpoint: WebhookEndpoint, event: DomainEvent | None = None, **given: Any
) -> Delivery:
    """A delivery in the store; a missing event is created. A pending delivery makes its endpoint
    due; a finished one was due at NOW."""
    event = event or await add_event(store)
    ordered = {name: given[name] for name in given.keys() & _NEW_DELIVERY_FIELDS}
    if given.get("status") in FINAL_STATUSES:
        given.setdefault("next_at", None)
        given.setdefault("held_at", None)
        ordered |= {"status": DeliveryStatus.HELD, "next_at": NOW, "held_at": NOW}
    new = make_new_delivery(endpoint.id, event, **ordered)

    async def unit(tx: Any) -> Delivery:
        await tx.webhooks.lock_endpoint(endpoint.id)
        await tx.webhooks.add_deliveries([new])
        ((added, _), *_) = await tx.webhooks.deliveries(endpoint.id, 1, 1)
        delivery: Delivery = evolve(added, **given)
        await tx.webhooks.save_deliveries([delivery])
        return delivery

    return await store.run_transaction(unit)


def make_attempt(number: int = 1, **given: Any) -> DeliveryAttempt:
    """An attempt at NOW that succeeded after 80 ms."""
    defaults = {"number": number, "at": NOW, "duration_ms": 80, "response_status": 200}
    return DeliveryAttempt(**{**defaults, **given})


async def claim_endpoint_batches(
    store: Store,
    now: Any = NOW,
    lease: Lease | None = None,
    limit: int = 10,
    batch: int = 10,
    *,
    degraded: bool = False,
) -> list[EndpointBatch]:
    """Claim due batches as a worker does."""
    lease = lease or make_lease(now)
    return list(
        await store.run_transaction(
            lambda unit: unit.webhooks.claim_batches(now, lease, limit, batch, degraded=degraded)
        )
    )
