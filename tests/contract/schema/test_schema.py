"""The schema: its migrations make what the statements expect, and it guards itself."""

from __future__ import annotations

import asyncio
from datetime import date, datetime
from itertools import product

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, MetaData, Table, select, text

from staffbooking_adapters.sql.accounts.rate_limits import rate_windows_metadata
from staffbooking_adapters.sql.engine.open import Statement, open_database
from staffbooking_adapters.sql.engine.types import Instant, parameter_converter
from staffbooking_adapters.sql.schema import payments, sandbox
from staffbooking_adapters.sql.schema.bookings import bookings
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
from staffbooking_core.domain.payments.processor import ProcessorEvent
from staffbooking_core.errors import ConstraintViolated, StoreUnavailable
from staffbooking_core.ports import BOOKING_OVERLAP
from tests.contract.stores import STORES, open_sql_store, read_store
from tests.support.builders import (
    DAY,
    HOUR,
    NOW,
    TODAY,
    add_booking,
    add_companion,
    make_lease,
    make_posting,
    next_version,
    save_booking,
)
from tests.support.postgres import PostgresServer, database_name
from tests.support.webhooks import place_events

pytestmark = pytest.mark.anyio

assert sandbox.fakepay_documents.name in metadata.tables
assert payments.ledger_legs.name in metadata.tables


@pytest.fixture(params=["sqlite", "postgresql"])
async def empty_url(request, tmp_path):
    """The address of a database without a schema."""
    if request.param == "sqlite":
        yield f"sqlite+aiosqlite:///{tmp_path / 'fresh.db'}"
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    url = await server.create_database()
    yield url
    await server.drop_database(database_name(url))


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
            await read_store(store, lambda view: view.payments.count_pending_work(NOW))
        await run_migrations(empty_url)
        assert await read_store(store, lambda view: view.payments.count_pending_work(NOW)) == 0


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


ANYTHING = {int: 1, str: "x", bytes: b"x", bool: False, datetime: NOW, date: TODAY}


def add_row(connection, table_name, **given):
    """Write a row into a table as it is by now, with something in each column that needs it."""
    table = Table(table_name, MetaData(), autoload_with=connection)
    needed = {c.name: ANYTHING[c.type.python_type] for c in table.c if not c.nullable}
    connection.execute(table.insert().values({**needed, **given}))


def stored(connection, moment):
    """A moment as a column has it."""
    write = parameter_converter(connection.dialect.name, Instant)
    assert write is not None
    return write(moment)


async def test_an_upgrade_to_payees_keeps_what_is_there(empty_url):
    """Bookings get what is new as it begins; events of companions, which have nothing to point
    to any more, are done, and those of bookings still wait."""

    def fill(connection: Connection) -> None:
        command.upgrade(alembic_config(connection), "0003")
        for name in ("users", "companions", "bookings"):
            add_row(connection, name)
        add_row(connection, "processor_inbox", id=1, event_id="evt_1", companion_id=1)
        add_row(connection, "processor_inbox", id=2, event_id="evt_2", intent_id=1)

    await run_on_sqlalchemy_connection(empty_url, fill)
    await run_migrations(empty_url)
    async with open_sql_store(empty_url) as store:
        new = select(bookings.c.id, bookings.c.netted, bookings.c.payout_alarmed_at)
        assert await store.database.fetch_all(Statement(new)) == [(1, 0, None)]
        lease = make_lease()
        claimed = await store.run_transaction(
            lambda unit: unit.payments.claim_processor_events(NOW, lease, 10)
        )
        assert list(claimed) == [("x", ProcessorEvent("evt_2", intent_id=1))]


async def test_an_upgrade_to_webhooks_keeps_what_was_told(empty_url):
    """Events from before get their positions like those that follow."""

    def fill(connection: Connection) -> None:
        command.upgrade(alembic_config(connection), "0004")
        for name in ("users", "companions", "bookings"):
            add_row(connection, name)
        add_row(connection, "events", id="evt_1", name="booking.created", parties="[1]")

    await run_on_sqlalchemy_connection(empty_url, fill)
    await run_migrations(empty_url)
    async with open_sql_store(empty_url) as store:
        assert [event.id for event in await place_events(store)] == ["evt_1"]
        assert await read_store(store, lambda view: view.webhooks.feed_events_after(1, 0, 10)) == [
            b"x"
        ]


BOOKINGS = (
    (1, 3, "Gala", "accepted"),
    (1, 4, "Gala", "disputed"),
    (1, 5, "Gala", "cancelled"),
    (2, 3, "Gala", "paid"),
    (2, 4, "gala", "paid"),
    (2, 5, "Fair", "pending"),
    (2, 4, None, "completed"),
    (2, 5, None, "completed"),
)
"""Customer, companion, event and status."""


async def test_an_upgrade_to_messages_opens_groups(empty_url):
    """Of each event with two bookings that are booked: with their customer and who is booked,
    as of when the last one was accepted."""

    def fill(connection: Connection) -> None:
        command.upgrade(alembic_config(connection), "0006")
        for number in range(1, 6):
            add_row(connection, "users", id=number, email_folded=f"user{number}")
            add_row(connection, "companions", id=number)
        for number, (customer, companion, event_ref, status) in enumerate(BOOKINGS):
            add_row(
                connection,
                "bookings",
                id=number,
                code=f"BK{number}",
                customer_id=customer,
                companion_id=companion,
                event_ref=event_ref,
                status=status,
                accepted_at=stored(connection, NOW + number * HOUR),
                starts_at=stored(connection, NOW + number * DAY),
                ends_at=stored(connection, NOW + number * DAY + HOUR),
            )

    await run_on_sqlalchemy_connection(empty_url, fill)
    await run_migrations(empty_url)
    async with open_sql_store(empty_url) as store:
        async with store.read_view() as view:
            found = [await view.messages.overviews(number, 1, 9, NOW) for number in range(1, 6)]
        [shown] = found[0]
        group = await store.run_transaction(lambda unit: unit.messages.lock_group(1, "Gala", NOW))
    assert list(map(len, found)) == [1, 0, 1, 1, 0]
    assert shown.conversation == group
    assert group.recipient_ids == (1, 3, 4)
    assert group.updated_at == NOW + HOUR


NUMBERED = {
    "inquiries": "name",
    "notices": "subject",
    "webhook_deliveries": "event_id",
    "api_keys": "digest",
}
"""Whose numbers are told outside and whose rows go, each with a column to tell them apart by."""


async def test_an_upgrade_to_numbers_given_once_keeps_what_is_there(tmp_path):
    """SQLite makes the tables anew: what is in them, and hangs on them, stays, and their numbers
    go on from there."""
    url, kept, added = f"sqlite+aiosqlite:///{tmp_path / 'old.db'}", [], {}

    def fill(connection: Connection) -> None:
        command.upgrade(alembic_config(connection), "0009")
        for (table, name), number in product(NUMBERED.items(), (7, 9)):
            add_row(connection, table, **{"id": number, name: f"the {number}th"})
        add_row(connection, "webhook_attempts", delivery_id=7)

    def look(connection: Connection) -> None:
        for table, name in NUMBERED.items():
            rows = connection.exec_driver_sql(f"SELECT id, {name} FROM {table} ORDER BY id")
            kept.append([*map(tuple, rows)])
            connection.exec_driver_sql(f"DELETE FROM {table} WHERE id = 9")
            add_row(connection, table, **{"id": None, name: "the next"})
            found = connection.exec_driver_sql(f"SELECT max(id) FROM {table}")
            added[table] = found.scalar_one()
        hanging = connection.exec_driver_sql("SELECT count(*) FROM webhook_attempts")
        assert hanging.scalar_one() == 1

    await run_on_sqlalchemy_connection(url, fill)
    await run_migrations(url)
    await run_on_sqlalchemy_connection(url, look)
    assert kept == [[(7, "the 7th"), (9, "the 9th")]] * len(NUMBERED)
    assert added == dict.fromkeys(NUMBERED, 10)


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
        assert await view.payments.ledger_imbalance() == 0


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
            await view.payments.ledger_imbalance(),
            len(await view.payments.postings_of(booking.id)),
        ) == (
            0,
            1,
        )
