"""Twenty thousand companions and bookings, with what moved of their money, what is told of them
and what is said about them, written by the database itself in a moment."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Boolean, Date, DateTime, LargeBinary, Table, Text

from staffbooking_adapters.sql.schema import bookings, messaging, payments, webhooks

MANY = 20_000
PLACES = 400
SERVICES = 20

_NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {many})"
_SEARCHED = {
    "companion_id": "i",
    "location_id": f"1 + i * 31 % {PLACES}",
    "rank": "-CAST(i * 17 % 501 AS BIGINT) * 1099511627776 - i % 97",
    "hourly_rate": "1000 + i * 7 % 20000",
    "weekday_mask": "31",
}
_ROWS: list[tuple[Table, int, dict[str, str]]] = [
    (
        bookings.users,
        MANY,
        {
            "id": "i",
            "email_folded": "'user' || i",
            "role": "CASE i % 2000 WHEN 0 THEN 'admin' ELSE 'customer' END",
        },
    ),
    (bookings.companions, MANY, {"id": "i", "approval": "'approved'"}),
    (
        bookings.locations,
        PLACES,
        {"id": "i", "city_folded": "'city' || i || '.'", "country_folded": "'land' || i % 9"},
    ),
    (bookings.services, SERVICES, {"id": "i", "name_folded": "'service' || i"}),
    (bookings.companion_search, MANY, {"service_id": "0", **_SEARCHED}),
    (bookings.companion_search, MANY, {"service_id": f"1 + i * 13 % {SERVICES}", **_SEARCHED}),
    (bookings.companion_days, MANY, {"companion_id": "i", "day": "{day}", "free": "i % 20 = 0"}),
    (
        bookings.bookings,
        MANY,
        {
            "id": "i",
            "code": "'BK' || i",
            "companion_id": f"1 + i * 37 % {MANY}",
            "customer_id": f"1 + i * 53 % {MANY}",
            "booked_by": f"CASE i % 3 WHEN 0 THEN 1 + i * 59 % {MANY} END",
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
    (bookings.timers, MANY, {"booking_id": "i", "due_at": "{hour}"}),
    (
        payments.payment_operations,
        2 * MANY,
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
        2 * MANY,
        {
            "posting_key": "'k' || ((i + 1) / 2)",
            "n": "i % 2",
            "account": "CASE i % 2 WHEN 0 THEN 'processor_balance' ELSE 'escrow' END",
            "amount": "1 - i % 2 * 2",
        },
    ),
    (payments.ledger_postings, MANY, {"id": "i", "key": "'k' || i", "booking_id": "i"}),
    (
        payments.processor_inbox,
        MANY,
        {"id": "i", "event_id": "'e' || i", "intent_id": "i", "done": "i % 50 <> 0"},
    ),
    (
        bookings.reviews,
        MANY,
        {
            "id": "i",
            "booking_id": "i",
            "reviewer_id": f"1 + i * 53 % {MANY}",
            "reviewee_id": f"1 + i * 37 % {MANY}",
        },
    ),
    (
        payments.payees,
        MANY,
        {"companion_id": "i", "ref": "'r' || i", "next_at": "CASE WHEN i % 20 = 0 THEN {hour} END"},
    ),
    (
        bookings.events,
        MANY,
        {"booking_id": "i", "id": "'e' || i", "position": "CASE WHEN i % 50 <> 0 THEN i END"},
    ),
    (webhooks.event_readers, MANY, {"user_id": "i", "position": "i"}),
    (
        webhooks.endpoints,
        2 * MANY,
        {
            "id": "i",
            "owner_id": f"1 + i % {MANY}",
            "active": "i % 3 <> 0",
            "troubled": "i % 3 = 1",
            "due_at": "CASE WHEN i % 20 = 0 THEN {hour} END",
            "lease_token": "CASE WHEN i % 40 = 0 THEN 't' || i END",
        },
    ),
    (
        webhooks.deliveries,
        2 * MANY,
        {
            "id": "i",
            "endpoint_id": f"1 + i * 31 % {MANY}",
            "event_id": "'e' || i",
            "status": "CASE i % 20 WHEN 0 THEN 'pending' WHEN 1 THEN 'held' ELSE 'failed' END",
            "tries": "i / 20 % 4",
            "next_at": "{hour}",
            "held_at": "CASE i % 20 WHEN 1 THEN {hour} END",
        },
    ),
    (webhooks.attempts, MANY, {"delivery_id": "i", "at": "{hour}"}),
    (bookings.notices, MANY, {"id": "i", "due_at": "{hour}"}),
    (
        messaging.conversations,
        MANY,
        {
            "id": "i",
            "companion_id": f"1 + (i * 37 + 1) % {MANY}",
            "customer_id": f"1 + i * 53 % {MANY}",
            "updated_at": "{hour}",
            "last_id": "i",
        },
    ),
    (
        messaging.members,
        2 * MANY,
        {
            "conversation_id": "(i + 1) / 2",
            "user_id": f"1 + ((i + 1) / 2 * (37 + i % 2 * 16) + 1 - i % 2) % {MANY}",
            "read_id": "0",
        },
    ),
    (
        messaging.messages,
        2 * MANY,
        {"id": "i", "conversation_id": f"1 + i % {MANY}", "client_id": "'c' || i"},
    ),
    (messaging.connections, MANY, {"user_id": "i", "node": "'n' || i % 20"}),
    (messaging.last_seen, MANY, {"user_id": "i", "at": "{hour}"}),
]
"""What is filled with something of its own in each table; all else is filled anyhow."""


def statements(dialect: str) -> Iterator[str]:
    """INSERTs in the words of a database."""
    for table, many, given in _ROWS:
        columns = {
            column.name: given.get(column.name) or _anything(column.type, dialect)
            for column in table.columns
            if column.name in given or not column.nullable
        }
        values = ", ".join(columns.values()).format(
            hour=_hour("i", dialect),
            next_hour=_hour("(i + 1)", dialect),
            day=_day("(i % 400)", dialect),
        )
        numbers = _NUMBERS.format(many=many)
        yield f"INSERT INTO {table.name} ({', '.join(columns)}) {numbers} SELECT {values} FROM n"


def _anything(kind: object, dialect: str) -> str:
    is_postgresql = dialect == "postgresql"
    if isinstance(kind, DateTime):
        return _hour("0", dialect)
    if isinstance(kind, Date):
        return _day("0", dialect)
    if isinstance(kind, LargeBinary):
        return "decode(repeat('78', 200), 'hex')" if is_postgresql else "zeroblob(200)"
    if isinstance(kind, Boolean):
        return "true"
    return "'[]'" if isinstance(kind, Text) else "1"


def _hour(number: str, dialect: str) -> str:
    if dialect == "postgresql":
        return f"timestamptz '2027-03-01' + {number} * interval '1 hour'"
    return f"{number} * 3600000000"


def _day(number: str, dialect: str) -> str:
    if dialect == "postgresql":
        return f"date '2027-03-01' + {number}"
    return f"date('2027-03-01', {number} || ' days')"
