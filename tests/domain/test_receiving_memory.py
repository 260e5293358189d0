"""The receivers' kit: repeats, stale events, order."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from staffbooking_core import receiving
from staffbooking_core.receiving import Receiver, RecentMemory, in_order

SECRET = "whsec_" + "A" * 43 + "="
CODE = "BK7Q2M4X9C1DTR"


def envelope(event_id: str = "evt_1", sequence: int = 1, code: str = CODE) -> dict[str, Any]:
    booking = {"booking_code": code}
    return {"id": event_id, "event": "e", "sequence": sequence, "data": {"booking": booking}}


def takes(*events: dict[str, Any], memory: RecentMemory | None = None) -> list[tuple[bool, bool]]:
    receiver = Receiver([SECRET], memory)
    taken = [receiver.take(event) for event in events]
    return [(each.is_repeat, each.is_stale) for each in taken]


def test_an_older_event_of_a_booking_is_stale():
    """A later one was here before; gaps are nothing to wait for."""
    events = [envelope("a", 2), envelope("b", 5), envelope("c", 4), envelope("d", 6)]
    assert takes(*events) == [(False, False), (False, False), (False, True), (False, False)]


def test_bookings_do_not_make_each_other_stale():
    """Each has its own count."""
    assert takes(envelope("a", 9), envelope("b", 1, "BK2")) == [(False, False)] * 2


def test_a_review_counts_with_its_booking():
    """Its booking's code stands elsewhere."""
    review = envelope("b", 2) | {"data": {"review": {"id": 1}, "booking_code": CODE}}
    assert takes(envelope("a", 3), review) == [(False, False), (False, True)]


def test_a_test_is_never_stale():
    """It is about no booking."""
    test = {"id": "t", "event": "webhook.test", "sequence": 0, "data": {"webhook_id": 1}}
    assert takes(envelope("a", 3), test) == [(False, False)] * 2


def test_a_forgotten_event_is_new_again():
    """What could not be dealt with is dealt with when it is sent again."""
    memory = RecentMemory()
    takes(envelope(), memory=memory)
    memory.forget("evt_1")
    memory.forget("never seen")
    assert takes(envelope(), memory=memory) == [(False, False)]


@given(st.lists(st.integers(0, 8)), st.integers(1, 5))
def test_the_newest_events_are_remembered(ids, limit):
    """An event is a repeat while fewer than `limit` new ones came after it."""
    memory, new = RecentMemory(limit), list[str]()
    for event_id in map(str, ids):
        assert memory.add(event_id) == (event_id not in new[-limit:])
        if event_id not in new[-limit:]:
            new.append(event_id)


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 9))), st.integers(1, 5))
def test_the_bookings_that_moved_last_are_remembered(steps, limit):
    """How far a booking has come is known while fewer than `limit` others came after it."""
    memory, known = RecentMemory(limit), dict[int, int]()
    for booking, sequence in steps:
        furthest = known.pop(booking, 0)
        assert memory.advance(str(booking), sequence) == (sequence >= furthest)
        known[booking] = max(furthest, sequence)
        known = dict(list(known.items())[-limit:])


@given(st.lists(st.tuples(st.sampled_from(["BK1", "BK2", ""]), st.integers(0, 9))))
def test_a_batch_is_put_in_order(events):
    """A booking's own events by their sequence, in the places that it had; the rest as it was."""
    batch = [envelope(str(n), sequence, code) for n, (code, sequence) in enumerate(events)]
    for each in batch:
        if not receiving.booking_code(each):
            each["data"] = {}
    ordered = in_order(iter(batch))
    codes = [receiving.booking_code(each) for each in batch]
    assert [receiving.booking_code(each) for each in ordered] == codes
    for code in set(codes):
        own = [each for each in batch if receiving.booking_code(each) == code]
        wanted = own if code is None else sorted(own, key=lambda each: each["sequence"])
        assert [each for each in ordered if receiving.booking_code(each) == code] == wanted
