"""Generated companions for search tests, and a brute-force search as the reference."""

from __future__ import annotations

import random
import unicodedata
from datetime import date
from decimal import ROUND_HALF_UP, Decimal
from functools import cache

from attrs import evolve

from staffbooking_adapters.testing.builders import make_calendar, make_companion, make_new_user
from staffbooking_core.domain.accounts.users import Role
from staffbooking_core.domain.companions.availability import DateOverride, Slot, has_free_hour
from staffbooking_core.domain.companions.companion import Approval

LOCATIONS = [
    ("São Paulo", "Brasil"),
    ("Sa\N{COMBINING TILDE}o Tomé", "São Tomé"),
    ("İstanbul", "Türkiye"),
    ("ISTANBUL", "TÜRKIYE"),
    ("Straße", "Österreich"),
    ("STRASSE", "ÖSTERREICH"),
    ("100% Town", "Somewhere"),
    ("1000 Town", "some_where"),
    ("New York", "United States"),
    ("York", "United Kingdom"),
    ("Άργος", "Ελλάς"),
    ("東京", "日本"),
    ("Back\\slash", 'O\'Neil "land"'),
    ("", "Monaco"),
]
SERVICES = ["Gala dinner", "GALA DINNER", "gala", "Größe", "GRÖSSE", "Trade, fair"]


OVERRIDE_DATES = (date(2027, 3, 1), date(2027, 3, 6))
"""A Monday and a Saturday on which some companions have an override."""


@cache
def fold_text(text):
    return unicodedata.normalize("NFC", text).casefold()


@cache
def fold_place(text):
    decomposed = unicodedata.normalize("NFD", fold_text(text))
    return "".join(each for each in decomposed if unicodedata.combining(each) < 200)


def make_companions(seed, count=60):
    """Generated companions, the same for the same seed."""
    rng = random.Random(seed)
    for number in range(count):
        city, country = LOCATIONS[number % len(LOCATIONS)]
        reviews = rng.choice([0, 0, 1, 2, 3, 8, 200])
        yield make_companion(
            first_name=f"N{number}",
            location_city=city,
            location_country=country,
            hourly_rate=rng.choice([1, 4_999, 5_000, 5_001, 20_000]),
            service_types=tuple(rng.sample(SERVICES, rng.randint(0, 3))),
            calendar=make_calendar(
                days=rng.choice([(), range(5), (5, 6), (0,)]), overrides=make_overrides(rng)
            ),
            total_reviews=reviews,
            rating_sum=sum(rng.randint(1, 5) for _ in range(reviews)),
            approval=rng.choice([Approval.APPROVED] * 6 + [Approval.PENDING]),
            active=rng.random() < 0.9,
        )


def make_overrides(rng):
    kinds = {day: rng.choice("same same free busy".split()) for day in OVERRIDE_DATES}
    slots = {"free": (Slot(600, 720),), "busy": ()}
    return tuple(DateOverride(day, slots[kind]) for day, kind in kinds.items() if kind in slots)


async def add_companions(store, companions):
    """Add companions with their users in one transaction."""

    async def unit(tx):
        added = []
        for companion in companions:
            new = make_new_user(role=Role.STAFF)
            user = await tx.accounts.add_user(new)
            added.append(evolve(companion, id=user.id))
            await tx.companions.save_companion(added[-1])
        return added

    return await store.run_transaction(unit)


def brute_force_search(companions, query):
    """The ids that a search must give, in order, by filtering all companions."""
    found = [companion for companion in companions if matches_query(companion, query)]
    return [companion.id for companion in sorted(found, key=rank_key)]


def matches_query(companion, query):
    places = [fold_place(companion.location_city), fold_place(companion.location_country)]
    services = [fold_text(name) for name in companion.service_types]
    return (
        companion.active
        and companion.approval is Approval.APPROVED
        and (query.location is None or any(fold_place(query.location) in name for name in places))
        and (query.service is None or fold_text(query.service) in services)
        and (query.min_price is None or companion.hourly_rate >= query.min_price)
        and (query.max_price is None or companion.hourly_rate <= query.max_price)
        and (query.date is None or has_free_hour(companion.calendar, (), query.date))
    )


def rank_key(companion):
    reviews = companion.total_reviews
    average = Decimal(companion.rating_sum) / reviews if reviews else Decimal(0)
    return -average.quantize(Decimal("0.01"), ROUND_HALF_UP), -reviews, companion.id
