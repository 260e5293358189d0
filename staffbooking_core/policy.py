"""Every figure of the specification and the contract, in one frozen class.

A deployment makes its own by `attrs.evolve(Policy(), ...)`; the settings of the
environment end here. Rates are parts per million, times are `timedelta`.
"""

from __future__ import annotations

from datetime import timedelta

from attrs import field, frozen

from staffbooking_core.domain.shared.money import Currency
from staffbooking_core.domain.shared.rate_limits import RateLimits

HOUR = timedelta(hours=1)


@frozen
class Policy:
    """The deployment's rules. The defaults are the published ones."""

    currency: Currency = Currency("usd")
    country: str = "US"
    """Where staff members are paid unless they say otherwise (ISO 3166, two letters)."""
    base_url: str = "http://127.0.0.1:8000"
    sandbox: bool = True
    """Whether the clock may be moved, and payments misbehave, on demand (CONTRACT 9)."""

    # Price (CONTRACT 4)
    platform_fee_ppm: int = 150_000
    insurance_rate_ppm: int = 50_000
    day_rate_from_hours: int = 8

    # Lifecycle (SPECIFICATION 3)
    auto_complete_after: timedelta = 72 * HOUR
    payment_window: timedelta | None = None
    check_in_lead: timedelta = 2 * HOUR
    full_refund_before: timedelta = 48 * HOUR
    half_refund_before: timedelta = 24 * HOUR
    quote_lifetime: timedelta = timedelta(minutes=10)
    rebooking_credit: timedelta = timedelta(days=30)
    rebooking_suggestions: int = 5
    late_cancel_payout: bool = True
    payout_delay: timedelta = 24 * HOUR
    payout_deadline: timedelta = 48 * HOUR
    """After completion every payout is made; operators are told `payout_alarm` before."""
    payout_alarm: timedelta = 6 * HOUR

    # Events that may be booked (CONTRACT, conventions)
    book_ahead_years: int = 3
    availability_days: int = 92
    detail_reviews: int = 10
    """The newest reviews that a companion's detail shows."""

    # Hosted checkout (PAYMENTS 2)
    checkout_lifetime: timedelta = 23 * HOUR
    checkout_minimum: timedelta = timedelta(minutes=35)
    checkout_renew_before: timedelta = timedelta(minutes=5)
    processor_inline_timeout: timedelta = timedelta(seconds=6)
    processor_timeout: timedelta = timedelta(seconds=12)

    # Lost events of the processor (PAYMENTS 4)
    processor_event_poll_interval: timedelta = timedelta(minutes=5)
    open_intent_poll_interval: timedelta = timedelta(minutes=15)
    refund_poll_interval: timedelta = timedelta(hours=6)
    processor_event_retention: timedelta = timedelta(days=7)
    """Done ones, so that repeats are known: longer than a processor repeats them."""
    processor_sync_deadline: timedelta = timedelta(minutes=15)
    """What the processor moved is known to us by then, or something is wrong."""

    # People (CONTRACT 2)
    max_active_keys: int = 5
    session_idle: timedelta = 12 * HOUR
    session_lifetime: timedelta = timedelta(days=7)
    idempotency_lifetime: timedelta = 24 * HOUR
    verification_lifetime: timedelta = timedelta(days=7)
    """Of the link by which somebody shows that mail to their address reaches them."""
    reset_lifetime: timedelta = HOUR
    """Of the link by which somebody who forgot their password sets another."""

    # Staff (CONTRACT 3)
    max_portfolio_items: int = 50
    max_images: int = 200
    """Uploaded and kept, of a user."""
    max_image_bytes: int = 10 * 2**20
    max_calendar_bytes: int = 2**20
    """Of an .ics file from which busy times are taken."""
    max_busy_times: int = 2_000
    busy_import_horizon: timedelta = timedelta(days=2 * 366)
    """How far ahead busy times are taken from such a file."""
    feed_history: timedelta = timedelta(days=90)
    """How long a booking stays in its companion's calendar feed once it is over."""
    max_feed_bookings: int = 500
    import_retention: timedelta = timedelta(days=30)
    """Files of companions that nobody goes on with: how far they went, and what stayed out."""

    # Mail
    contact_email: str = "contact@localhost"
    """Where the operators read what people ask by the contact form."""
    mail_timeout: timedelta = timedelta(seconds=15)
    """For a whole mail, from the connection to the server's word that it has it: less than a
    worker has to stop, since a mail that is cut off may be sent twice."""
    notification_retry_delays: tuple[timedelta, ...] = (
        timedelta(minutes=1),
        timedelta(minutes=5),
        timedelta(minutes=30),
        timedelta(hours=2),
        timedelta(hours=8),
        timedelta(hours=24),
    )
    """Before each retry of a mail that could not be sent; after the last it is given up."""
    unread_notification_delay: timedelta = timedelta(minutes=5)
    """A message that lies unread for so long is told of by mail, once until they read again."""

    # Work (RELIABILITY 3.1)
    lease_duration: timedelta = timedelta(seconds=15)

    # Webhooks (CONTRACT 7)
    max_webhooks: int = 10
    webhook_retry_delays: tuple[timedelta, ...] = (
        timedelta(seconds=1),
        timedelta(seconds=4),
        timedelta(seconds=16),
    )
    """Before each retry, from the end of the failed attempt."""
    webhook_attempt_timeout: timedelta = timedelta(seconds=10)
    """For a whole attempt, from the look-up of the name to the head of the response."""
    webhook_slow_threshold: timedelta = timedelta(seconds=1)
    """An endpoint whose attempt took longer is served apart, as those are that fail."""
    max_webhook_attempts_in_flight: int = 4
    """Attempts at one endpoint at a time."""
    webhook_disable_after: int = 10
    webhook_held_retention: timedelta = timedelta(days=7)
    webhook_delivery_retention: timedelta = timedelta(days=30)
    """Deliveries that are done, with their attempts."""
    webhook_secret_overlap: timedelta = timedelta(hours=24)
    webhook_allow_insecure: bool = False
    """Whether http and loopback pass: for sandboxes and tests only."""

    # The channel (CONTRACT 6)
    max_connections: int = 10
    """Of a user at a time, over all processes."""
    channel_overrun: int = 3
    """The event after so many times the limit of a window ends the connection."""
    typing_timeout: timedelta = timedelta(seconds=6)
    resume_grace: timedelta = timedelta(seconds=1)
    """For so long after it is opened a connection that has not spoken yet is kept from new
    messages: what it asks to resume from comes first, and nothing twice."""
    presence_grace_period: timedelta = timedelta(seconds=5)
    """Who is back within it was never away, for others."""
    presence_lease: timedelta = timedelta(seconds=15)
    """For so long after its last sign of life a process counts as living."""
    presence_heartbeat_interval: timedelta = timedelta(seconds=5)
    sessions_judged_every: timedelta = timedelta(milliseconds=500)
    """Those of open connections: who logged out is cut off within this, or two of it."""

    # Requests (CONTRACT 8)
    limits: RateLimits = field(factory=RateLimits)
