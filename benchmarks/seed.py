"""Fills a new database with a dataset by COPY, with the same rows that the store would write."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import asyncpg
from attrs import asdict, fields
from sqlalchemy import Table

from benchmarks.dataset import BENCHMARK_POLICY, ONE_DAY, BenchmarkDataset, staff_user
from staffbooking_adapters import codec
from staffbooking_adapters.sql.schema import accounts, bookings, companions
from staffbooking_adapters.sql.schema.upgrade import run_migrations
from staffbooking_adapters.sql.store import open_store
from staffbooking_core.domain.accounts.api_keys import digest_api_key, mask_api_key
from staffbooking_core.domain.accounts.users import User, normalize_email
from staffbooking_core.domain.bookings.booking import Booking, TimelineEntry, TransitionResult
from staffbooking_core.domain.bookings.lifecycle import EventName
from staffbooking_core.domain.bookings.refunds import Refund
from staffbooking_core.domain.bookings.timers import next_timer
from staffbooking_core.domain.companions.availability import Calendar, Interval
from staffbooking_core.domain.companions.companion import Companion, normalize_place, normalize_text
from staffbooking_core.domain.companions.search_index import find_marked_days, weekday_mask
from staffbooking_core.representations.companions import companion_detail, companion_summary
from staffbooking_core.representations.events import booking_event
from tests.support.postgres import PostgresServer, driver_url

Row: TypeAlias = Mapping[str, Any]

STORE_CHECK_SAMPLE = 25
"""Number of companions and of bookings that are checked against the store."""

NUMBERED_TABLES = ("users", "api_keys", "locations", "services")


async def fill_database(server: PostgresServer, world: BenchmarkDataset) -> str:
    """Create a database with the dataset and return its URL."""
    url = await server.create_database("benchmark")
    await run_migrations(url)
    connection = await asyncpg.connect(driver_url(url))
    try:
        for table, rows in _rows(world):
            await _copy_rows(connection, table, rows)
        await _continue_numbers(connection)
        await _check_against_store(url, connection, world)
        await connection.execute("VACUUM (ANALYZE)")
        await connection.execute("CHECKPOINT")
    finally:
        await connection.close()
    return url


async def _copy_rows(connection: Any, table: Table, rows: Iterable[Row]) -> None:
    names = [column.name for column in table.columns]
    rows = list(rows)
    if rows:
        names = [name for name in names if name in rows[0]]
        records = [[row[name] for name in names] for row in rows]
        await connection.copy_records_to_table(table.name, records=records, columns=names)


async def _continue_numbers(connection: Any) -> None:
    """Set the sequences as if the rows had been inserted one by one."""
    for table in NUMBERED_TABLES:
        await connection.execute(
            f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), max(id)) FROM {table}"
        )
    await connection.execute("SELECT setval('booking_numbers', max(id)) FROM bookings")


def _rows(world: BenchmarkDataset) -> Iterator[tuple[Table, Iterable[Row]]]:
    people = [*world.owners, *world.customers, *map(staff_user, world.companions)]
    yield accounts.users, map(_user, people)
    yield accounts.api_keys, _keys(world)
    places = _numbered((_location_row(companion) for companion in world.companions), 1)
    named = _numbered(
        (normalize_text(name) for c in world.companions for name in c.service_types), 1
    )
    yield (
        companions.locations,
        (
            {"id": number, "city_folded": city, "country_folded": country}
            for (city, country), number in places.items()
        ),
    )
    yield companions.services, ({"id": number, "name_folded": n} for n, number in named.items())
    yield companions.companions, map(_companion, world.companions)
    listed = [companion for companion in world.companions if companion.is_listed]
    yield (
        companions.companion_search,
        (row for companion in listed for row in _search(companion, places, named)),
    )
    yield companions.companion_days, _day_rows(world)
    yield bookings.bookings, map(_booking, world.bookings)
    yield bookings.timers, filter(None, map(_timer, world.bookings))
    yield bookings.events, map(_event, world.bookings)


def _numbered(names: Iterable[Any], first: int) -> dict[Any, int]:
    return {name: number for number, name in enumerate(dict.fromkeys(names), first)}


# Users --------------------------------------------------------------------------------------


def _user(user: User) -> Row:
    return {**asdict(user, recurse=False), "email_folded": normalize_email(user.email)}


def _keys(world: BenchmarkDataset) -> Iterator[Row]:
    for number, (owner, key) in enumerate(zip(world.owners, world.api_keys, strict=True), 1):
        yield {
            "id": number,
            "owner_id": owner.id,
            "name": "Benchmark",
            "digest": digest_api_key(key).hex(),
            "masked_key": mask_api_key(key),
            "permissions": "book,read",
            "created_at": world.now - ONE_DAY,
        }


# Companions ---------------------------------------------------------------------------------


def _location_row(companion: Companion) -> tuple[str, str]:
    return normalize_place(companion.location_city), normalize_place(companion.location_country)


def _companion(companion: Companion) -> Row:
    lists = {
        name: codec.encode(list(getattr(companion, name))).decode()
        for name in ("service_types", "languages", "badges")
    }
    return {
        **asdict(companion, recurse=False),
        **lists,
        "calendar": _calendar(companion.calendar),
        "summary": codec.encode(companion_summary(companion, BENCHMARK_POLICY.currency)),
        "detail": codec.encode(companion_detail(companion, BENCHMARK_POLICY.currency)),
    }


def _search(
    companion: Companion, places: Mapping[tuple[str, str], int], named: Mapping[str, int]
) -> Iterator[Row]:
    """A row for each service, and one with number 0 for any service."""
    spelled = [(0, ""), *((named[normalize_text(name)], name) for name in companion.service_types)]
    for number, spelling in spelled:
        yield {
            "service_id": number,
            "companion_id": companion.id,
            "location_id": places[_location_row(companion)],
            "rank": -(int(companion.rating_avg * 100) << 40) - companion.total_reviews,
            "hourly_rate": companion.hourly_rate,
            "weekday_mask": _weekday_mask(companion.calendar),
            "spelling": spelling,
        }


_calendar = lru_cache(maxsize=10_000)(codec.dump)
_weekday_mask = lru_cache(maxsize=10_000)(weekday_mask)


def _day_rows(world: BenchmarkDataset) -> Iterator[Row]:
    busy: dict[int, list[Interval]] = defaultdict(list)
    for booking in world.bookings:
        if booking.holds_slot:
            busy[booking.companion_id].append(Interval(booking.starts_at, booking.ends_at))
    for companion in world.companions:
        hours: Calendar = companion.calendar
        if hours.overrides or companion.id in busy:
            for day, free in find_marked_days(hours, busy[companion.id]).items():
                yield {"companion_id": companion.id, "day": day, "free": free}


# Bookings -----------------------------------------------------------------------------------


def _booking(booking: Booking) -> Row:
    row = {field.name: getattr(booking, field.name) for field in fields(Booking)}
    return {
        **row,
        "timeline": codec.dump(booking.timeline, tuple[TimelineEntry, ...]),
        "refunds": codec.dump(booking.refunds, tuple[Refund, ...]),
    }


def _timer(booking: Booking) -> Row | None:
    next_one = next_timer(booking, BENCHMARK_POLICY)
    if next_one is None:
        return None
    named = {"kind": next_one.kind, "due_at": next_one.at, "attempts": 0}
    return {"booking_id": booking.id, **named}


def _event(booking: Booking) -> Row:
    event = booking_event(
        f"evt_{booking.id:026d}",
        None,
        TransitionResult(booking, EventName.BOOKING_CREATED),
        booking.created_at,
        BENCHMARK_POLICY,
    )
    return {
        "booking_id": booking.id,
        "sequence": event.sequence,
        "id": event.id,
        "name": event.name,
        "created_at": event.created_at,
        "parties": codec.encode(list(event.parties)).decode(),
        "body": codec.encode(event.envelope),
    }


# Check --------------------------------------------------------------------------------------


async def _check_against_store(url: str, connection: Any, world: BenchmarkDataset) -> None:
    """Check that saving a sample of companions by the store changes nothing, and that it reads
    bookings equal to the dataset."""
    checked = world.companions[:: max(1, len(world.companions) // STORE_CHECK_SAMPLE)]
    before = await _stored_rows(connection, checked)
    store = await open_store(url, BENCHMARK_POLICY)
    try:
        for companion in checked:
            await store.run_transaction(
                lambda unit, saved=companion: unit.companions.save_companion(saved)  # type: ignore[misc]
            )
        async with store.read_view() as view:
            for booking in world.bookings[:: max(1, len(world.bookings) // STORE_CHECK_SAMPLE)]:
                if await view.bookings.booking(booking.id) != booking:
                    raise AssertionError(f"the store reads booking {booking.id} otherwise")
    finally:
        await store.close()
    after = await _stored_rows(connection, checked)
    if before != after:
        raise AssertionError("the store writes companions otherwise than the seed")


async def _stored_rows(connection: Any, companions: Sequence[Companion]) -> list[Any]:
    ids = [companion.id for companion in companions]
    return [
        sorted(await connection.fetch(f"SELECT * FROM {table} WHERE {key} = ANY ($1)", ids))
        for table, key in (
            ("companions", "id"),
            ("companion_search", "companion_id"),
            ("companion_days", "companion_id"),
        )
    ]
