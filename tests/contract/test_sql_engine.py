"""The seam under the SQL store: the same statements, types and refusals on both databases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing, suppress
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    bindparam,
    create_mock_engine,
    delete,
    func,
    insert,
    select,
    text,
    true,
    update,
)
from sqlalchemy import Text as SqlText

from staffbooking_adapters.sql import dialect as sql
from staffbooking_adapters.sql import statements
from staffbooking_adapters.sql.connection import CHUNK, TRIES
from staffbooking_adapters.sql.engine import (
    Connection,
    Database,
    Statement,
    open_database,
    open_sqlite,
)
from staffbooking_adapters.sql.failures import unique_names
from staffbooking_adapters.sql.types import BigInt, CivilDate, Instant, array_of, reader, writer
from staffbooking_core.errors import ConstraintViolated, InvalidField, Unavailable
from tests.support.postgres import PostgresServer

pytestmark = pytest.mark.anyio

METADATA = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
    }
)
CITIES = Table("cities", METADATA, Column("id", BigInt, primary_key=True))
PEOPLE = Table(
    "people",
    METADATA,
    Column("id", BigInt, primary_key=True),
    Column("name", Text, nullable=False),
    Column("points", BigInt, CheckConstraint("points >= 0", name="points")),
    Column("active", Boolean),
    Column("born", CivilDate),
    Column("seen_at", Instant),
    Column("photo", LargeBinary),
    Column("city_id", BigInt, ForeignKey("cities.id")),
    UniqueConstraint("name", "born"),
    Index("ux_people_photo", "photo", unique=True, sqlite_where=text("photo IS NOT NULL")),
)
BERLIN_SUMMER = timezone(timedelta(hours=2))
NOON = datetime(2026, 7, 1, 12, 30, 15, 123456, tzinfo=UTC)
FIELDS = ("name", "points", "active", "born", "seen_at", "photo", "city_id")
ADA: dict[str, Any] = {
    "name": "Ada",
    "points": 2**62,
    "active": True,
    "born": date(1815, 12, 10),
    "seen_at": NOON,
    "photo": b"\x00\xff",
    "city_id": None,
}

ADD = Statement(
    insert(PEOPLE).values(**{name: bindparam(name) for name in FIELDS}).returning(PEOPLE.c.id)
)
ADD_NAMED = Statement(insert(PEOPLE).values(name=bindparam("name"), points=bindparam("points")))
GET = Statement(select(*(PEOPLE.c[name] for name in FIELDS)).where(PEOPLE.c.id == bindparam("id")))
NAMES = Statement(select(PEOPLE.c.name).order_by(PEOPLE.c.id))
COUNT = Statement(select(func.count()).select_from(PEOPLE))
RAISE = Statement(
    update(PEOPLE)
    .values(points=PEOPLE.c.points + bindparam("by", type_=BigInt))
    .where(PEOPLE.c.name == bindparam("who"))
)
POINTS = Statement(select(PEOPLE.c.points).where(PEOPLE.c.name == bindparam("who")))

MakeDatabase = Callable[[], Awaitable[Database]]


async def create_tables(database: Database) -> None:
    written: list[str] = []
    engine = create_mock_engine(
        f"{database.dialect}://", lambda ddl, *_: written.append(str(ddl.compile(engine)))
    )
    METADATA.create_all(engine, checkfirst=False)
    for ddl in written:
        await database.run(Statement(text(ddl)))


@pytest.fixture
async def postgres_url(postgres_server: PostgresServer) -> str:
    # The deadlock test must not wait for the second that a server waits by itself.
    return await postgres_server.create_database() + "&deadlock_timeout=10ms"


@pytest.fixture
async def postgres(postgres_url: str) -> AsyncIterator[Database]:
    database = await open_database(postgres_url, METADATA, pool_size=4)
    await create_tables(database)
    yield database
    await database.close()


@pytest.fixture
async def sqlite(tmp_path: Path) -> AsyncIterator[Database]:
    database = await open_database(f"sqlite+aiosqlite:///{tmp_path / 'main.db'}", METADATA)
    await create_tables(database)
    yield database
    await database.close()


@pytest.fixture(params=["postgres", "sqlite"])
def database(request: pytest.FixtureRequest) -> Database:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Database)
    return found


def named(name: str, points: int = 0) -> dict[str, Any]:
    return {"name": name, "points": points}


async def names(connection: Connection) -> list[str]:
    return [name for (name,) in await connection.all(NAMES)]


# Values


async def test_values_come_back_as_they_went_in(database: Database) -> None:
    """Every type returns what was stored, instants to the microsecond and in UTC."""
    key = await database.value(ADD, **ADA)
    row = await database.one(GET, id=key)
    assert row is not None
    assert dict(zip(FIELDS, row, strict=True)) == ADA
    assert [type(value) for value in row[:5]] == [str, int, bool, date, datetime]


async def test_null_comes_back_as_none(database: Database) -> None:
    """A value that isn't there is None for every type."""
    key = await database.value(ADD, **(dict.fromkeys(FIELDS) | {"name": "Nobody"}))
    assert await database.one(GET, id=key) == ("Nobody", *[None] * 6)


async def test_an_instant_is_kept_in_utc(database: Database) -> None:
    """An instant told in another zone is the same instant, told in UTC."""
    key = await database.value(ADD, **(ADA | {"seen_at": NOON.astimezone(BERLIN_SUMMER)}))
    row = await database.one(GET, id=key)
    assert row is not None
    assert row[4] == NOON
    assert row[4].utcoffset() == timedelta(0)


async def test_a_naive_instant_is_refused(database: Database) -> None:
    """A time without a zone is nobody's instant, and stores nothing."""
    with pytest.raises(TypeError, match="zone"):
        await database.value(ADD, **(ADA | {"seen_at": NOON.replace(tzinfo=None)}))
    assert await database.value(COUNT) == 0


@given(st.datetimes(timezones=st.just(UTC)))
def test_sqlite_keeps_every_instant_exactly(moment: datetime) -> None:
    """Microseconds since 1970 give back any instant that a `datetime` can tell."""
    write, read = writer("sqlite", Instant), reader("sqlite", Instant)
    assert write is not None
    assert read is not None
    assert read(write(moment)) == moment


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
async def test_an_integer_beyond_64_bits_names_its_parameter(
    database: Database, value: int
) -> None:
    """A number that no column holds is the parameter's fault, not the store's."""
    with pytest.raises(InvalidField) as refused:
        await database.run(ADD_NAMED, name="Big", points=value)
    assert [fault.field for fault in refused.value.faults] == ["points"]


async def test_half_a_surrogate_names_its_parameter(database: Database) -> None:
    """Text that has no UTF-8 is the parameter's fault."""
    with pytest.raises(InvalidField, match="name"):
        await database.run(ADD_NAMED, name="\ud800", points=1)


async def test_postgres_names_the_parameter_with_a_nul(postgres: Database) -> None:
    """PostgreSQL keeps no NUL in text, and the error says in which parameter it was."""
    with pytest.raises(InvalidField, match="name"):
        await postgres.run(ADD_NAMED, name="a\0b", points=1)


async def test_bytes_are_no_item_of_an_array() -> None:
    """An array of bytes is refused when the statement is written."""
    with pytest.raises(TypeError, match="bytes"):
        array_of(LargeBinary())


# Statements


async def test_a_statement_is_compiled_once_a_database(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often it runs, its SQL is written once."""
    written = []
    compile_ = statements._compile
    monkeypatch.setattr(
        statements, "_compile", lambda *given: written.append(given) or compile_(*given)
    )
    statement = Statement(select(PEOPLE.c.name))
    for _ in range(3):
        await database.all(statement)
    assert len(written) == 1


@pytest.mark.parametrize("params", [{}, {"id": 1, "it": 2}])
async def test_parameters_must_be_the_statements_own(
    database: Database, params: dict[str, Any]
) -> None:
    """A missing or a surplus parameter is named before anything is sent."""
    before = database.round_trips
    with pytest.raises(TypeError, match="id" if not params else "it"):
        await database.one(GET, **params)
    assert database.round_trips == before


@pytest.mark.parametrize("side", ["postgresql", "sqlite"])
def test_constants_are_in_the_text(side: statements.Dialect) -> None:
    """What a statement itself holds is no parameter: the planner sees it."""
    people = select(PEOPLE.c.id).where(PEOPLE.c.name.in_(["a'b", "c\\d"]), PEOPLE.c.points == 3)
    compiled = Statement(people.limit(7)).on(side)
    assert compiled.names == ()
    assert all(part in compiled.sql for part in ("('a''b', 'c\\d')", "= 3", "LIMIT 7"))


async def test_a_row_updated_is_counted(database: Database) -> None:
    """`run` tells how many rows it touched."""
    await database.many(ADD_NAMED, [named("Ada"), named("Bob")])
    assert await database.run(RAISE, who="Ada", by=5) == 1
    assert await database.run(RAISE, who="Eve", by=5) == 0
    assert await database.run(Statement(delete(PEOPLE))) == 2


async def test_each_side_may_have_its_own_statement(database: Database) -> None:
    """A statement given for each database runs the one of the database at hand."""
    which = Statement(postgresql=text("SELECT 'postgresql'"), sqlite=text("SELECT 'sqlite'"))
    assert await database.value(which) == database.dialect


async def test_a_statement_of_one_side_is_nothing_on_the_other(sqlite: Database) -> None:
    """What only PostgreSQL needs costs SQLite no hop."""
    before = sqlite.round_trips
    assert await sqlite.run(sql.advisory_lock(1)) == 0
    assert sqlite.round_trips == before


async def test_a_statement_alone_is_one_round_trip(database: Database) -> None:
    """Outside of a unit of work there is neither BEGIN nor COMMIT, and it is kept."""
    before = database.round_trips
    await database.run(ADD_NAMED, **named("Ada"))
    assert await database.value(COUNT) == 1
    assert database.round_trips == before + 2


async def test_in_array_takes_lists_of_any_length(database: Database) -> None:
    """One statement finds none, some or all of the keys it is given."""
    found = Statement(
        select(PEOPLE.c.name).where(sql.in_array(PEOPLE.c.name, "names")).order_by(PEOPLE.c.id)
    )
    await database.many(ADD_NAMED, [named(name) for name in ("Ada", "Bob", 'Ö "x" \\')])
    for wanted in ([], ["Bob"], ["Ada", "Eve", 'Ö "x" \\']):
        rows = await database.all(found, names=wanted)
        assert [name for (name,) in rows] == [name for name in wanted if name != "Eve"]


async def test_in_array_converts_its_items(database: Database) -> None:
    """Instants in a list are written as instants in a column are."""
    await database.value(ADD, **ADA)
    seen = Statement(select(PEOPLE.c.name).where(sql.in_array(PEOPLE.c.seen_at, "moments")))
    assert await database.all(seen, moments=[NOON, NOON + timedelta(days=1)]) == [("Ada",)]
    unseen = Statement(select(PEOPLE.c.name).where(~sql.in_array(PEOPLE.c.seen_at, "moments")))
    assert await database.all(unseen, moments=[NOON]) == []


async def test_in_array_uses_the_key(sqlite: Database, postgres: Database) -> None:
    """Neither database reads the whole table to find rows by a list of keys."""
    find = Statement(select(PEOPLE.c.name).where(sql.in_array(PEOPLE.c.id, "ids")))
    plan = Statement(text("EXPLAIN QUERY PLAN " + find.on("sqlite").sql.replace("?", "'[1]'")))
    assert "SEARCH people USING INTEGER PRIMARY KEY" in str(await sqlite.all(plan))
    given = find.on("postgresql").sql.replace("$1", "'{1}'")
    await postgres.run(Statement(text("SET enable_seqscan = off")))
    plan = Statement(text(f"EXPLAIN {given}".replace("::", r"\:\:")))
    assert "Index Cond: (id = ANY" in str(await postgres.all(plan))


HITS = sql.rowset("hits", name=("names", SqlText()), points=("amounts", BigInt))
EXCLUDED = sql.upsert(PEOPLE).excluded
HIT = Statement(
    sql.upsert(PEOPLE)
    .from_select(
        ["name", "born", "points"],
        select(HITS.c.name, sql.cast(bindparam("day"), CivilDate), HITS.c.points).where(true()),
    )
    .on_conflict_do_update(
        index_elements=["name", "born"], set_={"points": PEOPLE.c.points + EXCLUDED.points}
    )
    .returning(PEOPLE.c.name, PEOPLE.c.points)
)


async def test_rows_are_counted_up_from_arrays(database: Database) -> None:
    """Parallel lists are inserted or added in one statement, which answers the new values."""
    day = date(2026, 7, 1)
    await database.all(HIT, names=["Ada", "Bob"], amounts=[1, 2], day=day)
    rows = await database.all(HIT, names=["Bob", "Eve"], amounts=[10, 2**40], day=day)
    assert sorted(map(tuple, rows)) == [("Bob", 12), ("Eve", 2**40)]


async def test_claimed_rows_are_claimed_once(database: Database) -> None:
    """Claimers at the same time share the due rows among them, each row to one."""
    await database.many(ADD_NAMED, [named(f"n{number}", points=number) for number in range(30)])
    claim = Statement(
        sql.claim(
            PEOPLE,
            due=PEOPLE.c.active.is_(None) & (PEOPLE.c.points < bindparam("below")),
            order_by=[PEOPLE.c.points],
            limit=5,
            values={"active": True},
            returning=[PEOPLE.c.points],
        )
    )
    taken = await asyncio.gather(*(database.all(claim, below=20) for _ in range(8)))
    claimed = [points for rows in taken for (points,) in rows]
    assert len(claimed) == len(set(claimed)) <= 20
    rest = [points for (points,) in await database.all(claim, below=20)]
    while rest:
        claimed += rest
        rest = [points for (points,) in await database.all(claim, below=20)]
    assert sorted(claimed) == list(range(20))


@pytest.mark.parametrize("words", ["100%", "a_b", "!", "ö"])
async def test_like_takes_each_character_for_what_it_is(database: Database, words: str) -> None:
    """Percent, underscore and the escape itself match themselves alone."""
    await database.many(ADD_NAMED, [named(f"<{words}>"), named("<100x axb>")])
    find = Statement(select(PEOPLE.c.name).where(sql.like(PEOPLE.c.name, "pattern")))
    assert await database.all(find, pattern=sql.containing(words)) == [(f"<{words}>",)]


async def test_a_total_is_an_int(database: Database) -> None:
    """The sum over no rows is 0, and over some an `int` on both."""
    total = Statement(select(sql.total(PEOPLE.c.points)))
    assert await database.value(total) == 0
    await database.many(ADD_NAMED, [named("Ada", 2**61), named("Bob", 5)])
    assert type(await database.value(total)) is int
    assert await database.value(total) == 2**61 + 5


async def test_a_stream_gives_every_row_in_order(database: Database) -> None:
    """More rows than a chunk holds come one by one, alone and in a unit of work."""
    await database.many(ADD_NAMED, [named(f"n{number}") for number in range(CHUNK * 2 + 1)])
    expected = await names(database)

    async def work(unit: Connection) -> list[str]:
        return [name async for (name,) in unit.stream(NAMES)]

    assert [name async for (name,) in database.stream(NAMES)] == expected
    assert await database.write(work) == expected


async def test_a_stream_left_early_gives_its_connection_back(database: Database) -> None:
    """Streams that are closed after a row, more than there are connections, block nobody."""
    await database.many(ADD_NAMED, [named(f"n{number}") for number in range(CHUNK + 1)])
    for _ in range(6):
        async with aclosing(database.stream(NAMES)) as rows:
            assert await anext(rows) == ("n0",)
    await database.run(ADD_NAMED, **named("last"))


# Refusals


REFUSALS: list[tuple[str, dict[str, Any], str]] = [
    ("a unique constraint", ADA | {"photo": None}, "uq_people_name_born"),
    ("a unique index", ADA | {"name": "Eve"}, "ux_people_photo"),
    ("a check", ADA | {"name": "Eve", "photo": None, "points": -1}, "ck_people_points"),
    ("a missing value", ADA | {"name": None, "photo": None}, "nn_people_name"),
    ("a broken reference", ADA | {"name": "Eve", "photo": None, "city_id": 9}, "foreign_key"),
]


@pytest.mark.parametrize("what, person, constraint", REFUSALS, ids=[case[0] for case in REFUSALS])
async def test_a_refusal_has_the_same_name_on_both(
    database: Database, what: str, person: dict[str, Any], constraint: str
) -> None:
    """What the database refuses is told by the constraint's name, alone and in a unit."""
    await database.value(ADD, **ADA)
    with pytest.raises(ConstraintViolated) as alone:
        await database.value(ADD, **person)
    with pytest.raises(ConstraintViolated) as inside:
        await database.write(lambda unit: unit.value(ADD, **person))
    assert alone.value.constraint == inside.value.constraint == constraint
    assert await database.value(COUNT) == 1


async def test_a_key_taken_twice_has_its_name(database: Database) -> None:
    """A primary key is a constraint like others."""
    add = Statement(insert(CITIES).values(id=bindparam("id")))
    await database.run(add, id=1)
    with pytest.raises(ConstraintViolated, match=r"^pk_cities$"):
        await database.run(add, id=1)


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


async def test_a_trigger_refuses_by_its_own_word(database: Database) -> None:
    """What a trigger raises is the constraint's name."""
    for ddl in TRIGGERS[database.dialect]:
        await database.run(Statement(text(ddl)))
    await database.run(ADD_NAMED, **named("Ada"))
    with pytest.raises(ConstraintViolated, match=r"^people_sealed$"):
        await database.run(Statement(delete(PEOPLE)))


def test_unique_keys_that_sqlite_cannot_tell_apart_are_refused() -> None:
    """Two unique keys over the same columns would share one name, so they may not be."""
    metadata = MetaData()
    Table(
        "t",
        metadata,
        Column("a", BigInt),
        Index("ux_one", "a", unique=True),
        Index("ux_two", "a", unique=True, sqlite_where=text("a > 1")),
    )
    with pytest.raises(ValueError, match="ux_"):
        unique_names(metadata)


async def test_many_keeps_all_or_nothing(database: Database) -> None:
    """One bad row of a batch undoes the others."""
    with pytest.raises(ConstraintViolated, match="ck_people_points"):
        await database.many(ADD_NAMED, [named("Ada"), named("Bob", points=-1)])
    assert await database.value(COUNT) == 0


# Units of work


async def add_two(unit: Connection) -> str:
    await unit.run(ADD_NAMED, **named("Ada"))
    await unit.run(ADD_NAMED, **named("Bob"))
    return "done"


async def test_a_unit_of_work_is_kept(database: Database) -> None:
    """What `work` returns is returned, and what it wrote is there."""
    before = database.round_trips
    assert await database.write(add_two) == "done"
    assert database.round_trips == before + 4
    assert await names(database) == ["Ada", "Bob"]


async def test_a_unit_sees_its_own_writes_and_others_do_not(database: Database) -> None:
    """Before the end, only the unit itself reads what it wrote."""

    async def work(unit: Connection) -> tuple[int, int]:
        await add_two(unit)
        return await unit.value(COUNT), await database.value(COUNT)

    assert await database.write(work) == (2, 0)


async def test_an_error_undoes_the_unit(database: Database) -> None:
    """An error of the work itself leaves nothing behind, and the next unit works."""

    async def work(unit: Connection) -> None:
        await add_two(unit)
        raise LookupError("changed my mind")

    with pytest.raises(LookupError):
        await database.write(work)
    assert await names(database) == []
    await database.write(add_two)


async def test_a_swallowed_failure_cannot_be_committed(database: Database) -> None:
    """Work that goes on after a refusal is undone, and hears the refusal again."""

    async def work(unit: Connection) -> None:
        await add_two(unit)
        with suppress(ConstraintViolated):
            await unit.run(ADD_NAMED, **named("Eve", points=-1))
        with suppress(ConstraintViolated):
            await unit.run(ADD_NAMED, **named("Eve"))

    with pytest.raises(ConstraintViolated, match="ck_people_points"):
        await database.write(work)
    assert await names(database) == []


async def steps(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize("stubborn", [False, True], ids=["once", "again and again"])
async def test_a_unit_cancelled_anywhere_is_whole_or_gone(
    database: Database, stubborn: bool
) -> None:
    """Cancelled after any number of the loop's steps, a unit is kept whole or undone, and the
    next one finds a clean connection."""
    kept = finished = 0
    for count in range(60):
        task = asyncio.ensure_future(database.write(add_two))
        # Each step lets the answers of the server or the thread come in.
        for _ in range(count):
            await asyncio.sleep(0.0001)
        task.cancel()
        while stubborn and not task.done():
            await asyncio.sleep(0)
            task.cancel()
        [outcome] = await asyncio.gather(task, return_exceptions=True)
        finished += outcome == "done"
        assert outcome == "done" or isinstance(outcome, asyncio.CancelledError)
        total = await database.write(lambda unit: unit.value(COUNT))
        assert total in (kept, kept + 2)
        assert outcome != "done" or total == kept + 2
        kept = total
    assert 0 < finished < 60, "some were cut short, some came to their end"


async def test_a_cancelled_unit_leaves_no_transaction(postgres: Database) -> None:
    """After a cancellation in the middle, the server sees every connection idle."""
    started = asyncio.Event()

    async def work(unit: Connection) -> None:
        await add_two(unit)
        started.set()
        await unit.run(Statement(text("SELECT pg_sleep(10)")))

    task = asyncio.ensure_future(postgres.write(work))
    await started.wait()
    await steps(3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    states = Statement(
        text(
            "SELECT state FROM pg_stat_activity WHERE application_name = 'staffbooking'"
            " AND datname = current_database() AND pid <> pg_backend_pid()"
        )
    )
    assert {state for (state,) in await postgres.all(states)} <= {"idle"}
    assert await names(postgres) == []


SLOW = Statement(
    postgresql=select(func.pg_sleep(30)),
    sqlite=text(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000000)"
        " SELECT count(*) FROM n"
    ).columns(count=BigInt),
)


async def test_a_cancelled_read_stops_working(database: Database) -> None:
    """Reads that nobody waits for any more, more than there are connections, block nobody."""
    for _ in range(6):
        task = asyncio.ensure_future(database.all(SLOW))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    async with asyncio.timeout(5):
        assert await asyncio.gather(*(database.value(COUNT) for _ in range(8))) == [0] * 8


async def test_a_deadlock_is_repeated(postgres: Database) -> None:
    """Of two units that wait for each other, one is run again, and both are kept."""
    await postgres.many(ADD_NAMED, [named("Ada"), named("Bob")])
    both = asyncio.Barrier(2)
    runs = 0

    async def transfer(unit: Connection, source: str, target: str) -> None:
        nonlocal runs
        runs += 1
        await unit.run(RAISE, who=source, by=1)
        if runs <= 2:
            await both.wait()
        await unit.run(RAISE, who=target, by=1)

    await asyncio.gather(
        postgres.write(lambda unit: transfer(unit, "Ada", "Bob")),
        postgres.write(lambda unit: transfer(unit, "Bob", "Ada")),
    )
    assert runs == 3
    assert [await postgres.value(POINTS, who=who) for who in ("Ada", "Bob")] == [2, 2]


RAISE_40001 = Statement(text("DO $$ BEGIN RAISE EXCEPTION 'again' USING ERRCODE = '40001'; END $$"))


async def test_a_unit_is_repeated_a_few_times_only(postgres: Database) -> None:
    """A unit that the database keeps undoing ends as `Unavailable`."""
    runs = 0

    async def work(unit: Connection) -> None:
        nonlocal runs
        runs += 1
        await unit.run(RAISE_40001)

    with pytest.raises(Unavailable):
        await postgres.write(work)
    assert runs == TRIES


# Out of reach


PID = Statement(text("SELECT pg_backend_pid()"))
KILL = Statement(
    text("SELECT pg_terminate_backend(:pid)").bindparams(bindparam("pid", type_=SqlText()))
)


async def kill_all(url: str) -> None:
    async with AsyncExitStack() as stack:
        killer = await open_database(url, METADATA)
        stack.push_async_callback(killer.close)
        await killer.run(
            Statement(
                text(
                    "SELECT count(pg_terminate_backend(pid, 1000)) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            )
        )


async def test_a_killed_idle_connection_is_replaced(postgres: Database, postgres_url: str) -> None:
    """Reads and units after all idle connections were killed work at once."""
    await asyncio.gather(*(postgres.value(COUNT) for _ in range(4)))
    await kill_all(postgres_url)
    assert await postgres.value(COUNT) == 0
    await kill_all(postgres_url)
    assert await postgres.write(add_two) == "done"


async def test_a_unit_cut_off_before_its_end_is_run_again(
    postgres: Database, postgres_url: str
) -> None:
    """A connection killed in the middle of a unit undid it, so it is repeated."""
    runs = 0

    async def work(unit: Connection) -> None:
        nonlocal runs
        runs += 1
        await unit.run(ADD_NAMED, **named("Ada"))
        if runs == 1:
            await kill_all(postgres_url)
        await unit.run(ADD_NAMED, **named("Bob"))

    await postgres.write(work)
    assert runs == 2
    assert await names(postgres) == ["Ada", "Bob"]


async def test_an_answer_lost_at_the_end_is_not_repeated(
    postgres: Database, postgres_url: str
) -> None:
    """Once COMMIT was to be sent, nobody runs the unit again: it is out of reach."""
    runs = 0

    async def work(unit: Connection) -> None:
        nonlocal runs
        runs += 1
        await unit.run(ADD_NAMED, **named("Ada"))
        await kill_all(postgres_url)

    with pytest.raises(Unavailable):
        await postgres.write(work)
    assert runs == 1
    assert await names(postgres) == []


async def test_a_lone_change_is_not_repeated_when_its_answer_is_lost(postgres: Database) -> None:
    """A statement that may have taken effect is sent once."""
    suicide = Statement(text("DO $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); END $$"))
    before = postgres.round_trips
    with pytest.raises(Unavailable):
        await postgres.run(suicide)
    assert postgres.round_trips == before + 1
    assert await postgres.value(COUNT) == 0


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+asyncpg://app@127.0.0.1:1/nowhere",
        "postgresql+asyncpg://app@/nowhere?host=/nonexistent",
    ],
)
async def test_a_server_that_is_not_there_is_unavailable(url: str) -> None:
    """Nothing is asked of the server before it is needed; then it is out of reach."""
    database = await open_database(url, METADATA)
    with pytest.raises(Unavailable):
        await database.value(COUNT)
    with pytest.raises(Unavailable):
        await database.write(add_two)
    await database.close()


async def test_a_statement_that_takes_too_long_is_unavailable(postgres: Database) -> None:
    """A server's own limit of time ends as `Unavailable`, and is not repeated."""
    runs = 0

    async def work(unit: Connection) -> None:
        nonlocal runs
        runs += 1
        await unit.run(Statement(text("SET LOCAL statement_timeout = 20")))
        await unit.run(Statement(text("SELECT pg_sleep(5)")))

    with pytest.raises(Unavailable):
        await postgres.write(work)
    assert runs == 1


async def test_a_file_that_cannot_be_made_is_unavailable(tmp_path: Path) -> None:
    """SQLite needs its folder to be there."""
    with pytest.raises(Unavailable):
        await open_sqlite(tmp_path / "missing" / "main.db", METADATA)


async def test_a_closed_database_is_unavailable(database: Database) -> None:
    """After `close`, whoever comes late hears so at once."""
    await database.close()
    async with asyncio.timeout(1):
        with pytest.raises(Unavailable):
            await database.value(COUNT)


async def test_a_fault_of_ours_is_not_disguised(database: Database) -> None:
    """SQL that is wrong raises the driver's own error: no 503 hides a bug."""
    with pytest.raises(Exception, match=r"(?i)no_such") as raised:
        await database.all(Statement(text("SELECT no_such FROM people")))
    assert not isinstance(raised.value, Unavailable | ConstraintViolated | InvalidField)


# Several at a time


async def test_two_openings_of_a_file_write_in_turn(tmp_path: Path) -> None:
    """Openings of one file, as two processes have, lose no write to each other."""
    path = tmp_path / "shared.db"
    openings = await asyncio.gather(*(open_sqlite(path, METADATA) for _ in range(3)))
    await create_tables(openings[0])
    await openings[0].run(ADD_NAMED, **named("Ada"))

    async def raise_by_reading(unit: Connection) -> None:
        points = await unit.value(POINTS, who="Ada")
        await asyncio.sleep(0)
        await unit.run(RAISE, who="Ada", by=1)
        assert await unit.value(POINTS, who="Ada") == points + 1

    async def many_times(database: Database) -> None:
        for _ in range(10):
            await database.write(raise_by_reading)
            await database.run(RAISE, who="Ada", by=1)

    await asyncio.gather(*(many_times(database) for database in openings for _ in range(2)))
    assert await openings[1].value(POINTS, who="Ada") == 120
    for opening in openings:
        await opening.close()


async def test_a_busy_file_is_unavailable_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer elsewhere that never ends is waited for, but not for ever."""
    monkeypatch.setattr("staffbooking_adapters.sql.sqlite.BUSY_SECONDS", 0.05)
    first, second = [await open_sqlite(tmp_path / "shared.db", METADATA) for _ in range(2)]
    await create_tables(first)

    async def hold(unit: Connection) -> None:
        with pytest.raises(Unavailable):
            await second.write(add_two)

    await first.write(hold)
    assert await second.write(add_two) == "done"
    await first.close()
    await second.close()


async def test_more_callers_than_connections_take_turns(database: Database) -> None:
    """Callers wait for a connection in the order they came, and all are served."""
    await database.run(ADD_NAMED, **named("Ada"))
    await asyncio.gather(*(database.run(RAISE, who="Ada", by=1) for _ in range(40)))
    assert await database.value(POINTS, who="Ada") == 40


async def test_waiting_for_a_connection_has_an_end(
    postgres: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When every connection stays busy, the next caller is told so."""
    monkeypatch.setattr("staffbooking_adapters.sql.pool.PATIENCE", 0.05)
    done = asyncio.Event()
    holders = [asyncio.ensure_future(postgres.write(lambda unit: done.wait())) for _ in range(4)]
    await asyncio.sleep(0.05)
    with pytest.raises(Unavailable):
        await postgres.value(COUNT)
    done.set()
    await asyncio.gather(*holders)
    assert await postgres.value(COUNT) == 0


async def pragmas(unit: Connection) -> list[Any]:
    shown = ("journal_mode", "synchronous", "foreign_keys")
    return [await unit.value(Statement(text(f"PRAGMA {name}"))) for name in shown]


async def test_sqlite_is_set_to_keep_what_it_acknowledged(tmp_path: Path) -> None:
    """The main file is synced at every commit, the one for counters is not; both use a WAL."""
    for synchronous, level in (("FULL", 2), ("OFF", 0)):
        database = await open_sqlite(
            tmp_path / f"{synchronous}.db", METADATA, synchronous=synchronous
        )
        assert await database.write(pragmas) == ["wal", level, 1]
        await database.close()


async def test_postgres_is_set_for_short_units_and_kept_plans(postgres: Database) -> None:
    """Each connection has the limits of time and the planner's mode it is to have."""
    shown = {
        "application_name": "staffbooking",
        "plan_cache_mode": "force_generic_plan",
        "jit": "off",
        "TimeZone": "UTC",
        "statement_timeout": "10s",
        "lock_timeout": "5s",
        "idle_in_transaction_session_timeout": "15s",
        "transaction_isolation": "read committed",
    }
    for name, value in shown.items():
        assert await postgres.value(Statement(text(f'SHOW "{name}"'))) == value
