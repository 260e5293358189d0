"""The webhook receiver: repeats, stale events, order."""

from __future__ import annotations

from typing import Any

from hypothesis import given, strategies as st

from staffbooking_core import webhook_receiver
from staffbooking_core.webhook_receiver import WebhookReceiver, sort_by_sequence

SECRET = "whsec_" + "A" * 43 + "="
CODE = "BK7Q2M4X9C1DTR"


def envelope(event_id: str = "evt_1", sequence: int = 1, code: str = CODE) -> dict[str, Any]:
    booking = {"booking_code": code}
    return {"id": event_id, "event": "e", "sequence": sequence, "data": {"booking": booking}}


def takes(*events: dict[str, Any], limit: int = 10_000) -> list[tuple[bool, bool]]:
    """Whether each event is a repeat, and stale, if all before were handled."""
    receiver, told = WebhookReceiver([SECRET], max_remembered=limit), []
    for event in events:
        received = receiver.receive_unsigned(event)
        receiver.mark_processed(received)
        told.append((received.is_duplicate, received.is_stale))
    return told


def test_an_older_event_of_a_booking_is_stale():
    """An event with a lower sequence than a handled one is stale; gaps do not matter."""
    events = [envelope("a", 2), envelope("b", 5), envelope("c", 4), envelope("d", 6)]
    assert takes(*events) == [(False, False), (False, False), (False, True), (False, False)]


def test_bookings_do_not_make_each_other_stale():
    """Each booking has its own sequence."""
    assert takes(envelope("a", 9), envelope("b", 1, "BK2")) == [(False, False)] * 2


def test_a_review_counts_with_its_booking():
    """The event of a review counts for its booking."""
    review = envelope("b", 2) | {"data": {"review": {"id": 1}, "booking_code": CODE}}
    assert takes(envelope("a", 3), review) == [(False, False), (False, True)]


def test_a_test_is_never_stale():
    """A test event has no booking and is never stale."""
    test = {"id": "t", "event": "webhook.test", "sequence": 0, "data": {"webhook_id": 1}}
    assert takes(envelope("a", 3), test) == [(False, False)] * 2


def test_what_is_not_done_makes_nothing_stale():
    """A later event that is not handled makes no earlier one stale."""
    receiver = WebhookReceiver([SECRET])
    receiver.receive_unsigned(envelope("b", 5))
    assert not receiver.receive_unsigned(envelope("a", 4)).is_stale


@given(st.lists(st.integers(0, 8)), st.integers(1, 5))
def test_the_newest_events_are_remembered(ids, limit):
    """An event is a repeat while fewer than `limit` new ones came after it."""
    told = takes(*(envelope(str(each), code="") for each in ids), limit=limit)
    new = list[int]()
    for event_id, (is_repeat, _) in zip(ids, told, strict=True):
        assert is_repeat == (event_id in new[-limit:])
        if not is_repeat:
            new.append(event_id)


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 9))), st.integers(1, 5))
def test_the_bookings_that_moved_last_are_remembered(steps, limit):
    """A booking's sequence is remembered while fewer than `limit` other bookings came after it."""
    events = [envelope(str(n), step[1], str(step[0])) for n, step in enumerate(steps)]
    known = dict[int, int]()
    for (booking, sequence), (_, is_stale) in zip(steps, takes(*events, limit=limit), strict=True):
        furthest = known.pop(booking, 0)
        assert is_stale == (sequence < furthest)
        known[booking] = max(furthest, sequence)
        known = dict(list(known.items())[-limit:])


@given(st.lists(st.tuples(st.sampled_from(["BK1", "BK2", ""]), st.integers(0, 9))))
def test_a_batch_is_put_in_order(events):
    """The events of a booking are sorted by sequence within their positions in the batch."""
    batch = [envelope(str(n), sequence, code) for n, (code, sequence) in enumerate(events)]
    for each in batch:
        if not webhook_receiver.booking_code(each):
            each["data"] = {}
    ordered = sort_by_sequence(iter(batch))
    codes = [webhook_receiver.booking_code(each) for each in batch]
    assert [webhook_receiver.booking_code(each) for each in ordered] == codes
    for code in set(codes):
        own = [each for each in batch if webhook_receiver.booking_code(each) == code]
        wanted = own if code is None else sorted(own, key=lambda each: each["sequence"])
        assert [each for each in ordered if webhook_receiver.booking_code(each) == code] == wanted
