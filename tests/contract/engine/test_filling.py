"""A time in which the caller alone uses the database, to fill it."""

from __future__ import annotations

from contextlib import aclosing

import pytest
from sqlalchemy import text

from staffbooking_adapters.sql.engine.open import Connection, Database, Statement
from staffbooking_core.errors import ConstraintViolated
from tests.contract.engine.sample_schema import (
    INSERT_NAMED,
    SELECT_NAMES,
    add_two_people,
    list_names,
    named_person,
)

pytestmark = pytest.mark.anyio

GET_SYNCHRONOUS = Statement(text("PRAGMA synchronous"))
FULL, NORMAL = 2, 1


async def test_what_was_filled_in_stays(database: Database) -> None:
    """What is committed meanwhile is read afterwards, and both before and after it writes work."""
    await database.execute(INSERT_NAMED, **named_person("Zoe"))
    async with database.filling():
        await database.run_transaction(add_two_people)
    await database.execute(INSERT_NAMED, **named_person("Max"))
    assert sorted(await list_names(database)) == ["Ada", "Bob", "Max", "Zoe"]


async def test_a_failed_transaction_is_undone_meanwhile(database: Database) -> None:
    """A transaction that breaks a constraint changes nothing, and the next one runs."""

    async def work(unit: Connection) -> None:
        await add_two_people(unit)
        await unit.execute(INSERT_NAMED, **named_person("Eve", points=-1))

    async with database.filling():
        with pytest.raises(ConstraintViolated, match="ck_people_points"):
            await database.run_transaction(work)
        assert await list_names(database) == []
        await database.run_transaction(add_two_people)
    assert await list_names(database) == ["Ada", "Bob"]


async def test_many_rows_are_written_and_streamed_meanwhile(database: Database) -> None:
    """Batches and streams work as at other times."""
    people = [named_person(name) for name in ("Ada", "Bob", "Eve")]
    async with database.filling():
        await database.execute_many(INSERT_NAMED, people)
        async with aclosing(database.stream(SELECT_NAMES)) as rows:
            assert [name async for (name,) in rows] == ["Ada", "Bob", "Eve"]


async def test_sqlite_neither_waits_for_the_disk_nor_changes_threads(sqlite: Database) -> None:
    """Meanwhile commits are left to the operating system and a statement runs at once; afterwards
    a commit is on the disk when it returns."""

    async def synchronous(unit: Connection) -> int:
        value: int = await unit.fetch_value(GET_SYNCHRONOUS)
        return value

    async with sqlite.filling():
        await sqlite.run_transaction(synchronous)  # connects
        reading = sqlite.run_transaction(synchronous)
        with pytest.raises(StopIteration) as returned:
            reading.send(None)
        assert returned.value.value == NORMAL
    assert await sqlite.run_transaction(synchronous) == FULL
