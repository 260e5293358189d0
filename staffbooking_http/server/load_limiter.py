"""Bounds the requests that a process works on, and the time that further ones wait (CONTRACT 1).

Requests wait in order of arrival. A burst may fill the queue. Once a request had to be refused, the
queue takes no more than run, so that the wait is about as long as the work: a longer queue would
delay everybody and serve nobody more.
"""

from __future__ import annotations

import math
from asyncio import TimerHandle
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

MAX_WAIT_SECONDS = 5.0
"""Long enough for a burst of costly requests, such as sign-ins, which the process can serve. In an
overload the number of waiting requests bounds the wait, not this time."""
MAX_WAITING = 256
"""Maximum waiting requests of a burst. Their heads and first bytes are in memory."""
OVERLOAD_SECONDS = 1.0
"""Time from the last refusal to the end of an overload."""
MAX_COUNTED_SECONDS = 2.0
"""A request that runs longer does not count any more: it waits for something other than this
process and its database, such as the payment processor."""


class Request(Protocol):
    """A request that is started or refused, once."""

    @property
    def is_abandoned(self) -> bool:
        """Whether the client has gone."""
        ...

    def start(self) -> None:
        """Serve the request. It counts until `finish` is called with it."""

    def refuse(self) -> None:
        """Respond 503 to the request."""


class Timers(Protocol):
    """What the limiter needs of an event loop."""

    def time(self) -> float: ...

    def call_at(self, when: float, callback: Callable[[], Any], /) -> TimerHandle: ...


class LoadLimiter:
    """Starts requests, at most `max_running` at a time; others wait for a while, or are refused."""

    def __init__(
        self,
        max_running: int,
        loop: Timers,
        *,
        preferred: LoadLimiter | None = None,
        max_running_when_yielding: int = 0,
    ) -> None:
        """While requests of the limiter `preferred` wait, at most `max_running_when_yielding` run.
        An overload there is one here too."""
        self._max_running = max_running
        self._loop = loop
        self._preferred, self._max_running_when_yielding = preferred, max_running_when_yielding
        self._yielding_limiters: list[LoadLimiter] = []
        """The limiters that run fewer requests while some wait here."""
        if preferred is not None:
            preferred._yielding_limiters.append(self)
        self._running: dict[Request, float] = {}
        """The requests that count, with the times until which they do, oldest first."""
        self._waiting: deque[tuple[float, Request]] = deque()
        """Times until which requests wait, and the requests, oldest first."""
        self._refused_at = -math.inf
        self._timer: TimerHandle | None = None

    def is_overloaded(self) -> bool:
        """Whether a new request would be refused."""
        waiting_count = len(self._waiting)
        if waiting_count < self._running_bound():
            return False
        return waiting_count >= MAX_WAITING or self._is_in_overload()

    def submit(self, request: Request) -> None:
        """Start a request, let it wait, or refuse it."""
        if not self._waiting and self._has_room():
            self._start(request)
        elif self.is_overloaded():
            self.note_refusal()
            request.refuse()
        else:
            self._waiting.append((self._loop.time() + MAX_WAIT_SECONDS, request))
            if self._timer is None:
                self._set_timer()

    def note_refusal(self) -> None:
        """Note that a request was refused, which begins an overload or extends it."""
        self._refused_at = self._loop.time()

    def pause(self, request: Request) -> bool:
        """Don't count a running request while it waits for its client. Returns whether it
        counted."""
        if self._running.pop(request, None) is None:
            return False
        self._start_waiting()
        return True

    def resume(self, request: Request) -> None:
        """Count a paused request again. It does not wait, even if as many as may run do."""
        self._count(request)

    def finish(self, request: Request) -> None:
        """Stop counting a request, if it counts, and start the next."""
        self.pause(request)

    def _running_bound(self) -> int:
        """How many may run now; in an overload as many wait."""
        is_yielding = self._preferred is not None and self._preferred._waiting
        return self._max_running_when_yielding if is_yielding else self._max_running

    def _is_in_overload(self) -> bool:
        if self._loop.time() - self._refused_at < OVERLOAD_SECONDS:
            return True
        return self._preferred is not None and self._preferred._is_in_overload()

    def _has_room(self) -> bool:
        while len(self._running) >= self._running_bound():
            oldest = next(iter(self._running), None)
            if oldest is None or self._running[oldest] > self._loop.time():
                return False
            del self._running[oldest]
        return True

    def _start(self, request: Request) -> None:
        self._count(request)
        request.start()

    def _count(self, request: Request) -> None:
        self._running[request] = self._loop.time() + MAX_COUNTED_SECONDS

    def _start_waiting(self) -> None:
        while self._waiting and self._has_room():
            _, request = self._waiting.popleft()
            if not request.is_abandoned:
                self._start(request)
        self._make_room_elsewhere()

    def _make_room_elsewhere(self) -> None:
        """Start what waits in other limiters only because requests waited here."""
        if not self._waiting:
            for limiter in self._yielding_limiters:
                limiter._start_waiting()

    def _end_waits(self) -> None:
        """Start what there is room for, then refuse what has waited for too long."""
        self._timer = None
        self._start_waiting()
        while self._waiting and self._waiting[0][0] <= self._loop.time():
            _, request = self._waiting.popleft()
            if not request.is_abandoned:
                self.note_refusal()
                request.refuse()
        self._make_room_elsewhere()
        if self._waiting:
            self._set_timer()

    def _set_timer(self) -> None:
        """Come back when the oldest running request counts no more, or the oldest waiting one has
        waited for too long."""
        counts_until = next(iter(self._running.values()), math.inf)
        due_at = min(counts_until, self._waiting[0][0])
        self._timer = self._loop.call_at(due_at, self._end_waits)
