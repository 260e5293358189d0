"""How the databases go about the statements that have to stay fast, among 20,000 rows.

PostgreSQL plans as in production: once, without seeing the parameters.
"""

from __future__ import annotations

import re
import sqlite3
from itertools import compress, product

import asyncpg
import pytest
from attrs import evolve

from staffbooking_adapters.sql import bulk_import, privacy, store
from staffbooking_adapters.sql.accounts import store as accounts_store
from staffbooking_adapters.sql.bookings import reader as bookings_reader, writer as bookings_writer
from staffbooking_adapters.sql.companions import (
    reader as companions_reader,
    reviews,
    writer as companions_writer,
)
from staffbooking_adapters.sql.companions.search import Shape, summaries
from staffbooking_adapters.sql.engine.postgres import SETTINGS
from staffbooking_adapters.sql.messaging import (
    conversations,
    presence,
    reader as messaging_reader,
    writer as messaging_writer,
)
from staffbooking_adapters.sql.notifications import store as notifications_store
from staffbooking_adapters.sql.payments import (
    payees,
    reader as payments_reader,
    statement_reader,
    writer as payments_writer,
)
from staffbooking_adapters.sql.schema.upgrade import upgrade
from staffbooking_adapters.sql.webhooks import (
    feed,
    reader as webhooks_reader,
    writer as webhooks_writer,
)
from staffbooking_core.domain.bookings.lifecycle import Party
from staffbooking_core.domain.payments.processor import OpKind
from tests.contract import large_dataset
from tests.support.postgres import database_name, driver_url

pytestmark = pytest.mark.anyio

SIDES = frozenset({Party.CUSTOMER, Party.STAFF, Party.API})
FILTERS = ("place", "service", "price", "day")
SHAPES = {
    "+".join(compress(FILTERS, kind)) or "plain": Shape(*kind)
    for kind in product((False, True), repeat=4)
}
SEARCHES = {name: summaries(shape) for name, shape in SHAPES.items()}
LATER = {f"{name}, later": summaries(evolve(shape, later=True)) for name, shape in SHAPES.items()}
OTHERS = {
    "booking": bookings_reader.GET,
    "booking by code": bookings_reader.GET_BY_CODE,
    "contenders": bookings_reader.LOCK_CONTENDERS,
    "context by e-mail": bookings_reader.CONTEXT_BY_EMAIL,
    "context by id": bookings_reader.CONTEXT_BY_ID,
    "own bookings": bookings_reader.listing(bookings_reader.Shape(SIDES, False, True, 13, False)),
    "own bookings, later": bookings_reader.listing(
        bookings_reader.Shape(SIDES, True, True, 13, True)
    ),
    "all bookings": bookings_reader.listing(bookings_reader.Shape(None, False, True, 13, False)),
    "bookings since": bookings_reader.listing_since(500),
    "agenda": companions_reader.AGENDA,
    "busy": companions_reader.BUSY,
    "all busy": companions_writer.ALL_BUSY,
    "names of services": companions_reader.NAMES,
    "held companions": companions_writer.HOLD,
    "newest reviews of some": companions_writer.newest_reviews(13),
    "portfolios": companions_writer.PORTFOLIOS,
    "people by e-mail": bulk_import.LOCK_USERS,
    "people by id": bulk_import.LOCK_COMPANIONS,
    "candidates": companions_reader.candidates(51),
    "timers": payments_writer.claim_timers(16),
    "credit": bookings_writer.USE_CREDIT,
    "review": reviews.GET,
    "newest reviews": reviews.newest(13),
    "ratings": reviews.RATINGS,
    "response": reviews.RESPOND,
    "hidden review": reviews.HIDE,
    "reviews of all": reviews.reviews_after(501),
}
ALL = frozenset(OpKind)
MONEY = {
    "operations": payments_writer.claim_operations(1, False, ALL),
    "payouts to make": payments_writer.claim_operations(1, False, frozenset({OpKind.PAY_OUT})),
    "other operations": payments_writer.claim_operations(1, False, ALL - {OpKind.PAY_OUT}),
    "operation of a booking": payments_writer.claim_operations(1, True, ALL),
    "waiting payouts": payments_writer.WAKE_PAYOUTS,
    "events": payments_writer.claim_nudges(16),
    "old events": store.DROP_EVENTS,
    "payees": payees.claim_payees(1, False),
    "payee of a companion": payees.claim_payees(1, True),
    "payee by reference": payees.GET_BY_REF,
    "cash books": statement_reader.rows_of_cash_books(51),
    "failed refunds": payments_reader.failed_refunds(101),
    "debts": payments_reader.DEBTS_OF,
    "unsettled": payments_reader.unsettled(501),
    "pending": payments_reader.PENDING,
    "backlog": payments_reader.BACKLOG,
}
WEBHOOKS = {
    "endpoints of a user": webhooks_reader.ENDPOINTS_OF,
    "endpoints with deliveries held": webhooks_reader.holding(101),
    "next turn": webhooks_reader.NEXT_TURN,
    "turns": webhooks_writer.claim_turns(64),
    "due deliveries": webhooks_writer.due_deliveries(32),
    "renewed turns": webhooks_writer.RENEW_TURNS,
    "locked turns": webhooks_writer.LOCK_TURNS,
    "ended turns": webhooks_writer.END_TURNS,
    "locked deliveries": webhooks_writer.LOCK_DELIVERIES,
    "saved deliveries": webhooks_writer.SAVE_DELIVERIES,
    "log of an endpoint": webhooks_reader.deliveries_of(51),
    "log of a delivery": webhooks_reader.ATTEMPTS_OF,
    "newest attempts": webhooks_reader.attempts_since(101),
    "own feed": feed.feed(101, True),
    "feed of all": feed.feed(101, False),
    "place in the own feed": feed.MY_POSITION,
    "last place": feed.LAST_POSITION,
    "first unplaced event": feed.FIRST_UNPLACED,
    "unplaced events": feed.unplaced(200),
    "placed events": feed.PLACE,
    "subscribers": webhooks_writer.SUBSCRIBERS,
    "woken endpoints": webhooks_writer.WAKE,
    "held deliveries": webhooks_writer.HOLD,
    "resumed deliveries": webhooks_writer.RESUME,
    "cancelled deliveries": webhooks_writer.CANCEL,
    "deliveries held for long": webhooks_writer.cancel_held(100),
    "old deliveries": store.DROP_DELIVERIES,
    "notices": notifications_store.claim(16),
    "told or deferred notice": notifications_store.DEFER,
    "muted kinds": notifications_store.MUTES_OF,
    "inquiries": notifications_store.inquiries_after(501),
    "bookings of a person": privacy.LOCK_BOOKINGS_OF,
    "next bookings of a person": privacy.bookings_after(101),
    "next reviews by a person": privacy.reviews_after(101),
    "whom a person reviewed": privacy.REVIEWED_BY,
    "next messages by a person": privacy.messages_after(101),
    **{f"forgotten, {n}": statement for n, statement in enumerate(privacy.FORGET)},
    **{f"forgotten address, {n}": each for n, each in enumerate(privacy.FORGET_ADDRESS)},
    "sessions of a user": accounts_store.SESSIONS_OF,
}
MESSAGES = {
    "conversation": conversations.GET,
    "held conversations": conversations.LOCK,
    "whole conversations": conversations.GET_ALL,
    "held group": conversations.LOCK_GROUP,
    "overview": conversations.OVERVIEW,
    "overviews": conversations.overviews(51),
    "pair": conversations.PAIR,
    "conversation of a pair": conversations.DIRECT,
    "pairs without a conversation": conversations.unopened(501),
    "who was paid": conversations.CLEARED,
    "who is booked": conversations.BOOKED_FOR,
    "acquaintances": conversations.ACQUAINTANCES,
    "acquaintances who are there": conversations.ONLINE_ACQUAINTANCES,
    "newest messages": messaging_reader.newest(51),
    "newer messages": messaging_reader.newer(51),
    "next messages of all": messaging_reader.tail(101),
    "next messages of a reader": messaging_reader.inbox(101),
    "last message": messaging_reader.LAST_ID,
    "last message of a reader": messaging_reader.MY_LAST_ID,
    "known messages": messaging_writer.KNOWN,
    "added messages": messaging_writer.ADD,
    "read mark": messaging_writer.MARK,
    "unseen messages": messaging_writer.UNSEEN,
    "told of messages": messaging_writer.NOTE_TOLD,
    "who is there": presence.PRESENCE,
    "counted connection": presence.CONNECT,
    "connections of dead nodes": presence.DROP_DEAD,
}
STATEMENTS = {**SEARCHES, **LATER, **OTHERS, **MONEY, **WEBHOOKS, **MESSAGES}
BIG = (
    "(companion_search|near|there|next|companions|companion_days|bookings|timers|users"
    "|payment_operations|other|later|ledger_postings|ledger_legs|processor_inbox|payees|reviews"
    "|events|event_readers|webhook_(endpoints|deliveries|attempts)|notices"
    "|conversations|conversation_members|mine|theirs|messages|its|one|last|channel_connections"
    "|last_seen)"
)
IN_ORDER = (
    "(bookings_(newest|urgent|payouts)|payment_operations_failed_refunds"
    "|processor_inbox_open(_intents)?|payees_due"
    "|events_unplaced|users_admins|webhook_deliveries_(done|held_since))"
)


@pytest.fixture(scope="module")
async def postgres(postgres_server):
    """A connection to a filled database, set as the store sets its own."""
    url = await postgres_server.create_database()
    await upgrade(url)
    connection = await asyncpg.connect(driver_url(url), server_settings=SETTINGS)
    await connection.execute("SET session_replication_role = replica")  # references are right
    for statement in large_dataset.statements("postgresql"):
        await connection.execute(statement)
    await connection.execute("VACUUM ANALYZE")
    yield connection
    await connection.close()
    await postgres_server.drop_database(database_name(url))


@pytest.fixture(scope="module")
async def sqlite(tmp_path_factory):
    """A filled file, never analysed: as most are."""
    path = tmp_path_factory.mktemp("crowd") / "store.db"
    await upgrade(f"sqlite+aiosqlite:///{path}")
    connection = sqlite3.connect(path)
    with connection:
        for statement in large_dataset.statements("sqlite"):
            connection.execute(statement)
    yield connection
    connection.close()


async def of_postgresql(connection, name):
    """The lines of a statement's plan."""
    compiled = STATEMENTS[name].on("postgresql")
    await connection.execute(f"PREPARE asked AS {compiled.sql}")
    nothing = ", ".join(["NULL"] * len(compiled.names))
    call = f"asked({nothing})" if nothing else "asked"
    plan = [line for (line,) in await connection.fetch(f"EXPLAIN EXECUTE {call}")]
    await connection.execute("DEALLOCATE asked")
    return plan


def of_sqlite(connection, name):
    """The lines of a statement's plan."""
    compiled = STATEMENTS[name].on("sqlite")
    nothing = [None] * len(compiled.names)
    return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {compiled.sql}", nothing)]


@pytest.mark.parametrize("name", STATEMENTS)
async def test_postgresql_reads_no_big_table_through(postgres, name):
    """Each statement finds its rows by indexes."""
    plan = await of_postgresql(postgres, name)
    assert [line for line in plan if re.search(rf"Seq Scan on {BIG}\b", line)] == []


@pytest.mark.parametrize("name", STATEMENTS)
async def test_sqlite_reads_no_big_table_through(sqlite, name):
    """Each statement finds its rows by indexes, or goes along one that is in order or of few."""
    plan = of_sqlite(sqlite, name)
    along = rf"(?! USING (COVERING )?INDEX ix_{IN_ORDER}\b)"
    scan = rf"SCAN {BIG}\b{along}"
    assert [line for line in plan if re.search(scan, line)] == []


async def test_a_feed_goes_along_the_index(postgres, sqlite):
    """Once for requests, once for all else, and no further than their bound: what a companion
    had before costs nothing."""
    along = "USING INDEX ix_bookings_companion (companion_id=? AND starts_at>?)"
    lines = of_sqlite(sqlite, "bookings since")
    assert sum(line.endswith(along) for line in lines) == 2
    assert [line for line in lines if "SEARCH bookings" in line and not line.endswith(along)] == [
        "SEARCH bookings USING INTEGER PRIMARY KEY (rowid=?)"
    ]
    plan = "\n".join(await of_postgresql(postgres, "bookings since"))
    assert len(re.findall(r"Index Cond: \(\(companion_id = .*\) AND \(starts_at > ", plan)) == 2


async def test_an_address_is_forgotten_by_an_index(sqlite):
    """However many rows of however many imports were skipped."""
    for number in range(len(privacy.FORGET_ADDRESS)):
        [line] = of_sqlite(sqlite, f"forgotten address, {number}")
        assert re.search(r"INDEX ix_\w+_email \(email_folded=\?\)", line)


ALONG_IDS = (
    *("overview", "overviews", "newest messages", "newer messages"),
    "next messages of a reader",
)


@pytest.mark.parametrize("name", ALONG_IDS)
async def test_postgresql_reads_no_conversation_through(postgres, name):
    """However long it is, a statement begins at a message and goes along the ids."""
    condition = r"Index Cond: \(\(conversation_id = .* AND \(id <= "
    assert re.search(condition, "\n".join(await of_postgresql(postgres, name)))


@pytest.mark.parametrize("name", ALONG_IDS)
async def test_sqlite_reads_no_conversation_through(sqlite, name):
    """The same."""
    condition = r"ix_messages_conversation \(conversation_id=\? AND id(>\? AND id)?<\?\)"
    assert re.search(condition, "\n".join(of_sqlite(sqlite, name)))
