"""Deletes what is older than the policy keeps it, in batches.

Each statement finds its batch by an index and is a transaction of its own, so that its cost does
not depend on what is stored, and it holds no lock for long. Rows that another process deletes at
the same time are skipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Table,
    any_,
    bindparam,
    delete,
    func,
    or_,
    select,
    true,
    tuple_,
)

from staffbooking_adapters.sql.accounts.rate_limits import rate_windows
from staffbooking_adapters.sql.bulk_import import delete_old_import
from staffbooking_adapters.sql.engine.connection import Database
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.engine.types import Instant
from staffbooking_adapters.sql.schema.accounts import api_key_calls, sessions
from staffbooking_adapters.sql.schema.bookings import alerts
from staffbooking_adapters.sql.schema.idempotency import answers
from staffbooking_adapters.sql.schema.notifications import inquiries, is_waiting_inquiry
from staffbooking_adapters.sql.schema.payments import processor_inbox, reconciliation_runs
from staffbooking_adapters.sql.schema.webhooks import deliveries, is_finished_delivery
from staffbooking_core.policy import Policy

BATCH_SIZE = 500
"""Number of rows of a table that are deleted in one transaction."""
_BEFORE = bindparam("before", type_=Instant)


def _delete_batch(table: Table, age: Column[Any], *conditions: ColumnElement[bool]) -> Statement:
    """Delete the oldest rows of a table up to the parameter `before`."""
    key = [*table.primary_key.columns]
    old = (
        select(*key)
        .where(*conditions, age <= _BEFORE)
        .order_by(age)
        .limit(BATCH_SIZE)
        .with_for_update(skip_locked=True)
        .cte("old")
    )
    found = select(*old.c)
    deleted = delete(table).returning(key[0])
    if len(key) > 1:
        return Statement(deleted.where(tuple_(*key).in_(found)))
    # As an array, since PostgreSQL would read a table of some thousand rows in place of the index.
    return Statement(
        deleted.where(key[0] == any_(func.array(found.scalar_subquery()))),
        sqlite=deleted.where(key[0].in_(found)),
    )


DELETE_IDLE_SESSIONS = _delete_batch(sessions, sessions.c.seen_at)
DELETE_OLD_SESSIONS = _delete_batch(sessions, sessions.c.created_at)
DELETE_EXPIRED_RESPONSES = _delete_batch(answers, answers.c.expires_at)
DELETE_OLD_PROCESSOR_EVENTS = _delete_batch(
    processor_inbox, processor_inbox.c.received_at, processor_inbox.c.done == true()
)
DELETE_OLD_INQUIRIES = _delete_batch(
    inquiries,
    inquiries.c.created_at,
    or_(is_waiting_inquiry, inquiries.c.answered_at <= _BEFORE),
)
DELETE_OLD_DELIVERIES = _delete_batch(deliveries, deliveries.c.next_at, is_finished_delivery)
"""Their attempts are deleted with them."""
DELETE_OLD_KEY_CALLS = _delete_batch(api_key_calls, api_key_calls.c.hour)
DELETE_OLD_ALERTS = _delete_batch(alerts, alerts.c.at, alerts.c.told == true())
DELETE_OLD_RUNS = _delete_batch(reconciliation_runs, reconciliation_runs.c.finished_at)
DELETE_ENDED_WINDOWS = _delete_batch(rate_windows, rate_windows.c.resets_at)


def _times_by_statement(now: datetime, policy: Policy) -> Sequence[tuple[Statement, datetime]]:
    """The statements of the main database, each with the time up to which it deletes."""
    return (
        (DELETE_IDLE_SESSIONS, now - policy.session_idle),
        (DELETE_OLD_SESSIONS, now - policy.session_lifetime),
        (DELETE_EXPIRED_RESPONSES, now),
        (DELETE_OLD_PROCESSOR_EVENTS, now - policy.processor_event_retention),
        (DELETE_OLD_INQUIRIES, now - policy.inquiry_retention),
        (DELETE_OLD_DELIVERIES, now - policy.webhook_delivery_retention),
        (DELETE_OLD_KEY_CALLS, now - policy.key_calls_retention),
        (DELETE_OLD_ALERTS, now - policy.alert_retention),
        (DELETE_OLD_RUNS, now - policy.reconciliation_retention),
    )


async def prune(
    database: Database, counter_database: Database, now: datetime, policy: Policy
) -> int:
    """Delete a batch of the expired rows of each table; returns their number. `counter_database`
    has the rate windows."""
    deleted = len(await counter_database.fetch_all(DELETE_ENDED_WINDOWS, before=now))
    for statement, before in _times_by_statement(now, policy):
        deleted += len(await database.fetch_all(statement, before=before))
    return deleted + await delete_old_import(database, now - policy.import_retention)
