"""Calendars of other programs: a feed of a companion's bookings for them, and busy times from
their files (CONTRACT 3)."""

from __future__ import annotations

import hashlib
from datetime import date, datetime

from attrs import evolve, frozen

from staffbooking_core.domain.accounts.users import Actor
from staffbooking_core.domain.companions.availability import DAY, Interval
from staffbooking_core.domain.companions.companion import Companion
from staffbooking_core.errors import NotFound, invalid
from staffbooking_core.ports import Ports, Writing
from staffbooking_core.usecases.companions.profiles import hold

# The feed -------------------------------------------------------------------------------


async def feed_since(ports: Ports, actor: Actor) -> datetime | None:
    """When the staff member's feed was made; None where there is none."""
    async with ports.store.reading() as view:
        return await view.staff.feed_since(actor.user_id)


async def make_feed(ports: Ports, actor: Actor) -> tuple[str, datetime]:
    """A new secret for the feed, told this once, and when it was made: the one before opens
    nothing any more."""
    secret, now = ports.ids.token(), await ports.clock.business()

    async def unit(tx: Writing) -> None:
        _, companion = await hold(tx, actor)
        await tx.staff.save_feed(companion.id, _digest(secret), now)

    await ports.store.write(unit)
    return secret, now


async def remove_feed(ports: Ports, actor: Actor) -> None:
    """The feed's address opens nothing any more."""
    await ports.store.write(lambda tx: tx.staff.remove_feed(actor.user_id))


async def feed(ports: Ports, secret: str) -> bytes:
    """The bookings of the companion whose feed has that secret, as a calendar file: those just
    over and those that come, but cancelled ones. Raises NotFound."""
    since = await ports.clock.business() - ports.policy.feed_back
    most = ports.policy.max_feed_bookings
    async with ports.store.reading() as view:
        owner_id = await view.staff.feed(_digest(secret))
        owner = None if owner_id is None else await view.accounts.user(owner_id)
        if owner is None or owner.disabled_at is not None:
            raise NotFound("Calendar")
        bookings = await view.bookings.bookings_since(owner.id, since, most)
    return await ports.calendars.feed(f"Bookings of {owner.name}", bookings)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


# Busy times -----------------------------------------------------------------------------


@frozen
class BusyTimes:
    """Times taken elsewhere, and the day up to which they are known."""

    times: tuple[Interval, ...]
    until: date | None


_NONE = BusyTimes((), None)


async def busy_times(ports: Ports, actor: Actor) -> BusyTimes:
    async with ports.store.reading() as view:
        companion = await view.companions.companion(actor.user_id)
    if companion is None:
        return _NONE
    return BusyTimes(companion.calendar.busy, companion.calendar.busy_until)


async def set_busy_times(ports: Ports, actor: Actor, content: bytes) -> BusyTimes:
    """Take the busy times of a calendar file in the place of all that were taken before; what
    is booked stays booked. Raises InvalidField on `file`."""
    policy = ports.policy
    now = (await ports.clock.business()).replace(microsecond=0)
    window = Interval(now - DAY, now + policy.busy_ahead)
    async with ports.store.reading() as view:
        companion = await view.companions.companion(actor.user_id)
    timezone = "UTC" if companion is None else companion.calendar.timezone
    times = tuple(await ports.calendars.busy(content, timezone, window))
    if len(times) > policy.max_busy_times:
        raise invalid("file", f"has more than {policy.max_busy_times} busy times")
    taken = BusyTimes(times, window.ends_at.date())

    async def unit(tx: Writing) -> None:
        _, companion = await hold(tx, actor)
        await tx.companions.save_companion(_with(companion, taken))

    await ports.store.write(unit)
    return taken


async def clear_busy_times(ports: Ports, actor: Actor) -> None:
    """Nothing is known any more of times taken elsewhere."""

    async def unit(tx: Writing) -> None:
        companion = await tx.companions.lock_companion(actor.user_id)
        if companion is not None:
            await tx.companions.save_companion(_with(companion, _NONE))

    await ports.store.write(unit)


def _with(companion: Companion, taken: BusyTimes) -> Companion:
    calendar = evolve(companion.calendar, busy=taken.times, busy_until=taken.until)
    return evolve(companion, calendar=calendar)
