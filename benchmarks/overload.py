"""`python -m benchmarks.overload`: what the service does under more load than it can serve.

One server process and one worker on a temporary PostgreSQL. A closed loop finds the capacity; then
an open loop offers parts and multiples of it. Meanwhile messages are sent over the channel, and
bookings requested beside the interface whose events the worker delivers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import msgspec
import uvloop
from attrs import evolve, frozen

from benchmarks import seed
from benchmarks.channel import DIGITS_TO_LETTERS, ORIGIN, sign_in
from benchmarks.dataset import make_dataset
from benchmarks.load_generator import LoadResult, write_requests
from benchmarks.load_requests import make_requests
from benchmarks.measure import (
    SERVICE_COMMAND,
    PostgresCluster,
    ServerTarget,
    cpu_seconds,
    memory_mb,
    run_cluster,
    run_target,
    running_worker,
)
from benchmarks.open_loop import OpenLoopResult
from benchmarks.receivers import ArrivalLog, start_receivers
from benchmarks.sockets import CountingClient, connect_counting_client
from benchmarks.webhooks import (
    RequestedBooking,
    add_events,
    event_latencies,
    register_endpoints,
    wait_until_done,
)
from staffbooking_adapters.settings import load_settings
from staffbooking_adapters.testing.builders import add_user
from staffbooking_adapters.wiring import open_ports
from staffbooking_core.domain.accounts.users import Subscription
from staffbooking_core.usecases.messaging import messages
from tests.support.memory_deployment import BookingScenario, actor_of, make_booking_scenario

CAPACITY_CONNECTIONS = 32
LOADS = (0.5, 1.0, 2.0, 10.0)
"""Offered rates, as multiples of the capacity."""
MESSAGES_PER_SECOND = 20
EVENTS_PER_SECOND = 5
SETTLE_SECONDS = 2.0


@frozen
class LoadFigures:
    """One offered rate: what the load saw, and the milliseconds of messages and of events."""

    load: float
    seen: OpenLoopResult
    server_seconds: float
    """Processor time of the server."""
    message_ms: Sequence[float]
    event_ms: Sequence[float]
    memory_mb: float

    @property
    def goodput(self) -> float:
        return self.seen.good / self.seen.answering_seconds


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overload", description=__doc__)
    parser.add_argument("--companions", type=int, default=20_000, metavar="N")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each rate")
    parser.add_argument("--loads", type=float, nargs="+", default=LOADS, metavar="TIMES")
    parser.add_argument("--operation", default="mix", help="search, filter, detail, status, create")
    options = parser.parse_args()
    with run_cluster() as cluster, TemporaryDirectory(prefix="bench-") as folder:
        return uvloop.run(_run(options, cluster, Path(folder)))


async def _run(options: argparse.Namespace, cluster: PostgresCluster, folder: Path) -> int:
    world = make_dataset(options.companions, datetime.now(UTC))
    _log(f"seeding {options.companions:,} companions")
    environ = {
        "STAFFBOOKING_DATABASE_URL": await seed.fill_database(cluster.server, world),
        "STAFFBOOKING_LIMITS": ",".join(
            ("general=1000000000/1h", "bookings=1000000000/1h", "channel=1000000000/60s")
        ),
        "STAFFBOOKING_SECRET_KEY": "a-secret-for-the-benchmark-only",
        "STAFFBOOKING_ALLOWED_ORIGINS": ORIGIN,
        "STAFFBOOKING_WEBHOOK_ALLOW_INSECURE": "1",
        "STAFFBOOKING_CONNECTIONS_PER_ADDRESS": "100000",
    }
    file = write_requests(make_requests(world)[options.operation], folder / "requests.json")
    with (
        run_target("service", SERVICE_COMMAND, environ, folder / "server.log") as server,
        running_worker(environ, folder / "worker.log"),
    ):
        async with _running_probes(environ, server) as probes:
            capacity = await _find_capacity(server, file, options.seconds)
            _log(f"the capacity is {capacity:,.0f} requests per second")
            figures = [
                await _measure(probes, server, load, load * capacity, file, options.seconds)
                for load in options.loads
            ]
    _write_report(capacity, figures)
    return 0


async def _find_capacity(server: ServerTarget, file: Path, seconds: float) -> float:
    """Requests per second of a closed loop, after a warm-up."""
    for length in (seconds / 4, seconds):
        words = [str(server.port), str(length), str(CAPACITY_CONNECTIONS), str(file)]
        output = await _run_module("benchmarks.load_generator", *words)
        result = msgspec.json.decode(output, type=LoadResult)
    return result.requests / result.seconds


async def _run_module(name: str, *words: str) -> bytes:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", name, *words, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    if process.returncode:
        sys.exit(f"{name} failed")
    return output


async def _measure(
    probes: _Probes, server: ServerTarget, load: float, rate: float, file: Path, seconds: float
) -> LoadFigures:
    _log(f"{load:g} times the capacity")
    await asyncio.sleep(SETTLE_SECONDS)
    spent = cpu_seconds(server.pid)
    words = [str(server.port), str(seconds), str(rate), str(file)]
    output, message_ms, asked = await asyncio.gather(
        _run_module("benchmarks.open_loop", *words),
        probes.time_messages(seconds),
        probes.request_bookings(seconds),
    )
    await asyncio.sleep(SETTLE_SECONDS)
    return LoadFigures(
        load,
        msgspec.json.decode(output, type=OpenLoopResult),
        cpu_seconds(server.pid) - spent,
        message_ms,
        await probes.event_ms(asked),
        memory_mb(server.pid),
    )


# What the flood must not disturb ------------------------------------------------------------


@frozen
class _Probes:
    scene: BookingScenario
    arrivals: ArrivalLog
    conversation_id: int
    sender: CountingClient
    receiver: CountingClient

    async def time_messages(self, seconds: float) -> Sequence[float]:
        """Milliseconds from sending each message to its receipt by the other person; infinite if
        none came."""
        sent, received = dict[str, float](), dict[str, float]()

        def note(frame: bytes) -> None:
            if b'"new_message"' in frame:
                received[json.loads(frame)["data"]["content"]] = perf_counter()

        self.receiver.on_frame = note
        began = perf_counter()
        for number in range(int(seconds * MESSAGES_PER_SECOND)):
            await asyncio.sleep(max(0.0, began + number / MESSAGES_PER_SECOND - perf_counter()))
            content = f"hello {str(number).translate(DIGITS_TO_LETTERS)}"
            sent[content] = perf_counter()
            data = {"conversation_id": self.conversation_id, "content": content}
            self.sender.send(json.dumps({"event": "send_message", "data": data}).encode())
        await asyncio.sleep(SETTLE_SECONDS)
        return [1000 * (received.get(text, math.inf) - at) for text, at in sent.items()]

    async def request_bookings(self, seconds: float) -> Sequence[RequestedBooking]:
        """Request bookings beside the interface; the worker delivers their events."""
        return await add_events(self.scene, int(seconds * EVENTS_PER_SECOND), EVENTS_PER_SECOND)

    async def event_ms(self, asked: Sequence[RequestedBooking]) -> Sequence[float]:
        """Milliseconds from each request to the arrival of its event; infinite if none came."""
        async with self.scene.ports.store.read_view() as view:
            bodies = [
                body
                for booking_id, _ in asked
                for _, body in await view.bookings.events_of(booking_id)
            ]
        found = event_latencies(self.arrivals, asked, bodies)
        return [*found, *[math.inf] * (len(asked) - len(found))]


@asynccontextmanager
async def _running_probes(
    environ: Mapping[str, str], server: ServerTarget
) -> AsyncIterator[_Probes]:
    """Two people who write to each other over the channel, and a receiver of webhooks."""
    arrivals = ArrivalLog()
    receivers, base = await start_receivers(arrivals)
    async with receivers, open_ports(load_settings(environ)) as ports:
        scene = await make_booking_scenario(ports.policy, ports)
        # Webhooks are for subscribers; those of others are held.
        subscriber = await add_user(ports.store, subscription=Subscription.ENTERPRISE)
        scene = evolve(scene, customer=actor_of(subscriber))
        await wait_until_done(ports)  # The bookings of the dataset have events.
        await register_endpoints(evolve(scene, admin=scene.customer), [f"{base}/good/0"])
        await add_events(scene, 1)
        first = await messages.send_to_user(ports, scene.customer, scene.staff.user_id, "hello")
        clients = [
            await connect_counting_client(server.port, await sign_in(ports, person), ORIGIN)
            for person in (scene.customer, scene.staff)
        ]
        yield _Probes(scene, arrivals, first.conversation_id, *clients)
        for client in clients:
            client.transport.abort()


# Report -------------------------------------------------------------------------------------


def _write_report(capacity: float, figures: Sequence[LoadFigures]) -> None:
    lines = [
        f"The capacity is {capacity:,.0f} requests per second; times in milliseconds.",
        "",
        "| load | offered/s | goodput/s | p50 | p99 | p99 since sent | refused/s | p50 | p99 "
        "| others | message p50 | p99 | event p50 | p99 | server CPU s/s | load CPU s/s | MB |",
        "|--:" * 17 + "|",
        *map(_format_row, figures),
    ]
    sys.stdout.write("\n".join([*lines, ""]))


def _format_row(one: LoadFigures) -> str:
    seen = one.seen
    times = [seen.good_median_ms, seen.good_p99_ms, seen.good_sent_p99_ms]
    refused = [seen.refused_median_ms, seen.refused_p99_ms]
    others = ", ".join(f"{count} {what}" for what, count in seen.odd.items()) or "0"
    if seen.without_retry_after:
        others += f", {seen.without_retry_after} without Retry-After"
    cells = [
        f"{one.load:g}",
        f"{seen.offered / seen.seconds:,.0f}",
        f"{one.goodput:,.0f}",
        *(f"{ms:.0f}" for ms in times),
        f"{seen.refused / seen.answering_seconds:,.0f}",
        *(f"{ms:.0f}" for ms in refused),
        others,
        *(f"{ms:.1f}" for ms in (*_p50_p99(one.message_ms), *_p50_p99(one.event_ms))),
        f"{one.server_seconds / seen.answering_seconds:.2f}",
        f"{seen.cpu_seconds / seen.seconds:.2f}",
        f"{one.memory_mb:.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def _p50_p99(times: Sequence[float]) -> tuple[float, float]:
    ordered = sorted(times)
    return ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100]


def _log(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
