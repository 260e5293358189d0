"""Migrations of existing rows: rows are kept, converted, or scheduled."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import product

import pytest
from alembic import command
from sqlalchemy import Connection, MetaData, Table, select

from staffbooking_adapters import codec
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.schema.bookings import bookings
from staffbooking_adapters.sql.schema.upgrade import (
    alembic_config,
    run_migrations,
    run_on_sqlalchemy_connection,
)
from staffbooking_adapters.testing.builders import (
    DAY,
    HOUR,
    MINUTE,
    NOW,
    POLICY,
    make_companion,
    make_lease,
    make_user,
)
from staffbooking_adapters.testing.builders_webhooks import place_events
from staffbooking_adapters.testing.store.base import read_store
from staffbooking_core.domain.bookings.lifecycle import EventName
from staffbooking_core.domain.bookings.refunds import Refund
from staffbooking_core.domain.payments.processor import ProcessorEvent
from staffbooking_core.representations.companions import companion_detail, companion_summary
from tests.contract.schema.old_rows import add_row, stored
from tests.contract.stores import open_sql_store

pytestmark = pytest.mark.anyio


async def test_an_upgrade_to_payees_keeps_rows(empty_url):
    """The upgrade to payees gives bookings the new defaults, and leaves only events of bookings to
    be claimed."""

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
        claimed = await store.run_transaction(lambda unit: unit.inbox.claim_events(NOW, lease, 10))
        assert list(claimed) == [("x", ProcessorEvent("evt_2", intent_id=1))]


async def test_an_upgrade_to_webhooks_keeps_events(empty_url):
    """The upgrade to webhooks leaves earlier events to be positioned in the feed and read."""

    def fill(connection: Connection) -> None:
        command.upgrade(alembic_config(connection), "0004")
        for name in ("users", "companions", "bookings"):
            add_row(connection, name)
        add_row(connection, "events", id="evt_1", name="booking.created", parties="[1]")

    await run_on_sqlalchemy_connection(empty_url, fill)
    await run_migrations(empty_url)
    async with open_sql_store(empty_url) as store:
        assert [event.id for event in await place_events(store)] == ["evt_1"]
        assert await read_store(
            store, lambda view: view.webhooks.feed_events_after(1, 0, [*EventName], 10)
        ) == [b"x"]


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
"""Customer id, companion id, event reference and status."""


async def test_an_upgrade_to_messages_opens_groups(empty_url):
    """The upgrade to messages opens a group for a customer's event with two accepted bookings, with
    the time of the last acceptance."""

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
        [overview] = found[0]
        group = await store.run_transaction(lambda unit: unit.messages.lock_group(1, "Gala", NOW))
    assert list(map(len, found)) == [1, 0, 1, 1, 0]
    assert overview.conversation == group
    assert group.recipient_ids == (1, 3, 4)
    assert group.updated_at == NOW + HOUR


TABLES_WITH_IDS = {
    "inquiries": "name",
    "notices": "subject",
    "webhook_deliveries": "event_id",
    "api_keys": "digest",
}
"""Tables whose ids are used outside and whose rows are deleted, with a column to identify rows."""


async def test_an_upgrade_to_ids_used_once_keeps_rows(tmp_path):
    """The rebuild of SQLite's tables keeps their rows and dependent rows, and the next ids continue
    after the highest one."""
    url, kept, added = f"sqlite+aiosqlite:///{tmp_path / 'old.db'}", [], {}

    def fill(connection: Connection) -> None:
        command.upgrade(alembic_config(connection), "0009")
        for (table, name), number in product(TABLES_WITH_IDS.items(), (7, 9)):
            add_row(connection, table, **{"id": number, name: f"the {number}th"})
        add_row(connection, "webhook_attempts", delivery_id=7)

    def look(connection: Connection) -> None:
        for table, name in TABLES_WITH_IDS.items():
            rows = connection.exec_driver_sql(f"SELECT id, {name} FROM {table} ORDER BY id")
            kept.append([*map(tuple, rows)])
            connection.exec_driver_sql(f"DELETE FROM {table} WHERE id = 9")
            add_row(connection, table, **{"id": None, name: "the next"})
            found = connection.exec_driver_sql(f"SELECT max(id) FROM {table}")
            added[table] = found.scalar_one()
        attempts = connection.exec_driver_sql("SELECT count(*) FROM webhook_attempts")
        assert attempts.scalar_one() == 1

    await run_on_sqlalchemy_connection(url, fill)
    await run_migrations(url)
    await run_on_sqlalchemy_connection(url, look)
    assert kept == [[(7, "the 7th"), (9, "the 9th")]] * len(TABLES_WITH_IDS)
    assert added == dict.fromkeys(TABLES_WITH_IDS, 10)


async def test_an_upgrade_to_orphaned_files_converts_rows(empty_url):
    """The upgrade makes the images of erased users orphaned files, and skipped rows erasable by an
    e-mail in any case."""

    def fill(connection: Connection) -> None:
        command.upgrade(alembic_config(connection), "0010")
        for number, erased_at in ((1, stored(connection, NOW)), (2, None)):
            add_row(
                connection, "users", id=number, email_folded=f"user{number}", erased_at=erased_at
            )
            moment = stored(connection, NOW)
            add_row(connection, "images", name=f"{number}.jpg", owner_id=number, created_at=moment)
        for line, email in enumerate(("Ada@Example.com", "straße@X.org", None), 1):
            add_row(connection, "skipped_rows", fingerprint="x", line=line, email=email)

    await run_on_sqlalchemy_connection(empty_url, fill)
    await run_migrations(empty_url)
    async with open_sql_store(empty_url) as store:
        assert list(await read_store(store, lambda view: view.portfolio.orphaned_files("", 9))) == [
            "1.jpg"
        ]
        assert list(await read_store(store, lambda view: view.portfolio.images_of(1))) == []
        assert len(await read_store(store, lambda view: view.portfolio.images_of(2))) == 1

        async def erase_emails(unit):
            for number, email in enumerate(("ada@example.com", "STRAẞE@x.org"), 1):
                await unit.personal_data.erase(make_user(id=number), email)

        await store.run_transaction(erase_emails)
        rows = await read_store(store, lambda view: view.imports.skipped_rows("x", 0, 9))
        assert [row.email for row in rows] == [None, None, None]


async def test_an_upgrade_to_first_names_removes_last_names(empty_url):
    """The upgrade makes stored summaries and details equal to newly encoded ones, byte for byte."""
    names = ('Ada "of" \\', "", "Å\n", '"last_name":"x",')
    staff = [
        make_companion(id=number, first_name=name, last_name=name, tagline='"last_name":"x",')
        for number, name in enumerate(names, 1)
    ]
    records = [
        (companion_summary(one, POLICY.currency), companion_detail(one, POLICY.currency))
        for one in staff
    ]
    found: list[tuple[bytes, bytes]] = []

    def fill(connection: Connection) -> None:
        command.upgrade(alembic_config(connection), "0012")
        for one, (summary, detail) in zip(staff, records, strict=True):
            add_row(connection, "users", id=one.id, email_folded=f"user{one.id}")
            ready = {
                "summary": codec.encode(_named(summary, one.last_name)),
                "detail": codec.encode({"companion": _named(detail["companion"], one.last_name)}),
            }
            add_row(connection, "companions", id=one.id, **ready)

    def look(connection: Connection) -> None:
        rows = connection.exec_driver_sql("SELECT summary, detail FROM companions ORDER BY id")
        found.extend((bytes(summary), bytes(detail)) for summary, detail in rows)

    await run_on_sqlalchemy_connection(empty_url, fill)
    await run_migrations(empty_url)
    await run_on_sqlalchemy_connection(empty_url, look)
    assert found == [(codec.encode(summary), codec.encode(detail)) for summary, detail in records]


def _named(record, last_name):
    """The record as it was before the upgrade: with the last name after the first."""
    (number, first, *others) = record.items()
    return dict([number, first, ("last_name", last_name), *others])


def _order(number, **given):
    """A refund's operation that settled, as a row of version 0016."""
    row = {"id": number, "n": number, "kind": "refund", "settlement": "settled", "status": "done"}
    given_command = {"payment_ref": "pay_1", "amount": 500, **given.pop("command", {})}
    return {**row, **given, "command": json.dumps(given_command)}


async def test_an_upgrade_to_versions_lists_refunds(empty_url):
    """The upgrade numbers the rows by their versions, and lists each refund that no later order
    replaces, with its reason and the time at which it settled."""

    def fill(connection: Connection) -> None:
        command.upgrade(alembic_config(connection), "0016")
        for name in ("users", "companions"):
            add_row(connection, name)
        texts = {
            "intent": json.dumps({"extra_payments": ["pay_2"]}),
            "timeline": json.dumps([{"trigger": "cancel"}]),
        }
        add_row(connection, "bookings", version=7, **texts)
        for row in (
            _order(1),
            _order(2, command={"payment_ref": "pay_2"}, settlement=None, status="pending"),
            _order(3, settlement="failed"),
            _order(4, command={"replaces": 3}, settlement=None, status="refused"),
            _order(5, settlement=None, status="void"),
        ):
            add_row(connection, "payment_operations", **row)
        for n, amount in enumerate((500, -500)):
            add_row(connection, "ledger_legs", posting_key="refund:1:ok", n=n, amount=amount)
        add_row(connection, "ledger_postings", key="refund:1:ok", at=stored(connection, NOW))

    await run_on_sqlalchemy_connection(empty_url, fill)
    await run_migrations(empty_url)
    async with open_sql_store(empty_url) as store:
        columns = select(bookings.c.version, bookings.c.revision, bookings.c.refunds)
        ((version, revision, text),) = await store.database.fetch_all(Statement(columns))
    refunds = codec.load(text, tuple[Refund, ...])
    assert (version, revision) == (7, 7)
    assert [(one.n, one.reason, one.status, one.settled_at) for one in refunds] == [
        (1, "cancellation", "settled", NOW),
        (2, "late_payment", "pending", None),
        (4, "cancellation", "failed", None),
    ]


ENTRIES = {
    "paid": '[{"to": "pending"}, {"to": "accepted"}, {"to": "paid"}]',
    "disputed": '[{"to": "paid"}, {"to": "disputed"}]',
    "completed": '[{"to": "disputed"}, {"to": "completed"}, {"to": "disputed"}]',
}


async def test_an_upgrade_to_disputes_keeps_disputes_and_sets_timers(empty_url):
    """The upgrade makes the reason of a dispute its first statement, gives it a deadline, and lets
    no reminder be sent whose time has passed."""
    found: dict[str, list[tuple[object, ...]]] = {}
    now = datetime.now(UTC).replace(microsecond=0)
    starts = {1: now + 9 * DAY, 2: now + HOUR, 3: now - 9 * DAY, 4: now - DAY, 5: now - 9 * DAY}
    statuses = {1: "paid", 2: "paid", 3: "paid", 4: "disputed", 5: "completed"}

    def fill(connection: Connection) -> None:
        command.upgrade(alembic_config(connection), "0015")
        for number in (1, 2):
            add_row(connection, "users", id=number, email_folded=f"user{number}")
        add_row(connection, "companions", id=2)
        for number, starts_at in starts.items():
            status = statuses[number]
            is_disputed = {
                "disputed_at": stored(connection, starts_at + HOUR),
                "dispute_reason": f"reason {number}",
                "disputed_by": "staff" if number == 4 else "customer",
            }
            add_row(
                connection,
                "bookings",
                id=number,
                code=f"BK{number}",
                customer_id=1,
                companion_id=2,
                status=status,
                timeline=ENTRIES[status],
                refunded_amount=5,
                paid_at=stored(connection, starts_at - 9 * DAY),
                starts_at=stored(connection, starts_at),
                ends_at=stored(connection, starts_at + HOUR),
                **(is_disputed if status != "paid" else {}),
            )
            if status == "paid":
                due_at = stored(connection, starts_at + 73 * HOUR)
                timer = {"kind": "auto_complete", "due_at": due_at, "attempts": 0}
                add_row(connection, "timers", booking_id=number, **timer)

    def look(connection: Connection) -> None:
        described = MetaData()
        for name in ("timers", "dispute_statements", "bookings"):
            table = Table(name, described, autoload_with=connection, resolve_fks=False)
            found[name] = [tuple(row) for row in connection.execute(select(*columns(table)))]

    def columns(table: Table):
        names = {
            "timers": ("booking_id", "kind", "due_at"),
            "dispute_statements": ("booking_id", "dispute_number", "author_id", "party", "text"),
            "bookings": ("id", "reminded_at", "dispute_respond_by", "dispute_refund"),
        }
        return [table.c[name] for name in names[table.name]]

    await run_on_sqlalchemy_connection(empty_url, fill)
    await run_migrations(empty_url)
    await run_on_sqlalchemy_connection(empty_url, look)
    written: dict[datetime, object] = {}
    await run_on_sqlalchemy_connection(
        empty_url,
        lambda connection: written.update(
            (at, stored(connection, at))
            for start in starts.values()
            for at in (start - DAY, start + 15 * MINUTE, start + 73 * HOUR)
        ),
    )
    assert sorted(found["timers"]) == [
        (1, "remind", written[starts[1] - DAY]),
        (2, "ask_check_in", written[starts[2] + 15 * MINUTE]),
        (3, "auto_complete", written[starts[3] + 73 * HOUR]),
        (4, "dispute_overdue", written[starts[4] + 73 * HOUR]),
    ]
    assert sorted(found["dispute_statements"]) == [
        (4, 1, 2, "staff", "reason 4"),
        (5, 2, 1, "customer", "reason 5"),
    ]
    assert sorted(found["bookings"]) == [
        (1, None, None, 0),
        (2, written[starts[2] - DAY], None, 0),
        (3, written[starts[3] + 15 * MINUTE], None, 0),
        (4, None, written[starts[4] + 73 * HOUR], 0),
        (5, None, written[starts[5] + 73 * HOUR], 5),
    ]


async def test_an_upgrade_to_alarms_tells_what_alerts_ask_for(empty_url):
    """The upgrade gives alerts that ask for something their time: the newest of each kind and
    booking that of the booking, which makes it the one that is not settled."""
    alarmed_at = NOW + DAY
    texts = (
        "the dispute of booking BK1 is overdue: resolve it",
        "the dispute of booking BK1 was resolved: booking BK1 is overdue: resolve it",
        "the dispute of booking BK1 is overdue: resolve it",
        "the payout of booking BK1 is not made yet: it is promised by 2027-01-01 00:00:00+00:00",
        "the dispute of booking BK2 is overdue: resolve it",
    )

    def fill(connection: Connection) -> None:
        command.upgrade(alembic_config(connection), "0056")
        for name in ("users", "companions"):
            add_row(connection, name)
        add_row(
            connection, "bookings", code="BK1", dispute_alarmed_at=stored(connection, alarmed_at)
        )
        for number, alert in enumerate(texts, 1):
            add_row(connection, "alerts", id=number, text=alert, at=stored(connection, NOW))

    await run_on_sqlalchemy_connection(empty_url, fill)
    await run_migrations(empty_url)
    async with open_sql_store(empty_url) as store:
        found = await read_store(store, lambda view: view.alerts.alerts(9))
    assert [each.alarmed_at for each in reversed(found)] == [NOW, None, alarmed_at, NOW, None]
