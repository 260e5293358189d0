"""The schema: its migrations make what the statements expect, and it guards itself."""

from __future__ import annotations

import asyncio

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from staffbooking_adapters.sql.accounts.rate_limits import rate_windows_metadata
from staffbooking_adapters.sql.engine.open import Statement, open_database
from staffbooking_adapters.sql.schema import payments, sandbox
from staffbooking_adapters.sql.schema.metadata import metadata
from staffbooking_adapters.sql.schema.upgrade import (
    HEAD_REVISION,
    SchemaUpgradeError,
    alembic_config,
    find_schema_mismatch,
    run_migrations,
    run_on_sqlalchemy_connection,
)
from staffbooking_core.domain.bookings.lifecycle import SLOT_HOLDING_STATUSES, BookingStatus
from staffbooking_core.errors import ConstraintViolated, StoreUnavailable
from staffbooking_core.ports import BOOKING_OVERLAP
from tests.contract.stores import STORES, open_sql_store, read_store
from tests.support.builders import (
    DAY,
    HOUR,
    NOW,
    add_booking,
    add_companion,
    make_posting,
    next_version,
    save_booking,
)

pytestmark = pytest.mark.anyio

assert sandbox.fakepay_documents.name in metadata.tables
assert payments.ledger_legs.name in metadata.tables


@pytest.fixture(params=["sqlite", "postgresql"])
async def sql_store(request):
    """An empty store of either database."""
    async with STORES[request.param](request) as opened:
        yield opened


# Migrations -------------------------------------------------------------------------------


BY_MIGRATIONS_ALONE = ("ex_bookings_overlap", "alembic_version", "rate_windows")
"""What the descriptions of the tables don't know of, or not always."""


def is_described(item, name, kind, is_reflected, _):
    return name not in BY_MIGRATIONS_ALONE


async def test_migrations_make_the_tables_that_statements_expect(empty_url):
    """Tables, columns, keys and indexes are those of the descriptions, no more, no less."""
    await run_migrations(empty_url)

    def differences(connection: Connection):
        options = {"include_object": is_described, "compare_server_default": True}
        return compare_metadata(MigrationContext.configure(connection, opts=options), metadata)

    found = []
    await run_on_sqlalchemy_connection(
        empty_url, lambda connection: found.extend(differences(connection))
    )
    assert found == []


INDEXES = {
    "sqlite": "SELECT sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL",
    "postgresql": "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'",
}


async def test_migrations_make_the_indexes_word_for_word(empty_url):
    """Their columns, directions and conditions too, which a comparison of names leaves out."""
    made: list[set[str]] = []

    def indexes(connection: Connection) -> None:
        rows = connection.exec_driver_sql(INDEXES[connection.dialect.name])
        kept = {" ".join(sql.replace('"', "").split()) for (sql,) in rows}
        made.append({sql for sql in kept if not any(each in sql for each in BY_MIGRATIONS_ALONE)})

    def make_anew(connection: Connection) -> None:
        metadata.drop_all(connection)
        metadata.create_all(connection)
        indexes(connection)

    await run_migrations(empty_url)
    await run_on_sqlalchemy_connection(empty_url, indexes)
    await run_on_sqlalchemy_connection(empty_url, make_anew)
    assert made[0] == made[1]
    assert len(made[0]) > 15


async def test_check_says_what_is_missing(empty_url):
    """One line for a database without a schema, nothing for one that is up to date."""
    before = await find_schema_mismatch(empty_url)
    await run_migrations(empty_url)
    assert before == "the database has no schema yet: run `staffbooking db upgrade`"
    assert await find_schema_mismatch(empty_url) is None


async def test_a_store_without_a_schema_is_not_ready(empty_url):
    """It can be opened, and says that it can't work yet; once upgraded it can."""
    async with open_sql_store(empty_url) as store:
        with pytest.raises(StoreUnavailable):
            await read_store(store, lambda view: view.metrics.count_pending_work(NOW))
        await run_migrations(empty_url)
        assert await read_store(store, lambda view: view.metrics.count_pending_work(NOW)) == 0


async def test_check_tells_an_older_schema(empty_url):
    """It names the version that is there and the one that is needed."""
    await run_migrations(empty_url)
    database = await open_database(empty_url, metadata)
    await database.execute(Statement(text("UPDATE alembic_version SET version_num = '0001'")))
    await database.close()
    found = await find_schema_mismatch(empty_url)
    assert (
        found
        == f"the schema is of version 0001, not {HEAD_REVISION}: run `staffbooking db upgrade`"
    )


async def test_a_newer_schema_is_left_alone(empty_url):
    """No run of the migrations brings it back to this version: that is said in one line."""
    await run_migrations(empty_url)
    database = await open_database(empty_url, metadata)
    await database.execute(Statement(text("UPDATE alembic_version SET version_num = '9999'")))
    await database.close()
    told = f"the schema is of version 9999, newer than this program's {HEAD_REVISION}"
    assert await find_schema_mismatch(empty_url) == told
    with pytest.raises(SchemaUpgradeError, match="9999"):
        await run_migrations(empty_url)
    assert await find_schema_mismatch(empty_url) == told


async def test_what_stands_in_the_way_is_told(empty_url):
    """A table of somebody else's, in the words of the database alone; nothing is changed."""
    await run_on_sqlalchemy_connection(
        empty_url, lambda made: made.exec_driver_sql("CREATE TABLE users (a INT)")
    )
    with pytest.raises(SchemaUpgradeError) as caught:
        await run_migrations(empty_url)
    reason = caught.value.message.partition(f"version {HEAD_REVISION}: ")[2]
    assert reason in ("table users already exists", 'relation "users" already exists')
    assert "no schema yet" in str(await find_schema_mismatch(empty_url))


async def test_what_is_no_database_is_not_upgraded(tmp_path):
    """A file of another kind, or a path that leads nowhere."""
    (tmp_path / "letter.txt").write_text("Dear all," * 1_000)
    for path in (tmp_path / "letter.txt", tmp_path / "none" / "test.db", tmp_path):
        with pytest.raises(SchemaUpgradeError, match=r"file is not|unable to open"):
            await run_migrations(f"sqlite+aiosqlite:///{path}")


async def test_the_version_is_that_of_the_newest_migration(tmp_path):
    """What `check` compares with is where the migrations lead."""
    heads = []

    def look(connection: Connection) -> None:
        heads.append(ScriptDirectory.from_config(alembic_config(connection)).get_current_head())

    await run_on_sqlalchemy_connection(f"sqlite+aiosqlite:///{tmp_path / 'any.db'}", look)
    assert heads == [HEAD_REVISION]


async def test_postgresql_has_the_windows_of_requests(postgres_server):
    """As they are described; SQLite keeps them in a file of their own."""
    url = await postgres_server.create_database()
    await run_migrations(url)
    found = []

    def differences(connection: Connection) -> None:
        names = {"include_name": lambda name, kind, _: kind != "table" or name == "rate_windows"}
        context = MigrationContext.configure(connection, opts=names)
        found.extend(compare_metadata(context, rate_windows_metadata))

    await run_on_sqlalchemy_connection(url, differences)
    assert found == []


async def test_several_upgrades_at_once_are_one(empty_url):
    """Those that come late find nothing to do."""
    await asyncio.gather(*(run_migrations(empty_url) for _ in range(3)))
    await run_migrations(empty_url)
    assert await find_schema_mismatch(empty_url) is None


# Guards -----------------------------------------------------------------------------------


async def execute(store, *statements):
    """Run statements past the store's adapters, in one unit of work."""

    async def unit(connection):
        for statement in statements:
            await connection.execute(Statement(text(statement)))

    await store.database.run_transaction(unit)


async def refusal(store, *statements):
    """The name by which the database refuses statements."""
    with pytest.raises(ConstraintViolated) as caught:
        await execute(store, *statements)
    return caught.value.constraint


@pytest.mark.parametrize("status", sorted(SLOT_HOLDING_STATUSES))
async def test_no_statement_can_hold_a_slot_twice(sql_store, status):
    """Neither by a status nor by times that are changed past every check."""
    companion = await add_companion(sql_store)
    await add_booking(sql_store, companion, status=BookingStatus.PAID, starts_at=NOW + DAY)
    rival = await add_booking(sql_store, companion, starts_at=NOW + DAY + HOUR)
    other = await add_booking(sql_store, companion, status=status, starts_at=NOW + 9 * DAY)
    later = f"(SELECT {{}} FROM bookings WHERE id = {rival.id})"
    starts, ends = later.format("starts_at"), later.format("ends_at")
    move = f"starts_at = {starts}, ends_at = {ends}"
    for change, number in ((f"status = '{status}'", rival.id), (move, other.id)):
        statement = f"UPDATE bookings SET {change} WHERE id = {number}"
        assert await refusal(sql_store, statement) == BOOKING_OVERLAP


LEG = "INSERT INTO ledger_legs (posting_key, n, account, amount) VALUES ('{}', {}, 'escrow', {})"
POSTING = (
    "INSERT INTO ledger_postings (key, booking_id, at)"
    " SELECT '{}', id, created_at FROM bookings ORDER BY id LIMIT 1"
)


@pytest.mark.parametrize("amounts", [(), (5,), (5, -4), (5, -5, 0), (0, 0)])
async def test_no_posting_is_out_of_balance(sql_store, amounts):
    """It has two legs at least, none of them zero, that sum to zero."""
    await add_booking(sql_store)
    legs = [LEG.format("k", n, amount) for n, amount in enumerate(amounts)]
    refused = await refusal(sql_store, *legs, POSTING.format("k"))
    assert refused == "ck_ledger_postings_balanced"


async def test_a_balanced_posting_passes(sql_store):
    """Written by hand like those that are refused."""
    await add_booking(sql_store)
    await execute(sql_store, LEG.format("k", 0, 5), LEG.format("k", 1, -5), POSTING.format("k"))
    async with sql_store.read_view() as view:
        assert await view.ledger.imbalance() == 0


async def test_legs_need_their_posting(sql_store):
    """They can't be left alone."""
    refused = await refusal(sql_store, LEG.format("k", 0, 5), LEG.format("k", 1, -5))
    assert refused in ("foreign_key", "ck_ledger_postings_balanced")


@pytest.mark.parametrize("change", ["UPDATE {} SET {} = {}", "DELETE FROM {}"])
@pytest.mark.parametrize(
    ("table", "column"), [("ledger_postings", "at"), ("ledger_legs", "amount")]
)
async def test_the_ledger_is_only_added_to(sql_store, change, table, column):
    """What stands in it stays as it is."""
    booking = await add_booking(sql_store)
    await save_booking(sql_store, next_version(booking), postings=(make_posting(booking.id),))
    refused = await refusal(sql_store, change.format(table, column, column))
    assert refused == "ledger_append_only"


async def test_a_posting_takes_no_legs_later(sql_store):
    """One that would throw it out of balance is refused."""
    booking = await add_booking(sql_store)
    posting = make_posting(booking.id)
    await save_booking(sql_store, next_version(booking), postings=(posting,))
    await refusal(sql_store, LEG.format(posting.key, 7, 1))
    async with sql_store.read_view() as view:
        assert (
            await view.ledger.imbalance(),
            len(await view.ledger.postings_of(booking.id)),
        ) == (
            0,
            1,
        )
