"""Calendar exchange: a feed of a companion's bookings, and busy times imported from calendar files
(CONTRACT 3)."""

from __future__ import annotations

import hashlib
from datetime import date, datetime

from attrs import evolve, frozen

from staffbooking_core.domain.accounts.users import Actor
from staffbooking_core.domain.companions.availability import DAY, Interval
from staffbooking_core.domain.companions.calendar_files import CalendarFile
from staffbooking_core.domain.companions.companion import Companion
from staffbooking_core.errors import NotFound, invalid_field
from staffbooking_core.ports import Ports, Transaction
from staffbooking_core.usecases.companions.profiles import lock_staff_member
from staffbooking_core.validation import validated, validated_lookup

__all__ = [
    "BusyTimes",
    "BusyTimesImport",
    "clear_busy_times",
    "create_feed",
    "feed_created_at",
    "get_busy_times",
    "remove_feed",
    "render_feed",
    "set_busy_times",
]

# The feed -------------------------------------------------------------------------------


@validated
async def feed_created_at(ports: Ports, actor: Actor) -> datetime | None:
    """When the staff member's feed was created; None without one."""
    async with ports.store.read_view() as view:
        return await view.portfolio.calendar_feed_created_at(actor.user_id)


@validated
async def create_feed(ports: Ports, actor: Actor) -> tuple[str, datetime]:
    """Create the feed's secret; returns it, and its time of creation. The secret is shown only once
    and replaces the previous one, which stops working.

    Raises NotFound. Locks the user, then the companion.
    """
    secret, now = ports.ids.token(), await ports.clock.business()

    async def unit(tx: Transaction) -> None:
        _, companion = await lock_staff_member(tx, actor)
        await tx.portfolio.save_calendar_feed(companion.id, _digest(secret), now)

    await ports.store.run_transaction(unit)
    return secret, now


@validated
async def remove_feed(ports: Ports, actor: Actor) -> None:
    """Remove the feed: its address stops working."""
    await ports.store.run_transaction(lambda tx: tx.portfolio.remove_calendar_feed(actor.user_id))


@validated_lookup("Calendar feed")
async def render_feed(ports: Ports, secret: str) -> bytes:
    """The companion's bookings as an iCalendar file: recent and coming ones, without cancelled
    ones.

    Raises NotFound for an unknown secret, and where its owner is disabled.
    """
    since = await ports.clock.business() - ports.policy.feed_history
    max_bookings = ports.policy.max_feed_bookings
    async with ports.store.read_view() as view:
        owner_id = await view.portfolio.calendar_feed_owner_id(_digest(secret))
        owner = None if owner_id is None else await view.accounts.user(owner_id)
        if owner is None or owner.disabled_at is not None:
            raise NotFound("Calendar")
        bookings = await view.bookings.bookings_since(owner.id, since, max_bookings)
    return await ports.calendars.format_feed(f"Bookings of {owner.name}", bookings)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


# Busy times -----------------------------------------------------------------------------


@frozen
class BusyTimes:
    """Times that are taken by other calendars, and the last day that they cover."""

    times: tuple[Interval, ...]
    until: date | None


_NO_BUSY_TIMES = BusyTimes((), None)


@validated
async def get_busy_times(ports: Ports, actor: Actor) -> BusyTimes:
    """The imported busy times of the staff member."""
    async with ports.store.read_view() as view:
        companion = await view.companions.companion(actor.user_id)
    if companion is None:
        return _NO_BUSY_TIMES
    return BusyTimes(companion.calendar.busy, companion.calendar.busy_until)


@frozen
class BusyTimesImport:
    """What was imported of a calendar file, and the last day up to which it was looked through."""

    file: CalendarFile
    until: date


@validated
async def set_busy_times(ports: Ports, actor: Actor, content: bytes) -> BusyTimesImport:
    """Replace the imported busy times by those of a calendar file. Bookings stay as they are. The
    file is parsed before the user and the companion are locked.

    Raises InvalidField on `file`, and NotFound.
    """
    policy = ports.policy
    now = (await ports.clock.business()).replace(microsecond=0)
    window = Interval(now - DAY, now + policy.busy_import_horizon)
    async with ports.store.read_view() as view:
        companion = await view.companions.companion(actor.user_id)
    timezone = "UTC" if companion is None else companion.calendar.timezone
    file = await ports.calendars.parse_busy_times(content, timezone, window)
    if len(file.times) > policy.max_busy_times:
        raise invalid_field("file", f"has more than {policy.max_busy_times} busy times")
    new_busy_times = BusyTimes(file.times, window.ends_at.date())

    async def unit(tx: Transaction) -> None:
        _, companion = await lock_staff_member(tx, actor)
        await tx.companions.save_companion(_with_busy_times(companion, new_busy_times))

    await ports.store.run_transaction(unit)
    return BusyTimesImport(file, window.ends_at.date())


@validated
async def clear_busy_times(ports: Ports, actor: Actor) -> None:
    """Delete the imported busy times. Locks the companion."""

    async def unit(tx: Transaction) -> None:
        companion = await tx.companions.lock_companion(actor.user_id)
        if companion is not None:
            await tx.companions.save_companion(_with_busy_times(companion, _NO_BUSY_TIMES))

    await ports.store.run_transaction(unit)


def _with_busy_times(companion: Companion, new_busy_times: BusyTimes) -> Companion:
    calendar = evolve(
        companion.calendar, busy=new_busy_times.times, busy_until=new_busy_times.until
    )
    return evolve(companion, calendar=calendar)
