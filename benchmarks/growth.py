"""`python -m benchmarks.growth`: what the store's calls cost from 10,000 to 1,000,000 rows of each
kind, on a temporary PostgreSQL and on SQLite; without searches, which `benchmarks.companions`
measures.

On PostgreSQL the cost is the pages that a call reads (buffers) and its time there, on SQLite
processor time.
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import sys
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any, TypeAlias
from unittest.mock import patch

import asyncpg
from sqlalchemy import make_url

from benchmarks import measure
from benchmarks.growth_calls import claims, reads
from benchmarks.growth_rows import Originals, RowCopier
from staffbooking_adapters.settings import load_settings
from staffbooking_adapters.sql.schema.upgrade import run_migrations
from staffbooking_adapters.testing.builders import (
    add_session,
    make_audit_entry,
    make_processor_event,
    make_stored_response,
    next_revision,
    save_booking,
)
from staffbooking_adapters.testing.builders_notifications import add_notification
from staffbooking_adapters.testing.builders_reviews import add_review
from staffbooking_adapters.testing.builders_webhooks import add_endpoint
from staffbooking_adapters.wiring import open_ports
from staffbooking_core.domain.bookings.alerts import Alert
from staffbooking_core.domain.companions.calendar_subscriptions import CalendarSubscription
from staffbooking_core.domain.notifications.inquiries import NewInquiry
from staffbooking_core.domain.webhooks.deliveries import DeliveryAttempt
from staffbooking_core.errors import StoreUnavailable
from staffbooking_core.ports import Ports, Transaction
from staffbooking_core.usecases.messaging import messages
from staffbooking_core.usecases.webhooks.deliveries import publish_events
from tests.support.memory_deployment import BookingScenario, make_booking_scenario
from tests.support.postgres import driver_url

_INDEXES = (
    "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' "
    "AND indexname NOT IN (SELECT conname FROM pg_constraint)"
)
SIZES = (10_000, 100_000, 1_000_000)
POSTGRESQL_CALLS, SQLITE_CALLS = 2, 5
Call: TypeAlias = Callable[[Any], Awaitable[Any]]
Cost: TypeAlias = str


class _RolledBack(Exception):
    """Ends each measured transaction, so that the next one finds the same rows."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, metavar="N")
    parser.add_argument("--stores", nargs="+", default=["postgresql", "sqlite"], metavar="STORE")
    parser.add_argument("--quick", action="store_true", help="10,000 and 20,000 rows alone")
    options = parser.parse_args()
    sizes = (10_000, 20_000) if options.quick else tuple(options.sizes)
    counted = {"shared_preload_libraries": "pg_stat_statements"}
    with (
        patch.dict(measure.POSTGRES_SETTINGS, counted),
        measure.run_cluster() as cluster,
        TemporaryDirectory(prefix="bench-") as folder,
    ):
        for store in options.stores:
            costs: dict[str, list[Cost]] = defaultdict(list)
            for size in sizes:
                sys.stderr.write(f"{size:,} rows on {store}\n")
                made = asyncio.run(_measure_size(store, size, cluster, Path(folder)))
                for name, cost in made.items():
                    costs[name].append(cost)
            sys.stdout.write(_format_table(store, sizes, costs))
            sys.stdout.flush()
    return 0


async def _measure_size(
    store: str, size: int, cluster: measure.PostgresCluster, folder: Path
) -> Mapping[str, Cost]:
    url = f"sqlite+aiosqlite:///{folder}/{size}.db"
    if store == "postgresql":
        url = await cluster.server.create_database(f"growth_{size}")
    await run_migrations(url)
    environ = {
        "STAFFBOOKING_DATABASE_URL": url,
        "STAFFBOOKING_SECRET_KEY": "a-secret-for-the-benchmark-only",
    }
    copier = RowCopier(store == "sqlite", size)
    async with open_ports(load_settings(environ)) as ports:
        made = await _write_originals(ports)
        await _run_sql(url, copier.statements(made), is_many=True)
        costs = {
            **await _measure_calls(url, ports, reads(made, copier)),
            **await _measure_calls(url, ports, claims(made, copier, "nothing due")),
        }
        costs |= await _measure_sweep(url, ports, "the sweep, nothing old")
        await _run_sql(url, copier.due_statements(made))
        costs |= await _measure_calls(url, ports, claims(made, copier, "100 due"))
        costs |= await _measure_sweep(url, ports, "the sweep, 100 old of four kinds")
    if store == "postgresql":
        await cluster.server.drop_database(f"growth_{size}")
    else:
        (folder / f"{size}.db").unlink()
    return costs


# Rows ---------------------------------------------------------------------------------------


async def _write_originals(ports: Ports) -> Originals:
    """A row of each kind, written by the service."""
    scene = await make_booking_scenario(ports.policy, ports)
    day = (await scene.now()).date()
    paid_out = await scene.paid_out(event_date=day + timedelta(days=4))
    endpoints = [await _register_endpoint(scene) for _ in range(3)]
    await scene.request(event_date=day + timedelta(days=30))
    await publish_events(ports)
    staff, customer = scene.staff.user_id, scene.customer.user_id
    message = await messages.send_to_user(ports, scene.customer, staff, "See you at the door")
    now = ports.clock.wall()
    async with ports.store.read_view() as view:
        [(delivery, _), *_] = await view.webhooks.deliveries(endpoints[0], 1, 1)

    async def unit(tx: Transaction) -> None:
        await tx.inbox.add_event("fake", make_processor_event(), now)
        await tx.audit.add_audit_entry(make_audit_entry())
        await tx.notifications.add_inquiry(NewInquiry("Ann", "ann@example.com", "Hi", "Hi", now))
        await tx.webhooks.add_attempts([(delivery.id, DeliveryAttempt(1, now, 80, 200))])
        await tx.presence.renew_node_lease("node", now + timedelta(days=365))
        await tx.presence.add_connection(customer, "node", now, 10)
        await tx.presence.remove_connection(customer, "node", now)
        await tx.calendar_subscriptions.add_subscription(_subscription(staff, now))

    await ports.store.run_transaction(unit)
    await add_session(ports.store, customer)
    await add_review(ports.store, paid_out)
    await add_notification(ports.store, at=now)
    response = make_stored_response(expires_at=now + timedelta(days=1))
    changed = next_revision(await scene.booking(paid_out))
    await save_booking(ports.store, changed, alerts=(Alert("look at it"),), response=response)
    ids = (paid_out.id, customer, staff, message.conversation_id, endpoints[0])
    return Originals(*ids, await scene.now())


async def _register_endpoint(scene: BookingScenario) -> int:
    async with scene.ports.store.read_view() as view:
        owner = await view.accounts.user(scene.admin.user_id)
    return (await add_endpoint(scene.ports.store, owner)).id


def _subscription(companion_id: int, now: datetime) -> CalendarSubscription:
    times = (now, now + timedelta(hours=1), now, now, now)
    return CalendarSubscription(0, companion_id, "", "calendar.example", b"sealed", *times, "UTC")


async def _run_sql(url: str, statements: Iterable[str], *, is_many: bool = False) -> None:
    """Run statements by the driver, since a store would time out. If they add many rows, PostgreSQL
    builds the indexes afterwards, which is faster."""
    if not url.startswith("postgresql"):
        with closing(sqlite3.connect(make_url(url).database or "")) as file, file:
            file.execute("PRAGMA cache_size = -1000000")
            for statement in statements:
                file.execute(statement)
        return
    connection = await asyncpg.connect(driver_url(url))
    try:
        await connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        await connection.execute("SET session_replication_role = replica")  # no foreign-key checks
        indexes = await connection.fetch(_INDEXES) if is_many else []
        for name, _ in indexes:
            await connection.execute(f"DROP INDEX {name}")
        for statement in statements:
            await connection.execute(statement)
        await connection.execute("SET maintenance_work_mem = '1GB'")
        for _, definition in indexes:
            await connection.execute(definition)
        await connection.execute("VACUUM (ANALYZE)")
    finally:
        await connection.close()


# Costs --------------------------------------------------------------------------------------


async def _measure_calls(url: str, ports: Ports, calls: Mapping[str, Call]) -> dict[str, Cost]:
    return {
        name: await _cost(url, partial(_call_and_roll_back, ports, call))
        for name, call in calls.items()
    }


async def _call_and_roll_back(ports: Ports, call: Call) -> None:
    async def nothing(_: Transaction) -> None:
        """The call comes after it, and sees both ports and views."""

    with suppress(_RolledBack):
        async with ports.store.open_transaction(nothing) as opened:
            await call(opened)
            raise _RolledBack


async def _measure_sweep(url: str, ports: Ports, name: str) -> dict[str, Cost]:
    """One batch, which is committed."""
    sweep = partial(ports.store.delete_expired, ports.clock.wall(), ports.policy)
    return {name: await _cost(url, sweep, is_repeatable=False)}


async def _cost(
    url: str, call: Callable[[], Awaitable[Any]], *, is_repeatable: bool = True
) -> Cost:
    """The least that a call cost; `-` where the store gave up."""
    repeats = (POSTGRESQL_CALLS if url.startswith("postgresql") else SQLITE_CALLS) * is_repeatable
    try:
        if is_repeatable:
            await call()
        if not url.startswith("postgresql"):
            return f"{min([await _processor_ms(call) for _ in range(repeats or 1)]):.1f}"
        return await _server_cost(url, call, repeats or 1)
    except StoreUnavailable:
        return "-"


async def _processor_ms(call: Callable[[], Awaitable[Any]]) -> float:
    began = process_time()
    await call()
    return 1_000 * (process_time() - began)


async def _server_cost(url: str, call: Callable[[], Awaitable[Any]], repeats: int) -> Cost:
    connection = await asyncpg.connect(driver_url(url))
    try:
        await connection.execute("SELECT pg_stat_statements_reset()")
        for _ in range(repeats):
            await call()
        row = await connection.fetchrow(
            "SELECT sum(shared_blks_hit + shared_blks_read) AS buffers, sum(total_exec_time) AS ms "
            "FROM pg_stat_statements JOIN pg_database ON oid = dbid "
            "WHERE datname = current_database() AND query NOT LIKE '%pg_stat_statements%'"
        )
    finally:
        await connection.close()
    return f"{row['buffers'] / repeats:,.0f} | {row['ms'] / repeats:.1f}"


# Report -------------------------------------------------------------------------------------


def _format_table(store: str, sizes: Sequence[int], costs: Mapping[str, Sequence[Cost]]) -> str:
    units = ("pages", "ms") if store == "postgresql" else ("ms",)
    heads = [f"{size:,}: {unit}" for size in sizes for unit in units]
    lines = [f"| {store} | {' | '.join(heads)} |", f"|---|{'--:|' * len(heads)}"]
    for name, values in costs.items():
        cells = [value if value != "-" else " | ".join("-" * len(units)) for value in values]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", ""])


if __name__ == "__main__":
    sys.exit(main())
