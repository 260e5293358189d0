"""The checker finds each kind of fault in a history that has it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from attrs import evolve

from staffbooking_adapters.codec import dump
from staffbooking_adapters.fake.charge import Charge
from staffbooking_adapters.fake.machine import FakeIntent
from staffbooking_core.domain.payments.processor import Payment, PayoutState
from tests.kills.checker import LOCATION_PREFIX, History, find_faults
from tests.kills.faults import DATABASE_CRASH

AT = datetime(2027, 3, 1, tzinfo=UTC)
STEPS = ((None, "pending"), ("pending", "accepted"), ("accepted", "paid"), ("paid", "completed"))
TRIGGERS = ("request", "accept", "payment_succeeded", "confirm")


def acknowledged(op: str, **facts: Any) -> dict[str, Any]:
    known = {"kind": "ack", "started": 0.0, "at": 0.0, "server": "server1", "status": 200}
    return {**known, "op": op, **facts}


def receipt(endpoint: str, event: str, sequence: int, digest: str = "") -> dict[str, Any]:
    facts = {"event": event, "sequence": sequence, "booking": "BK1", "digest": digest or event}
    return {"kind": "receipt", "at": 0.0, "endpoint": endpoint, **facts}


def booking(number: int = 1, steps: int = 4, **given: Any) -> dict[str, Any]:
    timeline = [
        {"was": was, "to": to, "trigger": trigger}
        for (was, to), trigger in zip(STEPS[:steps], TRIGGERS, strict=False)
    ]
    return {
        "id": number,
        "status": STEPS[steps - 1][1],
        "location": f"{LOCATION_PREFIX}key{number}",
        "timeline": json.dumps(timeline),
        "companion_id": 7,
        "starts_at": number * 10,
        "ends_at": number * 10 + 5,
        "total_amount": 100,
        "refunded_amount": 0,
        "payout_amount": 85,
        "payout_status": "paid",
        **given,
    }


def intent(*charges: Charge, number: int = 1) -> dict[str, Any]:
    return {"key": str(number), "body": dump(FakeIntent(number, charges=charges))}


CHARGE = Charge(Payment("p", 100, "usd", AT), payouts=(PayoutState("o", 85, 0, 1),))
EVENTS = [{"id": "e1", "name": "a"}, {"id": "e2", "name": "b"}]
RIGHT = History(
    entries=[
        acknowledged("request", key="key1", booking=1),
        acknowledged("confirm", booking=1),
        acknowledged("read", booking=1, seen="paid"),
        acknowledged("pay", paid=1, state="paid"),
        acknowledged("message", id=5, sender=3, client_id="1-1", text="la"),
        acknowledged("message", id=6, sender=3, client_id="1-2", text="li"),
        {"kind": "shown", "at": 0.0, "reader": 3, "id": 5},
        {"kind": "shown", "at": 0.0, "reader": 3, "id": 6},
        acknowledged("contact", window=60, text="lo"),
        receipt("ordered", "e1", 1),
        receipt("ordered", "e2", 2),
        receipt("every", "e1", 1),
        acknowledged("clock", now="2027-03-01T00:00:00Z"),
    ],
    bookings=[booking()],
    intents=[intent(CHARGE)],
    messages=[
        {"id": 5, "conversation_id": 9, "content": "la"},
        {"id": 6, "conversation_id": 9, "content": "li"},
    ],
    events=EVENTS,
    deliveries=[
        {"endpoint_id": 1, "event_id": "e1", "status": "succeeded", "tries": 1},
        {"endpoint_id": 1, "event_id": "e2", "status": "failed", "tries": 4},
    ],
    inquiries=[{"message": "lo"}],
    endpoints={"every": 1},
    conversations={3: 9},
    contact_limit=1,
)
"""A history without a fault."""


def with_entries(*more: dict[str, Any]) -> History:
    return evolve(RIGHT, entries=[*RIGHT.entries, *more])


def without(kind: str, place: int) -> History:
    """The right history without one of its entries of a kind."""
    left_out = [entry for entry in RIGHT.entries if entry["kind"] == kind][place]
    return evolve(RIGHT, entries=[entry for entry in RIGHT.entries if entry is not left_out])


def delivered(**given: Any) -> History:
    return evolve(RIGHT, deliveries=[{**RIGHT.deliveries[0], **given}, RIGHT.deliveries[1]])


def test_a_right_history_has_no_faults() -> None:
    """A history in which nothing was lost, doubled or out of order has no faults."""
    assert find_faults(RIGHT) == []


def test_a_crash_of_the_database_may_lose_a_hit_in_progress() -> None:
    """A contact form that was in progress while the database crashed counts in no window."""
    crash = {"kind": "fault", "name": DATABASE_CRASH, "began": 2.0, "at": 3.0, "is_kill": True}
    more = acknowledged("contact", window=60, text="la")
    history = evolve(RIGHT, inquiries=[*RIGHT.inquiries, {"message": "la"}])

    assert not find_faults(
        evolve(history, entries=[*RIGHT.entries, crash, more | {"started": 1.0, "at": 4.0}])
    )
    for started, at in ((1.0, 1.9), (3.1, 4.0)):
        entries = [*RIGHT.entries, crash, more | {"started": started, "at": at}]
        assert find_faults(evolve(history, entries=entries)) == [
            "window until 60: 2 admitted, the limit is 1"
        ]


WRONG = {
    "acknowledged (request) and lost": evolve(RIGHT, bookings=[], intents=[]),
    "confirm was acknowledged and is lost": evolve(RIGHT, bookings=[booking(steps=3)]),
    "was seen paid, and never became so": evolve(RIGHT, bookings=[booking(steps=2)]),
    "key1: 2 bookings for one key": evolve(
        RIGHT, bookings=[booking(), booking(2, location=f"{LOCATION_PREFIX}key1")]
    ),
    "request key2 was answered 400: 1 bookings": evolve(
        with_entries(acknowledged("request", key="key2") | {"status": 400}),
        bookings=[booking(), booking(2)],
    ),
    "bookings 1 and 2 hold the same time": evolve(
        RIGHT, bookings=[booking(), booking(2, starts_at=14)]
    ),
    "its timeline is not a path": evolve(
        RIGHT,
        bookings=[booking(timeline=booking()["timeline"].replace('"was": "paid"', '"was": 0'))],
    ),
    "charged 2 times": evolve(RIGHT, intents=[intent(CHARGE, CHARGE)]),
    "paid out 2 times": evolve(RIGHT, intents=[intent(evolve(CHARGE, payouts=CHARGE.payouts * 2))]),
    "charged 99 of 100": evolve(
        RIGHT, intents=[intent(evolve(CHARGE, payment=evolve(CHARGE.payment, amount=99)))]
    ),
    "paid without a charge": evolve(RIGHT, intents=[]),
    "the processor knows nothing of it": evolve(RIGHT, intents=[]),
    "paid out 0 of 85": evolve(RIGHT, intents=[intent(evolve(CHARGE, payouts=()))]),
    "refunded 0 of 50": evolve(RIGHT, bookings=[booking(refunded_amount=50)]),
    "still under way at the end": evolve(RIGHT, bookings=[booking(steps=3)]),
    "message 6: acknowledged and lost": evolve(RIGHT, messages=RIGHT.messages[:1]),
    "message 'li': stored 2 times": evolve(
        RIGHT, messages=[*RIGHT.messages, {**RIGHT.messages[1], "id": 7}]
    ),
    "has a lower id than what its sender had sent before": with_entries(
        acknowledged("message", id=5, sender=3, client_id="1-3", text="la")
    ),
    "message 1-2: acknowledged as 6 and as 7": with_entries(
        acknowledged("message", id=7, sender=3, client_id="1-2", text="li")
    ),
    "message 6 was shown twice": with_entries({"kind": "shown", "at": 0.0, "reader": 3, "id": 6}),
    "message 5 was shown after 6": with_entries({"kind": "shown", "at": 0.0, "reader": 3, "id": 5}),
    "1 messages were never shown, the first is 6": without("shown", 1),
    "1 shown messages are lost, the first is 7": with_entries(
        {"kind": "shown", "at": 0.0, "reader": 3, "id": 7}
    ),
    "2 admitted, the limit is 1": with_entries(acknowledged("contact", window=60, text="lo")),
    "acknowledged, stored 0 times": evolve(RIGHT, inquiries=[]),
    "sent once, stored 2 times": evolve(RIGHT, inquiries=[*RIGHT.inquiries] * 2),
    "was sent with different bodies": with_entries(receipt("every", "e1", 1, "other")),
    "is pending at the end": delivered(status="pending"),
    "counts as delivered and never arrived": delivered(event_id="e3"),
    "was given up after 2 tries": delivered(status="failed", tries=2),
    "event e1 (a): no delivery to the admin's endpoint": delivered(event_id="e3"),
    "ordered: event e0 of BK1 came too late": with_entries(receipt("ordered", "e0", 1)),
    "was 2027-02-01T00:00:00Z later": with_entries(
        acknowledged("clock", now="2027-02-01T00:00:00Z")
    ),
    "/x answered 500: oops": with_entries(
        {"kind": "wrong", "at": 0.0, "path": "/x", "status": 500, "text": "oops"}
    ),
}
"""Histories with a fault, by a part of the fault's text."""


@pytest.mark.parametrize("text", WRONG)
def test_each_fault_is_found(text: str) -> None:
    """Each kind of fault is found in a history that has it."""
    assert any(text in fault for fault in find_faults(WRONG[text]))


def test_a_repeated_ack_is_no_fault() -> None:
    """A message that is sent again under its client id may be acknowledged again."""
    again = acknowledged("message", id=6, sender=3, client_id="1-2", text="li")
    assert find_faults(with_entries(again)) == []


def test_a_repeated_delivery_is_no_fault() -> None:
    """A receiver may get an event again, also at an ordered endpoint, since deliveries are made at
    least once."""
    assert find_faults(with_entries(receipt("ordered", "e1", 1), receipt("every", "e1", 1))) == []
