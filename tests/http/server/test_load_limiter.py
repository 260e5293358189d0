"""The limiter of requests in virtual time: slots, the queue, and the bound of its wait."""

from __future__ import annotations

import pytest
from attrs import define

from staffbooking_http.server import load_limiter
from staffbooking_http.server.load_limiter import (
    MAX_COUNTED_SECONDS,
    MAX_WAIT_SECONDS,
    OVERLOAD_SECONDS,
    LoadLimiter,
)
from tests.http.server.timers import Timers


@define(eq=False)
class Asked:
    """A request that records what becomes of it."""

    state: str = "waiting"
    is_abandoned: bool = False

    def start(self) -> None:
        self.state = "started"

    def refuse(self) -> None:
        self.state = "refused"


@pytest.fixture
def timers() -> Timers:
    return Timers()


def submit(limiter: LoadLimiter, count: int = 1) -> list[Asked]:
    requests = [Asked() for _ in range(count)]
    for request in requests:
        limiter.submit(request)
    return requests


def states(requests: list[Asked]) -> list[str]:
    return [request.state for request in requests]


def test_as_many_run_as_there_are_slots(timers: Timers) -> None:
    """Requests start at once while slots are free; the next one waits."""
    assert states(submit(LoadLimiter(2, timers), 3)) == ["started", "started", "waiting"]


def test_waiting_requests_start_in_order(timers: Timers) -> None:
    """Each request that ends starts the one that has waited longest."""
    limiter = LoadLimiter(1, timers)
    requests = submit(limiter, 3)
    limiter.finish(requests[0])
    assert states(requests) == ["started", "started", "waiting"]


def test_no_request_waits_for_longer_than_the_bound(
    timers: Timers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that gets no slot in time is refused, and those that still have time are not."""
    monkeypatch.setattr(load_limiter, "MAX_COUNTED_SECONDS", 2 * MAX_WAIT_SECONDS)
    limiter = LoadLimiter(1, timers)
    _, first = submit(limiter, 2)
    timers.advance(MAX_WAIT_SECONDS / 2)
    [second] = submit(limiter)
    timers.advance(MAX_WAIT_SECONDS / 2)
    assert (first.state, second.state) == ("refused", "waiting")
    timers.advance(MAX_WAIT_SECONDS / 2)
    assert second.state == "refused"


def test_in_an_overload_no_more_wait_than_run(timers: Timers) -> None:
    """After a refusal, a request is refused if as many wait as may run."""
    limiter = LoadLimiter(2, timers)
    limiter.note_refusal()
    requests = submit(limiter, 5)
    assert states(requests) == ["started", "started", "waiting", "waiting", "refused"]


def test_an_overload_ends(timers: Timers) -> None:
    """Some time after the last refusal a burst may wait again."""
    limiter = LoadLimiter(1, timers)
    limiter.note_refusal()
    timers.advance(OVERLOAD_SECONDS)
    assert states(submit(limiter, 3)) == ["started", "waiting", "waiting"]


def test_a_burst_is_bounded(timers: Timers, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more requests of a burst wait than may."""
    monkeypatch.setattr(load_limiter, "MAX_WAITING", 2)
    requests = submit(LoadLimiter(1, timers), 4)
    assert states(requests) == ["started", "waiting", "waiting", "refused"]


def test_an_abandoned_request_is_not_started(timers: Timers) -> None:
    """A waiting request whose client has gone leaves its turn to the next."""
    limiter = LoadLimiter(1, timers)
    running, gone, next_one = submit(limiter, 3)
    gone.is_abandoned = True
    limiter.finish(running)
    assert (gone.state, next_one.state) == ("waiting", "started")


def test_a_paused_request_leaves_its_slot(timers: Timers) -> None:
    """While a request waits for its client another one runs; resumed, it counts at once."""
    limiter = LoadLimiter(1, timers)
    slow, other = submit(limiter, 2)
    assert limiter.pause(slow)
    assert other.state == "started"
    limiter.resume(slow)
    limiter.finish(other)
    assert states(submit(limiter)) == ["waiting"]


def test_a_long_request_does_not_count_any_more(timers: Timers) -> None:
    """A request that runs for longer than the process works on one leaves its slot to the next, and
    its end changes nothing."""
    limiter = LoadLimiter(1, timers)
    [long] = submit(limiter)
    timers.advance(MAX_COUNTED_SECONDS)
    [next_one] = submit(limiter)
    assert next_one.state == "started"
    assert not limiter.pause(long)
    assert states(submit(limiter)) == ["waiting"]


def test_waiting_requests_get_the_slot_of_a_long_one(timers: Timers) -> None:
    """A waiting request starts when a running one does not count any more, without its end."""
    limiter = LoadLimiter(1, timers)
    _, waiting = submit(limiter, 2)
    timers.advance(MAX_COUNTED_SECONDS)
    assert waiting.state == "started"


def test_a_burst_of_costly_requests_is_served(timers: Timers) -> None:
    """A burst that fits the queue is served, though it takes seconds: it is no overload."""
    limiter = LoadLimiter(2, timers)
    requests = submit(limiter, 60)
    for number in range(0, 60, 2):
        timers.advance(0.15)
        for request in requests[number : number + 2]:
            limiter.finish(request)
    assert states(requests) == ["started"] * 60
    assert not limiter.is_overloaded()


def test_the_queue_is_short_at_any_load(timers: Timers) -> None:
    """At ten times the capacity as much is served as at the capacity, and none of it waits
    for longer than the work takes."""
    limiter = LoadLimiter(4, timers)
    service_seconds, running = 0.004, list[tuple[float, Asked]]()
    waits = list[float]()
    arrived = dict[Asked, float]()
    for step in range(20_000):  # Two seconds, in steps of 0.1 ms, with one arrival in each.
        timers.advance(0.0001)
        for at, request in [entry for entry in running if timers.now - entry[0] >= service_seconds]:
            running.remove((at, request))
            limiter.finish(request)
        arrived[Asked()] = timers.now
        limiter.submit(next(reversed(arrived)))
        for request in [request for request in arrived if request.state != "waiting"]:
            began = arrived.pop(request)
            if request.state == "started":
                running.append((timers.now, request))
                if step > 10_000:
                    waits.append(timers.now - began)
    assert len(waits) == pytest.approx(1_000, rel=0.05)
    assert max(waits) <= 1.1 * service_seconds


def test_fewer_run_beside_a_queue(timers: Timers) -> None:
    """At most `max_running_when_yielding` requests run while requests of the other limiter wait."""
    reads = LoadLimiter(1, timers)
    changes = LoadLimiter(3, timers, preferred=reads, max_running_when_yielding=1)
    submit(reads, 2)

    submitted = submit(changes, 4)

    assert [each.state for each in submitted] == ["started", *["waiting"] * 3]
    changes.finish(submitted[0])
    assert [each.state for each in submitted[1:]] == ["started", *["waiting"] * 2]


def test_a_queue_that_ends_makes_room_beside_it(timers: Timers) -> None:
    """As many as usual are started as soon as no request of the other limiter waits, though no
    running one has finished."""
    reads = LoadLimiter(1, timers)
    changes = LoadLimiter(3, timers, preferred=reads, max_running_when_yielding=1)
    read, _ = submit(reads, 2)
    submitted = submit(changes, 4)

    reads.finish(read)

    assert [each.state for each in submitted] == [*["started"] * 3, "waiting"]


def test_an_overload_beside_shortens_the_queue(timers: Timers) -> None:
    """In an overload by the other limiter's requests no more wait than may run beside them, though
    none was refused here."""
    reads = LoadLimiter(1, timers)
    changes = LoadLimiter(3, timers, preferred=reads, max_running_when_yielding=1)
    submit(reads, 2)
    reads.note_refusal()

    assert states(submit(changes, 3)) == ["started", "waiting", "refused"]
