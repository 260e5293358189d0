"""A peer of the service: FastAPI, SQLAlchemy Core and asyncpg in one uvicorn process.

    python -m benchmarks.peers.fastapi_peer PORT  # on the database of STAFFBOOKING_DATABASE_URL

docs/benchmarks.md says what it leaves out.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256
from secrets import choice
from time import time
from typing import Annotated, Any
from unicodedata import combining, normalize
from zoneinfo import ZoneInfo

import sqlalchemy as sa
import uvicorn
from fastapi import Depends, FastAPI, HTTPException, Query, Request, Response
from fastapi.responses import JSONResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, Field
from pydantic_core import to_json
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from staffbooking_adapters.sql.schema import accounts, bookings, companions, notifications

Record = dict[str, Any]
Column = sa.ColumnElement[Any]

MAX_REQUESTS_PER_HOUR = 1_000_000_000
"""More than the load sends."""
CROCKFORD_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

app = FastAPI()
engine = create_async_engine(os.environ["STAFFBOOKING_DATABASE_URL"], pool_size=10, max_overflow=0)
reading_engine = engine.execution_options(isolation_level="AUTOCOMMIT")


async def read(statement: sa.Select[Any]) -> Sequence[sa.RowMapping]:
    async with reading_engine.connect() as connection:
        return list((await connection.execute(statement)).mappings())


class Refused(HTTPException):
    def __init__(self, status: int, code: str, message: str, **more: str) -> None:
        super().__init__(status, {"error": message, "code": code, **more})


@app.exception_handler(Refused)
async def respond_to_refusal(request: Request, error: Refused) -> JSONResponse:
    return JSONResponse(error.detail, error.status_code)


@app.get("/readyz")
async def readyz() -> Record:
    return {}


# Keys and rate limits -----------------------------------------------------------------------

_windows: dict[tuple[str, int], tuple[int, int]] = {}
"""End and requests of the last window of each rule and key."""


def key_with(permission: str, *rules: str) -> Callable[..., Awaitable[Any]]:
    """A dependency: the row of the key, which has the permission and is within its limits."""

    async def check_key(
        shown: Annotated[HTTPAuthorizationCredentials, Depends(HTTPBearer())], response: Response
    ) -> Any:
        key, user, now = accounts.api_keys.c, accounts.users.c, sa.func.now()
        expires_at = user.subscription_expires_at
        is_current = sa.or_(expires_at.is_(None), expires_at > now)
        is_allowed = (user.subscription == "enterprise") & is_current
        statement = sa.select(key.id, key.owner_id).join(accounts.users, user.id == key.owner_id)
        statement = statement.where(
            key.digest == sha256(shown.credentials.encode()).hexdigest(),
            key.revoked_at.is_(None),
            sa.or_(key.expires_at.is_(None), key.expires_at > now),
            user.disabled_at.is_(None),
            sa.or_(user.role == "admin", is_allowed & key.permissions.contains(permission)),
        )
        found = await read(statement)
        if not found:
            raise Refused(401, "invalid_api_key", "The API key is not valid")
        for rule in rules:
            _count_request(rule, found[0]["id"], response)
        return found[0]

    return check_key


def _count_request(rule: str, key_id: int, response: Response) -> None:
    now = int(time())
    resets_at, count = _windows.get((rule, key_id), (0, 0))
    if resets_at <= now:
        resets_at, count = now + 3600, 0
    if count >= MAX_REQUESTS_PER_HOUR:
        raise Refused(429, "rate_limited", "Too many requests")
    _windows[rule, key_id] = resets_at, count + 1
    response.headers["X-RateLimit-Limit"] = str(MAX_REQUESTS_PER_HOUR)
    response.headers["X-RateLimit-Remaining"] = str(MAX_REQUESTS_PER_HOUR - count - 1)
    response.headers["X-RateLimit-Reset"] = str(resets_at)


Reader = Annotated[Any, Depends(key_with("read", "general"))]
Booker = Annotated[Any, Depends(key_with("book", "general", "bookings"))]

# Companions ---------------------------------------------------------------------------------


def money(*amounts: Column) -> list[Column]:
    return [(sa.cast(amount, sa.Float) / 100).label(amount.name) for amount in amounts]


def as_json(column: Column) -> Column:
    return sa.cast(column, sa.JSON).label(column.name)


_c = companions.companions.c
_is_listed = _c.active & (_c.approval == "approved")
_mean = sa.cast(_c.rating_sum, sa.Numeric) / sa.func.nullif(_c.total_reviews, 0)
SUMMARY_COLUMNS = [
    *(_c.id, _c.first_name, _c.profile_photo, _c.tagline, *money(_c.hourly_rate, _c.daily_rate)),
    *(_c.location_city, _c.location_country, as_json(_c.service_types)),
    sa.cast(sa.func.coalesce(sa.func.round(_mean, 2), 0), sa.Float).label("rating_avg"),
    *(_c.total_reviews, _c.tier, as_json(_c.badges)),
]
BIOGRAPHY_COLUMNS = [
    *(_c.bio, as_json(_c.languages), _c.years_experience),
    sa.cast(_c.calendar, sa.JSON)["timezone"].as_string().label("timezone"),
    *(sa.literal("usd").label("currency"), _c.member_since),
]


@app.get("/api/v1/companions")
async def search_companions(
    key: Reader,
    location: str | None = None,
    service: str | None = None,
    min_price: float | None = None,
    max_price: float | None = None,
    date: dt.date | None = None,
    page: Annotated[int, Query(ge=1, le=100_000)] = 1,
    limit: Annotated[int, Query(ge=1, le=50)] = 12,
) -> Record:
    row = companions.companion_search.c
    found = sa.select(*SUMMARY_COLUMNS).join(companions.companion_search, row.companion_id == _c.id)
    if service is None:
        found = found.where(row.service_id == 0)
    else:
        named = companions.services.c.name_folded == fold(service)
        number = sa.select(companions.services.c.id).where(named).scalar_subquery()
        found = found.where(row.service_id == number)
    if location is not None:
        text = "".join(each for each in normalize("NFD", fold(location)) if not combining(each))
        place = companions.locations.c
        names = (place.city_folded, place.country_folded)
        matches = sa.or_(*(name.contains(text, autoescape=True) for name in names))
        found = found.where(row.location_id.in_(sa.select(place.id).where(matches)))
    if min_price is not None:
        found = found.where(row.hourly_rate >= round(min_price * 100))
    if max_price is not None:
        found = found.where(row.hourly_rate <= round(max_price * 100))
    if date is not None:
        mark = companions.companion_days.c
        marked = sa.select(mark.free).where(mark.companion_id == row.companion_id, mark.day == date)
        works = row.weekday_mask.bitwise_and(1 << date.weekday()) != 0
        found = found.where(sa.func.coalesce(marked.scalar_subquery(), works))
    found = found.order_by(row.rank, row.companion_id)
    rows = await read(found.limit(limit + 1).offset((page - 1) * limit))
    shown = [_with_services(row) for row in rows[:limit]]
    return {"companions": shown, "page": page, "limit": limit, "has_more": len(rows) > limit}


def fold(text: str) -> str:
    return normalize("NFC", text).casefold()


def _with_services(row: Any) -> Record:
    return {**row, "service_types": ",".join(row["service_types"])}


@app.get("/api/v1/companions/{number}")
async def companion_detail(key: Reader, number: int) -> Record:
    statement = sa.select(*SUMMARY_COLUMNS, *BIOGRAPHY_COLUMNS)
    rows = await read(statement.where(_c.id == number, _is_listed))
    if not rows:
        raise Refused(404, "not_found", "Companion not found")
    return {"companion": {**_with_services(rows[0]), "reviews": [], "portfolio": []}}


# Bookings -----------------------------------------------------------------------------------

_b = bookings.bookings.c
BOOKING_COLUMNS = [
    *(_b.id, _b.code.label("booking_code"), _b.status, _b.companion_id, _b.companion_name),
    *(_b.customer_id, _b.customer_name, _b.booked_by, _b.service_type, _b.location),
    *(_b.event_date, _b.start_time, _b.duration_hours, _b.timezone, _b.starts_at, _b.ends_at),
    *(_b.currency, *money(_b.price, _b.insurance_premium)),
    *money((_b.price + _b.insurance_premium).label("total_amount"), _b.refunded_amount),
    *(_b.cancellation_insurance, _b.event_ref, _b.priority, _b.checked_in_at, _b.accepted_at),
    *(_b.paid_at, _b.completed_at, _b.completed_by, _b.cancelled_at, _b.cancelled_by),
    *(_b.cancel_reason, _b.cancel_rule),
    sa.case((_b.status == "accepted", _b.starts_at)).label("payment_due_at"),
    sa.case((_b.status == "paid", _b.ends_at + dt.timedelta(days=3))).label("confirms_at"),
    *(as_json(_b.refunds), _b.disputed_at, _b.payment_status),
    *(_b.created_at, _b.version),
]


@app.get("/api/v1/bookings/{code}")
async def booking_status(key: Reader, code: str) -> Record:
    columns = (*BOOKING_COLUMNS, as_json(_b.timeline))
    rows = await read(sa.select(*columns).where(_b.code == code))
    if not rows:
        raise Refused(404, "not_found", "Booking not found")
    booking, reader = dict(rows[0]), key["owner_id"]
    if reader not in (booking["customer_id"], booking["companion_id"], booking["booked_by"]):
        return {
            "booking": {name: booking[name] for name in ("booking_code", "status", "event_date")}
        }
    return {"booking": _with_timeline(booking, booking["timeline"])}


def _with_timeline(booking: Record, timeline: Sequence[Record]) -> Record:
    """The record of a booking; the timeline is stored with `was` in place of `from`."""
    names = ("to", "trigger", "actor", "reason")
    entries = [
        {"at": each["at"], "from": each["was"], **{name: each[name] for name in names}}
        for each in timeline
    ]
    return {**booking, "timeline": entries}


class BookingRequest(BaseModel):
    companion_id: int
    event_date: dt.date
    start_time: Annotated[str, Field(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")]
    duration_hours: Annotated[int, Field(ge=1, le=24)]
    service_type: str
    location: str
    customer_email: str


@app.post("/api/v1/bookings", status_code=201)
async def create_booking(key: Booker, wanted: BookingRequest) -> Record:
    async with engine.begin() as connection:
        row = await _decide_booking(connection, wanted, key["owner_id"])
        booking = await _store_booking(connection, row)
    return {"success": True, "booking": _with_timeline(booking, json.loads(row["timeline"]))}


async def _decide_booking(
    connection: AsyncConnection, wanted: BookingRequest, owner_id: int
) -> Record:
    """The row of a new booking."""
    user = accounts.users.c
    is_customer = sa.and_(
        user.email_folded == wanted.customer_email.casefold(),
        user.role == "customer",
        user.disabled_at.is_(None),
    )
    context = sa.select(
        *(bookings.booking_numbers.next_value().label("number"), _c.hourly_rate, _c.daily_rate),
        *((_c.first_name + " " + _c.last_name).label("name"), as_json(_c.service_types)),
        *(as_json(_c.calendar), user.id.label("customer_id")),
        (user.first_name + " " + user.last_name).label("customer_name"),
    )
    context = context.outerjoin_from(companions.companions, accounts.users, is_customer)
    context = context.where(_c.id == wanted.companion_id, _is_listed)
    found = (await connection.execute(context)).mappings().one_or_none()
    if found is None:
        raise Refused(404, "not_found", "Companion not found")
    hours, folded = wanted.duration_hours, fold(wanted.service_type)
    zone, clock = ZoneInfo(found["calendar"]["timezone"]), dt.time.fromisoformat(wanted.start_time)
    starts_at = dt.datetime.combine(wanted.event_date, clock, zone).astimezone(dt.UTC)
    ends_at, now = starts_at + dt.timedelta(hours=hours), dt.datetime.now(dt.UTC)
    service = next((each for each in found["service_types"] if fold(each) == folded), None)
    if service is None or found["customer_id"] is None or starts_at <= now:
        raise Refused(422, "invalid_field", "The service, the customer or the time is not valid")
    overlapping = sa.exists().where(
        _b.companion_id == wanted.companion_id,
        _b.status.in_(("accepted", "disputed", "paid")),
        _b.starts_at < ends_at,
        _b.ends_at > starts_at,
    )
    is_taken = (await connection.execute(sa.select(overlapping))).scalar_one()
    if reason := _unavailability(found["calendar"], wanted, is_taken):
        message = "The companion is not free at that time"
        raise Refused(400, "companion_unavailable", message, reason=reason)
    price = found["hourly_rate"] * hours
    if found["daily_rate"] is not None and hours >= 8:
        price = min(price, found["daily_rate"])
    fee = (price * 15 + 50) // 100
    entry = {"at": _text(now), "was": None, "to": "pending", "trigger": "request"}
    return {
        **wanted.model_dump(exclude={"customer_email"}),
        "id": found["number"],
        "code": f"BK{_random_text(12)}",
        "status": "pending",
        "companion_name": found["name"],
        "customer_id": found["customer_id"],
        "customer_name": found["customer_name"],
        "booked_by": owner_id,
        "service_type": service,
        "timezone": zone.key,
        "starts_at": starts_at,
        "ends_at": ends_at,
        "currency": "usd",
        "price": price,
        "fee_ppm": 150_000,
        "platform_fee": fee,
        "payout_amount": price - fee,
        "created_at": now,
        "timeline": json.dumps([{**entry, "actor": "api", "reason": None}]),
        **dict.fromkeys(("cancellation_insurance", "priority"), False),
        **dict.fromkeys(("payment_status", "payout_status"), "none"),
        **dict.fromkeys(("version", "events"), 1),
        **dict.fromkeys(("insurance_premium", "escrow", "refunded_amount", "paid_out"), 0),
        **dict.fromkeys(("owed_by_staff", "orders", "settlements", "chargeback_amount"), 0),
    }


def _unavailability(calendar: Record, wanted: BookingRequest, is_taken: bool) -> str | None:
    day, weekday = wanted.event_date.isoformat(), wanted.event_date.weekday()
    slots = [each["slot"] for each in calendar["weekly"] if each["weekday"] == weekday]
    overrides = [each["slots"] for each in calendar["overrides"] if each["date"] == day]
    if overrides:
        [slots] = overrides
    start = 60 * int(wanted.start_time[:2]) + int(wanted.start_time[3:])
    end = start + 60 * wanted.duration_hours
    is_open = not (overrides or calendar["weekly"])  # Without hours, all of each day is free.
    if not is_open and not any(each["start"] <= start and end <= each["end"] for each in slots):
        return "outside_hours" if slots else "day_off"
    return "booked" if is_taken else None


async def _store_booking(connection: AsyncConnection, row: Record) -> Record:
    """Insert a booking with its timer, event and notice; its record."""
    added = sa.insert(bookings.bookings).values(row).returning(*BOOKING_COLUMNS)
    booking = dict((await connection.execute(added)).mappings().one())
    number, now = row["id"], row["created_at"]
    due = sa.insert(bookings.timers).values(
        booking_id=number, kind="expire", due_at=row["starts_at"], attempts=0
    )
    await connection.execute(due)
    event = {
        "id": f"evt_{_random_text(26)}",
        "event": "booking.created",
        "created_at": _text(now),
        "api_version": "v1",
        "sequence": 1,
        "data": {"booking": booking},
    }
    parties = sorted((row["customer_id"], row["companion_id"], row["booked_by"]))
    published = sa.insert(bookings.events).values(
        booking_id=number,
        sequence=1,
        id=event["id"],
        name=event["event"],
        created_at=now,
        parties=json.dumps(parties),
        body=to_json(event),
    )
    await connection.execute(published)
    told = sa.insert(notifications.notices).values(
        user_id=row["companion_id"],
        kind="request",
        subject=f"New request {row['code']}",
        text=f"{row['customer_name']} would like to book you: {row['service_type']}, "
        f"{row['event_date']} at {row['start_time']} ({row['timezone']}), {row['duration_hours']} "
        f"h. You would be paid {row['payout_amount'] / 100:.2f} USD.",
        link=f"/bookings/{number}/return",
        at=now,
        due_at=now,
        attempts=0,
    )
    await connection.execute(told)
    return booking


def _text(at: dt.datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


def _random_text(length: int) -> str:
    return "".join(choice(CROCKFORD_ALPHABET) for _ in range(length))


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]), log_level="warning", access_log=False)
