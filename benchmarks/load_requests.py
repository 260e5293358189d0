"""What the load asks for: each operation with filters and names that vary believably."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from random import Random
from typing import TypeAlias
from urllib.parse import urlencode

from attrs import frozen

from benchmarks.dataset import BOOKED_AHEAD, PLACES, SERVICES, World, working_day
from benchmarks.load_generator import Request

DAY = timedelta(days=1)
VARIANTS = 2_000
"""Different requests of an operation; connections go through them round and round."""


@frozen
class Ask:
    path: str
    body: str = ""
    """A POST's; none for a GET."""
    key: str | None = None
    """Whose it must be; None: anybody's."""


Maker: TypeAlias = Callable[[World, Random], Ask]


def search(world: World, dice: Random) -> Ask:
    """No filter; every third request turns pages."""
    page = dice.choice((1, 1, 1, 1, 2, 3))
    return Ask("/api/v1/companions" if page == 1 else f"/api/v1/companions?page={page}")


def filtered(world: World, dice: Random) -> Ask:
    """Part of a city's name, a service, a range of prices and a date."""
    city, _, _ = dice.choice(PLACES)
    low = 10 * dice.randint(3, 12)
    asked = {
        "location": dice.choice((city, city.lower(), city[:4], city[1:])).strip(),
        "service": dice.choice(SERVICES),
        "min_price": low,
        "max_price": low + 10 * dice.randint(5, 15),
        "date": world.today + dice.randint(2, BOOKED_AHEAD) * DAY,
    }
    return Ask(f"/api/v1/companions?{urlencode(asked)}")


def detail(world: World, dice: Random) -> Ask:
    companion = dice.choice(world.companions)
    while not companion.is_listed:
        companion = dice.choice(world.companions)
    return Ask(f"/api/v1/companions/{companion.id}")


def status(world: World, dice: Random) -> Ask:
    """Three of four by the key that booked, which alone gets the whole record."""
    booking = dice.choice(world.bookings)
    own = None if dice.random() < 0.25 else world.key_of[booking.booked_by]
    return Ask(f"/api/v1/bookings/{booking.code}", key=own)


def create(world: World, dice: Random) -> Ask:
    """A request that can be honoured, however often it comes: nobody accepts any."""
    companion, when = dice.choice(world.companions), None
    while not companion.is_listed or when is None:
        companion = dice.choice(world.companions)
        when = working_day(companion, world.today + dice.randint(BOOKED_AHEAD, 300) * DAY)
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
    return Ask("/api/v1/bookings", json.dumps(wanted))


OPERATIONS: dict[str, Maker] = {
    "search": search,
    "filter": filtered,
    "detail": detail,
    "status": status,
    "create": create,
}
MIX = {"search": 30, "filter": 30, "detail": 25, "status": 10, "create": 5}
"""Shares in percent."""


def make_requests(world: World) -> dict[str, Sequence[Request]]:
    """The requests of each operation, and of the mix, as they go over the wire."""
    made: dict[str, Sequence[Request]] = {}
    for name, maker in OPERATIONS.items():
        dice = Random(name)
        asked = [maker(world, dice) for _ in range(VARIANTS)]
        made[name] = [_wire(each, each.key or dice.choice(world.keys)) for each in asked]
    dice = Random("mix")
    names = dice.choices(list(MIX), list(MIX.values()), k=2 * VARIANTS)
    made["mix"] = [dice.choice(made[name]) for name in names]
    return made


def _wire(ask: Ask, key: str) -> Request:
    method, status = ("POST", 201) if ask.body else ("GET", 200)
    head = f"{method} {ask.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\n"
    if ask.body:
        head += f"Content-Type: application/json\r\nContent-Length: {len(ask.body)}\r\n"
    return Request(status, f"{head}\r\n{ask.body}")
