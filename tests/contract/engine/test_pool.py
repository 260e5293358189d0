"""The connection pool serves its callers in order of arrival and loses no connection."""

from __future__ import annotations

import asyncio

import pytest

from staffbooking_adapters.database_time import DatabaseTime
from staffbooking_adapters.sql.engine import pool as pools
from staffbooking_adapters.sql.engine.pool import Pool
from staffbooking_core.errors import StoreUnavailable

pytestmark = pytest.mark.anyio


class FakeConnection:
    """A fake connection with an `alive` flag."""

    alive = True


@pytest.fixture
def pool():
    """A pool of a single connection."""

    async def connect(_):
        return FakeConnection()

    async def disconnect(connection):
        connection.alive = False

    return Pool(1, connect, disconnect, lambda connection: connection.alive)


async def waiting(pool):
    """A task that waits for a connection."""
    task = asyncio.create_task(pool.acquire(DatabaseTime(5)))
    await asyncio.sleep(0)
    return task


async def test_a_connection_is_lent_again(pool):
    """A returned connection goes to the next caller; a dead one is replaced."""
    first = await pool.acquire(DatabaseTime(5))
    pool.release(first)
    second = await pool.acquire(DatabaseTime(5))
    assert second is first
    second.alive = False
    pool.release(second)
    assert await pool.acquire(DatabaseTime(5)) is not second


async def test_a_caller_without_time_takes_no_connection(pool):
    """A caller whose time is spent is refused at once, and the connection that is returned later
    goes to the next caller."""
    lent = await pool.acquire(DatabaseTime(5))
    with pytest.raises(StoreUnavailable):
        await pool.acquire(DatabaseTime(0))
    pool.release(lent)
    assert await pool.acquire(DatabaseTime(0.1)) is lent


async def test_callers_are_served_in_order(pool):
    """Callers get connections in order of arrival."""
    lent = await pool.acquire(DatabaseTime(5))
    first, second = await waiting(pool), await waiting(pool)
    pool.release(lent)
    await first
    assert not second.done()
    pool.release(first.result())
    assert await second is lent


async def test_a_cancelled_caller_passes_its_connection_on(pool):
    """A caller cancelled just when a connection is released leaves it to the next one."""
    lent = await pool.acquire(DatabaseTime(5))
    first, second = await waiting(pool), await waiting(pool)
    pool.release(lent)
    first.cancel()
    assert await asyncio.wait_for(second, 5) is lent
    assert first.cancelled()


async def test_a_cancelled_waiter_is_skipped(pool):
    """A cancelled caller is skipped: the next one gets the connection."""
    lent = await pool.acquire(DatabaseTime(5))
    first, second = await waiting(pool), await waiting(pool)
    first.cancel()
    await asyncio.sleep(0)
    pool.release(lent)
    assert await asyncio.wait_for(second, 5) is lent


async def test_waiting_times_out(pool):
    """A wait that times out raises `StoreUnavailable`, and the connection stays usable."""
    lent = await pool.acquire(DatabaseTime(5))
    with pytest.raises(StoreUnavailable):
        await pool.acquire(DatabaseTime(0.01))
    pool.release(lent)
    assert await pool.acquire(DatabaseTime(5)) is lent


async def test_a_closed_pool_lends_nothing(pool, monkeypatch):
    """Closing a pool closes acquired connections after a timeout, and then `acquire` raises."""
    monkeypatch.setattr(pools, "CLOSE_TIMEOUT_SECONDS", 0.01)
    lent = await pool.acquire(DatabaseTime(5))
    await pool.close()
    assert not lent.alive
    with pytest.raises(StoreUnavailable):
        await pool.acquire(DatabaseTime(5))


async def test_a_pool_that_was_cut_opens_nothing(monkeypatch):
    """After a close that timed out, neither new callers nor waiting ones get a connection, also
    where one was being opened."""
    monkeypatch.setattr(pools, "CLOSE_TIMEOUT_SECONDS", 0.01)
    opened, may_open = [], asyncio.Event()

    async def connect(_):
        connection = FakeConnection()
        opened.append(connection)
        if len(opened) > 1:
            await may_open.wait()
        return connection

    async def disconnect(connection):
        connection.alive = False

    pool = Pool(2, connect, disconnect, lambda connection: connection.alive)
    lent = await pool.acquire(DatabaseTime(5))
    opening, queued = await waiting(pool), await waiting(pool)
    await pool.close()
    pool.release(lent)
    may_open.set()
    for caller in (opening, queued, pool.acquire(DatabaseTime(5))):
        with pytest.raises(StoreUnavailable):
            await asyncio.wait_for(caller, 5)
    assert not any(connection.alive for connection in opened)


async def test_a_cancelled_close_closes_every_connection():
    """A close that is cancelled while a connection is being closed closes the others too."""
    is_closing = asyncio.Event()

    async def connect(_):
        return FakeConnection()

    async def disconnect(connection):
        is_closing.set()
        await asyncio.sleep(0)
        connection.alive = False

    pool = Pool(2, connect, disconnect, lambda connection: connection.alive)
    connections = [await pool.acquire(DatabaseTime(5)) for _ in range(2)]
    for connection in connections:
        pool.release(connection)
    closing = asyncio.create_task(pool.close())
    await is_closing.wait()
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert not any(connection.alive for connection in connections)


async def test_a_cancelled_close_waits_for_no_lent_connection(pool):
    """A close that is cancelled while it waits for a lent connection closes it at once."""
    lent = await pool.acquire(DatabaseTime(5))
    closing = asyncio.create_task(pool.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert not lent.alive
