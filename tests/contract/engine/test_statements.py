"""The same statements do the same on both databases."""

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


async def test_a_statement_is_compiled_once_a_database(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often it runs, its SQL is written once."""
    written = []
    compile_ = statements._compile_construct

    def compile_and_tell(*given: Any) -> Any:
        written.append(given)
        return compile_(*given)

    monkeypatch.setattr(statements, "_compile_construct", compile_and_tell)
    statement = Statement(select(PEOPLE.c.name))
    for _ in range(3):
        await database.fetch_all(statement)
    assert len(written) == 1


@pytest.mark.parametrize("params", [{}, {"id": 1, "it": 2}])
async def test_parameters_must_be_the_statements_own(
    database: Database, params: dict[str, Any]
) -> None:
    """A missing or a surplus parameter is named before anything is sent."""
    before = database.round_trips
    with pytest.raises(TypeError, match="id" if not params else "it"):
        await database.fetch_one(SELECT_PERSON, **params)
    assert database.round_trips == before


@pytest.mark.parametrize("side", ["postgresql", "sqlite"])
def test_constants_are_in_the_text(side: Dialect) -> None:
    """What a statement itself holds is no parameter: the planner sees it."""
    people = select(PEOPLE.c.id).where(PEOPLE.c.name.in_(["a'b", "c\\d"]), PEOPLE.c.points == 3)
    compiled = Statement(people.limit(7)).compile_for(side)
    assert compiled.argument_names == ()
    assert all(part in compiled.sql for part in ("('a''b', 'c\\d')", "= 3", "LIMIT 7"))


@pytest.mark.parametrize("side", ["postgresql", "sqlite"])
def test_a_parameter_without_a_type_is_refused(side: Dialect) -> None:
    """A value that SQLite would have to convert is never handed over as it is."""
    with pytest.raises(TypeError, match="day"):
        Statement(select(cast(bindparam("day"), CivilDate))).compile_for(side)


async def test_a_row_updated_is_counted(database: Database) -> None:
    """`run` tells how many rows it touched."""
    await database.execute_many(INSERT_NAMED, [named_person("Ada"), named_person("Bob")])
    assert await database.execute(ADD_POINTS, who="Ada", by=5) == 1
    assert await database.execute(ADD_POINTS, who="Eve", by=5) == 0
    assert await database.execute(Statement(delete(PEOPLE))) == 2


async def test_each_side_may_have_its_own_statement(database: Database) -> None:
    """A statement given for each database runs the one of the database at hand."""
    which = Statement(postgresql=text("SELECT 'postgresql'"), sqlite=text("SELECT 'sqlite'"))
    assert await database.fetch_value(which) == database.dialect


async def test_a_statement_of_one_side_is_nothing_on_the_other(sqlite: Database) -> None:
    """What only PostgreSQL needs costs SQLite no hop."""
    before = sqlite.round_trips
    assert await sqlite.execute(sql.advisory_lock(1)) == 0
    assert sqlite.round_trips == before


async def test_a_statement_alone_is_one_round_trip(database: Database) -> None:
    """Outside of a unit of work there is neither BEGIN nor COMMIT, and it is kept."""
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
    """Instants in a list are written as instants in a column are."""
    await database.fetch_value(INSERT_PERSON, **SAMPLE_PERSON)
    seen = Statement(select(PEOPLE.c.name).where(sql.in_array(PEOPLE.c.seen_at, "moments")))
    assert await database.fetch_all(
        seen, moments=[SAMPLE_INSTANT, SAMPLE_INSTANT + timedelta(days=1)]
    ) == [("Ada",)]
    unseen = Statement(select(PEOPLE.c.name).where(~sql.in_array(PEOPLE.c.seen_at, "moments")))
    assert await database.fetch_all(unseen, moments=[SAMPLE_INSTANT]) == []


async def test_in_array_uses_the_key(sqlite: Database, postgres: Database) -> None:
    """Neither database reads the whole table to find rows by a list of keys."""
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


async def test_rows_are_counted_up_from_arrays(database: Database) -> None:
    """Parallel lists are inserted or added in one statement, which answers the new values."""
    day = date(2026, 7, 1)
    await database.fetch_all(HIT, names=["Ada", "Bob"], amounts=[1, 2], day=day)
    rows = await database.fetch_all(HIT, names=["Bob", "Eve"], amounts=[10, 2**40], day=day)
    assert sorted(map(tuple, rows)) == [("Bob", 12), ("Eve", 2**40)]


async def test_half_a_surrogate_in_an_array_names_its_parameter(database: Database) -> None:
    """As if it stood alone; nothing of the array is kept."""
    with pytest.raises(InvalidField, match="names"):
        await database.fetch_all(HIT, names=["Ada", "\ud800"], amounts=[1, 2], day=date(2026, 7, 1))
    assert await database.fetch_value(COUNT_PEOPLE) == 0


async def test_claimed_rows_are_claimed_once(database: Database) -> None:
    """Claimers at the same time share the due rows among them, each row to one."""
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
async def test_like_takes_each_character_for_what_it_is(database: Database, words: str) -> None:
    """Percent, underscore and the escape itself match themselves alone."""
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
    """More rows than a chunk holds come one by one, alone and in a unit of work."""
    await database.execute_many(
        INSERT_NAMED, [named_person(f"n{number}") for number in range(STREAM_CHUNK_SIZE * 2 + 1)]
    )
    expected = await list_names(database)

    async def work(unit: Connection) -> list[str]:
        return [name async for (name,) in unit.stream(SELECT_NAMES)]

    assert [name async for (name,) in database.stream(SELECT_NAMES)] == expected
    assert await database.run_transaction(work) == expected


async def test_a_stream_left_early_gives_its_connection_back(database: Database) -> None:
    """Streams that are closed after a row, more than there are connections, block nobody."""
    await database.execute_many(
        INSERT_NAMED, [named_person(f"n{number}") for number in range(STREAM_CHUNK_SIZE + 1)]
    )
    for _ in range(6):
        async with aclosing(database.stream(SELECT_NAMES)) as rows:
            assert await anext(rows) == ("n0",)
    await database.execute(INSERT_NAMED, **named_person("last"))
