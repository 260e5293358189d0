"""Calendar subscriptions: addresses of a staff member's other calendars, which are read each hour.

Times of reading are wall time. A subscription that could be read is read again after an hour. After
failures the delay doubles up to a day; after a week of failures the subscription is disabled, and
its owner is told. The busy times of the last successful read hold until the subscription is
removed: a calendar that cannot be read does not make its owner free.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from itertools import chain
from urllib.parse import urlsplit

from attrs import evolve, field, frozen

from staffbooking_core.domain.companions.availability import DAY, Interval, merge_intervals
from staffbooking_core.policy import Policy

__all__ = ["CalendarReadFault", "CalendarSubscription", "CalendarVersion"]

_WEBCAL_SCHEMES = ("webcal", "webcals")
"""Schemes of links that open a calendar program; the calendar is at the same https address."""


class CalendarReadFault(StrEnum):
    """Why a calendar could not be read; the response itself is never shown."""

    NOT_FOUND = "not_found"
    REFUSED = "refused"
    """The address asks for a password, or permits no reading."""
    UNREACHABLE = "unreachable"
    NOT_PUBLIC = "not_public"
    """The address, or one that it redirects to, is not a public https address."""
    NOT_A_CALENDAR = "not_a_calendar"
    TOO_LARGE = "too_large"
    TOO_MANY_TIMES = "too_many_times"
    """It has more busy times than are stored of all calendars together."""
    ADDRESS_LOST = "address_lost"
    """No known key opens the stored address."""


@frozen
class CalendarVersion:
    """What a server says of a version of a calendar, for conditional requests."""

    etag: str | None = None
    last_modified: str | None = None


@frozen
class CalendarSubscription:
    """A calendar that is read again each hour."""

    id: int
    companion_id: int
    name: str
    """The owner's name for it; may be empty."""
    host: str
    """The host of the address, to recognize it by."""
    address: bytes = field(repr=False)
    """The sealed address, which is a secret and not shown again."""
    created_at: datetime
    next_read_at: datetime | None
    """None while disabled."""
    tried_at: datetime
    """The last attempt."""
    read_at: datetime
    """The last successful read."""
    parsed_at: datetime
    """The last read that computed the busy times: repetitions are computed up to a horizon."""
    timezone: str
    """The owner's time zone at that read."""
    etag: str | None = field(default=None, repr=False)
    last_modified: str | None = None
    fault: CalendarReadFault | None = None
    """Why the last attempt failed; None after a success."""
    failures: int = 0
    """Consecutive failed attempts."""
    failing_since: datetime | None = None
    busy: tuple[Interval, ...] = ()
    """The busy times of the last successful read."""

    @property
    def is_disabled(self) -> bool:
        return self.next_read_at is None

    def is_due(self, now: datetime) -> bool:
        return self.next_read_at is not None and self.next_read_at <= now

    def known_version(self, timezone: str, now: datetime) -> CalendarVersion:
        """The version that need not be sent again; none if the busy times must be computed anew,
        because a day has passed or the time zone was changed."""
        if timezone != self.timezone or now - self.parsed_at >= DAY:
            return CalendarVersion()
        return CalendarVersion(self.etag, self.last_modified)

    def with_busy_times(
        self,
        busy: Sequence[Interval],
        version: CalendarVersion,
        timezone: str,
        now: datetime,
        policy: Policy,
    ) -> CalendarSubscription:
        """The subscription after a read with these busy times."""
        read = evolve(
            self,
            busy=tuple(busy),
            etag=version.etag,
            last_modified=version.last_modified,
            timezone=timezone,
            parsed_at=now,
        )
        return read.as_read(now, policy)

    def as_read(self, now: datetime, policy: Policy) -> CalendarSubscription:
        """The subscription after a successful read."""
        return evolve(
            self,
            tried_at=now,
            read_at=now,
            next_read_at=now + policy.calendar_read_interval,
            fault=None,
            failures=0,
            failing_since=None,
        )

    def as_failed(
        self, fault: CalendarReadFault, now: datetime, policy: Policy
    ) -> CalendarSubscription:
        """The subscription after a failed attempt: with a longer delay, or disabled."""
        failing_since = self.failing_since or now
        delay = min(policy.calendar_read_interval * 2**self.failures, policy.calendar_max_delay)
        is_given_up = self.is_disabled or now - failing_since >= policy.calendar_disable_after
        return evolve(
            self,
            tried_at=now,
            next_read_at=None if is_given_up else now + delay,
            fault=fault,
            # Bounded, so that the delay can be computed.
            failures=min(self.failures + 1, 16),
            failing_since=failing_since,
        )


def busy_times_of(subscriptions: Sequence[CalendarSubscription]) -> tuple[Interval, ...]:
    """The busy times of all subscriptions together, sorted and merged."""
    return tuple(merge_intervals(chain.from_iterable(each.busy for each in subscriptions)))


def without_webcal(url: str) -> str:
    """The address with `webcal://`, as calendar programs copy it, replaced by `https://`."""
    scheme, separator, rest = url.strip().partition("://")
    return f"https://{rest}" if separator and scheme.lower() in _WEBCAL_SCHEMES else url.strip()


def is_address_of_feed(url: str, base_url: str) -> bool:
    """Whether an address is a calendar feed of this deployment."""
    try:
        given, own = urlsplit(url), urlsplit(base_url)
    except ValueError:
        return False
    return given.netloc.lower() == own.netloc.lower() and given.path.startswith(
        f"{own.path.rstrip('/')}/calendars/"
    )
