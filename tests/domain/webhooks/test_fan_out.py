"""Webhooks: recipients of events, their order, and the headers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from staffbooking_adapters.testing.builders import DAY, NOW, SECOND, make_user
from staffbooking_adapters.testing.builders_webhooks import make_endpoint
from staffbooking_core.domain.accounts.users import Role, Subscription
from staffbooking_core.domain.bookings.lifecycle import EventName
from staffbooking_core.domain.webhooks.deliveries import (
    WEBHOOK_EVENTS,
    DeliveryStatus,
    EndpointSubscription,
    PublishedEvent,
    delivery_headers,
    fan_out_deliveries,
    sort_for_feed,
)
from staffbooking_core.webhook_receiver import hex_signature, standard_signature

PENDING, HELD = DeliveryStatus.PENDING, DeliveryStatus.HELD
MOMENT = SECOND / 1_000_000


def make_told(**given: Any) -> PublishedEvent:
    defaults: dict[str, Any] = {
        "id": "evt_1",
        "booking_id": 1,
        "sequence": 1,
        "name": EventName.BOOKING_CREATED,
        "parties": (1, 2, 9),
    }
    return PublishedEvent(**defaults | given)


def make_subscriber(owner_id: int = 1, owner: dict[str, Any] | None = None, **given: Any):
    user = make_user(id=owner_id, **{"subscription": Subscription.ENTERPRISE, **(owner or {})})
    return EndpointSubscription(make_endpoint(owner_id, **given), user)


ADMIN = {"role": Role.ADMIN, "subscription": Subscription.NONE}


@pytest.mark.parametrize(
    "subscriber, gets",
    [
        (make_subscriber(1), True),
        (make_subscriber(2), True),
        (make_subscriber(9), True),
        (make_subscriber(3), False),
        (make_subscriber(3, ADMIN), True),
        (make_subscriber(1, events=frozenset({EventName.BOOKING_CREATED})), True),
        (make_subscriber(1, events=frozenset(WEBHOOK_EVENTS) - {EventName.BOOKING_CREATED}), False),
        (make_subscriber(3, ADMIN, events=frozenset({EventName.REVIEW_CREATED})), False),
        (make_subscriber(1, deleted_at=NOW), False),
        (make_subscriber(3, ADMIN, deleted_at=NOW), False),
    ],
    ids=[
        "customer",
        "companion",
        "who booked",
        "stranger",
        "admin",
        "subscribed to it",
        "subscribed to others",
        "admin subscribed to others",
        "deleted",
        "deleted admin's",
    ],
)
def test_parties_and_admins_get_what_they_subscribed_to(subscriber, gets):
    """Parties and admins receive the events that they subscribed to (CONTRACT 7)."""
    assert subscriber.matches(make_told()) is gets
    assert len(fan_out_deliveries([make_told()], [subscriber], NOW, NOW)) == gets


@pytest.mark.parametrize(
    "subscriber, status",
    [
        (make_subscriber(), PENDING),
        (make_subscriber(3, ADMIN), PENDING),
        (make_subscriber(owner={"subscription_expires_at": NOW + MOMENT}), PENDING),
        (make_subscriber(owner={"subscription_expires_at": NOW}), HELD),
        (make_subscriber(owner={"subscription": Subscription.BASIC}), HELD),
        (make_subscriber(owner={"disabled_at": NOW}), HELD),
        (make_subscriber(3, {**ADMIN, "disabled_at": NOW}), HELD),
        (make_subscriber(active=False), HELD),
        (make_subscriber(active=False, disabled_at=NOW), HELD),
    ],
)
def test_what_may_not_be_sent_is_held(subscriber, status):
    """Deliveries are held while the endpoint is inactive or its owner has no API access."""
    (new,) = fan_out_deliveries([make_told()], [subscriber], NOW - DAY, NOW)
    assert (new.status, new.held_at) == (status, NOW if status is HELD else None)
    assert (new.next_at, new.created_at) == (NOW, NOW - DAY)


def test_each_endpoint_gets_each_event_once():
    """Each endpoint gets each event once and in order, also if its owner is party and admin."""
    events = [make_told(id="b"), make_told(id="a", name=EventName.PAYMENT_COMPLETED)]
    subscribers = [make_subscriber(1, ADMIN, id=8), make_subscriber(2, id=7)]
    new = fan_out_deliveries(events, subscribers, NOW, NOW)
    assert [(each.event_id, each.event, each.endpoint_id) for each in new] == [
        ("b", "booking.created", 8),
        ("b", "booking.created", 7),
        ("a", "payment.completed", 8),
        ("a", "payment.completed", 7),
    ]


# Order ------------------------------------------------------------------------------------


@st.composite
def shuffled_events(draw: st.DrawFn) -> list[PublishedEvent]:
    """Events of a few bookings in any order, with ids in any order."""
    bookings = draw(st.lists(st.integers(1, 4), max_size=12))
    ids = draw(st.permutations([f"evt_{n:02}" for n in range(len(bookings))]))
    events = [
        make_told(id=event_id, booking_id=booking, sequence=1 + bookings[:n].count(booking))
        for n, (booking, event_id) in enumerate(zip(bookings, ids, strict=True))
    ]
    return draw(st.permutations(events))


@given(shuffled_events())
def test_a_bookings_events_are_in_order(events):
    """The events of a booking are sorted by sequence, whatever their ids, and none is lost or
    repeated."""
    ordered = sort_for_feed(events)
    assert sorted(ordered, key=lambda each: each.id) == sorted(events, key=lambda each: each.id)
    for booking in (1, 2, 3, 4):
        own = [each.sequence for each in ordered if each.booking_id == booking]
        assert own == sorted(own)


@given(shuffled_events())
def test_events_of_bookings_are_sorted_by_id(events):
    """Events of different bookings are sorted by id."""
    by_making = sorted(events, key=lambda each: each.id)
    assert [each.booking_id for each in sort_for_feed(events)] == [
        each.booking_id for each in by_making
    ]


# Headers ----------------------------------------------------------------------------------


def test_the_published_signature_is_by_the_first_secret():
    """The standard header has a signature by each secret; the id is the event's, the time the
    attempt's."""
    body = '{"name":"Zoë"}'.encode()
    old, new = "whsec_" + "A" * 43 + "=", "whsec_" + "B" * 43 + "="
    at, stamp = NOW + SECOND * 1.9, int(NOW.timestamp()) + 1
    assert delivery_headers((old, new), "evt_1", "booking.created", 3, body, at) == {
        "Content-Type": "application/json",
        "X-Webhook-Signature": hex_signature(old, body),
        "X-Webhook-Event": "booking.created",
        "X-Webhook-Id": "evt_1",
        "X-Webhook-Attempt": "3",
        "webhook-id": "evt_1",
        "webhook-timestamp": str(stamp),
        "webhook-signature": (
            f"{standard_signature(old, 'evt_1', stamp, body)}"
            f" {standard_signature(new, 'evt_1', stamp, body)}"
        ),
    }
