"""A closed loop of connections against one server, in a process of its own.

Each connection sends its next request as soon as the last one is answered, over one kept
connection, never two at once. Raw sockets and the least parsing that tells where an answer
ends: what the generator costs is taken from the servers' share of the machine.

    python -m benchmarks.load_generator PORT SECONDS CONNECTIONS FILE  # prints a Result as JSON

FILE is JSON: a list of [expected status, request]. Connections take them in turn, round
and round.
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

HEAD_END = b"\r\n\r\n"
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
PATIENCE = 20.0
"""Seconds that the last answers may take once time is up."""


class Request(msgspec.Struct, array_like=True, frozen=True):
    """A request as it goes over the wire, and the status that alone is right."""

    status: int
    text: str


class Result(msgspec.Struct, frozen=True):
    """What a run met. `odd` counts everything that was not as expected."""

    requests: int
    seconds: float
    median_ms: float
    p99_ms: float
    odd: dict[str, int]


class _Run:
    """What all connections share."""

    def __init__(self, requests: Sequence[Request], connections: int) -> None:
        wire = [(str(request.status).encode(), request.text.encode()) for request in requests]
        self.next: Iterator[tuple[bytes, bytes]] = cycle(wire)
        self.latencies: list[float] = []
        self.odd: Counter[str] = Counter()
        self.over = False
        self.left = connections
        self.done = asyncio.Event()

    def closed(self) -> None:
        self.left -= 1
        if not self.left:
            self.done.set()


class _Connection(asyncio.Protocol):
    def __init__(self, run: _Run) -> None:
        self._run = run
        self._buffer = b""
        self._missing = 0

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._send()

    def data_received(self, data: bytes) -> None:
        if self._missing:
            self._buffer += data
            if len(self._buffer) < self._missing:
                return
        else:
            self._buffer = self._buffer + data if self._buffer else data
            end = self._buffer.find(HEAD_END)
            if end < 0:
                return
            length = LENGTH.search(self._buffer, 0, end)
            size = end + len(HEAD_END) + (int(length[1]) if length else 0)
            if len(self._buffer) < size:
                self._missing = size
                return
        self._answered()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._run.over:
            self._run.odd["connection lost"] += 1
        self._run.closed()

    def _answered(self) -> None:
        run, status = self._run, self._buffer[9:12]
        run.latencies.append(perf_counter() - self._began)
        if status != self._expected:
            run.odd[f"{status.decode()} in place of {self._expected.decode()}"] += 1
        self._buffer, self._missing = b"", 0
        self._send()

    def _send(self) -> None:
        if self._run.over:
            self._transport.close()
            return
        self._expected, request = next(self._run.next)
        self._began = perf_counter()
        self._transport.write(request)


async def generate(
    port: int, seconds: float, connections: int, requests: Sequence[Request]
) -> Result:
    """Load a server of this machine for some seconds."""
    loop, run = asyncio.get_running_loop(), _Run(requests, connections)
    began = perf_counter()
    for _ in range(connections):
        await loop.create_connection(lambda: _Connection(run), "127.0.0.1", port)
    await asyncio.sleep(seconds)
    run.over = True
    try:
        async with asyncio.timeout(PATIENCE):
            await run.done.wait()
    except TimeoutError:
        run.odd["never answered"] += run.left
    took = perf_counter() - began
    ordered = sorted(run.latencies) or [0.0]
    return Result(
        requests=len(run.latencies),
        seconds=took,
        median_ms=1000 * ordered[len(ordered) // 2],
        p99_ms=1000 * ordered[len(ordered) * 99 // 100],
        odd=dict(run.odd),
    )


def write_requests(requests: Sequence[Request], file: Path) -> Path:
    """What `main` reads."""
    file.write_bytes(msgspec.json.encode(requests))
    return file


def main(arguments: Sequence[str]) -> None:
    port, seconds, connections, file = arguments
    requests = msgspec.json.decode(Path(file).read_bytes(), type=list[Request])
    work = generate(int(port), float(seconds), int(connections), requests)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        result = runner.run(work)
    sys.stdout.write(msgspec.json.encode(result).decode())


if __name__ == "__main__":
    main(sys.argv[1:])
