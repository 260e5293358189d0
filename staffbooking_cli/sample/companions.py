"""The sample companions: generated from a fixed seed, with days off relative to today."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from datetime import date, timedelta
from random import Random
from typing import Any

from attrs import frozen

from staffbooking_cli.sample.art.portraits import Look
from staffbooking_cli.sample.places import CITIES, NAME_POOLS, City
from staffbooking_cli.sample.trades import TRADES, WEEKLY_HOURS, Trade

_SEED = 20270301
_COMPANIONS_PER_CITY = 7
_PENDING_SHARE = 0.06
"""The share of companions that are pending approval."""

PASSWORD = "demo-password-1"
STAFF_EMAIL = "staff@demo.test"
GUIDE_SERVICE = "Bartender"
"""The service that the printed commands book; the first staff member is free at any time."""
KNOWN_STAFF = {
    "Lisbon": STAFF_EMAIL,
    "London": "staff.london@demo.test",
    "New York": "staff.newyork@demo.test",
    "Tokyo": "staff.tokyo@demo.test",
    "Sydney": "staff.sydney@demo.test",
}
"""The staff members with a password, one in each of these cities."""
FEATURED_CITIES = ("Lisbon", "Porto", "London", "Berlin", "Zurich", "São Paulo")
"""The cities whose staff members have portraits, portfolios and reviews, as `KNOWN_STAFF` has."""

_TIERS = (("standard", 1.0), ("standard", 1.0), ("standard", 1.1), ("premium", 1.3), ("elite", 1.7))
_PRACTICAL_TEXTS = (
    "I live in {city} and travel up to an hour without a fee.",
    "I like to talk through the plan a few days before, and I arrive half an hour early.",
    "Insured, and happy to send references from {city}.",
    "Small dinners and big halls are both fine; tell me what matters most to you.",
    "I answer within a few hours, also at weekends.",
)
"""Closing sentences of a bio, with {city}."""
_PLAIN_LETTERS = str.maketrans({"ø": "o", "ł": "l", "ß": "ss", "’": ""})


@frozen
class SamplePerson:
    """A sample companion."""

    row: dict[str, Any]
    """In the format of `companions import`."""
    look: Look
    years: int
    """Years of experience."""

    @property
    def email(self) -> str:
        return str(self.row["email"])

    @property
    def is_featured(self) -> bool:
        """Whether the person has a portrait, a portfolio and reviews."""
        in_city = self.row["location_city"] in FEATURED_CITIES
        return self.row["approved"] and (in_city or self.email in KNOWN_STAFF.values())


def sample_companions(today: date) -> list[SamplePerson]:
    """All sample companions. Days off are relative to `today`."""
    return list(_generate_companions(today))


def _generate_companions(today: date) -> Iterator[SamplePerson]:
    random = Random(_SEED)
    taken: set[tuple[str, str]] = set()
    for city in CITIES:
        trades = random.sample(TRADES, _COMPANIONS_PER_CITY)
        names = _pick_names(random, city, taken)
        for number, (trade, name) in enumerate(zip(trades, names, strict=True)):
            known = KNOWN_STAFF.get(city.name) if number == 0 else None
            yield _sample_companion(random, city, TRADES[0] if known else trade, known, name, today)


def _sample_companion(
    random: Random,
    city: City,
    trade: Trade,
    known_email: str | None,
    name: tuple[str, str],
    today: date,
) -> SamplePerson:
    people = NAME_POOLS[city.name_pool]
    first, last = name
    tier, factor = random.choice(_TIERS)
    rate = max(5, round(trade.hourly_rate * city.price_level * factor * random.uniform(0.85, 1.2)))
    others = random.sample(trade.other_services, random.randint(0, len(trade.other_services)))
    speaks = people.languages[: random.randint(1, len(people.languages))]
    if "Interpreter" in (trade.name, *others):
        speaks = people.languages
    years = random.randint(3, 18)
    bio = f"{random.choice(trade.bios)}\n\n{random.choice(_PRACTICAL_TEXTS)}"
    row = {
        "email": known_email or _email_address(name),
        "first_name": first,
        "last_name": last,
        "tagline": random.choice(trade.taglines),
        "bio": bio.format(city=city.name, years=years),
        "hourly_rate": rate,
        "daily_rate": round(rate * random.uniform(6.2, 7.4)) if random.random() < 0.85 else None,
        "location_city": city.name,
        "location_country": city.country,
        "timezone": city.timezone,
        "service_types": [trade.name, *others],
        "languages": list(speaks),
        "tier": tier,
        "badges": _pick_badges(random, tier),
        "weekly": _pick_weekly(random, trade),
        "overrides": _pick_overrides(random, today),
        "approved": random.random() >= _PENDING_SHARE,
    }
    if known_email is not None:
        row |= {"password": PASSWORD, "weekly": [], "overrides": [], "approved": True}
    feminine = people.first_names.index(first) < len(people.first_names) // 2
    return SamplePerson(row, Look(city.name_pool, feminine, trade.name), years)


def _pick_names(random: Random, city: City, taken: set[tuple[str, str]]) -> list[tuple[str, str]]:
    """First and last names of a city's people, who share neither; nobody elsewhere has both."""
    people = NAME_POOLS[city.name_pool]
    while True:
        first_names = random.sample(people.first_names, _COMPANIONS_PER_CITY)
        last_names = random.sample(people.last_names, _COMPANIONS_PER_CITY)
        names = list(zip(first_names, last_names, strict=True))
        if not taken.intersection(names):
            taken.update(names)
            return names


def _email_address(name: tuple[str, str]) -> str:
    return f"{'.'.join(map(_ascii_name, name))}@demo.test"


def _ascii_name(name: str) -> str:
    """A name in ASCII, for an e-mail address."""
    plain = unicodedata.normalize("NFKD", name.lower().translate(_PLAIN_LETTERS))
    return plain.encode("ascii", "ignore").decode()


def _pick_badges(random: Random, tier: str) -> list[str]:
    shares = {"verified": 0.8, "background_checked": 0.4, "fast_responder": 0.3}
    badges = [name for name, share in shares.items() if random.random() < share]
    return [*badges, "rising_star"] if tier == "premium" and random.random() < 0.5 else badges


def _pick_weekly(random: Random, trade: Trade) -> list[dict[str, Any]]:
    hours = random.choice((trade.hours_name, trade.hours_name, trade.hours_name, "any", "weekends"))
    return [{"weekday": day, "start": start, "end": end} for day, start, end in WEEKLY_HOURS[hours]]


def _pick_overrides(random: Random, today: date) -> list[dict[str, Any]]:
    """A few days off in the next two months; the first may have special hours instead."""
    days = random.sample(range(3, 60), random.randint(0, 4))
    off: list[dict[str, Any]] = [
        {"date": (today + timedelta(days=day)).isoformat(), "slots": []} for day in sorted(days)
    ]
    if off and random.random() < 0.3:
        off[0]["slots"] = [{"start": "10:00", "end": "14:00"}]
    return off
