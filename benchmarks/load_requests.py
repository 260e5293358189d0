"""The requests of the load: each operation with realistically varied parameters."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from random import Random
from typing import TypeAlias
from urllib.parse import urlencode

from attrs import frozen

from benchmarks.dataset import (
    BOOKED_AHEAD_DAYS,
    LOCATIONS,
    SERVICES,
    BenchmarkDataset,
    next_working_day,
)
from benchmarks.load_generator import LoadRequest

ONE_DAY = timedelta(days=1)
REQUESTS_PER_OPERATION = 2_000
"""Different requests of an operation; connections repeat them."""


@frozen
class LoadRequestSpec:
    path: str
    body: str = ""
    """The body of a POST; empty for a GET."""
    required_key: str | None = None
    """The API key to use; None for any key."""


RequestMaker: TypeAlias = Callable[[BenchmarkDataset, Random], LoadRequestSpec]


def make_search(world: BenchmarkDataset, dice: Random) -> LoadRequestSpec:
    """A search without filters; every third request asks for a later page."""
    page = dice.choice((1, 1, 1, 1, 2, 3))
    return LoadRequestSpec("/api/v1/companions" if page == 1 else f"/api/v1/companions?page={page}")


def make_filtered_search(world: BenchmarkDataset, dice: Random) -> LoadRequestSpec:
    """A search by part of a city name, a service, a range of prices and a date."""
    city, _, _ = dice.choice(LOCATIONS)
    low = 10 * dice.randint(3, 12)
    asked = {
        "location": dice.choice((city, city.lower(), city[:4], city[1:])).strip(),
        "service": dice.choice(SERVICES),
        "min_price": low,
        "max_price": low + 10 * dice.randint(5, 15),
        "date": world.today + dice.randint(2, BOOKED_AHEAD_DAYS) * ONE_DAY,
    }
    return LoadRequestSpec(f"/api/v1/companions?{urlencode(asked)}")


def make_detail(world: BenchmarkDataset, dice: Random) -> LoadRequestSpec:
    companion = dice.choice(world.companions)
    while not companion.is_listed:
        companion = dice.choice(world.companions)
    return LoadRequestSpec(f"/api/v1/companions/{companion.id}")


def make_status(world: BenchmarkDataset, dice: Random) -> LoadRequestSpec:
    """The status of a booking; three of four requests use the key that booked, which alone gets the
    whole record."""
    booking = dice.choice(world.bookings)
    own = None if dice.random() < 0.25 else world.api_key_by_owner[booking.booked_by]
    return LoadRequestSpec(f"/api/v1/bookings/{booking.code}", required_key=own)


def make_creation(world: BenchmarkDataset, dice: Random) -> LoadRequestSpec:
    """A booking request that can be repeated, since no booking is accepted."""
    companion, when = dice.choice(world.companions), None
    while not companion.is_listed or when is None:
        companion = dice.choice(world.companions)
        when = next_working_day(
            companion, world.today + dice.randint(BOOKED_AHEAD_DAYS, 300) * ONE_DAY
        )
    day, hour = when
    wanted = {
        "companion_id": companion.id,
        "event_date": day.isoformat(),
        "start_time": f"{hour:02d}:{dice.choice((0, 15, 30)):02d}",
        "duration_hours": dice.randint(1, 4),
        "service_type": dice.choice(companion.service_types),
        "location": "Convention centre, hall 3",
        "customer_email": dice.choice(world.customers).email,
    }
    return LoadRequestSpec("/api/v1/bookings", json.dumps(wanted))


OPERATIONS: dict[str, RequestMaker] = {
    "search": make_search,
    "filter": make_filtered_search,
    "detail": make_detail,
    "status": make_status,
    "create": make_creation,
}
OPERATION_MIX = {"search": 30, "filter": 30, "detail": 25, "status": 10, "create": 5}
"""Shares of the operations in percent."""


def make_requests(world: BenchmarkDataset) -> dict[str, Sequence[LoadRequest]]:
    """The requests of each operation and of the mix, as HTTP text."""
    made: dict[str, Sequence[LoadRequest]] = {}
    for name, maker in OPERATIONS.items():
        dice = Random(name)
        asked = [maker(world, dice) for _ in range(REQUESTS_PER_OPERATION)]
        made[name] = [
            _to_load_request(each, each.required_key or dice.choice(world.api_keys))
            for each in asked
        ]
    dice = Random("mix")
    names = dice.choices(
        list(OPERATION_MIX), list(OPERATION_MIX.values()), k=2 * REQUESTS_PER_OPERATION
    )
    made["mix"] = [dice.choice(made[name]) for name in names]
    return made


def make_refused_requests(world: BenchmarkDataset) -> Sequence[LoadRequest]:
    """Requests for the times of accepted bookings."""
    taken = [booking for booking in world.bookings if booking.holds_slot]
    return [
        _to_load_request(LoadRequestSpec("/api/v1/bookings", json.dumps(wanted)), key, 400)
        for booking, key in zip(taken, world.api_keys, strict=False)
        for wanted in [
            {
                "companion_id": booking.companion_id,
                "event_date": booking.event_date.isoformat(),
                "start_time": booking.start_time,
                "duration_hours": 1,
                "service_type": booking.service_type,
                "location": booking.location,
                "customer_email": world.customers[0].email,
            }
        ]
    ]


def _to_load_request(ask: LoadRequestSpec, key: str, refusal: int | None = None) -> LoadRequest:
    method, status = ("POST", refusal or 201) if ask.body else ("GET", 200)
    head = f"{method} {ask.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\n"
    if ask.body:
        head += f"Content-Type: application/json\r\nContent-Length: {len(ask.body)}\r\n"
    return LoadRequest(status, f"{head}\r\n{ask.body}")
