"""The records of the service as the client returns them: plain dictionaries with typed keys.

Times are ISO 8601 in UTC with `Z`, dates `YYYY-MM-DD`, times of day `HH:MM`. Amounts of money are
exact. New keys and new values of statuses may appear at any time within v1.
"""

from decimal import Decimal
from typing import Any, NotRequired, TypeAlias, TypedDict

Amount: TypeAlias = Decimal | int
"""Money in the currency's unit, not in cents; an int if it has no decimals."""


class Companion(TypedDict):
    """A staff member, as a search finds them. `service_types` are separated by commas."""

    id: int
    first_name: str
    profile_photo: str
    tagline: str
    hourly_rate: Amount
    daily_rate: Amount | None
    location_city: str
    location_country: str
    service_types: str
    rating_avg: Decimal | int
    total_reviews: int
    tier: str
    badges: list[str]


class Review(TypedDict):
    """A review of one party of a booking by the other; ratings are 1 to 5."""

    id: int
    booking_id: int
    reviewer_id: int
    reviewer_name: str
    reviewer_role: str
    reviewee_id: int
    rating: int
    comment: str | None
    punctuality: int | None
    professionalism: int | None
    communication: int | None
    appearance: int | None
    response: str | None
    responded_at: str | None
    created_at: str


class PortfolioItem(TypedDict):
    """An approved picture of a staff member's work."""

    id: int
    title: str
    image: str
    description: str
    created_at: str


class CompanionDetail(Companion):
    """A staff member's profile with up to 10 newest reviews."""

    bio: str
    languages: list[str]
    years_experience: int | None
    timezone: str
    currency: str
    member_since: str
    reviews: list[Review]
    portfolio: list[PortfolioItem]


class Slot(TypedDict):
    """Free hours of a day in the companion's timezone; `24:00` ends a day."""

    start: str
    end: str


class Day(TypedDict):
    """One day of a companion."""

    date: str
    available: bool
    slots: list[Slot]


class FreeDays(TypedDict):
    """The days of a companion, both ends included."""

    companion_id: int
    timezone: str
    start_date: str
    end_date: str
    availability: list[Day]


class ServiceType(TypedDict):
    """A service and the number of companions that offer it."""

    name: str
    companions: int


class UserReviews(TypedDict):
    """One page of a user's reviews, newest first, and their average."""

    reviews: list[Review]
    rating_avg: Decimal | int
    total_reviews: int
    page: int
    limit: int


class QuoteLine(TypedDict):
    """A part of a price; `kind` is hours, daily_cap (negative) or insurance."""

    kind: str
    amount: Amount


class CancellationStep(TypedDict):
    """What a cancellation until that time refunds."""

    until: str
    refund_percent: int
    refund_amount: Amount


class Quote(TypedDict):
    """A price before booking; `lines` add up to `total_amount`. `reason` says why the companion
    is not available."""

    currency: str
    hourly_rate: Amount
    daily_rate: Amount | None
    duration_hours: int
    lines: list[QuoteLine]
    price: Amount
    insurance_premium: Amount
    total_amount: Amount
    starts_at: str
    ends_at: str
    timezone: str
    available: bool
    reason: NotRequired[str]
    cancellation: list[CancellationStep]


class Refund(TypedDict):
    """A refund; `status` is pending, succeeded or failed."""

    amount: Amount
    reason: str
    status: str
    created_at: str
    settled_at: str | None


TimelineEntry = TypedDict(
    "TimelineEntry",
    {
        "at": str,
        "from": str | None,
        "to": str,
        "trigger": str,
        "actor": str,
        "reason": str | None,
    },
)
"""A change of a booking's status; `from` is None in the first one."""


class _BookingGlimpse(TypedDict):
    booking_code: str
    status: str
    event_date: str


class Booking(_BookingGlimpse, total=False):
    """A booking. A key whose owner is no party of it sees only the code, status and date."""

    id: int
    companion_id: int
    companion_name: str
    customer_id: int
    customer_name: str
    booked_by: int | None
    service_type: str
    location: str
    start_time: str
    duration_hours: int
    timezone: str
    starts_at: str
    ends_at: str
    currency: str
    price: Amount
    insurance_premium: Amount
    total_amount: Amount
    refunded_amount: Amount
    cancellation_insurance: bool
    event_ref: str | None
    priority: bool
    checked_in_at: str | None
    accepted_at: str | None
    paid_at: str | None
    completed_at: str | None
    completed_by: str | None
    cancelled_at: str | None
    cancelled_by: str | None
    cancel_reason: str | None
    cancel_rule: str | None
    payment_due_at: str | None
    confirms_at: str | None
    refunds: list[Refund]
    disputed_at: str | None
    payment_status: str
    created_at: str
    version: int
    timeline: list[TimelineEntry]


class Webhook(TypedDict):
    """An endpoint that receives events; `active` is false while it is paused or disabled."""

    id: int
    url: str
    events: list[str]
    description: str | None
    ordered: bool
    active: bool
    consecutive_failures: int
    disabled_at: str | None
    disabled_reason: str | None
    created_at: str


class NewWebhook(TypedDict):
    """A new endpoint, with the secret that is shown only once."""

    webhook: Webhook
    secret: str


class NewSecret(TypedDict):
    """The secret that replaces an endpoint's, which is valid until then."""

    secret: str
    previous_valid_until: str


class Attempt(TypedDict):
    """An attempt of a delivery; `error` is None after 2xx."""

    number: int
    at: str
    response_status: int | None
    duration_ms: int
    error: str | None


class Delivery(TypedDict):
    """An event on its way to an endpoint."""

    id: int
    event_id: str
    event: str
    status: str
    attempts: list[Attempt]
    next_attempt_at: str | None
    created_at: str


class TrialDelivery(TypedDict):
    """The result of a test event; `status` is succeeded or failed."""

    id: int
    status: str
    response_status: int | None
    duration_ms: int
    error: str | None


class Event(TypedDict):
    """What happened; `sequence` rises with each event of a booking, `data` depends on `event`."""

    id: str
    event: str
    created_at: str
    api_version: str
    sequence: int
    data: dict[str, Any]
