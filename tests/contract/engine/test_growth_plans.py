"""Plans of lists, claims and exports: they read what they return, however many rows are stored.

The tables are empty, so PostgreSQL is told to avoid sequential scans and sorts.
"""

from __future__ import annotations

import re

import pytest

from staffbooking_adapters.sql import privacy
from staffbooking_adapters.sql.bookings import reader as bookings_reader
from staffbooking_adapters.sql.bookings.reader import BookingListVariant, bookings_page
from staffbooking_adapters.sql.companions import reader as companions_reader
from staffbooking_adapters.sql.messaging import reader as messaging_reader
from staffbooking_adapters.sql.payments import inbox
from staffbooking_adapters.sql.webhooks import feed, reader as webhooks_reader
from staffbooking_core.domain.bookings.lifecycle import Party
from staffbooking_core.domain.webhooks.deliveries import DeliveryGroup

pytestmark = pytest.mark.anyio

SIDES = frozenset({Party.CUSTOMER, Party.STAFF, Party.API})
LISTS = {
    f"sides {sides is not None}, status {has_status}, later {is_later}, earliest {is_earliest}": (
        bookings_page(
            BookingListVariant(sides, has_status, sides is not None, 51, is_later, is_earliest)
        )
    )
    for sides in (SIDES, None)
    for has_status in (False, True)
    for is_later in (False, True)
    for is_earliest in (False, True)
}
PAGES_OF_MESSAGES = {
    "before": messaging_reader.messages_before(51),
    "after": messaging_reader.messages_after(51),
}


async def postgresql_plan(connection, statement):
    """A statement's plan, which doesn't know the values of its parameters."""
    compiled = statement.compile_for("postgresql")
    await connection.execute(f"PREPARE asked AS {compiled.sql}")
    nothing = ", ".join(["NULL"] * len(compiled.argument_names))
    call = f"asked({nothing})" if nothing else "asked"
    lines = [line for (line,) in await connection.fetch(f"EXPLAIN EXECUTE {call}")]
    await connection.execute("DEALLOCATE asked")
    return "\n".join(lines)


def sqlite_plan(connection, statement):
    """The lines of a statement's plan."""
    compiled = statement.compile_for("sqlite")
    nothing = [None] * len(compiled.argument_names)
    return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {compiled.sql}", nothing)]


@pytest.mark.parametrize("name", LISTS)
async def test_lists_of_bookings_read_the_rows_of_their_page_alone(
    empty_postgres, empty_sqlite, name
):
    """A page is found in indexes alone, save for urgent requests; then its rows are read by id."""
    plan = await postgresql_plan(empty_postgres, LISTS[name])
    scans = re.findall(r".*Scan.* on bookings\b.*", plan)
    alone = r"Index Only Scan|using (pk_bookings|ix_bookings_urgent) "
    assert [line for line in scans if not re.search(alone, line)] == []
    assert len(scans) >= 2
    reads = [line for line in sqlite_plan(empty_sqlite, LISTS[name]) if " bookings " in line]
    alone = r"COVERING INDEX|INTEGER PRIMARY KEY|ix_bookings_urgent"
    assert [line for line in reads if not re.search(alone, line)] == []
    assert len(reads) >= 2


async def test_competing_requests_are_sought_near_the_start(empty_sqlite):
    """Earlier and later bookings of the companion are left out by the index."""
    lines = sqlite_plan(empty_sqlite, bookings_reader.LOCK_CONTENDERS)
    assert any("companion_id=? AND starts_at>? AND starts_at<?" in line for line in lines), lines


@pytest.mark.parametrize("name", PAGES_OF_MESSAGES)
async def test_messages_of_a_conversation_are_not_sorted(empty_postgres, name):
    """Their ids are read from the index in its order, so that a long history costs no more."""
    plan = await postgresql_plan(empty_postgres, PAGES_OF_MESSAGES[name])
    assert re.search(r"Limit.*\n +-> +Index Only Scan .*ix_messages_conversation", plan), plan


async def test_processor_events_are_claimed_along_their_due_times(empty_postgres, empty_sqlite):
    """Events that are to be tried again later are not read."""
    claim = inbox.claim_events_statement(16)
    plan = await postgresql_plan(empty_postgres, claim)
    assert re.search(r"ix_processor_inbox_due.*\n +Index Cond: \(next_at <= ", plan), plan
    lines = sqlite_plan(empty_sqlite, claim)
    assert any("ix_processor_inbox_due (next_at<?)" in line for line in lines), lines


async def test_the_last_place_in_the_feed_is_sought_in_its_index(empty_sqlite):
    """One entry of the index is read, not the whole feed."""
    [line] = sqlite_plan(empty_sqlite, feed.GET_LAST_POSITION)
    assert line.startswith("SEARCH events USING COVERING INDEX uq_events_position")


async def test_cancelled_deliveries_have_an_index(empty_postgres, empty_sqlite):
    """The log of cancelled deliveries reads no others."""
    log = webhooks_reader.deliveries_page(51, DeliveryGroup.CANCELLED)
    assert "ix_webhook_deliveries_cancelled" in await postgresql_plan(empty_postgres, log)
    assert "ix_webhook_deliveries_cancelled" in "\n".join(sqlite_plan(empty_sqlite, log))


async def test_reviews_by_a_person_have_an_index(empty_postgres, empty_sqlite):
    """The export of reviews reads the person's own alone."""
    export = privacy.reviews_by_person_after(101)
    assert "ix_reviews_reviewer" in await postgresql_plan(empty_postgres, export)
    assert "ix_reviews_reviewer" in "\n".join(sqlite_plan(empty_sqlite, export))


async def test_names_of_services_are_sought_among_the_offered_ones(empty_postgres, empty_sqlite):
    """Services that no listed companion offers are not read, however many are stored."""
    plan = await postgresql_plan(empty_postgres, companions_reader.LIST_SERVICE_NAMES)
    assert re.search(r"Index Scan using pk_services on services .*\n +Index Cond: \(id = ", plan), (
        plan
    )
    reads = [
        line
        for line in sqlite_plan(empty_sqlite, companions_reader.LIST_SERVICE_NAMES)
        if " services" in line
    ]
    assert reads == ["SEARCH services USING INTEGER PRIMARY KEY (rowid=?)"]
