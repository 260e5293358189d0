"""Limits of requests and events: fixed windows, each from its first hit (CONTRACT 8).

A store that counts for many processes keeps the count and the end of each window itself,
and asks `verdict` what a count means; who counts alone uses `hit`. `look` counts nothing.
Refused hits count too, but never make a window longer.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from attrs import Attribute, evolve, field, frozen

from staffbooking_core.domain.shared.durations import parse_duration
from staffbooking_core.errors import StaffbookingError

_MAX_RATE_LIMIT = 1_000_000_000

_UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_CONFIGURABLE_RATE_LIMITS = ("general", "webhooks", "bookings", "contact", "channel")
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
    """What is kept of a window that is running: its hits so far, and when it ends."""

    count: int
    resets_at: datetime


@frozen
class RateLimitDecision:
    """What a hit meets: the figures of the `X-RateLimit-*` headers, and whether it passes."""

    limit: int
    remaining: int
    reset: int
    """When the window ends: Unix time in seconds, rounded up."""
    allowed: bool
    retry_after: int
    """Seconds until the next try, at least 1; 0 for a hit that is allowed."""


def record_hits(
    window: RateLimitWindow | None, now: datetime, rate_limit: RateLimit, hits: int = 1
) -> tuple[RateLimitWindow, RateLimitDecision]:
    """Count `n` hits into a window, or into a new one where there is none or it has ended.

    `now` is wall time. The verdict is that of the last of the hits.
    """
    if window is None or window.resets_at <= now:
        window = RateLimitWindow(0, now + rate_limit.window)
    window = RateLimitWindow(window.count + hits, window.resets_at)
    return window, decide(rate_limit, window.count, window.resets_at, now)


def decide(
    rate_limit: RateLimit, count: int, resets_at: datetime, now: datetime
) -> RateLimitDecision:
    """What the `count`-th hit of a window meets."""
    allowed = count <= rate_limit.limit
    return RateLimitDecision(
        limit=rate_limit.limit,
        remaining=max(0, rate_limit.limit - count),
        reset=_ceil_seconds(resets_at - _UNIX_EPOCH),
        allowed=allowed,
        retry_after=0 if allowed else max(1, _ceil_seconds(resets_at - now)),
    )


def peek(window: RateLimitWindow | None, now: datetime, rate_limit: RateLimit) -> RateLimitDecision:
    """The figures of a window as they stand, and whether one more hit would pass."""
    count = window.count if window and now < window.resets_at else 0
    _, following = record_hits(window, now, rate_limit)
    return evolve(following, remaining=max(0, rate_limit.limit - count))


def _ceil_seconds(length: timedelta) -> int:
    """Whole seconds, rounded up, in integers all the way."""
    return -(-length // _SECOND)


class RateLimitExceeded(StaffbookingError):
    """A window of requests is spent; `verdict` says until when."""

    code = "rate_limited"

    def __init__(self, decision: RateLimitDecision) -> None:
        self.decision = decision
        super().__init__("Rate limit exceeded")


@frozen
class RateLimits:
    """The rules of a deployment; the defaults are the published ones."""

    general: RateLimit = RateLimit("general", 1000, timedelta(hours=1))
    webhooks: RateLimit = RateLimit("webhooks", 30, timedelta(minutes=15))
    bookings: RateLimit = RateLimit("bookings", 10, timedelta(hours=1))
    contact: RateLimit = RateLimit("contact", 5, timedelta(hours=1))
    channel: RateLimit = RateLimit("channel", 100, timedelta(seconds=60))

    export: RateLimit = RateLimit("export", 10, timedelta(hours=1))
    """Of all that is kept about oneself, which may be much; no deployment changes this either."""

    # Failed logins (CONTRACT 2): no deployment changes these.
    login_account: RateLimit = RateLimit("login_account", 10, timedelta(minutes=15))
    """Per account and address."""
    login_address: RateLimit = RateLimit("login_address", 50, timedelta(minutes=15))
    """Per address, whatever the account."""

    # Mails that anybody may have sent: nor these.
    reset_account: RateLimit = RateLimit("reset_account", 3, timedelta(hours=1))
    """Of an account that may be nobody's."""
    reset_address: RateLimit = RateLimit("reset_address", 20, timedelta(hours=1))
    register_address: RateLimit = RateLimit("register_address", 20, timedelta(hours=1))
    verification: RateLimit = RateLimit("verification", 3, timedelta(hours=1))
    """Per user."""
    verification_address: RateLimit = RateLimit("verification_address", 20, timedelta(hours=1))


def parse_rate_limits(text: str) -> RateLimits:
    """The default limits with the figures of a text such as `general=1000/1h,channel=100/60s`.

    What it doesn't name keeps its default. ValueError, in one line that quotes the part,
    for an unknown name, a name given twice and figures that make no rule.
    """
    rules: dict[str, RateLimit] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, _, figures = part.partition("=")
        if name not in _CONFIGURABLE_RATE_LIMITS:
            raise ValueError(f"{part!r} names none of {', '.join(_CONFIGURABLE_RATE_LIMITS)}")
        if name in rules:
            raise ValueError(f"{part!r} names {name} a second time")
        rules[name] = _parse_rate_limit(name, figures, part)
    return evolve(RateLimits(), **rules)


def _parse_rate_limit(name: str, figures: str, part: str) -> RateLimit:
    if not (match := _RATE_PATTERN.fullmatch(figures)):
        raise ValueError(f"{part!r} is not a limit such as {name}=100/1h")
    try:
        return RateLimit(name, int(match[1]), parse_duration(match[2]))
    except ValueError as error:
        raise ValueError(f"{part!r}: {error}") from None
