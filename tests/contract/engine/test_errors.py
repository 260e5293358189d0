"""Violated constraints have the same names on both databases."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import (
    Column,
    Index,
    MetaData,
    Table,
    UniqueConstraint,
    bindparam,
    delete,
    insert,
    text,
)

from staffbooking_adapters.sql.engine.errors import unique_constraint_names
from staffbooking_adapters.sql.engine.open import Database, Statement
from staffbooking_adapters.sql.engine.types import BigInt
from staffbooking_core.errors import ConstraintViolated
from tests.contract.engine.sample_schema import (
    CITIES,
    COUNT_PEOPLE,
    INSERT_NAMED,
    INSERT_PERSON,
    METADATA,
    PEOPLE,
    SAMPLE_PERSON,
    named_person,
)

pytestmark = pytest.mark.anyio

REFUSALS: list[tuple[str, dict[str, Any], str]] = [
    ("a unique constraint", SAMPLE_PERSON | {"photo": None}, "uq_people_name_born"),
    ("a unique index", SAMPLE_PERSON | {"name": "Eve"}, "ux_people_photo"),
    ("a check", SAMPLE_PERSON | {"name": "Eve", "photo": None, "points": -1}, "ck_people_points"),
    ("a missing value", SAMPLE_PERSON | {"name": None, "photo": None}, "nn_people_name"),
    (
        "a broken reference",
        SAMPLE_PERSON | {"name": "Eve", "photo": None, "city_id": 9},
        "foreign_key",
    ),
]


@pytest.mark.parametrize("what, person, constraint", REFUSALS, ids=[case[0] for case in REFUSALS])
async def test_a_violation_has_the_same_name_on_both(
    database: Database, what: str, person: dict[str, Any], constraint: str
) -> None:
    """A refused write raises ConstraintViolated with the constraint's name, alone or in a unit."""
    await database.fetch_value(INSERT_PERSON, **SAMPLE_PERSON)
    with pytest.raises(ConstraintViolated) as alone:
        await database.fetch_value(INSERT_PERSON, **person)
    with pytest.raises(ConstraintViolated) as inside:
        await database.run_transaction(lambda unit: unit.fetch_value(INSERT_PERSON, **person))
    assert alone.value.constraint == inside.value.constraint == constraint
    assert await database.fetch_value(COUNT_PEOPLE) == 1


async def test_a_duplicate_primary_key_has_its_name(database: Database) -> None:
    """A duplicate primary key raises ConstraintViolated with the key's name."""
    add = Statement(insert(CITIES).values(id=bindparam("id")))
    await database.execute(add, id=1)
    with pytest.raises(ConstraintViolated, match=r"^pk_cities$"):
        await database.execute(add, id=1)


TRIGGERS = {
    "sqlite": [
        """CREATE TRIGGER sealed BEFORE DELETE ON people
        BEGIN SELECT RAISE(ABORT, 'people_sealed'); END"""
    ],
    "postgresql": [
        """CREATE FUNCTION sealed() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'people_sealed'; END $$""",
        "CREATE TRIGGER sealed BEFORE DELETE ON people FOR EACH ROW EXECUTE FUNCTION sealed()",
    ],
}


async def test_a_trigger_names_its_violation(database: Database) -> None:
    """An error raised by a trigger is the name of the violated constraint."""
    for ddl in TRIGGERS[database.dialect]:
        await database.execute(Statement(text(ddl)))
    await database.execute(INSERT_NAMED, **named_person("Ada"))
    with pytest.raises(ConstraintViolated, match=r"^people_sealed$"):
        await database.execute(Statement(delete(PEOPLE)))


async def test_a_table_defined_after_the_opening_has_its_names(sqlite: Database) -> None:
    """A unique key has its name also where its table was defined after the file was opened, as by
    a module that is imported later."""
    table = Table("late", METADATA, Column("a", BigInt), UniqueConstraint("a", name="uq_late"))
    try:
        await sqlite.execute(Statement(text("CREATE TABLE late (a INTEGER UNIQUE)")))
        add = Statement(insert(table).values(a=1))
        await sqlite.execute(add)
        with pytest.raises(ConstraintViolated, match=r"^uq_late$"):
            await sqlite.execute(add)
    finally:
        METADATA.remove(table)


def test_ambiguous_unique_keys_are_refused() -> None:
    """Two unique indexes over the same columns raise ValueError."""
    table = Table(
        "t",
        MetaData(),
        Column("a", BigInt),
        Index("ux_one", "a", unique=True),
        Index("ux_two", "a", unique=True, sqlite_where=text("a > 1")),
    )
    with pytest.raises(ValueError, match="ux_"):
        unique_constraint_names(table)


async def test_execute_many_is_atomic(database: Database) -> None:
    """One refused row of `execute_many` rolls back the others."""
    with pytest.raises(ConstraintViolated, match="ck_people_points"):
        await database.execute_many(
            INSERT_NAMED, [named_person("Ada"), named_person("Bob", points=-1)]
        )
    assert await database.fetch_value(COUNT_PEOPLE) == 0
