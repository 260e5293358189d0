"""Every configurable value of the specification and the contract, in one frozen class.

`staffbooking_adapters/settings.py` sets those that have a `STAFFBOOKING_` variable; an embedder may
set any. Rates are in parts per million, durations are `timedelta`.
"""

from __future__ import annotations

from datetime import timedelta

from attrs import field, fields, frozen

from staffbooking_core.domain.shared.countries import country_codes
from staffbooking_core.domain.shared.durations import format_duration
from staffbooking_core.domain.shared.money import CURRENCY_CODES, PARTS_PER_MILLION, Currency
from staffbooking_core.domain.shared.rate_limits import RateLimits

__all__ = ["Policy"]

HOUR = timedelta(hours=1)


@frozen
class Policy:
    """The deployment's business rules. The defaults are the published values.

    Raises TypeError for a value of another type, and ValueError for one out of range; the message
    begins with the name of the field.
    """

    currency: Currency = Currency("usd")
    country: str = "US"
    """Default country of payout accounts (ISO 3166-1, two capital letters)."""
    base_url: str = "http://127.0.0.1:8000"
    """The address at which people reach the service; all links begin with it."""
    sandbox: bool = True
    """Whether the clock may be advanced and payment failures injected (CONTRACT 9)."""
    keeps_mails: bool = False
    """Whether a sandbox keeps its mails for testers to read, links with tokens included: where no
    stranger reaches it, and no mail server is set."""

    # Price (CONTRACT 4)
    platform_fee_ppm: int = 150_000
    """The platform's part of what a staff member earns, in parts per million: 150,000 are 15 %."""
    insurance_rate_ppm: int = 50_000
    """The premium of the cancellation insurance, in parts per million of the price."""
    day_rate_from_hours: int = 8
    """The daily rate is the most that a booking of at least so many hours costs."""

    # Lifecycle (SPECIFICATION 3)
    auto_complete_after: timedelta = 72 * HOUR
    """Time after the end at which a paid booking completes without a confirmation."""
    payment_window: timedelta | None = None
    """Time after the acceptance within which a booking must be paid. None: until the start."""
    check_in_lead: timedelta = 2 * HOUR
    """Time before the start from which the staff member can check in."""
    reminder_lead: timedelta = 24 * HOUR
    """Time before the start at which the parties are reminded."""
    no_show_after: timedelta = timedelta(minutes=15)
    """Time after the start from which an absence can be reported, and at which the parties are
    asked for a missing check-in."""
    no_show_until: timedelta = 24 * HOUR
    """Time after the end until which an absence can be reported."""
    dispute_response: timedelta = 72 * HOUR
    """Time after which an open dispute is overdue."""
    max_dispute_statements: int = 100
    max_dispute_files: int = 20
    """Maximum files that each party may upload for a booking."""
    full_refund_before: timedelta = 48 * HOUR
    """A customer who cancels at least this long before the start gets everything back."""
    half_refund_before: timedelta = 24 * HOUR
    """A customer who cancels at least this long before the start gets half of the price back; later
    only with insurance."""
    cancellation_quote_lifetime: timedelta = timedelta(minutes=10)
    """How long a cancellation quote fixes the refund."""
    rebooking_credit: timedelta = timedelta(days=30)
    """How long a priority rebooking can be used."""
    rebooking_suggestions: int = 5
    """Maximum companions that are suggested for a priority rebooking."""
    late_cancel_payout: bool = True
    """Whether the staff member earns what a late cancellation does not refund; if not, the platform
    keeps it."""
    payout_delay: timedelta = 24 * HOUR
    """Time after completion at which the payout is sent."""
    payout_deadline: timedelta = 48 * HOUR
    """The time after completion within which every payout is made."""
    payout_alarm: timedelta = 6 * HOUR
    """Operators are alerted about an open payout this long before its deadline, at the earliest
    halfway from its due time."""

    # Bookable events (CONTRACT, conventions)
    availability_days: int = 92
    """Maximum days of one look at a companion's availability."""
    detail_reviews: int = 10
    """Number of newest reviews in a companion's detail."""

    # Hosted checkout
    checkout_lifetime: timedelta = 23 * HOUR
    """How long a page for the payment is open, unless the booking expires before."""
    checkout_minimum: timedelta = timedelta(minutes=35)
    """How long it is open at least, even where the booking expires before."""
    checkout_renew_before: timedelta = timedelta(minutes=5)
    """A page that is open for no longer than this is replaced when the customer asks for it."""
    processor_inline_timeout: timedelta = timedelta(seconds=6)
    """Timeout for calls of the processor while a user waits."""
    processor_timeout: timedelta = timedelta(seconds=12)
    """Timeout for calls of the processor by workers."""

    # Recovery of lost processor events
    processor_event_poll_interval: timedelta = timedelta(minutes=5)
    open_intent_poll_interval: timedelta = timedelta(minutes=15)
    refund_poll_interval: timedelta = timedelta(hours=6)
    processor_event_retention: timedelta = timedelta(days=7)
    """How long processed events are kept to detect duplicates; longer than processors repeat
    them."""
    processor_sync_deadline: timedelta = timedelta(minutes=15)
    """A processor movement unknown to the ledger after this time counts as a difference."""

    # Accounts (CONTRACT 2)
    max_active_keys: int = 5
    session_idle: timedelta = 12 * HOUR
    session_lifetime: timedelta = timedelta(days=7)
    idempotency_lifetime: timedelta = 24 * HOUR
    verification_lifetime: timedelta = timedelta(days=7)
    """Lifetime of the e-mail verification link."""
    reset_lifetime: timedelta = HOUR
    """Lifetime of the password reset link."""

    # Staff (CONTRACT 3)
    max_portfolio_items: int = 50
    max_images: int = 200
    """Maximum stored images per user."""
    max_image_bytes: int = 10 * 2**20
    max_calendar_bytes: int = 2**20
    """Maximum size of an .ics file of busy times."""
    max_busy_times: int = 2_000
    busy_import_horizon: timedelta = timedelta(days=2 * 366)
    """How far ahead busy times are imported."""
    max_calendar_subscriptions: int = 5
    """Maximum calendar addresses of a staff member."""
    calendar_read_interval: timedelta = HOUR
    """Time between two readings of a calendar address; doubled after each failure."""
    calendar_max_delay: timedelta = 24 * HOUR
    """Maximum time between two readings after failures."""
    calendar_disable_after: timedelta = timedelta(days=7)
    """A calendar address that failed for so long is not read any more."""
    calendar_min_interval: timedelta = timedelta(minutes=1)
    """Time between two readings of a calendar address on demand."""
    calendar_read_timeout: timedelta = timedelta(seconds=10)
    """Timeout for reading a calendar address, with all redirects."""
    calendar_lease: timedelta = timedelta(seconds=60)
    """A worker's claim of a calendar address: longer than a read and its computation."""
    feed_history: timedelta = timedelta(days=90)
    """How long a past booking stays in its companion's calendar feed."""
    max_feed_bookings: int = 500
    key_calls_retention: timedelta = timedelta(days=31)
    """How long the number of requests of each API key and hour is kept."""
    import_retention: timedelta = timedelta(days=30)
    """How long the progress and skipped rows of an unfinished companion import are kept."""
    inquiry_retention: timedelta = timedelta(days=180)
    """How long an inquiry is kept after its answer; without an answer, after its arrival."""
    alert_retention: timedelta = timedelta(days=365)
    """How long alerts are listed for operators."""
    reconciliation_retention: timedelta = timedelta(days=365)
    """How long finished runs of the reconciliation are listed for operators."""

    # Mail
    contact_email: str = "contact@localhost"
    """The address that receives contact form messages."""
    mail_timeout: timedelta = timedelta(seconds=15)
    """Timeout for a whole mail, from connecting to the server's confirmation. Shorter than a
    worker's shutdown grace period, since an interrupted mail may be sent twice."""
    notification_retry_delays: tuple[timedelta, ...] = (
        timedelta(minutes=1),
        timedelta(minutes=5),
        timedelta(minutes=30),
        timedelta(hours=2),
        timedelta(hours=8),
        timedelta(hours=24),
    )
    """Delay before each retry of a failed mail; after the last retry it is given up."""
    unread_notification_delay: timedelta = timedelta(minutes=5)
    """Recipients are notified by mail of a message unread for this long, once until they read
    again."""

    # Background work
    lease_duration: timedelta = timedelta(seconds=15)
    """How long a worker's claim of due work holds: longer than `processor_timeout`."""

    # Webhooks (CONTRACT 7)
    max_webhooks: int = 10
    webhook_retry_delays: tuple[timedelta, ...] = (
        timedelta(seconds=1),
        timedelta(seconds=4),
        timedelta(seconds=16),
    )
    """Delay before each retry, measured from the end of the failed attempt."""
    webhook_attempt_timeout: timedelta = timedelta(seconds=10)
    """Timeout for a whole attempt, from the DNS lookup to the response's headers."""
    webhook_slow_threshold: timedelta = timedelta(seconds=1)
    """An attempt longer than this marks its endpoint as degraded, as a failed attempt does."""
    max_webhook_attempts_in_flight: int = 4
    """Maximum concurrent attempts per endpoint."""
    webhook_disable_after: int = 10
    """Number of consecutive failed deliveries after which an endpoint is disabled."""
    webhook_held_retention: timedelta = timedelta(days=7)
    """How long the deliveries of a disabled endpoint are held, before they are cancelled."""
    webhook_delivery_retention: timedelta = timedelta(days=30)
    """How long finished deliveries are kept, with their attempts."""
    webhook_secret_overlap: timedelta = timedelta(hours=24)
    """How long the secret before a rotation still signs, beside the new one."""
    webhook_allow_insecure: bool = False
    """Whether http and loopback URLs are allowed; for sandboxes and tests only."""

    # The channel (CONTRACT 6)
    max_connections: int = 10
    """Maximum concurrent connections per user, over all processes."""
    channel_overrun: int = 3
    """A connection is closed when its events in a window exceed this multiple of the limit."""
    typing_timeout: timedelta = timedelta(seconds=6)
    resume_grace: timedelta = timedelta(seconds=1)
    """A new connection that has sent nothing gets no new messages for this long: if it asks to
    resume, the missed messages come first and none twice."""
    presence_grace_period: timedelta = timedelta(seconds=5)
    """Reconnecting within this period keeps the user online for others."""
    presence_lease: timedelta = timedelta(seconds=15)
    """A process counts as alive for this long after its last heartbeat."""
    presence_heartbeat_interval: timedelta = timedelta(seconds=5)
    sessions_judged_every: timedelta = timedelta(milliseconds=500)
    """Interval between session checks of open connections: a connection is closed within one
    or two intervals after logout."""

    # Requests (CONTRACT 8, 10)
    request_database_time: timedelta = timedelta(seconds=2)
    """Maximum time that one request waits for the store in all; of a streamed response, each
    page."""

    # Clocks (CONTRACT 10)
    max_clock_skew: timedelta = timedelta(seconds=30)
    """Beyond this difference from the store's clock a process changes nothing."""
    clock_check_interval: timedelta = timedelta(seconds=10)
    limits: RateLimits = field(factory=RateLimits)

    def __attrs_post_init__(self) -> None:
        for attribute in fields(Policy):
            _check_field(attribute.name, str(attribute.type), getattr(self, attribute.name))
        if self.currency.code not in CURRENCY_CODES:
            raise ValueError("currency must be an ISO 4217 code such as usd")
        if self.country not in country_codes():
            raise ValueError("country must be two letters of ISO 3166 such as US")
        for name in ("platform_fee_ppm", "insurance_rate_ppm"):
            if getattr(self, name) > PARTS_PER_MILLION:
                raise ValueError(f"{name} must be at most {PARTS_PER_MILLION} parts per million")
        if self.payment_window == timedelta(0):
            raise ValueError("payment_window must be longer than zero")
        if self.half_refund_before > self.full_refund_before:
            raise ValueError("half_refund_before must be at most full_refund_before")
        if self.payout_delay > (most := self.payout_deadline - _PAYOUT_DURATION):
            raise ValueError(
                f"payout_delay must be {format_duration(most)} at most: "
                "an hour is left before the deadline of payouts"
            )


_PAYOUT_DURATION = HOUR
"""The least time between the sending of a payout and its deadline."""

_KINDS: dict[str, type] = {
    kind.__name__: kind for kind in (Currency, RateLimits, bool, int, str, timedelta)
}
_DURATIONS = "tuple[timedelta, ...]"
_OPTIONAL = " | None"


def _check_field(name: str, annotation: str, value: object) -> None:
    """Check the type of a field by its annotation, and that no figure is negative."""
    if annotation != _DURATIONS:
        if value is not None or not annotation.endswith(_OPTIONAL):
            _check_value(name, _KINDS[annotation.removesuffix(_OPTIONAL)], value)
    elif isinstance(value, tuple):
        for each in value:
            _check_value(name, timedelta, each)
    else:
        raise TypeError(f"{name} must be a tuple of durations")


def _check_value(name: str, kind: type, value: object) -> None:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
        raise TypeError(f"{name} must be of type {kind.__name__}")
    is_negative = isinstance(value, int) and value < 0
    if is_negative or (isinstance(value, timedelta) and value < timedelta(0)):
        raise ValueError(f"{name} must not be negative")
