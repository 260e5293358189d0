"""`python -m benchmarks.money`: reconciles many bookings in one pass, and makes many payouts at
once, with real commands and a worker on a temporary PostgreSQL, and the fake processor.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import date, timedelta
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

import asyncpg
from attrs import frozen

from benchmarks.booking_clones import (
    add_clones,
    read_original,
    set_sequences_apart,
    vacuum_and_analyze,
)
from benchmarks.measure import PROCESS_TIMEOUT_SECONDS, PostgresCluster, run_cluster
from staffbooking_adapters.settings import load_settings
from staffbooking_adapters.sql.schema.upgrade import run_migrations
from staffbooking_adapters.wiring import open_ports
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.payments.ledger import MovementKind
from staffbooking_core.usecases.bookings import actions as acts
from tests.support.memory_deployment import (
    BookingScenario,
    make_booking_scenario,
    with_another_companion,
    with_another_customer,
)
from tests.support.postgres import driver_url

STAFFBOOKING_COMMAND = ("-m", "staffbooking_cli.main")
COMPANION_COUNT = 200
"""Number of companions of the bookings."""
FIRST_PASS_DIVISOR = 10
"""Divides the number of bookings for the first of two measurements."""
QUIET_CHECKOUT_COUNT = 60
"""Checkouts opened without other load."""
POLL_INTERVAL_SECONDS = 0.25
PAYOUTS_TIMEOUT_SECONDS = 600.0


@frozen
class ReconcilePass:
    """One run of `payments reconcile`."""

    bookings: int
    seconds: float
    memory_mb: float


@frozen
class PayoutBurst:
    """Results of payouts that were due at the same moment."""

    payouts: int
    seconds: float
    idle_checkout_ms: list[float]
    """Times to accept a booking and open its checkout, without other load."""
    busy_checkout_ms: list[float]


def main() -> int:
    options = _parse_options()
    with run_cluster() as cluster, TemporaryDirectory(prefix="bench-") as folder:
        passes, rush = asyncio.run(_run(options, cluster, Path(folder)))
    sys.stdout.write(_format_report(passes, rush))
    return 0


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.money", description=__doc__)
    parser.add_argument("--bookings", type=int, default=100_000, metavar="N")
    parser.add_argument("--payouts", type=int, default=1_000, metavar="N")
    parser.add_argument("--quick", action="store_true", help="5,000 bookings, 100 payouts")
    options = parser.parse_args()
    if options.quick:
        options.bookings, options.payouts = 5_000, 100
    return options


async def _run(
    options: argparse.Namespace, cluster: PostgresCluster, folder: Path
) -> tuple[list[ReconcilePass], PayoutBurst]:
    url = await cluster.server.create_database("money")
    await run_migrations(url)
    environ = {
        "STAFFBOOKING_DATABASE_URL": url,
        "STAFFBOOKING_SECRET_KEY": "a-secret-for-the-benchmark-only",
    }
    connection = await asyncpg.connect(driver_url(url))
    try:
        async with _open_scenario(environ) as scene:
            await set_sequences_apart(connection)
            companions = [
                (await with_another_companion(scene)).staff.user_id for _ in range(COMPANION_COUNT)
            ]
            passes = await _measure_reconcile_passes(
                options.bookings, environ, connection, scene, companions
            )
            first = options.bookings + 1
            with _running_worker(environ, folder / "worker.log"):
                rush = await _measure_payout_burst(
                    options.payouts, first, connection, scene, companions
                )
            _log("reconciling all of it once more")
            _reconcile(environ, options.bookings + options.payouts)
    finally:
        await connection.close()
    return passes, rush


@asynccontextmanager
async def _open_scenario(environ: Mapping[str, str]) -> AsyncIterator[BookingScenario]:
    async with open_ports(load_settings(environ)) as ports:
        yield await make_booking_scenario(ports.policy, ports)


async def _date_ahead(scene: BookingScenario, ahead: int) -> date:
    return (await scene.now()).date() + timedelta(days=ahead)


# Reconciliation -----------------------------------------------------------------------------


async def _measure_reconcile_passes(
    bookings: int,
    environ: Mapping[str, str],
    connection: Any,
    scene: BookingScenario,
    companions: Sequence[int],
) -> list[ReconcilePass]:
    """Reconcile few and then many bookings; memory should not grow."""
    booking = await scene.paid_out(event_date=await _date_ahead(scene, 4))
    original = await read_original(connection, booking.id, companions)
    few = bookings // FIRST_PASS_DIVISOR
    passes = []
    for first, count in ((1, few), (few + 1, bookings - few)):
        _log(f"seeding {count:,} bookings")
        await add_clones(connection, original, first, count)
        await vacuum_and_analyze(connection)
        passes.append(_reconcile(environ, first + count - 1))
    return passes


def _reconcile(environ: Mapping[str, str], bookings: int) -> ReconcilePass:
    """Run the command; exits if it reports a difference."""
    began = monotonic()
    words = [sys.executable, *STAFFBOOKING_COMMAND, "payments", "reconcile"]
    process = subprocess.Popen(words, env={**os.environ, **environ}, stdout=subprocess.PIPE)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        output = process.stdout.read().decode() if process.stdout else ""
        sys.exit(f"payments reconcile failed: {output[-2000:]}")
    return ReconcilePass(bookings, monotonic() - began, usage.ru_maxrss / 1024)


# Payouts ------------------------------------------------------------------------------------


@contextmanager
def _running_worker(environ: Mapping[str, str], log: Path) -> Iterator[None]:
    with log.open("ab") as output:
        worker = subprocess.Popen(
            [sys.executable, *STAFFBOOKING_COMMAND, "worker"],
            env={**os.environ, **environ},
            stdout=output,
            stderr=output,
        )
    try:
        yield
    finally:
        worker.terminate()
        worker.wait(PROCESS_TIMEOUT_SECONDS)


async def _measure_payout_burst(
    payouts: int, first: int, connection: Any, scene: BookingScenario, companions: Sequence[int]
) -> PayoutBurst:
    """Make `payouts` payouts due at one moment and open checkouts meanwhile."""
    _log(f"seeding {payouts:,} payouts")
    booking = await scene.completed(event_date=await _date_ahead(scene, 4))
    original = await read_original(connection, booking.id, companions)
    await add_clones(connection, original, first, payouts)
    await vacuum_and_analyze(connection)
    requests = _request_bookings(
        scene := await with_another_customer(await with_another_companion(scene))
    )
    quiet = [
        await _open_checkout(scene, await anext(requests)) for _ in range(QUIET_CHECKOUT_COUNT)
    ]
    assert booking.payout_due_at is not None
    await scene.jump_to(booking.payout_due_at)
    began, busy = monotonic(), []
    while await _count_unpaid(connection, first, payouts):
        if monotonic() - began > PAYOUTS_TIMEOUT_SECONDS:
            sys.exit("the payouts don't come to an end")
        busy.append(await _open_checkout(scene, await anext(requests)))
        await asyncio.sleep(POLL_INTERVAL_SECONDS)
    seconds = monotonic() - began
    await _assert_payouts_sent_once(scene, first, payouts)
    return PayoutBurst(payouts, seconds, quiet, busy)


async def _request_bookings(scene: BookingScenario) -> AsyncIterator[Booking]:
    """Request bookings one after another, each on a later day."""
    ahead = 30
    while True:
        ahead += 1
        yield await scene.request(event_date=await _date_ahead(scene, ahead))


async def _open_checkout(scene: BookingScenario, booking: Booking) -> float:
    """Milliseconds from the acceptance until the checkout is open."""
    began = monotonic()
    await scene.accept(booking)
    await acts.open_checkout(scene.ports, scene.customer, booking.id)
    return 1000 * (monotonic() - began)


async def _count_unpaid(connection: Any, first: int, count: int) -> int:
    query = "SELECT count(*) FROM bookings WHERE id BETWEEN $1 AND $2 AND payout_status <> 'paid'"
    unpaid: int = await connection.fetchval(query, first, first + count - 1)
    return unpaid


async def _assert_payouts_sent_once(scene: BookingScenario, first: int, count: int) -> None:
    sent = [
        line.intent_id
        async for line in scene.ports.payments.statement()
        if line.kind is MovementKind.PAYOUT and first <= (line.intent_id or 0) < first + count
    ]
    if sent != list(range(first, first + count)):
        sys.exit(f"{len(sent)} payouts of {len(set(sent))} bookings, not {count}")


# Report -------------------------------------------------------------------------------------


def _format_report(passes: list[ReconcilePass], rush: PayoutBurst) -> str:
    lines = [
        "| `payments reconcile` of | seconds | bookings/s | peak memory MB |",
        "|---|---|---|---|",
        *(
            f"| {one.bookings:,} bookings | {one.seconds:.1f} | {one.bookings / one.seconds:,.0f} "
            f"| {one.memory_mb:.0f} |"
            for one in passes
        ),
        "",
        f"{rush.payouts:,} payouts due at one moment were all sent once in {rush.seconds:.1f} s "
        f"({rush.payouts / rush.seconds:.0f}/s) by one worker.",
        "",
        "| accepting a booking and opening its checkout | median ms | p95 ms |",
        "|---|---|---|",
        f"| nothing else going on ({len(rush.idle_checkout_ms)}) "
        f"| {_format_latencies(rush.idle_checkout_ms)} |",
        f"| during the payouts ({len(rush.busy_checkout_ms)}) "
        f"| {_format_latencies(rush.busy_checkout_ms)} |",
        "",
    ]
    return "\n".join(lines)


def _format_latencies(samples: list[float]) -> str:
    return f"{median(samples):.0f} | {quantiles(samples, n=20)[-1]:.0f}"


def _log(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
