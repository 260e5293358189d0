"""Rate limits of requests and events: fixed windows that start with their first hit (CONTRACT 8).

A store shared by several processes keeps the count and the end of each window itself, and calls
`decide`. A single process calls `record_hits`. `peek` counts nothing. Refused hits are counted, but
do not extend the window.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from attrs import Attribute, evolve, field, frozen

from staffbooking_core.domain.shared.durations import format_duration, parse_duration
from staffbooking_core.errors import StaffbookingError

__all__ = ["RateLimit", "RateLimitDecision", "RateLimitExceeded", "RateLimits"]

_MAX_RATE_LIMIT = 1_000_000_000

_UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_CONFIGURABLE_RATE_LIMITS = (
    "general",
    "webhooks",
    "bookings",
    "contact",
    "channel",
    "channel_user",
)
_CHANNEL_USER_FACTOR = 3
"""The default limit of a user's channel events, in limits of one connection."""
_RATE_PATTERN = re.compile(r"([1-9][0-9]{0,9})/([0-9]+[smh])")


@frozen
class RateLimit:
    """At most `limit` hits in a window of `window` (whole seconds) from its first hit."""

    name: str
    limit: int = field()
    window: timedelta = field()

    @limit.validator
    def _check_limit(self, _: Attribute[int], limit: int) -> None:
        if not 1 <= limit <= _MAX_RATE_LIMIT:
            raise ValueError(f"a limit is from 1 to {_MAX_RATE_LIMIT}")

    @window.validator
    def _check_window(self, _: Attribute[timedelta], window: timedelta) -> None:
        if window < _SECOND or window % _SECOND:
            raise ValueError("a window is at least 1s, in whole seconds")


@frozen
class RateLimitWindow:
    """The state of a running window: its hits so far, and its end."""

    count: int
    resets_at: datetime


@frozen
class RateLimitDecision:
    """The decision about a hit, with the figures of the `X-RateLimit-*` headers."""

    limit: int
    remaining: int
    reset: int
    """End of the window: Unix time in seconds, rounded up."""
    allowed: bool
    retry_after: int
    """Seconds until the next try, at least 1; 0 for an allowed hit."""


def record_hits(
    window: RateLimitWindow | None, now: datetime, rate_limit: RateLimit, hits: int = 1
) -> tuple[RateLimitWindow, RateLimitDecision]:
    """Count `hits` in the window; a missing or ended window is replaced by a new one.

    `now` is wall time. The decision is that of the last hit.
    """
    if window is None or window.resets_at <= now:
        window = RateLimitWindow(0, now + rate_limit.window)
    window = RateLimitWindow(window.count + hits, window.resets_at)
    return window, decide(rate_limit, window.count, window.resets_at, now)


def return_hit(window: RateLimitWindow | None, now: datetime) -> RateLimitWindow | None:
    """The window without one of its hits; unchanged once it has ended."""
    if window is None or window.resets_at <= now or window.count == 0:
        return window
    return RateLimitWindow(window.count - 1, window.resets_at)


def decide(
    rate_limit: RateLimit, count: int, resets_at: datetime, now: datetime
) -> RateLimitDecision:
    """The decision about the `count`-th hit of a window."""
    allowed = count <= rate_limit.limit
    return RateLimitDecision(
        limit=rate_limit.limit,
        remaining=max(0, rate_limit.limit - count),
        reset=_ceil_seconds(resets_at - _UNIX_EPOCH),
        allowed=allowed,
        retry_after=0 if allowed else max(1, _ceil_seconds(resets_at - now)),
    )


def peek(window: RateLimitWindow | None, now: datetime, rate_limit: RateLimit) -> RateLimitDecision:
    """The window's present figures, and whether one more hit would be allowed. Counts nothing."""
    count = window.count if window and now < window.resets_at else 0
    _, following = record_hits(window, now, rate_limit)
    return evolve(following, remaining=max(0, rate_limit.limit - count))


def _ceil_seconds(length: timedelta) -> int:
    """Whole seconds, rounded up, with integer arithmetic."""
    return -(-length // _SECOND)


class RateLimitExceeded(StaffbookingError):
    """The rate limit of a request is exceeded; `decision` has the time of the next try. The message
    names `rate_limit` where the caller may know which limit it is."""

    code = "rate_limited"

    def __init__(self, decision: RateLimitDecision, rate_limit: RateLimit | None = None) -> None:
        self.decision = decision
        message = "Rate limit exceeded"
        if rate_limit is not None:
            window = format_duration(rate_limit.window)
            message += f": {rate_limit.name}, {rate_limit.limit} in {window}"
        super().__init__(message)


@frozen
class RateLimits:
    """The rate limits of a deployment; the defaults are the published ones."""

    general: RateLimit = RateLimit("general", 1000, timedelta(hours=1))
    webhooks: RateLimit = RateLimit("webhooks", 30, timedelta(minutes=15))
    bookings: RateLimit = RateLimit("bookings", 10, timedelta(hours=1))
    contact: RateLimit = RateLimit("contact", 5, timedelta(hours=1))
    channel: RateLimit = RateLimit("channel", 100, timedelta(seconds=60))
    """Client events of one connection of the channel."""
    channel_user: RateLimit = RateLimit("channel_user", 300, timedelta(seconds=60))
    """Client events of one user over all connections and processes."""

    pages: RateLimit = RateLimit("pages", 600, timedelta(minutes=10))
    """Public search and profile pages, per address. Not configurable."""

    export: RateLimit = RateLimit("export", 10, timedelta(hours=1))
    """Exports of the user's personal data, which may be large. Not configurable."""

    # Failed logins (CONTRACT 2). Not configurable.
    login_account: RateLimit = RateLimit("login_account", 10, timedelta(minutes=15))
    """Per account and address."""
    login_address: RateLimit = RateLimit("login_address", 50, timedelta(minutes=15))
    """Per address, whatever the account."""
    login_email: RateLimit = RateLimit("login_email", 100, timedelta(hours=24))
    """Per e-mail, whatever the address: it then closes the e-mail to unknown addresses."""

    # Emails that anybody can trigger. Not configurable.
    reset_account: RateLimit = RateLimit("reset_account", 3, timedelta(hours=1))
    """Per email address in the request, whether an account has it or not."""
    reset_address: RateLimit = RateLimit("reset_address", 20, timedelta(hours=1))
    register_address: RateLimit = RateLimit("register_address", 20, timedelta(hours=1))
    verification: RateLimit = RateLimit("verification", 3, timedelta(hours=1))
    """Per user."""
    verification_address: RateLimit = RateLimit("verification_address", 20, timedelta(hours=1))


def parse_rate_limits(text: str) -> RateLimits:
    """Parse limits such as `general=1000/1h,channel=100/60s`; others keep their default, but for
    `channel_user`, which follows `channel`.

    Raises ValueError, in one line that quotes the part, for an unknown name, a repeated name and
    invalid figures.
    """
    rules: dict[str, RateLimit] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, _, figures = part.partition("=")
        if name not in _CONFIGURABLE_RATE_LIMITS:
            raise ValueError(f"{part!r} names none of {', '.join(_CONFIGURABLE_RATE_LIMITS)}")
        if name in rules:
            raise ValueError(f"{part!r} names {name} a second time")
        rules[name] = _parse_rate_limit(name, figures, part)
    if (channel := rules.get("channel")) is not None and "channel_user" not in rules:
        limit = min(_CHANNEL_USER_FACTOR * channel.limit, _MAX_RATE_LIMIT)
        rules["channel_user"] = RateLimit("channel_user", limit, channel.window)
    return evolve(RateLimits(), **rules)


def _parse_rate_limit(name: str, figures: str, part: str) -> RateLimit:
    if not (match := _RATE_PATTERN.fullmatch(figures)):
        raise ValueError(f"{part!r} is not a limit such as {name}=100/1h")
    try:
        return RateLimit(name, int(match[1]), parse_duration(match[2]))
    except ValueError as error:
        raise ValueError(f"{part!r}: {error}") from None
