"""Refuses requests while more wait than can be served: 503 `overloaded` (CONTRACT 1).

Reading and changing have slots of their own, so that a flood of the one leaves room for the other.
The channel and the operations paths take none. A refusal is made without the store and before the
body is read, and has no line in the access log: what it costs is taken from the requests that are
served.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from time import monotonic
from typing import Protocol

from staffbooking_http.api.mounting import base_path
from staffbooking_http.app import StaffbookingApp
from staffbooking_http.channel.frames import CHANNEL_PATH, SOCKETIO_PATHS
from staffbooking_http.server.load_limiter import LoadLimiter
from staffbooking_http.server.refusals import Refusals
from staffbooking_http.server.request_scan import RequestScanner

MAX_RUNNING_READS = 16
MAX_RUNNING_CHANGES = 16
"""Requests at a time: a few more than the connections to the database, which keeps it and the
processor busy. Each further one only delays the others, and the channel."""
MAX_CHANGES_WHEN_READS_WAIT = 2
"""Changes that run while reads wait: each takes as much of the processors as several reads, so that
more would leave hardly any reads in an overload by both."""
HOLD_SECONDS = 0.005
MAX_RECEIVING_SECONDS = 0.001
"""How long requests are held in an overload, and how long they are then looked at, one after
another: a refusal between other code takes several times as long. So refusals take no more than a
sixth of the process, and a flood delays neither messages nor the requests that are served."""
LOG_INTERVAL_SECONDS = 1.0

_READING_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_OPERATIONS_PATHS = ("/healthz", "/readyz", "/metrics")

log = logging.getLogger("staffbooking.http")


class HoldingConnection(Protocol):
    """A connection that holds a request."""

    def receive_held(self) -> None:
        """Serve or refuse the request."""


class Overload:
    """The limiters of a server, and what it answers to the requests that they refuse."""

    def __init__(self, application: StaffbookingApp) -> None:
        self.refusals = Refusals(application)
        self._loop = asyncio.get_running_loop()
        self._reads = LoadLimiter(MAX_RUNNING_READS, self._loop)
        self._changes = LoadLimiter(
            MAX_RUNNING_CHANGES,
            self._loop,
            preferred=self._reads,
            max_running_when_yielding=MAX_CHANGES_WHEN_READS_WAIT,
        )
        paths = (*_OPERATIONS_PATHS, CHANNEL_PATH, *SOCKETIO_PATHS)
        prefix = base_path(application.site.ports.policy)
        # A proxy may strip the base path, or pass it on.
        self._exempt_paths = {*paths, *(prefix + path for path in paths)}
        self._scanner = RequestScanner()
        self._metrics = application.site.load_metrics
        self._unlogged_count = 0
        self._holding: deque[HoldingConnection] = deque()

    def limiter_of(self, method: str, path: str) -> LoadLimiter | None:
        """The limiter of a request; None if it takes no slot."""
        if path in self._exempt_paths:
            return None
        return self._reads if method in _READING_METHODS else self._changes

    def is_overloaded(self) -> bool:
        """Whether a new request may be refused."""
        return self._reads.is_overloaded() or self._changes.is_overloaded()

    def refuse_early(self, data: bytes, client: tuple[str, int] | None) -> bytes | None:
        """The response to the request that `data` is, if it is refused and can be without a parse.
        None if it is served, or is for the application to refuse."""
        if (found := self._scanner.scan(data)) is None or b"text/html" in data:
            return None
        method, path = found
        limiter = self.limiter_of(method, path)
        if limiter is None or not limiter.is_overloaded() or method == "HEAD":
            return None
        limiter.note_refusal()
        self.count_refusal()
        return self.refusals.encode(path, client, data)

    def is_exempt(self, data: bytes) -> bool:
        """Whether bytes begin a request that takes no slot, of an operator or the channel: it does
        not wait behind a flood."""
        target = data.partition(b" ")[2].partition(b" ")[0]
        return target.partition(b"?")[0].decode("latin-1") in self._exempt_paths

    def hold(self, connection: HoldingConnection) -> None:
        """Let a connection receive its request after HOLD_SECONDS, together with others."""
        if not self._holding:
            self._loop.call_later(HOLD_SECONDS, self._receive_held)
        self._holding.append(connection)

    def _receive_held(self) -> None:
        end = monotonic() + MAX_RECEIVING_SECONDS
        while self._holding and monotonic() < end:
            self._holding.popleft().receive_held()
        if self._holding:
            self._loop.call_later(HOLD_SECONDS, self._receive_held)

    def count_refusal(self) -> None:
        """Count a refusal for the metrics and the log, which has one line a second."""
        self._metrics.refused_requests += 1
        if not self._unlogged_count:
            self._loop.call_later(LOG_INTERVAL_SECONDS, self._log)
        self._unlogged_count += 1

    def _log(self) -> None:
        log.warning("overloaded: %d requests were refused within a second", self._unlogged_count)
        self._unlogged_count = 0
