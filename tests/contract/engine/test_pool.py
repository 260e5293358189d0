"""The connection pool serves its callers in order of arrival and loses none."""

from __future__ import annotations

import asyncio

import pytest

from staffbooking_adapters.sql.engine import pool as pools
from staffbooking_adapters.sql.engine.pool import Pool
from staffbooking_core.errors import StoreUnavailable

pytestmark = pytest.mark.anyio


class Wire:
    """A connection that is only alive or closed."""

    alive = True


@pytest.fixture
def pool():
    """A pool of a single connection."""

    async def connect():
        return Wire()

    async def disconnect(wire):
        wire.alive = False

    return Pool(1, connect, disconnect, lambda wire: wire.alive)


async def waiting(pool):
    """A task that waits for a connection."""
    task = asyncio.create_task(pool.acquire())
    await asyncio.sleep(0)
    return task


async def test_a_connection_is_lent_again(pool):
    """A returned connection goes to the next caller; a dead one is replaced."""
    first = await pool.acquire()
    pool.release(first)
    second = await pool.acquire()
    assert second is first
    second.alive = False
    pool.release(second)
    assert await pool.acquire() is not second


async def test_callers_are_served_in_line(pool):
    """Callers get connections in order of arrival."""
    lent = await pool.acquire()
    first, second = await waiting(pool), await waiting(pool)
    pool.release(lent)
    await first
    assert not second.done()
    pool.release(first.result())
    assert await second is lent


async def test_a_turn_that_comes_with_a_cancellation_is_passed_on(pool):
    """A caller cancelled at the very moment of its turn leaves it to the next."""
    lent = await pool.acquire()
    first, second = await waiting(pool), await waiting(pool)
    pool.release(lent)
    first.cancel()
    assert await asyncio.wait_for(second, 5) is lent
    assert first.cancelled()


async def test_a_caller_that_was_cancelled_in_line_is_passed_over(pool):
    """A cancelled caller is skipped: the next one gets the connection."""
    lent = await pool.acquire()
    first, second = await waiting(pool), await waiting(pool)
    first.cancel()
    await asyncio.sleep(0)
    pool.release(lent)
    assert await asyncio.wait_for(second, 5) is lent


async def test_waiting_has_an_end(pool, monkeypatch):
    """A wait that times out raises `StoreUnavailable`, and the connection stays usable."""
    monkeypatch.setattr(pools, "ACQUIRE_TIMEOUT_SECONDS", 0.01)
    lent = await pool.acquire()
    with pytest.raises(StoreUnavailable):
        await pool.acquire()
    pool.release(lent)
    assert await pool.acquire() is lent


async def test_a_closed_pool_lends_nothing_to_those_in_line(pool, monkeypatch):
    """It waits for what is lent, and then closes it."""
    monkeypatch.setattr(pools, "ACQUIRE_TIMEOUT_SECONDS", 0.01)
    lent = await pool.acquire()
    await pool.close()
    assert not lent.alive
    with pytest.raises(StoreUnavailable):
        await pool.acquire()
