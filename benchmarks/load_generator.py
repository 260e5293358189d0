"""A closed loop of connections to one server, in a separate process.

Each connection sends its next request when the last one is answered, without pipelining. Raw
sockets and minimal parsing keep the generator's processor time low, since it shares the machine
with the server.

    python -m benchmarks.load_generator PORT SECONDS CONNECTIONS FILE  # prints LoadResult as JSON

FILE is JSON: a list of [expected status, request]. The connections share the list and repeat it.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec
import uvloop

HEAD_TERMINATOR = b"\r\n\r\n"
CONTENT_LENGTH_PATTERN = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
DRAIN_TIMEOUT_SECONDS = 20.0
"""Seconds to wait for the last responses after the end of the run."""


class LoadRequest(msgspec.Struct, array_like=True, frozen=True):
    """The text of a request, and its expected status."""

    status: int
    text: str


class LoadResult(msgspec.Struct, frozen=True):
    """The results of a run; `odd` counts unexpected responses by kind."""

    requests: int
    seconds: float
    median_ms: float
    p99_ms: float
    odd: dict[str, int]


class _LoadRun:
    """State shared by all connections."""

    def __init__(self, requests: Sequence[LoadRequest], connections: int) -> None:
        wire = [(str(request.status).encode(), request.text.encode()) for request in requests]
        self.next: Iterator[tuple[bytes, bytes]] = cycle(wire)
        self.latencies: list[float] = []
        self.unexpected: Counter[str] = Counter()
        self.is_over = False
        self.open_connections = connections
        self.all_closed = asyncio.Event()

    def connection_closed(self) -> None:
        self.open_connections -= 1
        if not self.open_connections:
            self.all_closed.set()


class _LoadConnection(asyncio.Protocol):
    def __init__(self, run: _LoadRun) -> None:
        self._run = run
        self._buffer = b""
        self._expected_size = 0

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._send()

    def data_received(self, data: bytes) -> None:
        if self._expected_size:
            self._buffer += data
            if len(self._buffer) < self._expected_size:
                return
        else:
            self._buffer = self._buffer + data if self._buffer else data
            end = self._buffer.find(HEAD_TERMINATOR)
            if end < 0:
                return
            length = CONTENT_LENGTH_PATTERN.search(self._buffer, 0, end)
            size = end + len(HEAD_TERMINATOR) + (int(length[1]) if length else 0)
            if len(self._buffer) < size:
                self._expected_size = size
                return
        self._response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._run.is_over:
            self._run.unexpected["connection lost"] += 1
        self._run.connection_closed()

    def _response_complete(self) -> None:
        run, status = self._run, self._buffer[9:12]
        run.latencies.append(perf_counter() - self._sent_at)
        if status != self._expected_status:
            run.unexpected[f"{status.decode()} in place of {self._expected_status.decode()}"] += 1
        self._buffer, self._expected_size = b"", 0
        self._send()

    def _send(self) -> None:
        if self._run.is_over:
            self._transport.close()
            return
        self._expected_status, request = next(self._run.next)
        self._sent_at = perf_counter()
        self._transport.write(request)


async def run_load(
    port: int, seconds: float, connections: int, requests: Sequence[LoadRequest]
) -> LoadResult:
    """Load a local server for some seconds."""
    loop, run = asyncio.get_running_loop(), _LoadRun(requests, connections)
    began = perf_counter()
    for _ in range(connections):
        await loop.create_connection(lambda: _LoadConnection(run), "127.0.0.1", port)
    await asyncio.sleep(seconds)
    run.is_over = True
    try:
        async with asyncio.timeout(DRAIN_TIMEOUT_SECONDS):
            await run.all_closed.wait()
    except TimeoutError:
        run.unexpected["never answered"] += run.open_connections
    took = perf_counter() - began
    ordered = sorted(run.latencies) or [0.0]
    return LoadResult(
        requests=len(run.latencies),
        seconds=took,
        median_ms=1000 * ordered[len(ordered) // 2],
        p99_ms=1000 * ordered[len(ordered) * 99 // 100],
        odd=dict(run.unexpected),
    )


def write_requests(requests: Sequence[LoadRequest], file: Path) -> Path:
    """Write requests to a file for `main`."""
    file.write_bytes(msgspec.json.encode(requests))
    return file


def main(arguments: Sequence[str]) -> None:
    port, seconds, connections, file = arguments
    requests = msgspec.json.decode(Path(file).read_bytes(), type=list[LoadRequest])
    work = run_load(int(port), float(seconds), int(connections), requests)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        result = runner.run(work)
    sys.stdout.write(msgspec.json.encode(result).decode())


if __name__ == "__main__":
    main(sys.argv[1:])
