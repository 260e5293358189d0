"""`python -m benchmarks.webhooks`: deliveries per second, delay of retries, and the effect of
hanging receivers on others.

One worker process on a temporary PostgreSQL with durable commits; the receivers run in this
process with minimal overhead.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from time import time

import aiohttp
import asyncpg
import uvloop
from attrs import evolve, frozen

from benchmarks.bare_sender import send_over_raw_sockets
from benchmarks.measure import PostgresCluster, run_cluster, running_worker
from benchmarks.receivers import ArrivalLog, start_receivers
from staffbooking_adapters.settings import load_settings
from staffbooking_adapters.sql.schema.upgrade import run_migrations
from staffbooking_adapters.wiring import open_ports
from staffbooking_core.domain.webhooks.deliveries import (
    WEBHOOK_EVENTS,
    EndpointSecrets,
    WebhookEndpoint,
    delivery_headers,
)
from staffbooking_core.ports import NewWebhookEndpoint, Ports, Transaction
from staffbooking_core.usecases import due_work
from staffbooking_core.usecases.webhooks.deliveries import WEBHOOK_SECRET_PURPOSE
from tests.support.memory_deployment import BookingScenario, make_booking_scenario
from tests.support.postgres import driver_url

MAX_IN_FLIGHT = 64
"""Requests in flight of the two floors, and of the worker with 16 endpoints."""
ENDPOINT_COUNT = 16
FLAKY_ENDPOINT_COUNT = 20
ISOLATION_EVENTS_PER_SECOND = 20
"""Events per second to ten endpoints while isolation is measured."""
RETRY_EVENTS_PER_SECOND = 25
"""Events per second to 36 endpoints, 20 of which refuse each at first: with the retries about 1,400
deliveries per second, close to the capacity of one worker."""
POLL_INTERVAL_SECONDS = 0.1
RUN_TIMEOUT_SECONDS = 300.0


RequestedBooking = tuple[int, float]
"""The id of a booking, and the time of its request in Unix seconds."""


@frozen
class WebhookBenchmarkResult:
    """Rates in deliveries per second, times in milliseconds."""

    worker_rate: float
    aiohttp_rate: float
    raw_socket_rate: float
    retry_lateness_ms: Sequence[float]
    quiet_latencies_ms: Sequence[float]
    one_hanging_latencies_ms: Sequence[float]
    half_hanging_latencies_ms: Sequence[float]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.webhooks", description=__doc__)
    parser.add_argument("--events", type=int, default=1_000, metavar="N")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each look at isolation")
    options = parser.parse_args()
    with run_cluster() as cluster, TemporaryDirectory(prefix="bench-") as folder:
        figures = uvloop.run(_run(options, cluster, Path(folder)))
    sys.stdout.write(_format_report(figures))
    return 0


async def _run(
    options: argparse.Namespace, cluster: PostgresCluster, folder: Path
) -> WebhookBenchmarkResult:
    got = ArrivalLog()
    server, base = await start_receivers(got)
    log = folder / "worker.log"
    async with server:
        _log("the floors")
        body = b'{"id":"evt_1","data":"%s"}' % (b"x" * 1_000)
        floor = await send_over_raw_sockets(base + "/good/0", body, MAX_IN_FLIGHT, 20_000)
        client = await _aiohttp_rate(base + "/good/0", body, 10_000)
        got.clear()
        async with _deployment(cluster) as (environ, scene):
            worker = await _measure_throughput(environ, scene, base, got, log, options.events)
            lateness = await _measure_retry_lateness(environ, scene, base, log)
        quiet, one_hangs, half_hang = [
            await _measure_isolation(cluster, base, got, log, hanging, options.seconds)
            for hanging in (0, 1, 5)
        ]
    return WebhookBenchmarkResult(worker, client, floor, lateness, quiet, one_hangs, half_hang)


@asynccontextmanager
async def _deployment(
    cluster: PostgresCluster,
) -> AsyncIterator[tuple[Mapping[str, str], BookingScenario]]:
    """A new database with users."""
    url = await cluster.server.create_database()
    await run_migrations(url)
    environ = {
        "STAFFBOOKING_DATABASE_URL": url,
        "STAFFBOOKING_SECRET_KEY": "a-secret-for-the-benchmark-only",
        "STAFFBOOKING_WEBHOOK_ALLOW_INSECURE": "1",
    }
    async with open_ports(load_settings(environ)) as ports:
        yield environ, await make_booking_scenario(ports.policy, ports)


async def register_endpoints(scene: BookingScenario, urls: Sequence[str]) -> None:
    """Add endpoints of the admin, who gets every event, beyond the limit of ten."""
    ports = scene.ports

    async def unit(tx: Transaction) -> None:
        for url in urls:
            new = NewWebhookEndpoint(
                scene.admin.user_id, url, frozenset(WEBHOOK_EVENTS), None, datetime.now(UTC)
            )
            await tx.webhooks.save_endpoints(
                [_with_sealed_secret(ports, await tx.webhooks.add_endpoint(new))]
            )

    await ports.store.run_transaction(unit)


def _with_sealed_secret(ports: Ports, endpoint: WebhookEndpoint) -> WebhookEndpoint:
    secret = ports.ids.webhook_secret().encode()
    return evolve(
        endpoint,
        secrets=EndpointSecrets(ports.vault.seal(WEBHOOK_SECRET_PURPOSE, secret, endpoint.id)),
    )


async def add_events(
    scene: BookingScenario, count: int, rate: float | None = None
) -> list[RequestedBooking]:
    """Request `count` bookings at a rate per second, or as fast as possible; returns ids and
    request times."""
    day = (datetime.now(UTC) + timedelta(days=30)).date()
    asked = []
    for _ in range(count):
        began = time()
        booking = await scene.request(event_date=day)
        asked.append((booking.id, began))
        if rate is not None:
            await asyncio.sleep(max(0.0, 1 / rate - (time() - began)))
    return asked


async def wait_until_done(ports: Ports) -> None:
    """Wait until every event is published, and every delivery finished."""
    began = time()
    while True:
        async with ports.store.read_view() as view:
            figures = await view.webhooks.stats(ports.clock.wall())
        if not figures.unplaced and not figures.pending:
            return
        if time() - began > RUN_TIMEOUT_SECONDS:
            sys.exit("the deliveries don't come to an end")
        await asyncio.sleep(POLL_INTERVAL_SECONDS)


# Throughput -------------------------------------------------------------------------------


async def _measure_throughput(
    environ: Mapping[str, str],
    scene: BookingScenario,
    base: str,
    got: ArrivalLog,
    log: Path,
    events: int,
) -> float:
    """Deliveries per second of one worker, from the first to the last."""
    _log(f"{events * ENDPOINT_COUNT:,} deliveries to ideal receivers")
    await register_endpoints(scene, [f"{base}/good/{n}" for n in range(ENDPOINT_COUNT)])
    await add_events(scene, events)
    # Notices and payments of the bookings are done before, so that deliveries alone are measured.
    await due_work.run_due_for(scene.ports, RUN_TIMEOUT_SECONDS)
    with running_worker(environ, log):
        await wait_until_done(scene.ports)
    times = got.times(b"/good")
    return (len(times) - 1) / (times[-1] - times[0])


async def _aiohttp_rate(url: str, body: bytes, count: int) -> float:
    """Requests per second of aiohttp with signing only."""
    left = iter(range(count))
    secret = "whsec_" + "A" * 43 + "="

    async def send(session: aiohttp.ClientSession) -> None:
        for _ in left:
            signed = delivery_headers(
                [secret], "evt_1", "booking.created", 1, body, datetime.now(UTC)
            )
            async with session.post(url, data=body, headers=signed) as answer:
                await answer.read()

    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        began = time()
        await asyncio.gather(*(send(session) for _ in range(MAX_IN_FLIGHT)))
        return count / (time() - began)


# Retries ----------------------------------------------------------------------------------


async def _measure_retry_lateness(
    environ: Mapping[str, str], scene: BookingScenario, base: str, log: Path
) -> Sequence[float]:
    """Milliseconds by which each of 2,000 retries began after its due time, under load."""
    _log("2,000 retries under load")
    await register_endpoints(scene, [f"{base}/flaky/{n}" for n in range(FLAKY_ENDPOINT_COUNT)])
    with running_worker(environ, log):
        await add_events(scene, 1)  # Its delivery means that the worker is warm.
        await wait_until_done(scene.ports)
        await add_events(scene, 2_000 // FLAKY_ENDPOINT_COUNT, RETRY_EVENTS_PER_SECOND)
        await wait_until_done(scene.ports)
    connection = await asyncpg.connect(driver_url(environ["STAFFBOOKING_DATABASE_URL"]))
    try:
        rows = await connection.fetch(
            """SELECT extract(epoch FROM retry.at - failed.at) * 1000
                      - failed.duration_ms - 1000 AS late
               FROM webhook_attempts AS retry
               JOIN webhook_attempts AS failed
                 ON failed.delivery_id = retry.delivery_id AND failed.number = 1
               WHERE retry.number = 2 AND failed.error IS NOT NULL
               ORDER BY failed.at OFFSET $1""",
            FLAKY_ENDPOINT_COUNT,
        )
    finally:
        await connection.close()
    late = [float(row["late"]) for row in rows]
    if len(late) != 2_000:
        sys.exit(f"{len(late)} retries, not 2,000")
    return late


# Isolation --------------------------------------------------------------------------------


async def _measure_isolation(
    cluster: PostgresCluster, base: str, got: ArrivalLog, log: Path, hanging: int, seconds: float
) -> Sequence[float]:
    """Milliseconds from the request of a booking to the arrival of its event at each healthy
    endpoint, while `hanging` of ten endpoints hang until their timeout."""
    _log(f"{hanging} of 10 endpoints hang")
    async with _deployment(cluster) as (environ, scene):
        kinds = ["hang"] * hanging + ["good"] * (10 - hanging)
        await register_endpoints(scene, [f"{base}/{kind}/{n}" for n, kind in enumerate(kinds)])
        got.clear()
        with running_worker(environ, log):
            await add_events(scene, 1)
            await got.arrived.wait()  # The worker is warm now.
            asked = await add_events(
                scene, int(seconds * ISOLATION_EVENTS_PER_SECOND), ISOLATION_EVENTS_PER_SECOND
            )
            await asyncio.sleep(2)
        async with scene.ports.store.read_view() as view:
            bodies = await view.webhooks.feed_events_after(None, 1, WEBHOOK_EVENTS, len(asked))
    return event_latencies(got, asked, bodies)


def event_latencies(
    got: ArrivalLog, asked: Sequence[RequestedBooking], bodies: Sequence[bytes]
) -> Sequence[float]:
    """Milliseconds from the request of each booking to the arrival of its event."""
    began = dict(asked)
    of_event = {_event_id_of(body): began[_booking_id_of(body)] for body in bodies}
    return [
        1000 * (times[0] - of_event[event_id])
        for (path, event_id), times in got.arrivals.items()
        if path.startswith(b"/good") and event_id in of_event
    ]


def _event_id_of(body: bytes) -> bytes:
    return body.split(b'"id":"', 1)[1].split(b'"', 1)[0]


def _booking_id_of(body: bytes) -> int:
    return int(body.split(b'"booking":{"id":', 1)[1].split(b",", 1)[0])


# Report -----------------------------------------------------------------------------------


def _format_report(figures: WebhookBenchmarkResult) -> str:
    quiet = _p99(figures.quiet_latencies_ms)
    rows = [
        ("nothing hangs", figures.quiet_latencies_ms),
        ("1 of 10 hangs", figures.one_hanging_latencies_ms),
        ("5 of 10 hang", figures.half_hanging_latencies_ms),
    ]
    return "\n".join(
        [
            "| sent, with 64 in flight | a second | of raw sockets | of bare aiohttp |",
            "|---|---|---|---|",
            _rate_row("raw sockets, nothing stored", figures.raw_socket_rate, figures),
            _rate_row("bare aiohttp, signed, nothing stored", figures.aiohttp_rate, figures),
            _rate_row("one worker, claimed, signed, stored", figures.worker_rate, figures),
            "",
            f"Retries (2,000) began {median(figures.retry_lateness_ms):.0f} ms (median), "
            f"{_p99(figures.retry_lateness_ms):.0f} ms (p99) after their wait; "
            f"the earliest {min(figures.retry_lateness_ms):.1f} ms.",
            "",
            "| from the request to a healthy receiver | median ms | p99 ms | p99, quiet = 1 |",
            "|---|---|---|---|",
            *(
                f"| {name} | {median(times):.0f} | {_p99(times):.0f} | {_p99(times) / quiet:.2f} |"
                for name, times in rows
            ),
            "",
        ]
    )


def _rate_row(name: str, rate: float, figures: WebhookBenchmarkResult) -> str:
    ratios = f"{rate / figures.raw_socket_rate:.2f} | {rate / figures.aiohttp_rate:.2f}"
    return f"| {name} | {rate:,.0f} | {ratios} |"


def _p99(samples: Sequence[float]) -> float:
    return quantiles(samples, n=100)[-1]


def _log(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
