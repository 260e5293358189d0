"""The operations of the yardstick: SQL, minimal Python, and the service's response bytes.

Statements and arguments are separate functions, so that pgbench can run the same ones.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import cache, lru_cache
from secrets import randbits
from time import time_ns
from typing import Any, TypeAlias
from urllib.parse import parse_qsl
from zoneinfo import ZoneInfo

import asyncpg
import msgspec

from benchmarks.yardstick_access import AdmissionRefused
from staffbooking_adapters.sql.companions.search import SearchVariant, summaries_page
from staffbooking_adapters.sql.engine.dialect import substring_pattern
from staffbooking_adapters.sql.engine.postgres import CONNECT_OPTIONS, SERVER_SETTINGS
from staffbooking_core.domain.companions.booking_limits import ANY_DATE, date_bounds
from staffbooking_core.domain.companions.companion import normalize_place, normalize_text

Row: TypeAlias = Mapping[str, Any]

POOL_SIZE = 10
ONE_DAY = timedelta(days=1)
CROCKFORD_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
FEE_PPM = 150_000

_ACTOR_ID = re.compile(r',"actor_id":(null|[0-9]+)')
"""Only admins read who acted."""

DETAIL_SQL = "SELECT detail FROM companions WHERE id = $1 AND active AND approval = 'approved'"
NEW_BOOKING_COLUMNS = (
    "id,code,status,companion_id,companion_name,customer_id,customer_name,booked_by,"
    "service_type,location,event_date,start_time,duration_hours,timezone,starts_at,ends_at,"
    "currency,price,insurance_premium,fee_ppm,platform_fee,payout_amount,created_at,"
    "cancellation_insurance,event_ref,priority,version,events,timeline,payment_status,"
    "payout_status,escrow,refunded_amount,paid_out,owed_by_staff,orders,settlements,"
    "chargeback_amount"
).split(",")
"""Columns of a new booking; all others are NULL."""
LATER_COLUMNS = (
    "checked_in_at,accepted_at,paid_at,completed_at,completed_by,cancelled_at,cancelled_by,"
    "cancel_reason,cancel_rule,disputed_at"
).split(",")
BOOKING_SQL = (
    f"SELECT {','.join((*NEW_BOOKING_COLUMNS, *LATER_COLUMNS))} FROM bookings WHERE code = $1"
)
CONTEXT_SQL = """
    SELECT nextval('booking_numbers') AS number, c.first_name, c.last_name, c.hourly_rate,
        c.daily_rate, c.service_types, c.calendar, u.id AS customer_id,
        u.first_name AS customer_first, u.last_name AS customer_last, b.starts_at, b.ends_at
    FROM companions AS c
    JOIN users AS u ON u.email_folded = $2 AND u.role = 'customer' AND u.disabled_at IS NULL
    LEFT JOIN bookings AS b ON b.companion_id = c.id
        AND b.status IN ('accepted', 'disputed', 'paid') AND b.starts_at < $3 AND b.ends_at > $4
    WHERE c.id = $1 AND c.active AND c.approval = 'approved'
"""
_COLUMN_COUNT = len(NEW_BOOKING_COLUMNS)
_CREATED_AT = f"${NEW_BOOKING_COLUMNS.index('created_at') + 1}"
CREATE_SQL = f"""
    WITH booking AS (
        INSERT INTO bookings ({", ".join(NEW_BOOKING_COLUMNS)})
        VALUES ({", ".join(f"${n + 1}" for n in range(_COLUMN_COUNT))})
    ), timer AS (
        INSERT INTO timers (booking_id, kind, due_at, attempts)
        VALUES ($1, 'expire', ${NEW_BOOKING_COLUMNS.index("starts_at") + 1}, 0)
    ), event AS (
        INSERT INTO events (booking_id, sequence, id, name, created_at, parties, body) VALUES
        ($1, 1, ${_COLUMN_COUNT + 1}, 'booking.created', {_CREATED_AT},
            ${_COLUMN_COUNT + 2}, ${_COLUMN_COUNT + 3})
    )
    INSERT INTO notices (user_id, kind, subject, text, link, at, due_at, attempts) VALUES
    (${NEW_BOOKING_COLUMNS.index("companion_id") + 1}, 'request', ${_COLUMN_COUNT + 4},
        ${_COLUMN_COUNT + 5}, ${_COLUMN_COUNT + 6}, {_CREATED_AT}, {_CREATED_AT}, 0)
"""


class BookingRequestBody(msgspec.Struct, frozen=True):
    """The body of a request for a booking."""

    companion_id: int
    event_date: date
    start_time: str
    duration_hours: int
    service_type: str
    location: str
    customer_email: str


class _Slot(msgspec.Struct, frozen=True):
    start: int
    end: int


class _Weekly(msgspec.Struct, frozen=True):
    weekday: int
    slot: _Slot


class _Override(msgspec.Struct, frozen=True):
    date: date
    slots: list[_Slot]


class _Calendar(msgspec.Struct, frozen=True):
    timezone: str
    weekly: list[_Weekly]
    overrides: list[_Override]


encode_json = msgspec.json.Encoder().encode
_decode_request_body = msgspec.json.Decoder(BookingRequestBody).decode
_decode_calendar = lru_cache(maxsize=4096)(msgspec.json.Decoder(_Calendar).decode)
_decode_service_types = lru_cache(maxsize=4096)(msgspec.json.Decoder(list[str]).decode)
_load_zone = cache(ZoneInfo)


class StatementPool:
    """Connections with prepared statements, each lent to one caller at a time."""

    def __init__(self) -> None:
        self.round_trips = 0
        self._idle: list[tuple[Any, dict[str, Any]]] = []
        self._free = asyncio.Semaphore(POOL_SIZE)

    async def open(self, dsn: str) -> None:
        for _ in range(POOL_SIZE):
            connection = await asyncpg.connect(
                dsn, **CONNECT_OPTIONS, server_settings=SERVER_SETTINGS
            )
            self._idle.append((connection, {}))

    async def close(self) -> None:
        for connection, _ in self._idle:
            await connection.close()

    async def fetch(self, sql: str, arguments: Sequence[Any]) -> list[Any]:
        self.round_trips += 1
        await self._free.acquire()
        connection, prepared = lent = self._idle.pop()
        try:
            statement = prepared.get(sql)
            if statement is None:
                statement = prepared[sql] = await connection.prepare(sql)
            rows: list[Any] = await statement.fetch(*arguments)
            return rows
        finally:
            self._idle.append(lent)
            self._free.release()


# Operations ------------------------------------------------------------------------------


@cache
def _search_sql(shape: SearchVariant) -> tuple[str, tuple[str, ...]]:
    compiled = summaries_page(shape).compile_for("postgresql")
    return compiled.sql, compiled.argument_names


def search_statement(query: bytes) -> tuple[str, list[Any], int, int]:
    """The statement and arguments of a search, its page and its limit."""
    given = dict(parse_qsl(query.decode(), strict_parsing=True)) if query else {}
    page, limit = int(given.get("page", 1)), int(given.get("limit", 12))
    if not (1 <= page <= 100_000 and 1 <= limit <= 50):
        raise AdmissionRefused
    low, high = given.get("min_price"), given.get("max_price")
    day = date.fromisoformat(given["date"]) if "date" in given else None
    bounds = ANY_DATE if day is None else date_bounds(day, datetime.now(UTC))
    sql, names = _search_sql(
        SearchVariant(
            has_location="location" in given,
            has_service="service" in given,
            has_price=low is not None or high is not None,
            has_date=day is not None,
            size=13 if limit <= 12 else 51,
            has_offset=page > 1,
            is_weekday_common=day is not None,
        )
    )
    values = {
        "place": substring_pattern(normalize_place(given.get("location", ""))),
        "service": normalize_text(given.get("service", "")),
        "low": 0 if low is None else round(float(low) * 100),
        "high": 2**63 - 1 if high is None else round(float(high) * 100),
        "day": day,
        "weekday_bit": 0 if day is None else 1 << day.weekday(),
        "max_notice": bounds.max_notice_hours,
        "sure_notice": bounds.sure_notice_hours,
        "min_horizon": bounds.min_horizon_days,
        "sure_horizon": bounds.sure_horizon_days,
        "offset": (page - 1) * limit,
    }
    return sql, [values[name] for name in names], page, limit


async def search_companions(pool: StatementPool, query: bytes) -> bytes:
    sql, arguments, page, limit = search_statement(query)
    rows = await pool.fetch(sql, arguments)
    more = b"true" if len(rows) > limit else b"false"
    found = b",".join([row[0] for row in rows[:limit]])
    end = b'],"page":%d,"limit":%d,"has_more":%b}' % (page, limit, more)
    return b'{"companions":[' + found + end


async def companion_detail(pool: StatementPool, number: str) -> bytes:
    rows = await pool.fetch(DETAIL_SQL, (int(number),))
    if not rows:
        raise AdmissionRefused
    body: bytes = rows[0][0]
    return body


async def booking_status(pool: StatementPool, code: str, user_id: int) -> bytes:
    rows = await pool.fetch(BOOKING_SQL, (code,))
    if not rows:
        raise AdmissionRefused
    row = rows[0]
    if user_id not in (row["customer_id"], row["companion_id"], row["booked_by"]):
        day = row["event_date"].isoformat()
        seen = {"booking_code": row["code"], "status": row["status"], "event_date": day}
        return b'{"booking":%b}' % encode_json(seen)
    record = _record(row, {name: row[name] for name in LATER_COLUMNS})
    if user_id == row["companion_id"]:
        record["platform_fee"] = _money(row["platform_fee"])
        record["payout_amount"] = _money(row["payout_amount"])
        record["payout_status"] = row["payout_status"]
    timeline = _ACTOR_ID.sub("", row["timeline"].replace('"was":', '"from":')).encode()
    return b'{"booking":%b,"timeline":%b}}' % (encode_json(record)[:-1], timeline)


def context_arguments(wanted: BookingRequestBody) -> list[Any]:
    midnight = datetime.combine(wanted.event_date, datetime.min.time(), UTC)
    email = wanted.customer_email.casefold()
    return [wanted.companion_id, email, midnight + 3 * ONE_DAY, midnight - ONE_DAY]


async def create_booking(pool: StatementPool, body: bytes, user_id: int) -> bytes:
    wanted = _decode_request_body(body)
    if not 1 <= wanted.duration_hours <= 24:
        raise AdmissionRefused
    rows = await pool.fetch(CONTEXT_SQL, context_arguments(wanted))
    if not rows:
        raise AdmissionRefused
    row, record, timeline = new_booking(wanted, rows, user_id, datetime.now(UTC))
    await pool.fetch(CREATE_SQL, create_arguments(row, record))
    return b'{"success":true,"booking":%b,"timeline":%b}}' % (record[:-1], timeline)


def create_arguments(row: Row, record: bytes) -> list[Any]:
    created = (_instant(row["created_at"]) or "").encode()
    event = f"evt_{_base32(time_ns() // 1_000_000, 10)}{_base32(randbits(80), 16)}"
    body = (
        b'{"id":"%b","event":"booking.created","created_at":"%b","api_version":"v1",'
        b'"sequence":1,"data":{"booking":%b}}' % (event.encode(), created, record)
    )
    parties = sorted((row["customer_id"], row["companion_id"], row["booked_by"]))
    told = (f"New request {row['code']}", _request(row), f"/bookings/{row['id']}/return")
    return [
        *(row[name] for name in NEW_BOOKING_COLUMNS),
        event,
        str(parties).replace(" ", ""),
        body,
        *told,
    ]


def _request(row: Row) -> str:
    """The text of the notification for the staff member."""
    day, hours = row["event_date"], row["duration_hours"]
    amount = b"%d.%02d" % divmod(row["payout_amount"], 100)
    return (
        f"{row['customer_name']} would like to book you: {row['service_type']} on {day:%A}, "
        f"{day.day} {day:%B %Y} at {row['start_time']} ({row['timezone']}), {hours} "
        f"hour{'s' if hours > 1 else ''}. You would be paid {amount.decode()} USD. "
        "Please accept or decline the request before the event begins."
    )


def new_booking(
    wanted: BookingRequestBody, rows: Sequence[Any], user_id: int, now: datetime
) -> tuple[Row, bytes, bytes]:
    """The columns of a new booking, its record without the timeline, and the timeline."""
    found = rows[0]
    calendar, folded = _decode_calendar(found["calendar"]), normalize_text(wanted.service_type)
    starts_at, ends_at = _span(calendar, wanted)
    service = next(
        (s for s in _decode_service_types(found["service_types"]) if normalize_text(s) == folded),
        None,
    )
    taken = any(row[-1] and row[-2] < ends_at and row[-1] > starts_at for row in rows)
    if service is None or taken or starts_at <= now:
        raise AdmissionRefused
    hours = wanted.duration_hours
    price = found["hourly_rate"] * hours
    if found["daily_rate"] is not None and hours >= 8:
        price = min(price, found["daily_rate"])
    fee = (2 * price * FEE_PPM + 1_000_000) // 2_000_000
    at = _instant(now)
    timeline = (
        f'[{{"at":"{at}","%s":null,"to":"pending","trigger":"request",'
        '"actor":"api","reason":null}]'
    )
    row = {
        "id": found["number"],
        "code": "BK" + _base32(randbits(60), 12),
        "status": "pending",
        "companion_id": wanted.companion_id,
        "companion_name": f"{found['first_name']} {found['last_name']}",
        "customer_id": found["customer_id"],
        "customer_name": f"{found['customer_first']} {found['customer_last']}",
        "booked_by": user_id,
        "service_type": service,
        "location": wanted.location,
        "event_date": wanted.event_date,
        "start_time": wanted.start_time,
        "duration_hours": hours,
        "timezone": calendar.timezone,
        "starts_at": starts_at,
        "ends_at": ends_at,
        "currency": "usd",
        "price": price,
        "insurance_premium": 0,
        "fee_ppm": FEE_PPM,
        "platform_fee": fee,
        "payout_amount": price - fee,
        "created_at": now,
        "cancellation_insurance": False,
        "event_ref": None,
        "priority": False,
        "version": 1,
        "events": 1,
        "timeline": timeline % "was",
        "payment_status": "none",
        "payout_status": "none",
        **dict.fromkeys(("escrow", "refunded_amount", "paid_out", "owed_by_staff"), 0),
        **dict.fromkeys(("orders", "settlements", "chargeback_amount"), 0),
    }
    record = encode_json(_record(row, dict.fromkeys(LATER_COLUMNS)))
    return row, record, (timeline % "from").encode()


def _span(calendar: _Calendar, wanted: BookingRequestBody) -> tuple[datetime, datetime]:
    """Start and end, which must lie within the hours of one day; nights are not supported."""
    hour, minute = int(wanted.start_time[:2]), int(wanted.start_time[3:])
    start = 60 * hour + minute
    end = start + 60 * wanted.duration_hours
    day = wanted.event_date
    hours = [each.slot for each in calendar.weekly if each.weekday == day.weekday()]
    for override in calendar.overrides:
        if override.date == day:
            hours = override.slots
    if calendar.weekly and not any(slot.start <= start and end <= slot.end for slot in hours):
        raise AdmissionRefused
    zone = _load_zone(calendar.timezone)
    local = datetime(day.year, day.month, day.day, hour, minute, tzinfo=zone)
    starts_at = local.astimezone(UTC)
    return starts_at, starts_at + timedelta(hours=wanted.duration_hours)


def _record(row: Row, later: Row) -> dict[str, Any]:
    total = row["price"] + row["insurance_premium"]
    return {
        "id": row["id"],
        "booking_code": row["code"],
        "status": row["status"],
        "companion_id": row["companion_id"],
        "companion_name": row["companion_name"],
        "customer_id": row["customer_id"],
        "customer_name": row["customer_name"],
        "booked_by": row["booked_by"],
        "service_type": row["service_type"],
        "location": row["location"],
        "event_date": row["event_date"].isoformat(),
        "start_time": row["start_time"],
        "duration_hours": row["duration_hours"],
        "timezone": row["timezone"],
        "starts_at": _instant(row["starts_at"]),
        "ends_at": _instant(row["ends_at"]),
        "currency": row["currency"],
        "price": _money(row["price"]),
        "insurance_premium": _money(row["insurance_premium"]),
        "total_amount": _money(total),
        "refunded_amount": _money(row["refunded_amount"]),
        "cancellation_insurance": row["cancellation_insurance"],
        "event_ref": row["event_ref"],
        "priority": row["priority"],
        "checked_in_at": _instant(later["checked_in_at"]),
        "accepted_at": _instant(later["accepted_at"]),
        "paid_at": _instant(later["paid_at"]),
        "completed_at": _instant(later["completed_at"]),
        "completed_by": later["completed_by"],
        "cancelled_at": _instant(later["cancelled_at"]),
        "cancelled_by": later["cancelled_by"],
        "cancel_reason": later["cancel_reason"],
        "cancel_rule": later["cancel_rule"],
        "payment_due_at": _instant(row["starts_at"]) if row["status"] == "accepted" else None,
        "confirms_at": _instant(row["ends_at"] + 3 * ONE_DAY) if row["status"] == "paid" else None,
        "refunds": [],
        "disputed_at": _instant(later["disputed_at"]),
        "payment_status": row["payment_status"],
        "created_at": _instant(row["created_at"]),
        "version": row["version"],
    }


def _instant(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()[:-6] + "Z"


def _money(minor: int) -> msgspec.Raw:
    return msgspec.Raw(b"%d.%02d" % divmod(minor, 100))


def _base32(number: int, length: int) -> str:
    digits = ""
    for _ in range(length):
        number, digit = divmod(number, 32)
        digits = CROCKFORD_ALPHABET[digit] + digits
    return digits
