"""Composite statements: several writes in one call, with the same effect on both databases."""

from __future__ import annotations

import pytest
from sqlalchemy import (
    ColumnElement,
    Delete,
    Insert,
    bindparam,
    delete,
    insert,
    select,
    true,
    update,
)

from staffbooking_adapters.sql.engine.composite import BatchStatement, CompositeStatement
from staffbooking_adapters.sql.engine.dialect import batch_rows
from staffbooking_adapters.sql.engine.open import Connection, Database, Statement
from staffbooking_adapters.sql.engine.types import BigInt
from tests.contract.engine.sample_schema import (
    CITIES,
    INSERT_NAMED,
    PEOPLE,
    list_names,
    named_person,
)

pytestmark = pytest.mark.anyio

OLD_CITY, NEW_CITY, OTHER_CITY = 1, 2, 3

LIST_CITIES = Statement(select(CITIES.c.id).order_by(CITIES.c.id))
ADD_CITY = Statement(insert(CITIES).values(id=bindparam("id")))


def insert_city(condition: ColumnElement[bool]) -> Insert:
    new_id = bindparam("new_city", type_=BigInt)
    return insert(CITIES).from_select(["id"], select(new_id).where(condition))


def insert_other_city(condition: ColumnElement[bool]) -> Insert:
    new_id = bindparam("other_city", type_=BigInt)
    return insert(CITIES).from_select(["id"], select(new_id).where(condition))


def delete_city(condition: ColumnElement[bool]) -> Delete:
    return delete(CITIES).where(CITIES.c.id == bindparam("old_city"), condition)


SET_POINTS = update(PEOPLE).values(points=bindparam("points")).where(PEOPLE.c.name == "Ada")
SET_POINTS_AND_REPLACE_CITY = CompositeStatement(SET_POINTS, if_touched=[delete_city, insert_city])
SET_POINTS_AND_ADD_A_CITY = CompositeStatement(
    SET_POINTS, if_touched=[insert_city], sqlite_if_touched=[insert_other_city]
)
PARAMS = {"points": 3, "old_city": OLD_CITY, "new_city": NEW_CITY, "other_city": OTHER_CITY}

_PERSON_ROWS = batch_rows("given", name=PEOPLE.c.name.type, points=BigInt)
ADD_PEOPLE_AND_CITY = BatchStatement(
    insert(PEOPLE).from_select(["name", "points"], select(_PERSON_ROWS).where(true())),
    once=[insert_city(true())],
)


@pytest.fixture(autouse=True)
async def old_city(database: Database) -> None:
    await database.execute(ADD_CITY, id=OLD_CITY)


async def list_cities(connection: Connection) -> list[int]:
    return [city for (city,) in await connection.fetch_all(LIST_CITIES)]


async def test_a_touched_row_lets_the_others_run(database: Database) -> None:
    """When the first write touches a row, the others run, and the count is the first one's."""
    await database.execute(INSERT_NAMED, **named_person("Ada"))
    assert await SET_POINTS_AND_REPLACE_CITY.execute(database, PARAMS) == 1
    assert await list_cities(database) == [NEW_CITY]


async def test_without_a_touched_row_no_other_runs(database: Database) -> None:
    """When the first write touches no row, no other write runs."""
    await database.execute(INSERT_NAMED, **named_person("Bob"))
    assert await SET_POINTS_AND_REPLACE_CITY.execute(database, PARAMS) == 0
    assert await list_cities(database) == [OLD_CITY]


async def test_a_composite_is_one_round_trip_on_postgresql(postgres: Database) -> None:
    """A composite is one round trip, whatever its number of writes."""
    before = postgres.round_trips
    await SET_POINTS_AND_REPLACE_CITY.execute(postgres, PARAMS)
    assert postgres.round_trips == before + 1


async def test_sqlite_may_have_other_writes(database: Database) -> None:
    """On SQLite `sqlite_if_touched` replaces `if_touched`, with the same condition."""
    assert await SET_POINTS_AND_ADD_A_CITY.execute(database, PARAMS) == 0
    assert await list_cities(database) == [OLD_CITY]
    await database.execute(INSERT_NAMED, **named_person("Ada"))
    await SET_POINTS_AND_ADD_A_CITY.execute(database, PARAMS)
    added = OTHER_CITY if database.dialect == "sqlite" else NEW_CITY
    assert await list_cities(database) == [OLD_CITY, added]


async def test_a_batch_writes_all_rows_and_the_others_once(database: Database) -> None:
    """A batch writes all rows, and the dependent statements run once."""
    rows = [named_person("Ada", 1), named_person("Bob", 2)]
    await ADD_PEOPLE_AND_CITY.execute(database, rows, new_city=NEW_CITY)
    assert await list_names(database) == ["Ada", "Bob"]
    assert await list_cities(database) == [OLD_CITY, NEW_CITY]


async def test_a_batch_without_rows_does_nothing(database: Database) -> None:
    """A batch without rows makes no round trip, and its dependent statements do not run."""
    before = database.round_trips
    await ADD_PEOPLE_AND_CITY.execute(database, [], new_city=NEW_CITY)
    assert database.round_trips == before
    assert await list_cities(database) == [OLD_CITY]
