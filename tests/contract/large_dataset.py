"""INSERT statements for 20,000 companions and bookings, with payments, ledger, events, reviews,
webhooks and messages; the database generates the rows itself."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Boolean, Date, DateTime, LargeBinary, Table, Text

from staffbooking_adapters.sql.schema import (
    accounts,
    bookings,
    companions,
    messaging,
    notifications,
    payments,
    webhooks,
)

ROW_COUNT = 20_000
LOCATION_COUNT = 400
SERVICE_COUNT = 20

_SEQUENCE_SQL = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {many})"
_SEARCH_COLUMNS = {
    "companion_id": "i",
    "location_id": f"1 + i * 31 % {LOCATION_COUNT}",
    "rank": "-CAST(i * 17 % 501 AS BIGINT) * 1099511627776 - i % 97",
    "hourly_rate": "1000 + i * 7 % 20000",
    "weekday_mask": "31",
}
_TABLE_ROWS: list[tuple[Table, int, dict[str, str]]] = [
    (
        accounts.users,
        ROW_COUNT,
        {
            "id": "i",
            "email_folded": "'user' || i",
            "role": "CASE i % 2000 WHEN 0 THEN 'admin' ELSE 'customer' END",
        },
    ),
    (
        accounts.person_terms,
        2 * ROW_COUNT,
        {"user_id": "(i + 1) / 2", "term": "'word' || (i * 31 % 977) || ' ' || i"},
    ),
    (
        notifications.inquiries,
        ROW_COUNT,
        {
            "id": "i",
            "email_folded": "'user' || i",
            "answered_at": "CASE WHEN i % 50 <> 0 THEN {hour} END",
        },
    ),
    (
        companions.portfolio_items,
        ROW_COUNT,
        {
            "id": "i",
            "companion_id": "i",
            "status": "CASE i % 50 WHEN 0 THEN 'pending' ELSE 'approved' END",
        },
    ),
    (
        companions.companions,
        ROW_COUNT,
        {"id": "i", "approval": "CASE i % 50 WHEN 0 THEN 'pending' ELSE 'approved' END"},
    ),
    (companions.saved_people, ROW_COUNT, {"customer_id": "1 + i / 5", "companion_id": "i"}),
    (
        accounts.audit,
        2 * ROW_COUNT,
        {
            "id": "i",
            "actor_id": "1",
            "subject": "CASE i % 4 WHEN 0 THEN 'delivery' WHEN 1 THEN 'refund' ELSE 'person' END",
            "subject_id": "CASE i % 4 WHEN 1 THEN 'BK' || i ELSE CAST(i / 2 AS TEXT) END",
        },
    ),
    (
        companions.locations,
        LOCATION_COUNT,
        {"id": "i", "city_folded": "'city' || i || '.'", "country_folded": "'land' || i % 9"},
    ),
    (companions.services, SERVICE_COUNT, {"id": "i", "name_folded": "'service' || i"}),
    (companions.companion_search, ROW_COUNT, {"service_id": "0", **_SEARCH_COLUMNS}),
    (
        companions.companion_search,
        ROW_COUNT,
        {"service_id": f"1 + i * 13 % {SERVICE_COUNT}", **_SEARCH_COLUMNS},
    ),
    (
        companions.companion_days,
        ROW_COUNT,
        {"companion_id": "i", "day": "{day}", "free": "i % 20 = 0"},
    ),
    (
        companions.companion_limits,
        ROW_COUNT // 2,
        {
            "companion_id": "2 * i",
            "min_notice_hours": "i % 5 * 24",
            "horizon_days": "CASE i % 3 WHEN 0 THEN 365 ELSE 1095 END",
        },
    ),
    (
        bookings.bookings,
        ROW_COUNT,
        {
            "id": "i",
            "code": "'BK' || i",
            "companion_id": f"1 + i * 37 % {ROW_COUNT}",
            "customer_id": f"1 + i * 53 % {ROW_COUNT}",
            "booked_by": f"CASE i % 3 WHEN 0 THEN 1 + i * 59 % {ROW_COUNT} END",
            "status": "CASE i % 4 WHEN 0 THEN 'completed' WHEN 1 THEN 'paid' ELSE 'pending' END",
            "starts_at": "{hour}",
            "ends_at": "{next_hour}",
            "priority": "i % 500 = 0",
            "event_ref": "CASE i % 10 WHEN 0 THEN 'event' || i END",
            "intent": "'{{}}'",
            "payment_status": "CASE i % 50 WHEN 0 THEN 'processing' ELSE 'succeeded' END",
            "owed_by_staff": "CASE i % 500 WHEN 0 THEN 1 ELSE 0 END",
        },
    ),
    (bookings.timers, ROW_COUNT, {"booking_id": "i", "due_at": "{hour}"}),
    (
        payments.payment_operations,
        2 * ROW_COUNT,
        {
            "id": "i",
            "booking_id": "(i + 1) / 2",
            "n": "2 - i % 2",
            "kind": "CASE i % 2 WHEN 0 THEN 'pay_out' ELSE 'refund' END",
            "command": "'{{}}'",
            "status": "CASE i % 20 WHEN 0 THEN 'pending' WHEN 1 THEN 'refused' ELSE 'done' END",
            "next_at": "{hour}",
        },
    ),
    (
        payments.ledger_legs,
        2 * ROW_COUNT,
        {
            "posting_key": "'k' || ((i + 1) / 2)",
            "n": "i % 2",
            "account": "CASE i % 2 WHEN 0 THEN 'processor_balance' ELSE 'escrow' END",
            "amount": "1 - i % 2 * 2",
        },
    ),
    (payments.ledger_postings, ROW_COUNT, {"id": "i", "key": "'k' || i", "booking_id": "i"}),
    (
        payments.processor_inbox,
        ROW_COUNT,
        {"id": "i", "event_id": "'e' || i", "intent_id": "i", "done": "i % 50 <> 0"},
    ),
    (
        companions.reviews,
        ROW_COUNT,
        {
            "id": "i",
            "booking_id": "i",
            "reviewer_id": f"1 + i * 53 % {ROW_COUNT}",
            "reviewee_id": f"1 + i * 37 % {ROW_COUNT}",
        },
    ),
    (
        payments.payees,
        ROW_COUNT,
        {"companion_id": "i", "ref": "'r' || i", "next_at": "CASE WHEN i % 20 = 0 THEN {hour} END"},
    ),
    (
        bookings.events,
        ROW_COUNT,
        {"booking_id": "i", "id": "'e' || i", "position": "CASE WHEN i % 50 <> 0 THEN i END"},
    ),
    (webhooks.event_readers, ROW_COUNT, {"user_id": "i", "position": "i"}),
    (
        webhooks.endpoints,
        2 * ROW_COUNT,
        {
            "id": "i",
            "owner_id": f"1 + i % {ROW_COUNT}",
            "active": "i % 3 <> 0",
            "troubled": "i % 3 = 1",
            "due_at": "CASE WHEN i % 20 = 0 THEN {hour} END",
            "lease_token": "CASE WHEN i % 40 = 0 THEN 't' || i END",
        },
    ),
    (
        webhooks.deliveries,
        2 * ROW_COUNT,
        {
            "id": "i",
            "endpoint_id": f"1 + i * 31 % {ROW_COUNT}",
            "event_id": "'e' || i",
            "status": "CASE i % 20 WHEN 0 THEN 'pending' WHEN 1 THEN 'held' ELSE 'failed' END",
            "tries": "i / 20 % 4",
            "next_at": "{hour}",
            "held_at": "CASE i % 20 WHEN 1 THEN {hour} END",
        },
    ),
    (webhooks.attempts, ROW_COUNT, {"delivery_id": "i", "at": "{hour}"}),
    (notifications.notices, ROW_COUNT, {"id": "i", "due_at": "{hour}"}),
    (
        messaging.conversations,
        ROW_COUNT,
        {
            "id": "i",
            "companion_id": f"1 + (i * 37 + 1) % {ROW_COUNT}",
            "customer_id": f"1 + i * 53 % {ROW_COUNT}",
            "updated_at": "{hour}",
            "last_id": "i",
        },
    ),
    (
        messaging.conversation_members,
        2 * ROW_COUNT,
        {
            "conversation_id": "(i + 1) / 2",
            "user_id": f"1 + ((i + 1) / 2 * (37 + i % 2 * 16) + 1 - i % 2) % {ROW_COUNT}",
            "read_id": "0",
        },
    ),
    (
        messaging.messages,
        2 * ROW_COUNT,
        {"id": "i", "conversation_id": f"1 + i % {ROW_COUNT}", "client_id": "'c' || i"},
    ),
    (messaging.channel_connections, ROW_COUNT, {"user_id": "i", "node": "'n' || i % 20"}),
    (messaging.last_seen, ROW_COUNT, {"user_id": "i", "at": "{hour}"}),
]
"""Tables, numbers of rows, and SQL expressions of columns; `_default_value` gives the rest."""


def insert_statements(dialect: str) -> Iterator[str]:
    """The INSERT statements of all tables in a database's dialect."""
    for table, many, given in _TABLE_ROWS:
        columns = {
            column.name: given.get(column.name) or _default_value(column.type, dialect)
            for column in table.columns
            if column.name in given or not column.nullable
        }
        values = ", ".join(columns.values()).format(
            hour=_hour_expression("i", dialect),
            next_hour=_hour_expression("(i + 1)", dialect),
            day=_day_expression("(i % 400)", dialect),
        )
        numbers = _SEQUENCE_SQL.format(many=many)
        yield f"INSERT INTO {table.name} ({', '.join(columns)}) {numbers} SELECT {values} FROM n"


def _default_value(kind: object, dialect: str) -> str:
    is_postgresql = dialect == "postgresql"
    if isinstance(kind, DateTime):
        return _hour_expression("0", dialect)
    if isinstance(kind, Date):
        return _day_expression("0", dialect)
    if isinstance(kind, LargeBinary):
        return "decode(repeat('78', 200), 'hex')" if is_postgresql else "zeroblob(200)"
    if isinstance(kind, Boolean):
        return "true"
    return "'[]'" if isinstance(kind, Text) else "1"


def _hour_expression(number: str, dialect: str) -> str:
    if dialect == "postgresql":
        return f"timestamptz '2027-03-01' + {number} * interval '1 hour'"
    return f"{number} * 3600000000"


def _day_expression(number: str, dialect: str) -> str:
    if dialect == "postgresql":
        return f"date '2027-03-01' + {number}"
    return f"date('2027-03-01', {number} || ' days')"
