"""A realistic deployment as domain values; the same values for the same day and size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta
from itertools import count, islice
from random import Random

from attrs import frozen

from staffbooking_core.domain.accounts.api_keys import (
    API_KEY_RANDOM_LENGTH,
    BASE62_ALPHABET,
    build_api_key,
)
from staffbooking_core.domain.accounts.users import Role, Subscription, User
from staffbooking_core.domain.bookings.booking import (
    Booking,
    CompanionRates,
    PaymentStatus,
    TimelineEntry,
    quote_price,
)
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party, Trigger
from staffbooking_core.domain.companions.availability import (
    Calendar,
    DateOverride,
    Slot,
    WeeklySlot,
    local_time_to_utc,
)
from staffbooking_core.domain.companions.companion import Approval, Badge, Companion, Tier
from staffbooking_core.policy import Policy

BENCHMARK_POLICY = Policy()
OWNER_COUNT = 64
CUSTOMER_COUNT = 2_000
BOOKED_AHEAD_DAYS = 60
"""Days from today that have bookings; bookings of the load are later."""

ONE_DAY = timedelta(days=1)
ONE_HOUR = timedelta(hours=1)

LOCATIONS = [
    *((city, "United Kingdom", "Europe/London") for city in "London Manchester Leeds Bath".split()),
    *((city, "Germany", "Europe/Berlin") for city in "Berlin Hamburg Cologne Munich".split()),
    *((city, "France", "Europe/Paris") for city in "Paris Lyon Marseille Nantes Nice".split()),
    *((city, "Spain", "Europe/Madrid") for city in "Madrid Barcelona Seville Malaga".split()),
    *((city, "Portugal", "Europe/Lisbon") for city in "Lisbon Porto Faro Braga".split()),
    *((city, "Italy", "Europe/Rome") for city in "Rome Milan Turin Naples Florence".split()),
    *((city, "Brazil", "America/Sao_Paulo") for city in ["São Paulo", "Rio de Janeiro", "Recife"]),
    *((city, "United States", "America/New_York") for city in ["New York", "Boston", "Miami"]),
    *((city, "United States", "America/Chicago") for city in ["Chicago", "Dallas", "Houston"]),
    *((city, "United States", "America/Los_Angeles") for city in ["Los Angeles", "San Diego"]),
    *((city, "Canada", "America/Toronto") for city in "Toronto Ottawa Montréal".split()),
    *((city, "Japan", "Asia/Tokyo") for city in "Tokyo Osaka Kyoto Sapporo".split()),
    *((city, "India", "Asia/Kolkata") for city in "Mumbai Delhi Chennai Pune".split()),
    *((city, "Australia", "Australia/Sydney") for city in "Sydney Canberra Newcastle".split()),
    *((city, "South Africa", "Africa/Johannesburg") for city in ["Cape Town", "Durban"]),
    *((city, "Nigeria", "Africa/Lagos") for city in "Lagos Abuja Ibadan".split()),
    ("Auckland", "New Zealand", "Pacific/Auckland"),
    ("Singapore", "Singapore", "Asia/Singapore"),
    ("Dublin", "Ireland", "Europe/Dublin"),
    ("Zürich", "Switzerland", "Europe/Zurich"),
]
"""City, country and time zone; most companions live in the first ones."""

SERVICES = (
    "Gala dinner,Trade fair,Conference,Wedding,Product launch,Festival,City tour,Concierge,"
    "Interpreting,Photography,Catering,Bartending,Security,Childcare,Driving,Hosting"
).split(",")
FIRST_NAMES = (
    "Mia Ada Noor Luca Sofia Jonas Amara Kenji Lena Omar Inês Tomás Zoë Ravi Elin Marco".split()
)
LAST_NAMES = (
    "Lindqvist Okoro Silva Tanaka Rossi Meyer Dubois Patel García Novak Kowalski Smith".split()
)
LANGUAGES = "English Portuguese German French Spanish Italian Japanese Hindi".split()
BIO_TEXT = (
    "Calm, punctual and well prepared; at home at events from ten guests to two thousand. " * 6
)


@frozen
class BenchmarkDataset:
    """The users, companions, keys and bookings of a deployment."""

    now: datetime
    companions: Sequence[Companion]
    bookings: Sequence[Booking]
    owners: Sequence[User]
    """Owners of one key each, at the same index of `api_keys`."""
    customers: Sequence[User]
    api_keys: Sequence[str]

    @property
    def api_key_by_owner(self) -> dict[int | None, str]:
        """API keys by the id of their owner."""
        return {owner.id: key for owner, key in zip(self.owners, self.api_keys, strict=True)}

    @property
    def today(self) -> date:
        return self.now.date()


def make_dataset(companions: int, now: datetime) -> BenchmarkDataset:
    """A dataset of `companions` companions, half as many bookings, and their customers and
    owners."""
    dice = Random(companions)
    # In random order, as in a real deployment, not sorted by any property.
    numbers = dice.sample(
        range(1, OWNER_COUNT + CUSTOMER_COUNT + companions + 1), OWNER_COUNT + CUSTOMER_COUNT
    )
    owners = [_make_user(number, "owner", now) for number in numbers[:OWNER_COUNT]]
    customers = [_make_user(number, "customer", now) for number in numbers[OWNER_COUNT:]]
    taken = set(numbers)
    others = (number for number in count(1) if number not in taken)
    staff = [_make_companion(dice, number, now) for number in islice(others, companions)]
    return BenchmarkDataset(
        now=now,
        companions=staff,
        bookings=list(_make_bookings(dice, staff, customers, owners, now)),
        owners=owners,
        customers=customers,
        api_keys=[
            build_api_key("".join(dice.choices(BASE62_ALPHABET, k=API_KEY_RANDOM_LENGTH)))
            for _ in owners
        ],
    )


def staff_user(companion: Companion) -> User:
    """The account of a companion."""
    return User(
        companion.id,
        f"staff{companion.id}@example.com",
        companion.first_name,
        companion.last_name,
        Role.STAFF,
        companion.member_since,
    )


def _make_user(number: int, kind: str, now: datetime) -> User:
    owner = kind == "owner"
    return User(
        number,
        f"{kind}{number}@example.com",
        FIRST_NAMES[number % len(FIRST_NAMES)],
        LAST_NAMES[number % len(LAST_NAMES)],
        Role.CUSTOMER,
        now - 100 * ONE_DAY,
        subscription=Subscription.ENTERPRISE if owner else Subscription.NONE,
        subscription_expires_at=now + 300 * ONE_DAY if owner else None,
    )


def _make_companion(dice: Random, number: int, now: datetime) -> Companion:
    # The lower of two draws: a third of all companions lives in the first fifth of the cities.
    place = min(dice.randrange(len(LOCATIONS)), dice.randrange(len(LOCATIONS)))
    city, country, zone = LOCATIONS[place]
    hourly = 500 * dice.randint(6, 60)
    reviews = dice.choice((0, 0, 1, 3, 8, 21, 55))
    return Companion(
        id=number,
        first_name=dice.choice(FIRST_NAMES),
        last_name=dice.choice(LAST_NAMES),
        hourly_rate=hourly,
        daily_rate=dice.choice((None, 7 * hourly)),
        location_city=city,
        location_country=country,
        calendar=_make_calendar(dice, zone, now.date()),
        member_since=now - dice.randint(1, 2000) * ONE_DAY,
        tagline="At your side, from the first guest to the last",
        bio=BIO_TEXT[: dice.randint(100, len(BIO_TEXT))],
        profile_photo=f"photos/{number}.jpg",
        service_types=tuple(dice.sample(SERVICES, dice.randint(1, 4))),
        languages=tuple(dice.sample(LANGUAGES, dice.randint(1, 3))),
        years_experience=dice.randint(0, 20),
        tier=dice.choice(list(Tier)),
        badges=tuple(dice.sample(list(Badge), dice.randint(0, 2))),
        rating_sum=sum(dice.choices((3, 4, 5), (1, 3, 6), k=reviews)),
        total_reviews=reviews,
        approval=Approval.APPROVED if dice.random() < 0.97 else Approval.PENDING,
    )


def _make_calendar(dice: Random, zone: str, today: date) -> Calendar:
    hours = dice.choice(
        (
            (),
            (range(5), Slot(9 * 60, 17 * 60)),
            (range(5), Slot(10 * 60, 18 * 60)),
            (range(2, 7), Slot(10 * 60, 24 * 60)),
            ((5, 6), Slot(8 * 60, 22 * 60)),
        )
    )
    weekly = tuple(WeeklySlot(day, hours[1]) for day in hours[0]) if hours else ()
    off = (DateOverride(today + dice.randint(1, 45) * ONE_DAY),) if dice.random() < 0.1 else ()
    return Calendar(zone, weekly, off)


def next_working_day(companion: Companion, day: date) -> tuple[date, int] | None:
    """The first day within two weeks from `day` with hours in the calendar of a companion, and the
    hour at which they begin, or ten if the whole day is free."""
    for number in range(14):
        for slot in companion.calendar.slots_on(day + number * ONE_DAY):
            return day + number * ONE_DAY, max(10, slot.start // 60)
    return None


def _make_bookings(
    dice: Random,
    staff: Sequence[Companion],
    customers: Sequence[User],
    owners: Sequence[User],
    now: datetime,
) -> Iterator[Booking]:
    """One for every second companion; a third of them are accepted or paid."""
    listed = [companion for companion in staff if companion.is_listed]
    for number, companion in enumerate(dice.sample(listed, len(staff) // 2)):
        status = dice.choice(
            (
                BookingStatus.PENDING,
                BookingStatus.PENDING,
                BookingStatus.CANCELLED,
                BookingStatus.ACCEPTED,
            )
        )
        when = next_working_day(
            companion, now.date() + dice.randint(2, BOOKED_AHEAD_DAYS - 14) * ONE_DAY
        )
        if when:
            customer, owner = dice.choice(customers), dice.choice(owners)
            yield _make_booking(number + 1, status, companion, customer, owner, when, now)


def _make_booking(
    number: int,
    status: BookingStatus,
    companion: Companion,
    customer: User,
    owner: User,
    when: tuple[date, int],
    now: datetime,
) -> Booking:
    zone, hours, made = companion.calendar.timezone, 4, now - ONE_DAY
    starts_at = local_time_to_utc(zone, when[0], when[1] * 60)
    price = quote_price(
        CompanionRates(companion.hourly_rate, companion.daily_rate), hours, False, BENCHMARK_POLICY
    )
    timeline = [TimelineEntry(made, None, BookingStatus.PENDING, Trigger.REQUEST, Party.API)]
    if status is not BookingStatus.PENDING:
        trigger = Trigger.ACCEPT if status is BookingStatus.ACCEPTED else Trigger.CANCEL
        timeline.append(TimelineEntry(now, BookingStatus.PENDING, status, trigger, Party.STAFF))
    return Booking(
        id=number,
        code=f"BK{number:012d}",
        status=status,
        companion_id=companion.id,
        companion_name=companion.name,
        customer_id=customer.id,
        customer_name=customer.name,
        booked_by=owner.id,
        service_type=companion.service_types[0],
        location="Grand Hotel, main hall",
        event_date=when[0],
        start_time=f"{when[1]:02d}:00",
        duration_hours=hours,
        timezone=zone,
        starts_at=starts_at,
        ends_at=starts_at + hours * ONE_HOUR,
        currency=BENCHMARK_POLICY.currency.code,
        price=price.price,
        insurance_premium=price.insurance_premium,
        fee_ppm=BENCHMARK_POLICY.platform_fee_ppm,
        platform_fee=price.platform_fee,
        payout_amount=price.payout_amount,
        created_at=made,
        version=len(timeline),
        timeline=tuple(timeline),
        accepted_at=now if status is BookingStatus.ACCEPTED else None,
        cancelled_at=now if status is BookingStatus.CANCELLED else None,
        cancelled_by=Party.STAFF if status is BookingStatus.CANCELLED else None,
        payment_status=PaymentStatus.NONE,
    )
