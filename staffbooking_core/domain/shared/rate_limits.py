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

MAX_LIMIT = 1_000_000_000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_CHANGEABLE = ("general", "webhooks", "bookings", "contact", "channel")
_FIGURES = re.compile(r"([1-9][0-9]{0,9})/([0-9]+[smh])")


@frozen
class Rule:
    """At most `limit` hits in a window of `window` (whole seconds) from its first hit."""

    name: str
    limit: int = field()
    window: timedelta = field()

    @limit.validator
    def _is_countable(self, _: Attribute[int], limit: int) -> None:
        if not 1 <= limit <= MAX_LIMIT:
            raise ValueError(f"a limit is from 1 to {MAX_LIMIT}")

    @window.validator
    def _is_whole(self, _: Attribute[timedelta], window: timedelta) -> None:
        if window < _SECOND or window % _SECOND:
            raise ValueError("a window is at least 1s, in whole seconds")


@frozen
class Window:
    """What is kept of a window that is running: its hits so far, and when it ends."""

    count: int
    resets_at: datetime


@frozen
class Verdict:
    """What a hit meets: the figures of the `X-RateLimit-*` headers, and whether it passes."""

    limit: int
    remaining: int
    reset: int
    """When the window ends: Unix time in seconds, rounded up."""
    allowed: bool
    retry_after: int
    """Seconds until the next try, at least 1; 0 for a hit that is allowed."""


def hit(window: Window | None, now: datetime, rule: Rule, n: int = 1) -> tuple[Window, Verdict]:
    """Count `n` hits into a window, or into a new one where there is none or it has ended.

    `now` is wall time. The verdict is that of the last of the hits.
    """
    if window is None or window.resets_at <= now:
        window = Window(0, now + rule.window)
    window = Window(window.count + n, window.resets_at)
    return window, verdict(rule, window.count, window.resets_at, now)


def verdict(rule: Rule, count: int, resets_at: datetime, now: datetime) -> Verdict:
    """What the `count`-th hit of a window meets."""
    allowed = count <= rule.limit
    return Verdict(
        limit=rule.limit,
        remaining=max(0, rule.limit - count),
        reset=_seconds(resets_at - _EPOCH),
        allowed=allowed,
        retry_after=0 if allowed else max(1, _seconds(resets_at - now)),
    )


def look(window: Window | None, now: datetime, rule: Rule) -> Verdict:
    """The figures of a window as they stand, and whether one more hit would pass."""
    count = window.count if window and now < window.resets_at else 0
    _, following = hit(window, now, rule)
    return evolve(following, remaining=max(0, rule.limit - count))


def _seconds(length: timedelta) -> int:
    """Whole seconds, rounded up, in integers all the way."""
    return -(-length // _SECOND)


class LimitExceeded(StaffbookingError):
    """A window of requests is spent; `verdict` says until when."""

    code = "rate_limited"

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        super().__init__("Rate limit exceeded")


@frozen
class Limits:
    """The rules of a deployment; the defaults are the published ones."""

    general: Rule = Rule("general", 1000, timedelta(hours=1))
    webhooks: Rule = Rule("webhooks", 30, timedelta(minutes=15))
    bookings: Rule = Rule("bookings", 10, timedelta(hours=1))
    contact: Rule = Rule("contact", 5, timedelta(hours=1))
    channel: Rule = Rule("channel", 100, timedelta(seconds=60))

    export: Rule = Rule("export", 10, timedelta(hours=1))
    """Of all that is kept about oneself, which may be much; no deployment changes this either."""

    # Failed logins (CONTRACT 2): no deployment changes these.
    login_account: Rule = Rule("login_account", 10, timedelta(minutes=15))
    """Per account and address."""
    login_address: Rule = Rule("login_address", 50, timedelta(minutes=15))
    """Per address, whatever the account."""

    # Mails that anybody may have sent: nor these.
    reset_account: Rule = Rule("reset_account", 3, timedelta(hours=1))
    """Of an account that may be nobody's."""
    reset_address: Rule = Rule("reset_address", 20, timedelta(hours=1))
    register_address: Rule = Rule("register_address", 20, timedelta(hours=1))
    verification: Rule = Rule("verification", 3, timedelta(hours=1))
    """Per user."""
    verification_address: Rule = Rule("verification_address", 20, timedelta(hours=1))


def parse_limits(text: str) -> Limits:
    """The default limits with the figures of a text such as `general=1000/1h,channel=100/60s`.

    What it doesn't name keeps its default. ValueError, in one line that quotes the part,
    for an unknown name, a name given twice and figures that make no rule.
    """
    rules: dict[str, Rule] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, _, figures = part.partition("=")
        if name not in _CHANGEABLE:
            raise ValueError(f"{part!r} names none of {', '.join(_CHANGEABLE)}")
        if name in rules:
            raise ValueError(f"{part!r} names {name} a second time")
        rules[name] = _parse_rule(name, figures, part)
    return evolve(Limits(), **rules)


def _parse_rule(name: str, figures: str, part: str) -> Rule:
    if not (match := _FIGURES.fullmatch(figures)):
        raise ValueError(f"{part!r} is not a limit such as {name}=100/1h")
    try:
        return Rule(name, int(match[1]), parse_duration(match[2]))
    except ValueError as error:
        raise ValueError(f"{part!r}: {error}") from None
