"""Checks a history: compares the book of acknowledged calls and received webhooks with the rows of
the database and the records of the fake processor.

`find_faults` is pure: each fault is a line that names what was lost, doubled or out of order.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import pairwise
from typing import Any

from attrs import field, frozen

from staffbooking_adapters.codec import load
from staffbooking_adapters.fake.machine import FakeIntent
from staffbooking_core.domain.payments.processor import RefundStatus
from tests.kills.book import Entry
from tests.kills.faults import DATABASE_CRASH

LOCATION_PREFIX = "Hall "
"""The prefix of the location of the load's bookings, before the key of the request."""

Row = Mapping[str, Any]

QUERIES = {
    "bookings": "SELECT id, status, location, timeline, companion_id, starts_at, ends_at,"
    " price + insurance_premium AS total_amount, refunded_amount, payout_amount, payout_status"
    " FROM bookings",
    "intents": "SELECT key, body FROM fakepay_documents WHERE kind = 'intent'",
    "messages": "SELECT id, conversation_id, sender_id, client_id, content FROM messages",
    "events": "SELECT id, booking_id, sequence, name FROM events",
    "deliveries": "SELECT endpoint_id, event_id, status, tries FROM webhook_deliveries",
    "inquiries": "SELECT message FROM inquiries",
}
"""The queries of the rows of a history, by the name of the field."""

_TRIGGERS = {
    "request": "request",
    "accept": "accept",
    "decline": "decline",
    "cancel": "cancel",
    "confirm": "confirm",
}
"""The trigger that the timeline has after an acknowledged call, by the call."""
_HOLDING_STATUSES = ("accepted", "paid", "disputed", "completed")
_FINAL_STATUSES = ("completed", "cancelled")
_UNFINISHED_DELIVERIES = ("pending", "waiting")
MAX_DELIVERY_TRIES = 4


@frozen
class History:
    """The book and the database's rows at the end of a run."""

    entries: Sequence[Entry]
    bookings: Sequence[Row]
    intents: Sequence[Row] = ()
    messages: Sequence[Row] = ()
    events: Sequence[Row] = ()
    deliveries: Sequence[Row] = ()
    inquiries: Sequence[Row] = ()
    endpoints: Mapping[str, int] = field(factory=dict)
    """Endpoint ids by their names in the book."""
    conversations: Mapping[int, int] = field(factory=dict)
    """Ids of conversations by the users who read them over a WebSocket."""
    contact_limit: int = 0

    def acknowledged(self, *ops: str) -> Iterator[Entry]:
        """The acknowledged calls, of these operations if any are given."""
        for entry in self.entries:
            if entry["kind"] == "ack" and entry["status"] < 300 and (not ops or entry["op"] in ops):
                yield entry


def find_faults(history: History, *, is_finished: bool = True) -> list[str]:
    """All faults. `is_finished` says that all due work was done, so that every booking is final."""
    return [
        *_unexpected_answers(history),
        *_booking_faults(history),
        *_overlaps(history),
        *_money_faults(history, is_finished),
        *_message_faults(history),
        *_window_faults(history),
        *_delivery_faults(history),
        *_clock_faults(history),
    ]


def _unexpected_answers(history: History) -> Iterator[str]:
    for entry in history.entries:
        if entry["kind"] == "wrong":
            yield f"{entry['path']} answered {entry['status']}: {entry['text'][:300]}"


# Bookings ---------------------------------------------------------------------------------


def _booking_faults(history: History) -> Iterator[str]:
    timelines = {row["id"]: json.loads(row["timeline"]) for row in history.bookings}
    for entry in history.acknowledged():
        if "booking" in entry:
            timeline = timelines.get(entry["booking"], ())
            yield from _lost_changes(entry, timeline)
    for id_, timeline in timelines.items():
        if any(step["to"] != following["was"] for step, following in pairwise(timeline)):
            yield f"booking {id_}: its timeline is not a path"
    yield from _request_faults(history)


def _lost_changes(entry: Entry, timeline: Sequence[Any]) -> Iterator[str]:
    trigger = _TRIGGERS.get(entry["op"])
    if not timeline:
        yield f"booking {entry['booking']}: acknowledged ({entry['op']}) and lost"
    elif trigger and not any(step["trigger"] == trigger for step in timeline):
        yield f"booking {entry['booking']}: {entry['op']} was acknowledged and is lost"
    elif "seen" in entry and not any(step["to"] == entry["seen"] for step in timeline):
        yield f"booking {entry['booking']}: was seen {entry['seen']}, and never became so"


def _request_faults(history: History) -> Iterator[str]:
    """Checks that an accepted key has one booking, a refused one none, any other at most one."""
    places = Counter(row["location"] for row in history.bookings)
    for entry in history.entries:
        if entry["kind"] == "ack" and entry["op"] == "request":
            number = places[LOCATION_PREFIX + entry["key"]]
            if number != (entry["status"] < 300):
                yield f"request {entry['key']} was answered {entry['status']}: {number} bookings"
    for place, number in places.items():
        if place.startswith(LOCATION_PREFIX) and number > 1:
            yield f"{place}: {number} bookings for one key"


def _overlaps(history: History) -> Iterator[str]:
    held: defaultdict[int, list[Row]] = defaultdict(list)
    for row in history.bookings:
        if row["status"] in _HOLDING_STATUSES:
            held[row["companion_id"]].append(row)
    for rows in held.values():
        rows.sort(key=lambda row: row["starts_at"])
        for one, other in pairwise(rows):
            if other["starts_at"] < one["ends_at"]:
                yield f"bookings {one['id']} and {other['id']} hold the same time"


# Money ------------------------------------------------------------------------------------


def _money_faults(history: History, is_finished: bool) -> Iterator[str]:
    intents = {int(row["key"]): load(row["body"], FakeIntent) for row in history.intents}
    for row in history.bookings:
        intent = intents.get(row["id"], FakeIntent(row["id"]))
        for fault in _charge_faults(row, intent, is_finished):
            yield f"booking {row['id']} ({row['status']}): {fault}"
    for entry in history.acknowledged("pay"):
        # Pages that have expired, or were closed by a cancellation, respond too.
        known = intents.get(entry["paid"])
        if entry["state"] == "paid" and not (known and known.charges):
            yield f"booking {entry['paid']}: paid, and the processor knows nothing of it"


def _charge_faults(row: Row, intent: FakeIntent, is_finished: bool) -> Iterator[str]:
    charged = sum(charge.payment.amount for charge in intent.charges)
    refunds = [
        refund
        for charge in intent.charges
        for refund in charge.refunds
        if refund.status is not RefundStatus.FAILED
    ]
    payouts = [payout for charge in intent.charges for payout in charge.payouts]
    refunded, paid_out = (sum(each.amount for each in made) for made in (refunds, payouts))
    if len(intent.charges) > 1:
        yield f"charged {len(intent.charges)} times"
    if charged not in (0, row["total_amount"]):
        yield f"charged {charged} of {row['total_amount']}"
    if len(payouts) > 1:
        yield f"paid out {len(payouts)} times"
    if refunded + paid_out > charged:
        yield f"charged {charged}, refunded {refunded}, paid out {paid_out}"
    was_paid = '"paid"' in row["timeline"]
    if was_paid and not charged:
        yield "paid without a charge"
    if not is_finished or not row["location"].startswith(LOCATION_PREFIX):
        return
    if row["status"] not in _FINAL_STATUSES:
        yield "still under way at the end"
    if refunded != (row["refunded_amount"] if charged else 0):
        yield f"refunded {refunded} of {row['refunded_amount']}"
    owed = row["payout_amount"] if row["payout_status"] != "none" else 0
    if paid_out != owed:
        yield f"paid out {paid_out} of {owed}"


# Messages ---------------------------------------------------------------------------------


def _message_faults(history: History) -> Iterator[str]:
    rows = {row["id"]: row for row in history.messages}
    for text, number in Counter(row["content"] for row in history.messages).items():
        if number > 1:
            yield f"message {text!r}: stored {number} times"
    for entry in history.acknowledged("message"):
        row = rows.get(entry["id"])
        if row is None or row["content"] != entry["text"]:
            yield f"message {entry['id']}: acknowledged and lost"
    yield from _sending_faults(history)
    shown: defaultdict[int, list[int]] = defaultdict(list)
    for entry in history.entries:
        if entry["kind"] == "shown":
            shown[entry["reader"]].append(entry["id"])
    for reader, conversation in history.conversations.items():
        stored = sorted(
            row["id"] for row in rows.values() if row["conversation_id"] == conversation
        )
        yield from _reading_faults(reader, shown[reader], stored)


def _sending_faults(history: History) -> Iterator[str]:
    """Checks that each client id has one message, and that the ids of a writer's messages rise."""
    ids: dict[str, int] = {}
    last: dict[str, int] = {}
    for entry in history.acknowledged("message"):
        name, id_ = entry["client_id"], entry["id"]
        if ids.setdefault(name, id_) != id_:
            yield f"message {name}: acknowledged as {ids[name]} and as {id_}"
        writer = name.rpartition("-")[0]
        if id_ < last.get(writer, 0):
            yield f"message {id_}: has a lower id than what its sender had sent before"
        last[writer] = id_


def _reading_faults(reader: int, shown: Sequence[int], stored: Sequence[int]) -> Iterator[str]:
    for one, other in pairwise(shown):
        if one == other:
            yield f"reader {reader}: message {one} was shown twice"
        elif one > other:
            yield f"reader {reader}: message {other} was shown after {one}"
    if missed := sorted(set(stored) - set(shown)):
        yield f"reader {reader}: {len(missed)} messages were never shown, the first is {missed[0]}"
    if unknown := sorted(set(shown) - set(stored)):
        yield f"reader {reader}: {len(unknown)} shown messages are lost, the first is {unknown[0]}"


# Rate windows, webhooks, the clock --------------------------------------------------------


def _window_faults(history: History) -> Iterator[str]:
    crashes = [entry for entry in history.entries if entry.get("name") == DATABASE_CRASH]
    admitted = Counter(
        entry["window"]
        for entry in history.acknowledged("contact")
        if not any(_overlap(entry, crash) for crash in crashes)
    )
    for window, number in admitted.items():
        if number > history.contact_limit:
            yield f"window until {window}: {number} admitted, the limit is {history.contact_limit}"
    stored = Counter(row["message"] for row in history.inquiries)
    for entry in history.acknowledged("contact"):
        if stored[entry["text"]] != 1:
            yield f"inquiry {entry['text']!r}: acknowledged, stored {stored[entry['text']]} times"
    for text, number in stored.items():
        if number > 1:
            yield f"inquiry {text!r}: sent once, stored {number} times"


def _overlap(call: Entry, crash: Entry) -> bool:
    """Whether a call was in progress during a crash of the database, which may lose its hit: hits
    are committed without waiting for the disk (decision 6). A later commit on disk keeps all
    earlier hits."""
    return bool(call["started"] <= crash["at"] and crash["began"] <= call["at"])


def _delivery_faults(history: History) -> Iterator[str]:
    receipts: defaultdict[str, list[Entry]] = defaultdict(list)
    bodies: dict[str, str] = {}
    for entry in history.entries:
        if entry["kind"] == "receipt":
            receipts[entry["endpoint"]].append(entry)
            if bodies.setdefault(entry["event"], entry["digest"]) != entry["digest"]:
                yield f"event {entry['event']}: was sent with different bodies"
    for name, endpoint_id in history.endpoints.items():
        arrived = {entry["event"] for entry in receipts[name]}
        for row in history.deliveries:
            if row["endpoint_id"] == endpoint_id and (what := _delivery_fault(row, arrived)):
                yield f"{name}: event {row['event_id']} {what}"
    yield from _undelivered_events(history)
    yield from _order_faults(receipts["ordered"])


def _delivery_fault(row: Row, arrived: Set[str]) -> str | None:
    if row["status"] in _UNFINISHED_DELIVERIES:
        return f"is {row['status']} at the end"
    if row["status"] == "succeeded" and row["event_id"] not in arrived:
        return "counts as delivered and never arrived"
    if row["status"] == "failed" and row["tries"] != MAX_DELIVERY_TRIES:
        return f"was given up after {row['tries']} tries"
    return None


def _undelivered_events(history: History) -> Iterator[str]:
    """Checks that each event has a delivery to the endpoint that gets all events."""
    if (every := history.endpoints.get("every")) is None:
        return
    delivered = {row["event_id"] for row in history.deliveries if row["endpoint_id"] == every}
    for row in history.events:
        if row["id"] not in delivered:
            yield f"event {row['id']} ({row['name']}): no delivery to the admin's endpoint"


def _order_faults(receipts: Sequence[Entry]) -> Iterator[str]:
    """Checks that the events of a booking first arrive in order at an ordered endpoint."""
    last: dict[str, int] = {}
    seen: set[str] = set()
    for entry in receipts:
        if entry["event"] in seen:
            continue
        seen.add(entry["event"])
        if entry["sequence"] <= last.get(entry["booking"], 0):
            yield f"ordered: event {entry['event']} of {entry['booking']} came too late"
        last[entry["booking"]] = entry["sequence"]


def _clock_faults(history: History) -> Iterator[str]:
    times = [entry["now"] for entry in history.acknowledged("clock")]
    for one, other in pairwise(times):
        if other < one:
            yield f"the clock was set to {one}, and was {other} later"
