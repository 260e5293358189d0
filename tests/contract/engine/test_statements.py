"""Statements and SQL helpers have the same effect on both databases."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from datetime import date, timedelta
from typing import Any

import pytest
from sqlalchemy import (
    Text,
    bindparam,
    cast,
    delete,
    select,
    text,
    true,
)

from staffbooking_adapters.sql.engine import dialect as sql, statements
from staffbooking_adapters.sql.engine.connection import STREAM_CHUNK_SIZE
from staffbooking_adapters.sql.engine.open import Connection, Database, Statement
from staffbooking_adapters.sql.engine.types import BigInt, CivilDate, Dialect
from staffbooking_core.errors import InvalidField
from tests.contract.engine.sample_schema import (
    ADD_POINTS,
    COUNT_PEOPLE,
    INSERT_NAMED,
    INSERT_PERSON,
    PEOPLE,
    SAMPLE_INSTANT,
    SAMPLE_PERSON,
    SELECT_NAMES,
    SELECT_PERSON,
    list_names,
    named_person,
)

pytestmark = pytest.mark.anyio


async def test_a_statement_is_compiled_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A statement that runs three times is compiled once."""
    written = []
    compile_ = statements._compile_construct

    def record_and_compile(*given: Any) -> Any:
        written.append(given)
        return compile_(*given)

    monkeypatch.setattr(statements, "_compile_construct", record_and_compile)
    statement = Statement(select(PEOPLE.c.name))
    for _ in range(3):
        await database.fetch_all(statement)
    assert len(written) == 1


@pytest.mark.parametrize("params", [{}, {"id": 1, "it": 2}])
async def test_parameters_must_be_the_statements_own(
    database: Database, params: dict[str, Any]
) -> None:
    """A missing or unknown parameter raises TypeError with its name, without a round trip."""
    before = database.round_trips
    with pytest.raises(TypeError, match="id" if not params else "it"):
        await database.fetch_one(SELECT_PERSON, **params)
    assert database.round_trips == before


@pytest.mark.parametrize("side", ["postgresql", "sqlite"])
def test_constants_are_in_the_text(side: Dialect) -> None:
    """Constants are literals in the SQL, and not parameters."""
    people = select(PEOPLE.c.id).where(PEOPLE.c.name.in_(["a'b", "c\\d"]), PEOPLE.c.points == 3)
    compiled = Statement(people.limit(7)).compile_for(side)
    assert compiled.argument_names == ()
    assert all(part in compiled.sql for part in ("('a''b', 'c\\d')", "= 3", "LIMIT 7"))


@pytest.mark.parametrize("side", ["postgresql", "sqlite"])
def test_a_parameter_without_a_type_is_refused(side: Dialect) -> None:
    """A parameter with no type of its own raises TypeError with its name."""
    with pytest.raises(TypeError, match="day"):
        Statement(select(cast(bindparam("day"), CivilDate))).compile_for(side)


async def test_touched_rows_are_counted(database: Database) -> None:
    """`execute` returns the number of rows updated or deleted."""
    await database.execute_many(INSERT_NAMED, [named_person("Ada"), named_person("Bob")])
    assert await database.execute(ADD_POINTS, who="Ada", by=5) == 1
    assert await database.execute(ADD_POINTS, who="Eve", by=5) == 0
    assert await database.execute(Statement(delete(PEOPLE))) == 2


async def test_each_side_may_have_its_own_statement(database: Database) -> None:
    """A statement given for each database runs the one of the database at hand."""
    which = Statement(postgresql=text("SELECT 'postgresql'"), sqlite=text("SELECT 'sqlite'"))
    assert await database.fetch_value(which) == database.dialect


async def test_a_statement_for_postgresql_does_nothing_on_sqlite(sqlite: Database) -> None:
    """A statement for PostgreSQL only touches no rows and makes no round trip on SQLite."""
    before = sqlite.round_trips
    assert await sqlite.execute(sql.advisory_lock(1)) == 0
    assert sqlite.round_trips == before


async def test_a_statement_alone_is_one_round_trip(database: Database) -> None:
    """A statement outside a transaction is one round trip, and its effect is stored."""
    before = database.round_trips
    await database.execute(INSERT_NAMED, **named_person("Ada"))
    assert await database.fetch_value(COUNT_PEOPLE) == 1
    assert database.round_trips == before + 2


async def test_in_array_takes_lists_of_any_length(database: Database) -> None:
    """One statement finds none, some or all of the keys it is given."""
    found = Statement(
        select(PEOPLE.c.name).where(sql.in_array(PEOPLE.c.name, "names")).order_by(PEOPLE.c.id)
    )
    await database.execute_many(
        INSERT_NAMED, [named_person(name) for name in ("Ada", "Bob", 'Ö "x" \\')]
    )
    for wanted in ([], ["Bob"], ["Ada", "Eve", 'Ö "x" \\']):
        rows = await database.fetch_all(found, names=wanted)
        assert [name for (name,) in rows] == [name for name in wanted if name != "Eve"]


async def test_in_array_converts_its_items(database: Database) -> None:
    """`in_array` finds instants by a list of instants."""
    await database.fetch_value(INSERT_PERSON, **SAMPLE_PERSON)
    seen = Statement(select(PEOPLE.c.name).where(sql.in_array(PEOPLE.c.seen_at, "moments")))
    assert await database.fetch_all(
        seen, moments=[SAMPLE_INSTANT, SAMPLE_INSTANT + timedelta(days=1)]
    ) == [("Ada",)]
    unseen = Statement(select(PEOPLE.c.name).where(~sql.in_array(PEOPLE.c.seen_at, "moments")))
    assert await database.fetch_all(unseen, moments=[SAMPLE_INSTANT]) == []


async def test_in_array_uses_the_primary_key(sqlite: Database, postgres: Database) -> None:
    """Both databases use the primary key for a condition of `in_array`."""
    find = Statement(select(PEOPLE.c.name).where(sql.in_array(PEOPLE.c.id, "ids")))
    plan = Statement(
        text("EXPLAIN QUERY PLAN " + find.compile_for("sqlite").sql.replace("?", "'[1]'"))
    )
    assert "SEARCH people USING INTEGER PRIMARY KEY" in str(await sqlite.fetch_all(plan))
    given = find.compile_for("postgresql").sql.replace("$1", "'{1}'")
    await postgres.execute(Statement(text("SET enable_seqscan = off")))
    plan = Statement(text(f"EXPLAIN {given}".replace("::", r"\:\:")))
    assert "Index Cond: (id = ANY" in str(await postgres.fetch_all(plan))


HITS = sql.array_rows("hits", name=("names", Text()), points=("amounts", BigInt))
EXCLUDED = sql.upsert(PEOPLE).excluded
HIT = Statement(
    sql.upsert(PEOPLE)
    .from_select(
        ["name", "born", "points"],
        select(HITS.c.name, bindparam("day", type_=CivilDate), HITS.c.points).where(true()),
    )
    .on_conflict_do_update(
        index_elements=["name", "born"], set_={"points": PEOPLE.c.points + EXCLUDED.points}
    )
    .returning(PEOPLE.c.name, PEOPLE.c.points)
)


async def test_rows_are_upserted_from_arrays(database: Database) -> None:
    """Rows of parallel arrays are upserted in one statement, which returns the new values."""
    day = date(2026, 7, 1)
    await database.fetch_all(HIT, names=["Ada", "Bob"], amounts=[1, 2], day=day)
    rows = await database.fetch_all(HIT, names=["Bob", "Eve"], amounts=[10, 2**40], day=day)
    assert sorted(map(tuple, rows)) == [("Bob", 12), ("Eve", 2**40)]


async def test_a_lone_surrogate_in_an_array_is_refused(database: Database) -> None:
    """A lone surrogate in an array raises InvalidField with its parameter, and adds nothing."""
    with pytest.raises(InvalidField, match="names"):
        await database.fetch_all(HIT, names=["Ada", "\ud800"], amounts=[1, 2], day=date(2026, 7, 1))
    assert await database.fetch_value(COUNT_PEOPLE) == 0


async def test_claimed_rows_are_claimed_once(database: Database) -> None:
    """Concurrent claims return each due row to one claimer, and no other rows."""
    await database.execute_many(
        INSERT_NAMED, [named_person(f"n{number}", points=number) for number in range(30)]
    )
    claim = Statement(
        sql.claim_rows(
            PEOPLE,
            is_due=PEOPLE.c.active.is_(None) & (PEOPLE.c.points < bindparam("below")),
            order_by=[PEOPLE.c.points],
            limit=5,
            values={"active": True},
            returning=[PEOPLE.c.points],
        )
    )
    taken = await asyncio.gather(*(database.fetch_all(claim, below=20) for _ in range(8)))
    claimed = [points for rows in taken for (points,) in rows]
    assert len(claimed) == len(set(claimed)) <= 20
    rest = [points for (points,) in await database.fetch_all(claim, below=20)]
    while rest:
        claimed += rest
        rest = [points for (points,) in await database.fetch_all(claim, below=20)]
    assert sorted(claimed) == list(range(20))


@pytest.mark.parametrize("words", ["100%", "a_b", "!", "ö"])
async def test_patterns_escape_special_characters(database: Database, words: str) -> None:
    """`%`, `_` and the escape character match only themselves."""
    await database.execute_many(
        INSERT_NAMED, [named_person(f"<{words}>"), named_person("<100x axb>")]
    )
    find = Statement(select(PEOPLE.c.name).where(sql.matches_pattern(PEOPLE.c.name, "pattern")))
    assert await database.fetch_all(find, pattern=sql.substring_pattern(words)) == [(f"<{words}>",)]


async def test_a_total_is_an_int(database: Database) -> None:
    """The sum over no rows is 0, and over some an `int` on both."""
    total = Statement(select(sql.sum_or_zero(PEOPLE.c.points)))
    assert await database.fetch_value(total) == 0
    await database.execute_many(INSERT_NAMED, [named_person("Ada", 2**61), named_person("Bob", 5)])
    assert type(await database.fetch_value(total)) is int
    assert await database.fetch_value(total) == 2**61 + 5


async def test_a_stream_gives_every_row_in_order(database: Database) -> None:
    """A stream of more rows than a chunk gives all in order, alone and in a transaction."""
    await database.execute_many(
        INSERT_NAMED, [named_person(f"n{number}") for number in range(STREAM_CHUNK_SIZE * 2 + 1)]
    )
    expected = await list_names(database)

    async def work(unit: Connection) -> list[str]:
        return [name async for (name,) in unit.stream(SELECT_NAMES)]

    assert [name async for (name,) in database.stream(SELECT_NAMES)] == expected
    assert await database.run_transaction(work) == expected


async def test_a_stream_closed_early_releases_its_connection(database: Database) -> None:
    """After more streams than connections were closed early, a statement still runs."""
    await database.execute_many(
        INSERT_NAMED, [named_person(f"n{number}") for number in range(STREAM_CHUNK_SIZE + 1)]
    )
    for _ in range(6):
        async with aclosing(database.stream(SELECT_NAMES)) as rows:
            assert await anext(rows) == ("n0",)
    await database.execute(INSERT_NAMED, **named_person("last"))
