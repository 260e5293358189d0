"""An open loop: requests arrive at a fixed mean rate, whatever the server answers.

Arrivals are a Poisson process. A request takes a free connection, or opens one while fewer than
MAX_CONNECTIONS are open, or waits for one. As many are opened before the first request, since a
generator that opens them falls behind. Times run from the arrival that the process planned, so that
a slow server or a late generator is not left out of them (no coordinated omission); those from the
sending are told too, as at a flood of more than can be refused all connections are taken.

    python -m benchmarks.open_loop PORT SECONDS RATE FILE  # prints OpenLoopResult as JSON

FILE is JSON: a list of [expected status, request].
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path
from random import Random
from time import perf_counter, process_time
from typing import Any

import msgspec
import uvloop

from benchmarks.load_generator import CONTENT_LENGTH_PATTERN, HEAD_TERMINATOR, LoadRequest

MAX_CONNECTIONS = 1_000
CONNECTIONS_AT_ONCE = 50
TICK_SECONDS = 0.001
"""Requests that arrive within a tick are sent together; what that adds counts as their time."""
DRAIN_SECONDS = 5.0
"""Seconds to wait for the last responses."""
REFUSED = b"503"


class OpenLoopResult(msgspec.Struct, frozen=True):
    """Times in milliseconds; a request that was not answered counts in `odd`."""

    offered: int
    seconds: float
    answering_seconds: float
    """From the first arrival to the last response, or until no more were waited for."""
    good: int
    good_median_ms: float
    good_p99_ms: float
    good_sent_p99_ms: float
    """From the sending."""
    refused: int
    refused_median_ms: float
    refused_p99_ms: float
    without_retry_after: int
    """Refusals that do not say when to try again."""
    odd: dict[str, int]
    cpu_seconds: float
    """Processor time of the generator."""


class _Run:
    def __init__(self, port: int, requests: Sequence[LoadRequest]) -> None:
        wire = [(str(request.status).encode(), request.text.encode()) for request in requests]
        self.port = port
        self.next: Iterator[tuple[bytes, bytes]] = cycle(wire)
        self.free: list[_Connection] = []
        self.waiting: deque[tuple[float, bytes, bytes]] = deque()
        self.connection_count = 0
        self.good: list[float] = []
        self.good_since_sent: list[float] = []
        self.refused: list[float] = []
        self.without_retry_after = 0
        self.odd: Counter[str] = Counter()
        self.offered = 0

    def arrive(self, at: float) -> None:
        """Send the next request on a free connection, on a new one, or when one is free."""
        self.offered += 1
        status, request = next(self.next)
        if self.free:
            self.free.pop().send(at, status, request)
            return
        self.waiting.append((at, status, request))
        if self.connection_count < MAX_CONNECTIONS:
            self.open_connection()

    def open_connection(self) -> asyncio.Task[None]:
        self.connection_count += 1
        return asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: _Connection(self), "127.0.0.1", self.port
            )
        except OSError as error:
            self.connection_count -= 1
            self.odd[type(error).__name__] += 1

    def connection_is_free(self, connection: _Connection) -> None:
        if self.waiting:
            connection.send(*self.waiting.popleft())
        else:
            self.free.append(connection)

    def connection_lost(self, connection: _Connection) -> None:
        self.connection_count -= 1
        if connection in self.free:
            self.free.remove(connection)

    @property
    def answered(self) -> int:
        return len(self.good) + len(self.refused) + self.odd.total()


class _Connection(asyncio.Protocol):
    def __init__(self, run: _Run) -> None:
        self._run = run
        self._buffer = b""
        self._is_busy = False

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._run.connection_is_free(self)

    def send(self, at: float, status: bytes, request: bytes) -> None:
        self._arrived_at, self._expected_status = at, status
        self._is_busy = True
        self._sent_at = perf_counter()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._buffer = self._buffer + data if self._buffer else data
        end = self._buffer.find(HEAD_TERMINATOR)
        if end < 0:
            return
        length = CONTENT_LENGTH_PATTERN.search(self._buffer, 0, end)
        if len(self._buffer) >= end + len(HEAD_TERMINATOR) + (int(length[1]) if length else 0):
            self._answered(self._buffer[:end])

    def _answered(self, head: bytes) -> None:
        run, status = self._run, head[9:12]
        now = perf_counter()
        took = now - self._arrived_at
        if status == self._expected_status:
            run.good.append(took)
            run.good_since_sent.append(now - self._sent_at)
        elif status == REFUSED:
            run.refused.append(took)
            run.without_retry_after += b"\r\nretry-after: " not in head
        else:
            run.odd[f"{status.decode()} in place of {self._expected_status.decode()}"] += 1
        self._buffer, self._is_busy = b"", False
        run.connection_is_free(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._is_busy:
            self._run.odd["connection lost"] += 1
        self._run.connection_lost(self)


async def run_open_loop(
    port: int, seconds: float, rate: float, requests: Sequence[LoadRequest]
) -> OpenLoopResult:
    """Load a local server for some seconds with `rate` requests per second."""
    run, dice = _Run(port, requests), Random(rate)
    while run.connection_count < MAX_CONNECTIONS:
        await asyncio.gather(*(run.open_connection() for _ in range(CONNECTIONS_AT_ONCE)))
    began, spent = perf_counter(), process_time()
    at = began + dice.expovariate(rate)
    while at < began + seconds:
        now = perf_counter()
        while at <= now:
            run.arrive(at)
            at += dice.expovariate(rate)
        await asyncio.sleep(TICK_SECONDS)
    spent = process_time() - spent
    for _ in range(int(DRAIN_SECONDS / 0.01)):
        if run.answered == run.offered:
            break
        await asyncio.sleep(0.01)
    if unanswered := run.offered - run.answered:
        run.odd["never answered"] += unanswered
    return OpenLoopResult(
        run.offered,
        seconds,
        perf_counter() - began,
        len(run.good),
        *_median_and_p99(run.good),
        _median_and_p99(run.good_since_sent)[1],
        len(run.refused),
        *_median_and_p99(run.refused),
        run.without_retry_after,
        dict(run.odd),
        spent,
    )


def _median_and_p99(seconds: Sequence[float]) -> tuple[float, float]:
    """Both in milliseconds."""
    ordered = sorted(seconds) or [0.0]
    return 1000 * ordered[len(ordered) // 2], 1000 * ordered[len(ordered) * 99 // 100]


def main(arguments: Sequence[str]) -> None:
    port, seconds, rate, file = arguments
    requests = msgspec.json.decode(Path(file).read_bytes(), type=list[LoadRequest])
    work = run_open_loop(int(port), float(seconds), float(rate), requests)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        result = runner.run(work)
    sys.stdout.write(msgspec.json.encode(result).decode())


if __name__ == "__main__":
    main(sys.argv[1:])
