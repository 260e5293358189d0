"""A process whose clock is wrong changes nothing; PostgreSQL's clock is the one that counts."""

from __future__ import annotations

import asyncio
import logging
import shutil
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from staffbooking_adapters.database_time import DatabaseTime
from staffbooking_adapters.guarded_store import GuardedStore
from staffbooking_adapters.memory.doubles import VirtualClock
from staffbooking_adapters.sql import clock as clocks
from staffbooking_adapters.sql.clock import DatabaseClock
from staffbooking_adapters.sql.engine import postgres
from staffbooking_adapters.sql.engine.open import Database, open_database
from staffbooking_adapters.sql.schema.metadata import metadata
from staffbooking_adapters.testing.builders import DAY, NOW, POLICY, SECOND, add_user
from staffbooking_adapters.testing.store import OpenStore
from staffbooking_core.errors import ClockWrong, StoreUnavailable
from tests.contract.stores import open_sql_store, store_url
from tests.support.migrated_databases import MigratedDatabase

pytestmark = pytest.mark.anyio

WRONG_SKEWS = [9 * DAY, -9 * DAY, 31 * SECOND, None]


# Any store ------------------------------------------------------------------------------


@pytest.mark.parametrize("skew", WRONG_SKEWS)
async def test_a_wrong_clock_changes_nothing(store: OpenStore, skew: timedelta | None) -> None:
    """Every changing method raises ClockWrong before it reaches the store; reading goes on."""
    user = await add_user(store)
    clock = VirtualClock(NOW)
    guarded = GuardedStore(store, clock, POLICY.max_clock_skew)
    clock.machine_skew = skew

    async def work(_: object) -> None:
        raise AssertionError("the transaction runs")

    for change in (
        guarded.run_transaction(work),
        guarded.add_booking(None),  # type: ignore[arg-type]
        guarded.delete_expired(NOW + 99 * DAY, POLICY),
        guarded.check_writable(NOW),
    ):
        with pytest.raises(ClockWrong, match="unavailable"):
            await change
    async with guarded.read_view() as view:
        assert await view.accounts.user(user.id) == user


@pytest.mark.parametrize("skew", [30 * SECOND, -30 * SECOND])
async def test_changes_go_on_once_the_clock_is_right(store: OpenStore, skew: timedelta) -> None:
    """A clock that is within 30 s again changes what it is asked to."""
    clock = VirtualClock(NOW)
    guarded = GuardedStore(store, clock, POLICY.max_clock_skew)
    clock.machine_skew = 9 * DAY
    with pytest.raises(ClockWrong):
        await add_user(guarded)
    clock.machine_skew = skew
    await guarded.check_writable(NOW)
    assert (await add_user(guarded)).id


async def test_a_store_that_takes_changes_says_so_again(store: OpenStore) -> None:
    """`check_writable` may be called any number of times, with any time."""
    for now in (NOW, NOW + DAY, NOW):
        await store.check_writable(now)
    await add_user(store)


async def test_a_locked_file_takes_no_changes(
    request: pytest.FixtureRequest, migrated_file: Path, tmp_path: Path
) -> None:
    """`check_writable` raises StoreUnavailable while another process has SQLite's lock."""
    shutil.copy(migrated_file, tmp_path / "store.db")
    async with open_sql_store(store_url(request, "sqlite")) as store:
        with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            with DatabaseTime(0.05), pytest.raises(StoreUnavailable):
                await store.check_writable(NOW)
        await store.check_writable(NOW)


async def test_a_read_only_server_takes_no_changes(
    migrated_database: MigratedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`check_writable` raises StoreUnavailable where PostgreSQL is read-only."""
    settings = {**postgres.SERVER_SETTINGS, "default_transaction_read_only": "on"}
    monkeypatch.setattr(postgres, "SERVER_SETTINGS", settings)
    async with open_sql_store(migrated_database.url) as store:
        with pytest.raises(StoreUnavailable):
            await store.check_writable(NOW)


# PostgreSQL's clock ---------------------------------------------------------------------


@pytest.fixture
async def database(migrated_database: MigratedDatabase) -> AsyncIterator[Database]:
    opened = await open_database(migrated_database.url, metadata, pool_size=2)
    yield opened
    await opened.close()


@pytest.fixture
async def clock(database: Database) -> AsyncIterator[DatabaseClock]:
    """A clock that was measured and is not measured again by itself."""
    opened = DatabaseClock(database, POLICY)
    await opened.measure()
    yield opened
    await opened.close()


class MachineClock:
    """The machine's clocks, which a test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead = self.monotonic_ahead = 0.0
        monkeypatch.setattr(clocks, "time", lambda: time.time() + self.ahead)
        monkeypatch.setattr(clocks, "monotonic", lambda: time.monotonic() + self.monotonic_ahead)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> MachineClock:
    return MachineClock(monkeypatch)


def _is_near(one: timedelta | None, other: timedelta) -> bool:
    return one is not None and abs(one - other) < timedelta(seconds=20)


async def _until(is_done: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not is_done():
            await asyncio.to_thread(time.sleep, 0.005)


async def test_the_skew_of_a_right_clock_is_small(clock: DatabaseClock) -> None:
    """The wall time is the server's, which here is this machine's."""
    assert _is_near(clock.skew(), timedelta(0))
    assert _is_near(clock.wall() - datetime.now(UTC), timedelta(0))


@pytest.mark.parametrize("days", [9, -9])
async def test_a_clock_that_was_wrong_at_the_start_keeps_the_servers_time(
    database: Database, machine: MachineClock, days: int
) -> None:
    """A machine that is nine days off has the server's wall time, and the skew shows the days."""
    machine.ahead = days * 86_400
    clock = DatabaseClock(database, POLICY)
    await clock.measure()
    assert _is_near(clock.skew(), days * DAY)
    assert _is_near(clock.wall() - datetime.now(UTC), timedelta(0))


@pytest.mark.parametrize("days", [9, -9])
async def test_a_jump_is_seen_at_once(
    clock: DatabaseClock, machine: MachineClock, days: int
) -> None:
    """A machine's clock that jumps changes the skew without a measurement, and not the time; when
    it is set right, so is the skew."""
    machine.ahead = days * 86_400
    assert _is_near(clock.skew(), days * DAY)
    assert _is_near(clock.wall() - datetime.now(UTC), timedelta(0))
    machine.ahead = 0
    assert _is_near(clock.skew(), timedelta(0))


async def test_without_measurements_the_skew_becomes_unknown(
    clock: DatabaseClock, machine: MachineClock
) -> None:
    """After three missed measurements the clock counts as not compared, also where the monotonic
    clock has jumped; the next measurement repairs it."""
    machine.ahead = machine.monotonic_ahead = 29
    assert clock.skew() is not None
    machine.ahead = machine.monotonic_ahead = 9 * 86_400
    assert clock.skew() is None
    await clock.measure()
    assert _is_near(clock.skew(), 9 * DAY)


async def test_before_the_first_measurement_the_skew_is_unknown() -> None:
    """While the database was never in reach the clock counts as not compared."""
    database = await open_database("postgresql+asyncpg://app@127.0.0.1:1/nowhere", metadata)
    clock = DatabaseClock(database, POLICY)
    with pytest.raises(StoreUnavailable):
        await clock.measure()
    await clock.start()
    assert clock.skew() is None
    assert _is_near(clock.wall() - datetime.now(UTC), timedelta(0))
    await clock.close()
    await database.close()


async def test_the_clock_is_measured_again_by_itself(
    database: Database,
    machine: MachineClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A started clock is measured when an interval has passed; its fault and the end of the fault
    are logged once."""
    caplog.set_level(logging.INFO, "staffbooking")
    monkeypatch.setattr(clocks, "CHECK_INTERVAL_SECONDS", 0.005)
    clock = DatabaseClock(database, POLICY)
    await clock.start()
    machine.monotonic_ahead = 3_600
    await _until(lambda: clock.skew() is not None)
    machine.ahead = 86_400
    await _until(lambda: len(caplog.records) == 2)
    machine.ahead = 0
    await _until(lambda: len(caplog.records) == 3)
    await clock.close()
    texts = [record.getMessage() for record in caplog.records]
    assert "ahead of" in texts[0] or "behind" in texts[0]
    assert texts[1:] == ["clock_wrong", "clock_right"]
    assert "ahead of the database's" in vars(caplog.records[1])["reason"]
