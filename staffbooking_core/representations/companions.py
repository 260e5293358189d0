"""Records of companions: profiles, portfolios, reviews (CONTRACT 3 and 5)."""

from collections.abc import Sequence
from typing import Annotated, TypedDict

from staffbooking_core.domain.bookings.lifecycle import Party
from staffbooking_core.domain.companions.companion import (
    Approval,
    Badge,
    Companion,
    Tier,
    missing_fields,
)
from staffbooking_core.domain.companions.portfolio import (
    Image,
    PortfolioItem,
    PortfolioItemStatus,
)
from staffbooking_core.domain.companions.reviews import Review
from staffbooking_core.domain.shared.money import Currency
from staffbooking_core.representations.json_types import (
    AverageRating,
    Count,
    Id,
    ImagePath,
    JsonSchema,
    Money,
    Rating,
    Timestamp,
    Timezone,
    format_instant,
)

__all__ = ["ReviewRecord"]

# Reviews ----------------------------------------------------------------------------------


class ReviewRecord(TypedDict):
    """A review by one party of a booking of the other."""

    id: Id
    booking_id: Id
    reviewer_id: Id
    reviewer_name: str
    reviewer_role: Annotated[
        Party, JsonSchema(title="BookingParty", enum=[Party.CUSTOMER, Party.STAFF])
    ]
    reviewee_id: Id
    rating: Rating
    comment: str | None
    punctuality: Rating | None
    professionalism: Rating | None
    communication: Rating | None
    appearance: Rating | None
    response: str | None
    responded_at: Timestamp | None
    created_at: Timestamp


def review_record(review: Review) -> ReviewRecord:
    """The record of a review."""
    return {
        "id": review.id,
        "booking_id": review.booking_id,
        "reviewer_id": review.reviewer_id,
        "reviewer_name": review.reviewer_name,
        "reviewer_role": review.reviewer_role,
        "reviewee_id": review.reviewee_id,
        "rating": review.rating,
        "comment": review.comment,
        "punctuality": review.punctuality,
        "professionalism": review.professionalism,
        "communication": review.communication,
        "appearance": review.appearance,
        "response": review.response,
        "responded_at": format_instant(review.responded_at),
        "created_at": format_instant(review.created_at),
    }


# Portfolios -------------------------------------------------------------------------------


class PortfolioItemRecord(TypedDict):
    """A portfolio item, as everyone sees it."""

    id: Id
    title: str
    image: ImagePath
    description: str
    created_at: Timestamp


class OwnPortfolioItemRecord(PortfolioItemRecord):
    """A portfolio item, as its owner sees it."""

    status: PortfolioItemStatus


def _portfolio_record(item: PortfolioItem) -> PortfolioItemRecord:
    """The record of a portfolio item for everyone."""
    return {
        "id": item.id,
        "title": item.title,
        "image": item.image,
        "description": item.description,
        "created_at": format_instant(item.created_at),
    }


def own_portfolio_record(item: PortfolioItem) -> OwnPortfolioItemRecord:
    """The record of a portfolio item for its owner."""
    return {**_portfolio_record(item), "status": item.status}


class ImageRecord(TypedDict):
    """An uploaded image, as its owner sees it; `size` is in bytes."""

    name: str
    image: ImagePath
    size: int
    created_at: Timestamp


def image_record(image: Image) -> ImageRecord:
    """The record of an uploaded image."""
    return {
        "name": image.name,
        "image": image.path,
        "size": image.size,
        "created_at": format_instant(image.created_at),
    }


class ServiceTypeRecord(TypedDict):
    """A service type, with the number of companions that offer it."""

    name: str
    companions: int


def service_type_record(name: str, companion_count: int) -> ServiceTypeRecord:
    """The record of a service type."""
    return {"name": name, "companions": companion_count}


# Profiles ---------------------------------------------------------------------------------


class _CompanionFields(TypedDict):
    """The fields that every view of a companion shows."""

    id: Id
    first_name: str
    profile_photo: ImagePath
    tagline: str
    daily_rate: Money | None
    location_city: str
    location_country: str
    rating_avg: AverageRating
    total_reviews: Count
    tier: Tier
    badges: list[Badge]


class _BiographyFields(TypedDict):
    """The fields that a full profile adds."""

    bio: str
    languages: list[str]
    years_experience: int | None
    timezone: Timezone
    currency: Annotated[str, JsonSchema(description="ISO 4217, lower case")]
    member_since: Timestamp


class CompanionRecord(_CompanionFields):
    """A companion in a search result (SPECIFICATION 2.1): the first name only."""

    hourly_rate: Money
    service_types: Annotated[str, JsonSchema(description="names, separated by commas")]


def companion_summary(companion: Companion, currency: Currency) -> CompanionRecord:
    """The record of a companion in a search result."""
    daily = companion.daily_rate
    return {
        "id": companion.id,
        "first_name": companion.first_name,
        "profile_photo": companion.profile_photo,
        "tagline": companion.tagline,
        "hourly_rate": currency.to_decimal(companion.hourly_rate),
        "daily_rate": None if daily is None else currency.to_decimal(daily),
        "location_city": companion.location_city,
        "location_country": companion.location_country,
        "service_types": ",".join(companion.service_types),
        "rating_avg": companion.rating_avg,
        "total_reviews": companion.total_reviews,
        "tier": companion.tier,
        "badges": list(companion.badges),
    }


def _biography(companion: Companion, currency: Currency) -> _BiographyFields:
    return {
        "bio": companion.bio,
        "languages": list(companion.languages),
        "years_experience": companion.years_experience,
        "timezone": companion.calendar.timezone,
        "currency": currency.code,
        "member_since": format_instant(companion.member_since),
    }


class CompanionDetailRecord(CompanionRecord, _BiographyFields):
    """A companion's full profile, with the newest reviews and the approved portfolio."""

    reviews: Annotated[list[ReviewRecord], JsonSchema(maxItems=10)]
    portfolio: list[PortfolioItemRecord]


class CompanionDetailReply(TypedDict):
    """The cached response of a companion's detail page."""

    companion: CompanionDetailRecord


def companion_detail(
    companion: Companion,
    currency: Currency,
    reviews: Sequence[Review] = (),
    portfolio: Sequence[PortfolioItem] = (),
) -> CompanionDetailReply:
    """The full profile, with its newest reviews and approved portfolio (CONTRACT 3)."""
    return {
        "companion": {
            **companion_summary(companion, currency),
            **_biography(companion, currency),
            "reviews": [review_record(review) for review in reviews],
            "portfolio": [
                _portfolio_record(item)
                for item in portfolio
                if item.status is PortfolioItemStatus.APPROVED
            ],
        }
    }


class ProfileRecord(_CompanionFields, _BiographyFields):
    """A companion's profile, as the staff member sees it: services as a list, and no hourly rate
    until one is set."""

    hourly_rate: Money | None
    service_types: list[str]
    last_name: str
    status: Approval
    active: bool
    missing: Annotated[list[str], JsonSchema(description="the fields that an approval still needs")]


def profile_record(companion: Companion, currency: Currency) -> ProfileRecord:
    """The record of a profile for the staff member (CONTRACT 3)."""
    summary = companion_summary(companion, currency)
    return {
        **summary,
        "hourly_rate": summary["hourly_rate"] or None,
        "service_types": list(companion.service_types),
        **_biography(companion, currency),
        "last_name": companion.last_name,
        "status": companion.approval,
        "active": companion.active,
        "missing": missing_fields(companion),
    }
