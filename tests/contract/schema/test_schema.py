"""The schema: its migrations create the described tables, and its constraints hold."""

from __future__ import annotations

import asyncio
import re

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from staffbooking_adapters.sql.accounts.rate_limits import rate_windows_metadata
from staffbooking_adapters.sql.engine.errors import unique_constraint_names
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
from staffbooking_adapters.testing.builders import (
    DAY,
    HOUR,
    NOW,
    add_booking,
    add_companion,
    make_posting,
    next_revision,
    save_booking,
)
from staffbooking_core.domain.bookings.lifecycle import SLOT_HOLDING_STATUSES, BookingStatus
from staffbooking_core.errors import ConstraintViolated, StoreUnavailable
from staffbooking_core.ports import BOOKING_OVERLAP
from tests.contract.stores import STORES, open_sql_store
from tests.support.postgres import database_name

pytestmark = pytest.mark.anyio

assert sandbox.fakepay_documents.name in metadata.tables
assert payments.ledger_legs.name in metadata.tables


@pytest.fixture(params=["sqlite", "postgresql"])
async def sql_store(request):
    """An empty store of either database."""
    async with STORES[request.param](request) as opened:
        yield opened


def test_sqlite_can_tell_all_unique_keys() -> None:
    """No two unique keys of a table are over the same columns, by which SQLite names them."""
    for table in metadata.tables.values():
        unique_constraint_names(table)


# Migrations -------------------------------------------------------------------------------


BY_MIGRATIONS_ALONE = ("ex_bookings_overlap", "alembic_version", "rate_windows")
"""Objects that the table definitions of `metadata` do not have, or not on both databases."""


def is_described(item, name, kind, is_reflected, _):
    return name not in BY_MIGRATIONS_ALONE


async def test_migrations_create_the_described_tables(migrated_url):
    """The migrated schema has no differences from `metadata`."""

    def differences(connection: Connection):
        options = {"include_object": is_described, "compare_server_default": True}
        return compare_metadata(MigrationContext.configure(connection, opts=options), metadata)

    found = []
    await run_on_sqlalchemy_connection(
        migrated_url, lambda connection: found.extend(differences(connection))
    )
    assert found == []


INDEXES = {
    "sqlite": "SELECT sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL",
    "postgresql": "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'",
}


async def test_migrations_create_the_described_indexes(migrated_url):
    """The SQL of all indexes is the same when created by migrations and from `metadata`."""
    made: list[set[str]] = []

    def indexes(connection: Connection) -> None:
        rows = connection.exec_driver_sql(INDEXES[connection.dialect.name])
        kept = {" ".join(sql.replace('"', "").split()) for (sql,) in rows}
        made.append({sql for sql in kept if not any(each in sql for each in BY_MIGRATIONS_ALONE)})

    def create_from_metadata(connection: Connection) -> None:
        metadata.drop_all(connection)
        metadata.create_all(connection)
        indexes(connection)

    await run_on_sqlalchemy_connection(migrated_url, indexes)
    await run_on_sqlalchemy_connection(migrated_url, create_from_metadata)
    assert made[0] == made[1]
    assert len(made[0]) > 15


async def test_a_missing_schema_is_reported(empty_url):
    """`find_schema_mismatch` reports a missing schema, and is None after an upgrade."""
    before = await find_schema_mismatch(empty_url)
    await run_migrations(empty_url)
    assert before == "the database has no schema yet: run `staffbooking db upgrade`"
    assert await find_schema_mismatch(empty_url) is None


async def test_a_store_without_a_schema_is_unavailable(empty_url):
    """A store opened without a schema raises StoreUnavailable until the schema is upgraded."""
    async with open_sql_store(empty_url) as store:
        with pytest.raises(StoreUnavailable):
            await store.check_writable(NOW)
        await run_migrations(empty_url)
        await store.check_writable(NOW)


async def test_an_older_schema_is_reported(migrated_url):
    """`find_schema_mismatch` names the version of an older schema and the one required."""
    database = await open_database(migrated_url, metadata)
    await database.execute(Statement(text("UPDATE alembic_version SET version_num = '0001'")))
    await database.close()
    found = await find_schema_mismatch(migrated_url)
    assert (
        found
        == f"the schema is of version 0001, not {HEAD_REVISION}: run `staffbooking db upgrade`"
    )


async def test_a_newer_schema_is_not_changed(migrated_url):
    """`run_migrations` raises SchemaUpgradeError for a newer schema and leaves it unchanged."""
    database = await open_database(migrated_url, metadata)
    await database.execute(Statement(text("UPDATE alembic_version SET version_num = '9999'")))
    await database.close()
    expected = f"the schema is of version 9999, newer than this program's {HEAD_REVISION}"
    assert await find_schema_mismatch(migrated_url) == expected
    with pytest.raises(SchemaUpgradeError, match="9999"):
        await run_migrations(migrated_url)
    assert await find_schema_mismatch(migrated_url) == expected


async def test_a_conflicting_table_is_reported(empty_url):
    """A conflicting table raises SchemaUpgradeError with the database's message."""
    await run_on_sqlalchemy_connection(
        empty_url, lambda made: made.exec_driver_sql("CREATE TABLE users (a INT)")
    )
    with pytest.raises(SchemaUpgradeError) as caught:
        await run_migrations(empty_url)
    reason = caught.value.message.partition(f"version {HEAD_REVISION}: ")[2]
    assert reason in ("table users already exists", 'relation "users" already exists')
    assert "no schema yet" in str(await find_schema_mismatch(empty_url))


async def test_a_file_that_is_no_database_is_refused(tmp_path):
    """Upgrading a file that is no database or cannot be opened raises StoreUnavailable with the
    words of every other use of such a file."""
    (tmp_path / "letter.txt").write_text("Dear all," * 1_000)
    for path in (tmp_path / "letter.txt", tmp_path / "none" / "test.db", tmp_path):
        with pytest.raises(StoreUnavailable) as refused:
            await run_migrations(f"sqlite+aiosqlite:///{path}")
        assert re.match(f"cannot open {path}: .*(file is not|unable to open)", refused.value.reason)


async def test_an_unreachable_database_is_reported_alike():
    """The upgrade of a database out of reach raises StoreUnavailable with the words of every other
    use of it."""
    url = "postgresql+asyncpg://app@127.0.0.1:1/x"
    with pytest.raises(StoreUnavailable) as upgrading:
        await run_migrations(url)
    with pytest.raises(StoreUnavailable) as reading:
        await find_schema_mismatch(url)
    assert upgrading.value.reason == reading.value.reason
    assert re.match("cannot connect: .", upgrading.value.reason)


async def test_a_missing_database_is_reported_as_such(postgres_server):
    """The upgrade of a database that does not exist raises StoreUnavailable with that reason."""
    url = await postgres_server.create_database()
    await postgres_server.drop_database(database_name(url))
    with pytest.raises(StoreUnavailable) as refused:
        await run_migrations(url)
    assert re.match("cannot connect: .* does not exist", refused.value.reason)


async def test_the_options_of_a_url_are_the_drivers_own(postgres_server):
    """An option that the driver reads from a URL works for the upgrade as for the service."""
    url = await postgres_server.create_database()
    with_option = f"{url}{'&' if '?' in url else '?'}target_session_attrs=any"
    await run_migrations(with_option)
    assert await find_schema_mismatch(with_option) is None
    await postgres_server.drop_database(database_name(url))


async def test_a_database_without_a_wanted_server_is_unavailable(postgres_server):
    """A connection raises StoreUnavailable while no server is of the kind that the URL wants, as
    in a failover."""
    url = await postgres_server.create_database()
    wanted = f"{url}{'&' if '?' in url else '?'}target_session_attrs=standby"
    with pytest.raises(StoreUnavailable) as refused:
        await find_schema_mismatch(wanted)
    assert refused.value.reason.startswith("cannot connect: ")
    await postgres_server.drop_database(database_name(url))


async def test_head_revision_is_the_newest_migration(tmp_path):
    """`HEAD_REVISION` is the newest migration."""
    heads = []

    def look(connection: Connection) -> None:
        heads.append(ScriptDirectory.from_config(alembic_config(connection)).get_current_head())

    await run_on_sqlalchemy_connection(f"sqlite+aiosqlite:///{tmp_path / 'any.db'}", look)
    assert heads == [HEAD_REVISION]


async def test_postgresql_has_the_rate_windows(migrated_database):
    """On PostgreSQL the migrations create `rate_windows` as in `rate_windows_metadata`."""
    found = []

    def differences(connection: Connection) -> None:
        names = {"include_name": lambda name, kind, _: kind != "table" or name == "rate_windows"}
        context = MigrationContext.configure(connection, opts=names)
        found.extend(compare_metadata(context, rate_windows_metadata))

    await run_on_sqlalchemy_connection(migrated_database.url, differences)
    assert found == []


async def test_concurrent_upgrades_succeed(empty_url):
    """Concurrent and repeated upgrades leave an up-to-date schema."""
    await asyncio.gather(*(run_migrations(empty_url) for _ in range(3)))
    await run_migrations(empty_url)
    assert await find_schema_mismatch(empty_url) is None


# Guards -----------------------------------------------------------------------------------


async def execute(store, *statements):
    """Run SQL statements in one transaction, without the store's adapters."""

    async def unit(connection):
        for statement in statements:
            await connection.execute(Statement(text(statement)))

    await store.database.run_transaction(unit)


async def refusal(store, *statements):
    """The name of the constraint that the statements violate."""
    with pytest.raises(ConstraintViolated) as caught:
        await execute(store, *statements)
    return caught.value.constraint


@pytest.mark.parametrize("status", sorted(SLOT_HOLDING_STATUSES))
async def test_no_statement_can_hold_a_slot_twice(sql_store, status):
    """An UPDATE of the status or the times that overlaps a held slot violates BOOKING_OVERLAP."""
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
async def test_an_unbalanced_posting_is_refused(sql_store, amounts):
    """A posting without two or more nonzero legs that sum to zero is refused."""
    await add_booking(sql_store)
    legs = [LEG.format("k", n, amount) for n, amount in enumerate(amounts)]
    refused = await refusal(sql_store, *legs, POSTING.format("k"))
    assert refused == "ck_ledger_postings_balanced"


async def test_a_balanced_posting_is_accepted(sql_store):
    """A balanced posting inserted by SQL is accepted, and the ledger stays balanced."""
    await add_booking(sql_store)
    await execute(sql_store, LEG.format("k", 0, 5), LEG.format("k", 1, -5), POSTING.format("k"))
    async with sql_store.read_view() as view:
        assert await view.ledger.imbalance() == 0


async def test_legs_need_their_posting(sql_store):
    """Ledger legs without a posting are refused."""
    refused = await refusal(sql_store, LEG.format("k", 0, 5), LEG.format("k", 1, -5))
    assert refused in ("foreign_key", "ck_ledger_postings_balanced")


@pytest.mark.parametrize("change", ["UPDATE {} SET {} = {}", "DELETE FROM {}"])
@pytest.mark.parametrize(
    ("table", "column"), [("ledger_postings", "at"), ("ledger_legs", "amount")]
)
async def test_the_ledger_is_append_only(sql_store, change, table, column):
    """An UPDATE or DELETE of ledger rows is refused as `ledger_append_only`."""
    booking = await add_booking(sql_store)
    await save_booking(sql_store, next_revision(booking), postings=(make_posting(booking.id),))
    refused = await refusal(sql_store, change.format(table, column, column))
    assert refused == "ledger_append_only"


async def test_a_posting_takes_no_legs_later(sql_store):
    """A leg added to a stored posting is refused, and the ledger stays balanced."""
    booking = await add_booking(sql_store)
    posting = make_posting(booking.id)
    await save_booking(sql_store, next_revision(booking), postings=(posting,))
    await refusal(sql_store, LEG.format(posting.key, 7, 1))
    async with sql_store.read_view() as view:
        assert (
            await view.ledger.imbalance(),
            len(await view.ledger.postings_of(booking.id)),
        ) == (
            0,
            1,
        )
