"""The sample companions: the same people each time, with days off from today on."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from datetime import date, timedelta
from random import Random
from typing import Any

from staffbooking_cli.sample.places import PEOPLES, PLACES, Place
from staffbooking_cli.sample.trades import HOURS, TRADES, Trade

SEED = 20270301
PER_PLACE = 7
PENDING = 0.06
"""The share that waits for an admin's approval."""

PASSWORD = "demo-password-1"
STAFF_EMAIL = "staff@demo.test"
GUIDE_SERVICE = "Bartender"
"""What the printed lines book of the first staff member, who is free at any time."""
KNOWN_STAFF = {
    "Lisbon": STAFF_EMAIL,
    "London": "staff.london@demo.test",
    "New York": "staff.newyork@demo.test",
    "Tokyo": "staff.tokyo@demo.test",
    "Sydney": "staff.sydney@demo.test",
}
"""One staff member each of these cities has a password."""

_TIERS = (("standard", 1.0), ("standard", 1.0), ("standard", 1.1), ("premium", 1.3), ("elite", 1.7))
_PLAIN = str.maketrans({"ø": "o", "ł": "l", "ß": "ss", "’": ""})


def companions(today: date) -> Iterator[dict[str, Any]]:
    """Rows as `companions import` takes them. Free days are counted from `today`."""
    random = Random(SEED)
    taken: set[str] = set()
    for place in PLACES:
        trades = random.sample(TRADES, PER_PLACE)
        for number, trade in enumerate(trades):
            known = KNOWN_STAFF.get(place.city) if number == 0 else None
            yield _companion(random, place, TRADES[0] if known else trade, known, taken, today)


def _companion(
    random: Random, place: Place, trade: Trade, known: str | None, taken: set[str], today: date
) -> dict[str, Any]:
    people = PEOPLES[place.people]
    first, last, email = _name(random, place, taken)
    tier, factor = random.choice(_TIERS)
    rate = max(5, round(trade.rate * place.level * factor * random.uniform(0.85, 1.2)))
    others = random.sample(trade.also, random.randint(0, len(trade.also)))
    speaks = people.languages[: random.randint(1, len(people.languages))]
    if "Interpreter" in (trade.name, *others):
        speaks = people.languages
    row = {
        "email": known or email,
        "first_name": first,
        "last_name": last,
        "tagline": random.choice(trade.taglines),
        "bio": random.choice(trade.bios).format(city=place.city, years=random.randint(3, 18)),
        "hourly_rate": rate,
        "daily_rate": round(rate * random.uniform(6.2, 7.4)) if random.random() < 0.85 else None,
        "location_city": place.city,
        "location_country": place.country,
        "timezone": place.timezone,
        "service_types": [trade.name, *others],
        "languages": list(speaks),
        "tier": tier,
        "badges": _badges(random, tier),
        "weekly": _weekly(random, trade),
        "overrides": _overrides(random, today),
        "approved": random.random() >= PENDING,
    }
    if known is not None:
        row |= {"password": PASSWORD, "weekly": [], "overrides": [], "approved": True}
    return row


def _name(random: Random, place: Place, taken: set[str]) -> tuple[str, str, str]:
    people = PEOPLES[place.people]
    while True:
        first, last = random.choice(people.first_names), random.choice(people.last_names)
        email = f"{_ascii(first)}.{_ascii(last)}@demo.test"
        if email not in taken:
            taken.add(email)
            return first, last, email


def _ascii(name: str) -> str:
    """How a name is spelled in an address."""
    plain = unicodedata.normalize("NFKD", name.lower().translate(_PLAIN))
    return plain.encode("ascii", "ignore").decode()


def _badges(random: Random, tier: str) -> list[str]:
    shares = {"verified": 0.8, "background_checked": 0.4, "fast_responder": 0.3}
    badges = [name for name, share in shares.items() if random.random() < share]
    return [*badges, "rising_star"] if tier == "premium" and random.random() < 0.5 else badges


def _weekly(random: Random, trade: Trade) -> list[dict[str, Any]]:
    hours = random.choice((trade.hours, trade.hours, trade.hours, "any", "weekends"))
    return [{"weekday": day, "start": start, "end": end} for day, start, end in HOURS[hours]]


def _overrides(random: Random, today: date) -> list[dict[str, Any]]:
    """A few days off in the next two months, and sometimes one of special hours."""
    days = random.sample(range(3, 60), random.randint(0, 4))
    off: list[dict[str, Any]] = [
        {"date": (today + timedelta(days=day)).isoformat(), "slots": []} for day in sorted(days)
    ]
    if off and random.random() < 0.3:
        off[0]["slots"] = [{"start": "10:00", "end": "14:00"}]
    return off
