"""`python -m benchmarks.channel`: messages delivered per second by the channel, their latency, and
the memory of an idle connection, with one server process and with two.

All users are in one group, so that each message goes to every connection. The floor for
comparison is a server that writes each frame to all connections without checking or storing it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from time import monotonic

import uvloop
from attrs import frozen

from benchmarks.measure import (
    SERVICE_COMMAND,
    PostgresCluster,
    ServerTarget,
    cpu_seconds,
    memory_mb,
    run_cluster,
    run_target,
)
from benchmarks.sockets import CountingClient, connect_counting_client
from staffbooking_adapters.settings import load_settings
from staffbooking_adapters.sql.schema.upgrade import run_migrations
from staffbooking_adapters.testing.builders import add_companion, add_user
from staffbooking_adapters.testing.service import make_booking_request
from staffbooking_adapters.wiring import open_ports
from staffbooking_core.domain.accounts.users import Actor, Session, hash_session_token
from staffbooking_core.domain.messaging.conversations import ConversationKind
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.bookings import actions, requests
from staffbooking_core.usecases.messaging import messages
from tests.support.memory_deployment import actor_of

ORIGIN = "http://bench.local"
CONNECTIONS_PER_USER = 10
"""Connections of a user, the default limit."""
SENDER_COUNT = 32
"""Sending connections; each sends its next message when it receives its last one."""
LATENCY_LOAD_FACTOR = 0.5
"""The part of the highest rate at which latency is measured."""
SETTLE_SECONDS = 2.0
DIGITS_TO_LETTERS = str.maketrans("0123456789", "abcdefghij")
LETTERS_TO_DIGITS = str.maketrans("abcdefghij", "0123456789")


@frozen
class GroupSetup:
    """A database with a group, and the session tokens of its members."""

    environ: Mapping[str, str]
    tokens: Sequence[str]
    conversation_id: int


@frozen
class ChannelFigures:
    """Rates in frames delivered a second, times in milliseconds, memory in KiB a connection."""

    name: str
    connections: int
    frames_per_second: float
    cpu_us: float
    """Processor time of the servers per frame, in microseconds."""
    latencies: Sequence[float]
    idle_connection_kib: float


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.channel", description=__doc__)
    parser.add_argument("--connections", type=int, nargs="+", default=[200, 2_000], metavar="N")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each measurement")
    options = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with run_cluster() as cluster, TemporaryDirectory(prefix="bench-") as folder:
        figures = uvloop.run(_run(options, cluster, Path(folder)))
    sys.stdout.write(_format_report(figures))
    return 0


async def _run(
    options: argparse.Namespace, cluster: PostgresCluster, folder: Path
) -> list[ChannelFigures]:
    figures = []
    for connections in options.connections:
        async with _open_group(cluster, connections // CONNECTIONS_PER_USER) as room:
            for name, processes in (("floor", 1), ("one process", 1), ("two processes", 2)):
                _log(f"{name}, {connections} connections")
                command = SERVICE_COMMAND
                if name == "floor":
                    command = (sys.executable, "-m", "benchmarks.sockets")
                with ExitStack() as stack:
                    log = folder / "servers.log"
                    targets = [
                        stack.enter_context(run_target(name, command, room.environ, log))
                        for _ in range(processes)
                    ]
                    found = await _measure(name, room, targets, connections, options.seconds)
                    figures.append(found)
    return figures


@asynccontextmanager
async def _open_group(cluster: PostgresCluster, people: int) -> AsyncIterator[GroupSetup]:
    url = await cluster.server.create_database()
    await run_migrations(url)
    environ = {
        "STAFFBOOKING_DATABASE_URL": url,
        "STAFFBOOKING_SECRET_KEY": "a-secret-for-the-benchmark-only",
        "STAFFBOOKING_ALLOWED_ORIGINS": ORIGIN,
        "STAFFBOOKING_LIMITS": "channel=1000000000/60s,bookings=1000000/1h",
        "STAFFBOOKING_CONNECTIONS_PER_ADDRESS": "4000",
    }
    async with open_ports(load_settings(environ)) as ports:
        customer = actor_of(await add_user(ports.store))
        staff = [actor_of(await add_companion(ports.store)) for _ in range(people - 1)]
        day = (datetime.now(UTC) + timedelta(days=30)).date()
        for companion in staff:
            wanted = make_booking_request(companion.user_id, event_date=day, event_ref="gala")
            booking = await requests.request_booking(ports, customer, wanted)
            await actions.accept(ports, companion, booking.id)
        tokens = [await sign_in(ports, actor) for actor in (customer, *staff)]
        found = await messages.list_conversations(ports, staff[0], 1, 100)
        [group] = [each for each in found if each.conversation.kind is ConversationKind.GROUP]
    yield GroupSetup(environ, tokens, group.conversation.id)


async def sign_in(ports: Ports, actor: Actor) -> str:
    """The token of a new session."""
    token, now = ports.ids.token(), ports.clock.wall()
    session = Session(hash_session_token(token), actor.user_id, created_at=now, seen_at=now)
    await ports.store.run_transaction(lambda tx: tx.accounts.add_session(session))
    return token


async def _measure(
    name: str, room: GroupSetup, targets: Sequence[ServerTarget], connections: int, seconds: float
) -> ChannelFigures:
    before = [memory_mb(target.pid) for target in targets]
    listeners = [
        await connect_counting_client(
            targets[place % len(targets)].port, room.tokens[place % len(room.tokens)], ORIGIN
        )
        for place in range(connections)
    ]
    await asyncio.sleep(SETTLE_SECONDS)
    after = [memory_mb(target.pid) for target in targets]
    idle = (sum(after) - sum(before)) * 1024 / connections
    spent = sum(cpu_seconds(target.pid) for target in targets)
    rate, delivered = await _measure_throughput(room, listeners, seconds)
    spent = sum(cpu_seconds(target.pid) for target in targets) - spent
    latencies = await _measure_latency(room, listeners, rate * LATENCY_LOAD_FACTOR, seconds)
    for listener in listeners:
        listener.transport.abort()
    return ChannelFigures(
        name, connections, delivered / seconds, spent * 1e6 / delivered, latencies, idle
    )


def _message(room: GroupSetup, place: int) -> bytes:
    """A message of usual length with its sender and time, in letters because the content filter
    takes digits for phone numbers."""
    microseconds = str(int(monotonic() * 1e6)).translate(DIGITS_TO_LETTERS)
    content = f"{place} {microseconds} {'so ' * 27}"
    data = {"conversation_id": room.conversation_id, "content": content}
    return json.dumps({"event": "send_message", "data": data}).encode()


def _parse_message(frame: bytes) -> tuple[int, float] | None:
    """Sender and time of a message; None for any other frame."""
    data = json.loads(frame)
    if data["event"] == "error":
        sys.exit(f"refused: {data}")
    if data["event"] != "new_message" and "content" not in data["data"]:
        return None
    place, at, _ = data["data"]["content"].split(" ", 2)
    return int(place), int(at.translate(LETTERS_TO_DIGITS)) / 1e6


async def _measure_throughput(
    room: GroupSetup, listeners: Sequence[CountingClient], seconds: float
) -> tuple[float, int]:
    """Messages sent per second at the highest rate, and the number of delivered frames."""
    sent = 0

    def send_next(place: int) -> None:
        nonlocal sent
        sent += 1
        listeners[place].send(_message(room, place))

    def answer(place: int, frame: bytes) -> None:
        if (said := _parse_message(frame)) is not None and said[0] == place:
            send_next(place)

    begun = sum(listener.frame_count for listener in listeners)
    for place in range(SENDER_COUNT):
        listeners[place].on_frame = lambda frame, place=place: answer(place, frame)
        send_next(place)
    await asyncio.sleep(seconds)
    delivered = sum(listener.frame_count for listener in listeners) - begun
    for place in range(SENDER_COUNT):
        listeners[place].on_frame = None
    await asyncio.sleep(SETTLE_SECONDS)
    return sent / seconds, delivered


async def _measure_latency(
    room: GroupSetup, listeners: Sequence[CountingClient], rate: float, seconds: float
) -> Sequence[float]:
    """Milliseconds from send to receive, at a steady rate of messages per second, at some of the
    listeners."""
    times: list[float] = []

    def record_latency(frame: bytes) -> None:
        if (said := _parse_message(frame)) is not None:
            times.append(1000 * (monotonic() - said[1]))

    for listener in listeners[:: max(1, len(listeners) // 20)]:
        listener.on_frame = record_latency
    began, number = monotonic(), 0
    while (at := number / rate) < seconds:
        await asyncio.sleep(max(0.0, began + at - monotonic()))
        listeners[number % SENDER_COUNT].send(_message(room, number % SENDER_COUNT))
        number += 1
    await asyncio.sleep(SETTLE_SECONDS)
    return times


# Report -------------------------------------------------------------------------------------


def _format_report(figures: Sequence[ChannelFigures]) -> str:
    floors = {each.connections: each for each in figures if each.name == "floor"}
    head = [
        "| connections | server | delivered/s | of the floor | server us each "
        "| median ms | p99 ms | idle KiB each |",
        "|---|---|---|---|---|---|---|---|",
    ]
    rows = [
        f"| {each.connections:,} | {each.name} | {each.frames_per_second:,.0f} "
        f"| {each.frames_per_second / floors[each.connections].frames_per_second:.2f} "
        f"| {each.cpu_us:.1f} "
        f"| {median(each.latencies):.1f} | {quantiles(each.latencies, n=100)[-1]:.1f} "
        f"| {each.idle_connection_kib:.1f} |"
        for each in figures
    ]
    return "\n".join([*head, *rows, ""])


def _log(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
