"""Companions: the profile of a staff member, and the filters of a search."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from datetime import date, datetime
from decimal import ROUND_HALF_UP, Decimal
from enum import StrEnum

from attrs import frozen

from staffbooking_core.domain.accounts.users import User, full_name
from staffbooking_core.domain.companions.availability import Calendar

__all__ = ["Approval", "Badge", "Companion", "CompanionQuery", "Tier"]


class Tier(StrEnum):
    STANDARD = "standard"
    PREMIUM = "premium"
    ELITE = "elite"


class Badge(StrEnum):
    VERIFIED = "verified"
    BACKGROUND_CHECKED = "background_checked"
    TOP_RATED = "top_rated"
    FAST_RESPONDER = "fast_responder"
    RISING_STAR = "rising_star"


class Approval(StrEnum):
    PENDING = "pending"
    APPROVED = "approved"
    SUSPENDED = "suspended"


@frozen
class Companion:
    """The profile of a staff member; its id is the user's id (CONTRACT 2 and 3).

    Rates are minor units per hour and per day; an hourly rate of 0 is not set yet. Search finds
    approved companions of enabled users only.
    """

    id: int
    first_name: str
    last_name: str
    hourly_rate: int
    location_city: str
    location_country: str
    calendar: Calendar
    member_since: datetime
    daily_rate: int | None = None
    tagline: str = ""
    bio: str = ""
    profile_photo: str = ""
    service_types: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    years_experience: int | None = None
    tier: Tier = Tier.STANDARD
    badges: tuple[Badge, ...] = ()
    rating_sum: int = 0
    total_reviews: int = 0
    approval: Approval = Approval.PENDING
    active: bool = True
    """False while the user is disabled."""
    payout_account: str | None = None
    """The processor's reference of the payout account; never shown to clients."""

    @property
    def name(self) -> str:
        return full_name(self.first_name, self.last_name)

    @property
    def is_listed(self) -> bool:
        """Whether clients may find and book this companion."""
        return self.active and self.approval is Approval.APPROVED

    @property
    def awaits_approval(self) -> bool:
        """Whether an operator can decide about it: a draft waits for its owner."""
        return self.approval is Approval.PENDING and self.active and not missing_fields(self)

    @property
    def rating_avg(self) -> Decimal:
        return rating_average(self.rating_sum, self.total_reviews)


_FIELDS_REQUIRED_FOR_APPROVAL = (
    "hourly_rate",
    "location_city",
    "location_country",
    "service_types",
)


def draft_companion(user: User) -> Companion:
    """The empty profile of a new staff member."""
    return Companion(
        id=user.id,
        first_name=user.first_name,
        last_name=user.last_name,
        hourly_rate=0,
        location_city="",
        location_country="",
        calendar=Calendar("UTC"),
        member_since=user.created_at,
        active=user.disabled_at is None,
    )


def missing_fields(companion: Companion) -> list[str]:
    """The fields that must be filled in before an approval."""
    return [name for name in _FIELDS_REQUIRED_FOR_APPROVAL if not getattr(companion, name)]


def rating_average(rating_sum: int, reviews: int) -> Decimal:
    """The mean rounded half up to 2 decimals; 0 with no reviews (CONTRACT 3)."""
    if not reviews:
        return Decimal(0)
    return (Decimal(rating_sum) / reviews).quantize(Decimal("0.01"), ROUND_HALF_UP)


def normalize_text(text: str) -> str:
    """The normalized form in which every store compares names and places."""
    return unicodedata.normalize("NFC", text).casefold()


def normalize_place(text: str) -> str:
    """The form in which every store compares places: that of names, without accents."""
    plain = normalize_text(text).translate(_LETTERS_WITHOUT_STROKES)
    letters = unicodedata.normalize("NFD", plain)
    kept = "".join(each for each in letters if unicodedata.combining(each) < _FIRST_ACCENT_CLASS)
    return unicodedata.normalize("NFC", kept)


_LETTERS_WITHOUT_STROKES = str.maketrans("đħıłøŧ", "dhilot")
"""Letters whose accent Unicode does not separate from them."""
_FIRST_ACCENT_CLASS = 200
"""Unicode's combining class of the marks around a letter; lower classes change the letter."""


def find_offered_service(service_types: Sequence[str], service: str) -> str | None:
    """The offered service that equals the text regardless of case; None without a match."""
    wanted = normalize_text(service)
    return next((name for name in service_types if normalize_text(name) == wanted), None)


@frozen
class CompanionQuery:
    """A search (SPECIFICATION 4.2): all given filters must match; prices in minor units."""

    location: str | None = None
    service: str | None = None
    min_price: int | None = None
    max_price: int | None = None
    date: date | None = None
    page: int = 1
    limit: int = 12
