"""Query plans of the statements that have to stay fast, on tables of 20,000 rows.

PostgreSQL makes generic plans, as in production: without the values of the parameters.
"""

from __future__ import annotations

import re
import shutil
import sqlite3
from itertools import compress, product

import asyncpg
import pytest
from attrs import evolve

from staffbooking_adapters.sql import bulk_import, metrics, privacy, pruning
from staffbooking_adapters.sql.accounts import audit, people, store as accounts_store
from staffbooking_adapters.sql.bookings import (
    booking_request_context,
    earnings,
    reader as bookings_reader,
    spans as booking_spans,
    timers,
    writer as bookings_writer,
)
from staffbooking_adapters.sql.companions import (
    batch_writes,
    portfolio,
    reader as companions_reader,
    reviews,
    writer as companions_writer,
)
from staffbooking_adapters.sql.companions.search import (
    SearchVariant,
    common_weekday_check,
    summaries_page,
)
from staffbooking_adapters.sql.engine.postgres import SERVER_SETTINGS
from staffbooking_adapters.sql.messaging import (
    conversation_queries,
    presence,
    reader as messaging_reader,
    writer as messaging_writer,
)
from staffbooking_adapters.sql.notifications import store as notifications_store
from staffbooking_adapters.sql.payments import cash_books, inbox, operations, payees
from staffbooking_adapters.sql.webhooks import (
    endpoint_claims,
    feed,
    order as webhooks_order,
    reader as webhooks_reader,
    writer as webhooks_writer,
)
from staffbooking_core.domain.accounts.users import AccountState
from staffbooking_core.domain.bookings.lifecycle import Party
from staffbooking_core.domain.companions.companion import Approval
from staffbooking_core.domain.companions.portfolio import PortfolioItemStatus
from staffbooking_core.domain.payments.processor import OperationKind
from staffbooking_core.domain.webhooks.deliveries import DeliveryGroup
from tests.contract import large_dataset
from tests.support.postgres import database_name, driver_url

pytestmark = pytest.mark.anyio

SIDES = frozenset({Party.CUSTOMER, Party.STAFF, Party.API})
FILTERS = ("place", "service", "price", "day")
SHAPES = {
    "+".join(compress(FILTERS, kind)) or "plain": SearchVariant(*kind)
    for kind in product((False, True), repeat=4)
}
SEARCHES = {name: summaries_page(shape) for name, shape in SHAPES.items()}
LATER = {
    f"{name}, later": summaries_page(evolve(shape, has_offset=True))
    for name, shape in SHAPES.items()
}
BY_COMMON_WEEKDAY = {
    f"{name}, common": summaries_page(evolve(shape, is_weekday_common=True))
    for name, shape in SHAPES.items()
    if shape.has_date
}
DEEP = {
    f"{name}, deep, common {is_common}": summaries_page(
        evolve(shape, has_offset=True, is_deep=True, is_weekday_common=is_common)
    )
    for (name, shape), is_common in product(SHAPES.items(), (False, True))
    if shape.has_date
}
OTHERS = {
    "common weekday": common_weekday_check(False, 13),
    "common weekday of a service": common_weekday_check(True, 13),
    "booking": bookings_reader.GET_BOOKING,
    "booking by code": bookings_reader.GET_BOOKING_BY_CODE,
    "contenders": bookings_reader.LOCK_CONTENDERS,
    "context by e-mail": booking_request_context.REQUEST_CONTEXT_BY_EMAIL,
    "context by id": booking_request_context.REQUEST_CONTEXT_BY_ID,
    "own bookings": bookings_reader.bookings_page(
        bookings_reader.BookingListVariant(SIDES, False, True, 13, False)
    ),
    "own bookings, later": bookings_reader.bookings_page(
        bookings_reader.BookingListVariant(SIDES, True, True, 13, True)
    ),
    "open bookings, earliest first": bookings_reader.bookings_page(
        bookings_reader.BookingListVariant(SIDES, True, True, 51, False, True)
    ),
    "all bookings": bookings_reader.bookings_page(
        bookings_reader.BookingListVariant(None, False, True, 13, False)
    ),
    "all bookings, later": bookings_reader.bookings_page(
        bookings_reader.BookingListVariant(None, True, False, 13, True)
    ),
    "open bookings of a user": bookings_reader.open_bookings_of_user(101),
    "earnings": earnings.earnings_of(5_001),
    "open earnings": earnings.open_earnings_of(501),
    "bookings since": booking_spans.companion_bookings_since(500),
    "bookings within": booking_spans.companion_bookings_within(501),
    "bookings between people": bookings_reader.bookings_between(50),
    "photos": companions_reader.LIST_PHOTOS,
    "agenda": companions_reader.GET_COMPANION_AVAILABILITY,
    "busy": companions_writer.LIST_BUSY_SLOTS,
    "all busy": batch_writes.LIST_BUSY_SLOTS_OF_COMPANIONS,
    "names of services": companions_reader.LIST_SERVICE_NAMES,
    "pending companions": companions_reader.companions_after(51, Approval.PENDING),
    "companions to approve": companions_reader.companions_to_approve_after(51),
    "pending items": portfolio.portfolio_items_after(51, PortfolioItemStatus.PENDING),
    **{
        f"newest reviews, hidden {hidden}": reviews.newest_reviews_before(51, hidden)
        for hidden in (None, False, True)
    },
    "held companions": batch_writes.LOCK_COMPANIONS,
    "newest reviews of some": batch_writes.newest_reviews_statement(13),
    "portfolios": batch_writes.LIST_PORTFOLIO_ITEMS,
    "people by e-mail": bulk_import.LOCK_USERS_BY_EMAIL,
    "people by id": bulk_import.LOCK_COMPANIONS_BY_ID,
    "candidates": companions_reader.candidates_page(
        SearchVariant(has_service=True, has_date=True, size=51)
    ),
    "timers": timers.claim_timers_statement(16),
    "credit": bookings_writer.USE_CREDIT,
    "review": reviews.GET_REVIEW,
    "newest reviews": reviews.newest_reviews_of(13),
    "ratings": reviews.GET_RATINGS,
    "response": reviews.SAVE_REVIEW_RESPONSE,
    "hidden review": reviews.SAVE_REVIEW_HIDDEN,
    "reviews of all": reviews.reviews_after(501),
}
ALL = frozenset(OperationKind)
PEOPLE = {
    f"people, {has_term} {has_role} {state} {has_after}": people.people_page(
        people.PeopleVariant(has_term, has_role, state, has_after, 51)
    )
    for has_term, has_role, state, has_after in product(
        (False, True), (False, True), (None, *AccountState), (False, True)
    )
    if has_term or has_after
}
MONEY = {
    "operations": operations.claim_operations_statement(1, False, ALL),
    "payouts to make": operations.claim_operations_statement(
        1, False, frozenset({OperationKind.PAY_OUT})
    ),
    "other operations": operations.claim_operations_statement(
        1, False, ALL - {OperationKind.PAY_OUT}
    ),
    "operation of a booking": operations.claim_operations_statement(1, True, ALL),
    "waiting payouts": operations.WAKE_PAYOUTS,
    "events": inbox.claim_events_statement(16),
    "unfinished event": inbox.GET_UNFINISHED_EVENT,
    "old events": pruning.DELETE_OLD_PROCESSOR_EVENTS,
    "payees": payees.claim_payees_statement(1, False),
    "payee of a companion": payees.claim_payees_statement(1, True),
    "payee by reference": payees.GET_PAYEE_BY_REF,
    "cash books": cash_books.cash_book_rows(51),
    "failed refunds": operations.failed_refunds_statement(101),
    "debts": bookings_reader.DEBTS_OF,
    "unsettled": bookings_reader.unsettled_bookings(501),
    "backlog": metrics.GET_BACKLOG,
    "waiting for operators": metrics.LIST_WAITING,
}
WEBHOOKS = {
    "endpoints of a user": webhooks_reader.ENDPOINTS_OF,
    "endpoints with deliveries held": webhooks_reader.endpoints_with_held_deliveries(101),
    "next turn": webhooks_reader.GET_NEXT_DUE_AT,
    "turns": endpoint_claims.claim_batches_statement(64),
    "due deliveries": endpoint_claims.due_deliveries_statement(32),
    "renewed turns": endpoint_claims.RENEW_ENDPOINT_LEASES,
    "locked turns": endpoint_claims.LOCK_LEASED_ENDPOINTS,
    "ended turns": webhooks_writer.RESCHEDULE_AND_RELEASE_ENDPOINTS,
    "locked deliveries": webhooks_writer.LOCK_DELIVERIES,
    "saved deliveries": webhooks_writer.SAVE_DELIVERIES,
    "deliveries after one more attempt": webhooks_writer.ADVANCE_DELIVERIES,
    "log of an endpoint": webhooks_reader.deliveries_page(51),
    "log of an endpoint, failed": webhooks_reader.deliveries_page(51, DeliveryGroup.FAILED),
    "log of an endpoint, unfinished": webhooks_reader.deliveries_page(51, DeliveryGroup.UNFINISHED),
    "log of an endpoint, cancelled": webhooks_reader.deliveries_page(51, DeliveryGroup.CANCELLED),
    "log of an endpoint, by event": webhooks_reader.deliveries_page(51, None, True),
    "counts of an endpoint": webhooks_reader.COUNT_DELIVERIES,
    "failed deliveries": webhooks_reader.failed_deliveries(501),
    "body of a delivery": webhooks_reader.GET_DELIVERY_BODY,
    "newest events": feed.latest_feed_page(51, True),
    "newest events of all": feed.latest_feed_page(51, False),
    "log of a delivery": webhooks_reader.ATTEMPTS_OF,
    "newest attempts": webhooks_reader.attempts_since(101),
    "own feed": feed.feed_page(101, True),
    "feed of all": feed.feed_page(101, False),
    "place in the own feed": feed.GET_EVENT_POSITION_FOR_READER,
    "last place": feed.GET_LAST_POSITION,
    "first unplaced event": feed.GET_FIRST_UNSEQUENCED,
    "unplaced events": feed.unsequenced_events(200),
    "placed events": feed.SAVE_EVENT_POSITIONS,
    "subscribers": webhooks_writer.LOCK_SUBSCRIBERS,
    "woken endpoints": webhooks_writer.SCHEDULE_ENDPOINTS,
    "held deliveries": webhooks_writer.HOLD_DELIVERIES,
    "deliveries made to wait": webhooks_order.MAKE_DELIVERIES_WAIT,
    "deliveries that wait no longer": webhooks_order.RELEASE_WAITING_DELIVERIES,
    "resumed deliveries": webhooks_writer.RESUME_DELIVERIES,
    "cancelled deliveries": webhooks_writer.CANCEL_DELIVERIES,
    "endpoints that hold for long": webhooks_writer.lock_holding_endpoints_statement(100),
    "deliveries held for long": webhooks_writer.cancel_held_deliveries_statement(100),
    "old deliveries": pruning.DELETE_OLD_DELIVERIES,
    "old inquiries": pruning.DELETE_OLD_INQUIRIES,
    "notices": notifications_store.claim_notifications_statement(16),
    "told notices": notifications_store.DELETE_NOTIFICATIONS,
    "deferred notice": notifications_store.DEFER_NOTIFICATION,
    "released notices": notifications_store.RELEASE_NOTIFICATIONS,
    "muted kinds of many": notifications_store.MUTES_OF_ALL,
    "muted kinds": notifications_store.MUTES_OF,
    "silent endpoints": webhooks_reader.silent_endpoints_before(51),
    **{
        f"newest inquiries, answered {answered}": notifications_store.newest_inquiries_before(
            51, answered
        )
        for answered in (None, False, True)
    },
    "audit of a person": audit.newest_audit_entries_about(51),
    **{
        f"audit by {name}": audit.newest_audit_entries(51, name)
        for name in ("subject", "code", "actor_id", "actor")
    },
    "audit by an admin or a name": audit.newest_audit_entries(51, "actor_id", "actor"),
    "inquiries": notifications_store.inquiries_after(501),
    "bookings of a person": privacy.LOCK_BOOKINGS_OF,
    "next bookings of a person": privacy.bookings_of_person_after(101),
    "next reviews by a person": privacy.reviews_by_person_after(101),
    "whom a person reviewed": privacy.LIST_REVIEWEES,
    "next messages by a person": privacy.messages_by_person_after(101),
    **{f"forgotten, {n}": statement for n, statement in enumerate(privacy.ERASE_PERSON)},
    "payees of a person": privacy.LOCK_PAYEES_OF,
    "audit to forget": privacy.LIST_AUDIT_IDS_OF,
    "forgotten audit": privacy.ERASE_AUDIT,
    "forgotten audit of inquiries": privacy.ERASE_AUDIT_OF_INQUIRIES,
    **{f"forgotten address, {n}": each for n, each in enumerate(privacy.ERASE_EMAIL)},
    "sessions of a user": accounts_store.SESSIONS_OF,
    "recipients": accounts_store.FIND_USERS,
}
MESSAGES = {
    "conversation": conversation_queries.GET_CONVERSATION,
    "held conversations": conversation_queries.LOCK_CONVERSATIONS,
    "whole conversations": conversation_queries.LIST_CONVERSATIONS_BY_ID,
    "held group": conversation_queries.LOCK_GROUP_CONVERSATION,
    "overview": conversation_queries.GET_OVERVIEW,
    "overviews": conversation_queries.overviews_page(51),
    "pair": conversation_queries.FIND_PAIR,
    "conversation of a pair": conversation_queries.FIND_DIRECT_CONVERSATION,
    "pairs without a conversation": conversation_queries.unopened_pairs(501),
    "who was paid": conversation_queries.LIST_PAID_STAFF,
    "who is booked": conversation_queries.LIST_BOOKED_STAFF,
    "acquaintances": conversation_queries.LIST_CONVERSATION_PARTNERS,
    "acquaintances who are there": conversation_queries.LIST_ONLINE_CONVERSATION_PARTNERS,
    "unread messages": messaging_reader.COUNT_UNREAD,
    "newest messages": messaging_reader.messages_before(51),
    "newer messages": messaging_reader.messages_after(51),
    "next messages of all": messaging_reader.all_messages_after(101),
    "next messages of a reader": messaging_reader.readable_messages_after(101),
    "last message": messaging_reader.GET_LAST_MESSAGE_ID,
    "last message of a reader": messaging_reader.GET_LAST_MESSAGE_ID_OF_USER,
    "known messages": messaging_writer.FIND_MESSAGES_BY_CLIENT_ID,
    "added messages": messaging_writer.ADD_MESSAGES,
    "read mark": messaging_writer.MARK_READ,
    "unseen messages": messaging_writer.LIST_UNREAD_MESSAGES,
    "missed messages": messaging_writer.LIST_MISSED_MESSAGES,
    "departed users": presence.claim_departed_users(20),
    "told of messages": messaging_writer.SAVE_NOTIFIED_MEMBERS,
    "who is there": presence.GET_PRESENCE,
    "counted connection": presence.ADD_CONNECTION,
    "connections of dead nodes": presence.DELETE_DEAD_NODE_CONNECTIONS,
}
STATEMENTS = {
    **SEARCHES,
    **LATER,
    **BY_COMMON_WEEKDAY,
    **DEEP,
    **OTHERS,
    **PEOPLE,
    **MONEY,
    **WEBHOOKS,
    **MESSAGES,
}
BIG = (
    "(companion_search|near|there|next|companions|companion_(days|limits)|bookings|timers|users"
    "|payment_operations|other|later|ledger_postings|ledger_legs|processor_inbox|payees|reviews"
    "|events|event_readers|webhook_(endpoints|deliveries|attempts)|notices"
    "|conversations|conversation_members|mine|theirs|messages|its|one|last|channel_connections"
    "|last_seen|person_terms|earlier|own|portfolio_items|inquiries|audit|saved_people)"
)
IN_ORDER = (
    "(bookings_(newest|urgent|payouts|disputes)|payment_operations_failed_refunds"
    "|companions_pending|portfolio_items_pending|inquiries_waiting|webhook_endpoints_silent"
    "|processor_inbox_(due|open_intents)|payees_due"
    "|events_unplaced|users_admins|webhook_deliveries_(done|held_since))"
)


@pytest.fixture(scope="module")
async def postgres(postgres_server, migrated_database):
    """A connection to a filled database, with the server settings of the store."""
    url = await postgres_server.create_database(template=migrated_database.template)
    connection = await asyncpg.connect(driver_url(url), server_settings=SERVER_SETTINGS)
    await connection.execute("SET session_replication_role = replica")  # skips foreign-key checks
    for statement in large_dataset.insert_statements("postgresql"):
        await connection.execute(statement)
    await connection.execute("VACUUM ANALYZE")
    yield connection
    await connection.close()
    await postgres_server.drop_database(database_name(url))


@pytest.fixture(scope="module")
async def sqlite(migrated_file, tmp_path_factory):
    """A filled file without ANALYZE, as most files in production."""
    path = shutil.copy(migrated_file, tmp_path_factory.mktemp("crowd"))
    connection = sqlite3.connect(path)
    with connection:
        for statement in large_dataset.insert_statements("sqlite"):
            connection.execute(statement)
    yield connection
    connection.close()


async def postgresql_plan(connection, name):
    """The lines of a statement's plan."""
    compiled = STATEMENTS[name].compile_for("postgresql")
    await connection.execute(f"PREPARE asked AS {compiled.sql}")
    nothing = ", ".join(["NULL"] * len(compiled.argument_names))
    call = f"asked({nothing})" if nothing else "asked"
    plan = [line for (line,) in await connection.fetch(f"EXPLAIN EXECUTE {call}")]
    await connection.execute("DEALLOCATE asked")
    return plan


def sqlite_plan(connection, name):
    """The lines of a statement's plan."""
    compiled = STATEMENTS[name].compile_for("sqlite")
    nothing = [None] * len(compiled.argument_names)
    return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {compiled.sql}", nothing)]


@pytest.mark.parametrize("name", STATEMENTS)
async def test_postgresql_scans_no_big_table(postgres, name):
    """Each statement makes no sequential scan of a big table."""
    plan = await postgresql_plan(postgres, name)
    assert [line for line in plan if re.search(rf"Seq Scan on {BIG}\b", line)] == []


@pytest.mark.parametrize("name", STATEMENTS)
async def test_sqlite_scans_no_big_table(sqlite, name):
    """Each statement scans no big table, except along an index in `IN_ORDER`."""
    plan = sqlite_plan(sqlite, name)
    along = rf"(?! USING (COVERING )?INDEX ix_{IN_ORDER}\b)"
    scan = rf"SCAN {BIG}\b{along}"
    assert [line for line in plan if re.search(scan, line)] == []


@pytest.mark.parametrize("name", ["plain", "plain, later", "service", "day, common"])
async def test_rows_along_the_rank_are_not_sorted(postgres, name):
    """A search that finds its page along the rank sorts nothing."""
    assert [line for line in await postgresql_plan(postgres, name) if "Sort" in line] == []


async def test_bookings_since_use_the_index(postgres, sqlite):
    """The bookings of a companion since a time are read by two range conditions on one index, which
    leave out earlier bookings."""
    along = "USING INDEX ix_bookings_companion (companion_id=? AND starts_at>?)"
    lines = sqlite_plan(sqlite, "bookings since")
    assert sum(line.endswith(along) for line in lines) == 2
    assert [line for line in lines if "SEARCH bookings" in line and not line.endswith(along)] == [
        "SEARCH bookings USING INTEGER PRIMARY KEY (rowid=?)"
    ]
    plan = "\n".join(await postgresql_plan(postgres, "bookings since"))
    assert len(re.findall(r"Index Cond: \(\(companion_id = .*\) AND \(starts_at > ", plan)) == 2


async def test_erasing_an_email_uses_an_index(sqlite):
    """Each erasure of an e-mail address is a search in an index on that address."""
    for number in range(len(privacy.ERASE_EMAIL)):
        [line] = sqlite_plan(sqlite, f"forgotten address, {number}")
        assert re.search(r"INDEX ix_\w+_email \(email_folded=\?\)", line)


async def test_the_audit_of_a_person_uses_its_index(sqlite):
    """The entries about a person are read along the index of their subject."""
    assert "ix_audit_subject" in "\n".join(sqlite_plan(sqlite, "audit of a person"))


async def test_a_search_for_people_reads_terms_in_their_order(postgres, sqlite):
    """The terms are read along their index from the place where the page begins, and not sorted."""
    for has_after in (False, True):
        name = f"people, True False None {has_after}"
        plan = "\n".join(await postgresql_plan(postgres, name))
        assert "ix_person_terms_term" in plan
        assert "Sort" not in plan
        lines = sqlite_plan(sqlite, name)
        assert any("ix_person_terms_term (term>? AND term<?" in line for line in lines)
        assert not any("TEMP B-TREE" in line for line in lines)


ALONG_IDS = (
    *("overview", "overviews", "newest messages", "newer messages"),
    "next messages of a reader",
)


@pytest.mark.parametrize("name", ALONG_IDS)
async def test_postgresql_seeks_in_conversations(postgres, name):
    """Reading a conversation has an index condition on the conversation and message ids."""
    condition = r"Index Cond: \(\(conversation_id = .* AND \(id <= "
    assert re.search(condition, "\n".join(await postgresql_plan(postgres, name)))


@pytest.mark.parametrize("name", ALONG_IDS)
async def test_sqlite_seeks_in_conversations(sqlite, name):
    """Reading a conversation has an index condition on the conversation and message ids."""
    condition = r"ix_messages_conversation \(conversation_id=\? AND id(>\? AND id)?<\?\)"
    assert re.search(condition, "\n".join(sqlite_plan(sqlite, name)))
