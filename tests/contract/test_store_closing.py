"""Nothing stays open of a store that fails while it is opened or closed."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import MetaData, literal, select

from staffbooking_adapters.hints import LocalHints
from staffbooking_adapters.sql.accounts import rate_limits
from staffbooking_adapters.sql.engine.open import Statement, open_database
from staffbooking_adapters.sql.store import open_store
from staffbooking_adapters.testing.builders import POLICY

pytestmark = pytest.mark.anyio

TIMEOUT_SECONDS = 10.0


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """The address of a SQLite database, all of whose connections must be closed in the end."""
    before = set(threading.enumerate())
    yield f"sqlite+aiosqlite:///{tmp_path / 'store.db'}"
    for thread in set(threading.enumerate()) - before:  # each open connection has one
        thread.join(TIMEOUT_SECONDS)
        assert not thread.is_alive()


async def test_a_store_that_cannot_be_opened_is_closed(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both databases are closed if the tables of the rate windows cannot be created."""
    monkeypatch.setattr(rate_limits, "CREATE_RATE_WINDOWS", ["no statement"])
    with pytest.raises(AttributeError):
        await open_store(url, POLICY)


class FailingHints(LocalHints):
    """Hints that cannot be closed."""

    async def close(self) -> None:
        raise ArithmeticError


async def test_an_error_at_the_end_leaves_nothing_open(url: str) -> None:
    """Both databases are closed if the hints cannot be closed, whose error is raised."""
    store = await open_store(url, POLICY)
    store.hints = FailingHints()
    with pytest.raises(ArithmeticError):
        await store.close()


async def test_a_cancelled_close_leaves_nothing_open(url: str) -> None:
    """A database whose close is cancelled while its readers are being closed closes its writer
    too."""
    database = await open_database(url, MetaData())
    await database.fetch_value(Statement(select(literal(1))))  # opens a reader
    closing = asyncio.create_task(database.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing


async def test_a_cancelled_opening_waits_for_its_connection(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An opening that is cancelled while its thread connects ends after the thread has connected,
    which needs the event loop."""
    connect: Any = sqlite3.connect
    loop, loop_thread = asyncio.get_running_loop(), threading.current_thread()
    is_connecting, may_connect = asyncio.Event(), threading.Event()

    def connect_late(*arguments: Any, **options: Any) -> Any:
        if threading.current_thread() is not loop_thread:
            loop.call_soon_threadsafe(is_connecting.set)
            may_connect.wait(TIMEOUT_SECONDS)
        return connect(*arguments, **options)

    monkeypatch.setattr(sqlite3, "connect", connect_late)
    opening = asyncio.create_task(open_database(url, MetaData()))
    await is_connecting.wait()
    opening.cancel()
    for _ in range(20):
        await asyncio.sleep(0)
    assert not opening.done()
    may_connect.set()
    await asyncio.wait([opening])
    assert opening.cancelled()
