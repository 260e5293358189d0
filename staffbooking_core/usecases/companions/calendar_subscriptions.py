"""Calendar subscriptions: a staff member's other calendars, read again each hour.

A subscription is claimed with a lease, the calendar is read outside of transactions, and the result
is saved in another transaction if the claim still holds. So after a crash it is read again once the
claim has expired, and two readers never save. Its busy times and those of the owner's calendar,
which has the busy times of all subscriptions, change in that one transaction.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from attrs import evolve, frozen

from staffbooking_core.domain.accounts.users import Actor
from staffbooking_core.domain.companions.availability import DAY, Interval
from staffbooking_core.domain.companions.calendar_subscriptions import (
    CalendarReadFault,
    CalendarSubscription,
    CalendarVersion,
    busy_times_of,
    is_address_of_feed,
    without_webcal,
)
from staffbooking_core.domain.companions.companion import Companion
from staffbooking_core.domain.notifications.disabled import calendar_disabled_notification
from staffbooking_core.domain.webhooks.url_safety import validate_webhook_url
from staffbooking_core.errors import (
    Conflict,
    InvalidField,
    NotFound,
    RuleBroken,
    SealBroken,
    invalid_field,
)
from staffbooking_core.inputs import AddCalendarAddress
from staffbooking_core.ports import Lease, Ports, Transaction
from staffbooking_core.usecases.companions.profiles import lock_staff_member
from staffbooking_core.validation import validated

__all__ = [
    "AddressReseal",
    "list_subscriptions",
    "read_due_calendar",
    "read_now",
    "reseal_addresses",
    "subscribe",
    "unsubscribe",
]

_logger = logging.getLogger("staffbooking.calendars")

_ADDRESS_PURPOSE = "calendar-address"

_FAULT_MESSAGES: Mapping[CalendarReadFault, str] = {
    CalendarReadFault.NOT_FOUND: "leads to no calendar: there is nothing at this address",
    CalendarReadFault.REFUSED: "asks for a password: copy the secret or public address instead",
    CalendarReadFault.UNREACHABLE: "could not be reached: check it, or try again later",
    CalendarReadFault.NOT_PUBLIC: "must be a public https address",
    CalendarReadFault.NOT_A_CALENDAR: "leads to something that is no readable calendar (.ics)",
    CalendarReadFault.TOO_LARGE: "leads to a calendar that is too large",
    CalendarReadFault.TOO_MANY_TIMES: "has too many busy times, with those of your other addresses",
}
"""Why a new address is refused, as the rest of a sentence."""


@frozen
class _CalendarRead:
    """What a calendar was when it was read; `busy` is None where it has not changed."""

    busy: Sequence[Interval] | None
    version: CalendarVersion
    timezone: str


# Actions of the owner -------------------------------------------------------------------


@validated
async def list_subscriptions(ports: Ports, actor: Actor) -> Sequence[CalendarSubscription]:
    """The staff member's subscriptions, the oldest first."""
    async with ports.store.read_view() as view:
        return await view.calendar_subscriptions.subscriptions_of(actor.user_id)


@validated
async def subscribe(
    ports: Ports, actor: Actor, command: AddCalendarAddress
) -> CalendarSubscription:
    """Subscribe to a calendar, which is read first: one that can't be read is not stored. Locks the
    user, then the companion.

    Raises InvalidField on `url` where the address is refused, known already or can't be read,
    RuleBroken `too_many_calendars`, and NotFound.
    """
    url = without_webcal(command.url)
    host = _check_address(ports, url)
    async with ports.store.read_view() as view:
        _check_new(ports, await view.calendar_subscriptions.subscriptions_of(actor.user_id), url)
        companion = await view.companions.companion(actor.user_id)
    timezone = "UTC" if companion is None else companion.calendar.timezone
    result = await _read(ports, url, CalendarVersion(), timezone)
    if isinstance(result, CalendarReadFault):
        raise invalid_field("url", _FAULT_MESSAGES[result])
    now = ports.clock.wall()
    new = CalendarSubscription(
        id=0,
        companion_id=actor.user_id,
        name=" ".join(command.name.split()),
        host=host,
        address=b"",
        created_at=now,
        next_read_at=now + ports.policy.calendar_read_interval,
        tried_at=now,
        read_at=now,
        parsed_at=now,
        timezone=result.timezone,
        etag=result.version.etag,
        last_modified=result.version.last_modified,
        busy=tuple(result.busy or ()),
    )

    async def unit(tx: Transaction) -> CalendarSubscription:
        _, companion = await lock_staff_member(tx, actor)
        others = await tx.calendar_subscriptions.subscriptions_of(companion.id)
        _check_new(ports, others, url)
        if not _has_room(ports, [*others, new]):
            fault = CalendarReadFault.TOO_MANY_TIMES
            raise invalid_field("url", _FAULT_MESSAGES[fault])
        added = await tx.calendar_subscriptions.add_subscription(new)
        sealed = evolve(added, address=_seal(ports, url, added.id))
        await tx.calendar_subscriptions.save_subscription(sealed)
        await _save_busy_times(tx, companion, [*others, sealed])
        return sealed

    return await ports.store.run_transaction(unit)


@validated
async def read_now(ports: Ports, actor: Actor, subscription_id: int) -> CalendarSubscription:
    """Read a calendar now; returns the subscription after it, with the fault if it failed. One that
    was disabled is read each hour again once that succeeds.

    Raises NotFound, and RuleBroken `calendar_just_read` where it is being read, or was less than
    the policy's `calendar_min_interval` ago.
    """
    found = await _find(ports, actor, subscription_id)
    if ports.clock.wall() - found.tried_at < ports.policy.calendar_min_interval:
        raise _just_read()
    claimed = await _claim(ports, subscription_id)
    if claimed is None:
        raise _just_read()
    with suppress(Conflict):  # Removed meanwhile, or read by somebody else.
        await _read_and_save(ports, *claimed)
    return await _find(ports, actor, subscription_id)


def _just_read() -> RuleBroken:
    return RuleBroken("calendar_just_read", "This calendar was read just now")


async def _find(ports: Ports, actor: Actor, subscription_id: int) -> CalendarSubscription:
    for each in await list_subscriptions(ports, actor):
        if each.id == subscription_id:
            return each
    raise NotFound("Calendar")


@validated
async def unsubscribe(ports: Ports, actor: Actor, subscription_id: int) -> None:
    """Remove a subscription with its busy times. Locks the companion. Raises NotFound."""

    async def unit(tx: Transaction) -> None:
        companion = await tx.companions.lock_companion(actor.user_id)
        if companion is None or not await tx.calendar_subscriptions.remove_subscription(
            actor.user_id, subscription_id
        ):
            raise NotFound("Calendar")
        left = await tx.calendar_subscriptions.subscriptions_of(actor.user_id)
        await _save_busy_times(tx, companion, left)

    await ports.store.run_transaction(unit)


def _check_address(ports: Ports, url: str) -> str:
    """The host of an address. Raises InvalidField on `url`."""
    if is_address_of_feed(url, ports.policy.base_url):
        raise invalid_field("url", "is the feed of bookings here, which are known already")
    try:
        return validate_webhook_url(url, allow_insecure=ports.policy.webhook_allow_insecure)
    except ValueError as error:
        raise invalid_field("url", str(error)) from None


def _check_new(ports: Ports, known: Sequence[CalendarSubscription], url: str) -> None:
    """Raises RuleBroken `too_many_calendars`, and InvalidField for an address that is known."""
    limit = ports.policy.max_calendar_subscriptions
    if len(known) >= limit:
        message = f"You have {limit} calendar addresses, which is the limit: remove one first"
        raise RuleBroken("too_many_calendars", message)
    for each in known:
        with suppress(SealBroken):
            if _open(ports, each) == url:
                raise invalid_field("url", "is one of your addresses already")


# Keys -----------------------------------------------------------------------------------


@frozen
class AddressReseal:
    """Outcome of resealing a batch of addresses."""

    last_id: int
    """The last subscription that was read; 0 where there are no more."""
    changed: int
    broken: Sequence[int]
    """Subscriptions whose addresses cannot be unsealed; they are unchanged."""


@validated
async def reseal_addresses(ports: Ports, after_id: int, limit: int) -> AddressReseal:
    """Seal the addresses of up to `limit` subscriptions above `after_id` with the current key. One
    transaction each; a claim of a reader continues."""
    async with ports.store.read_view() as view:
        batch = await view.calendar_subscriptions.subscriptions(after_id, limit)
    changed, broken = 0, []
    for each in batch:
        if ports.vault.is_current(each.address):
            continue
        try:
            changed += await _reseal(ports, each)
        except SealBroken:
            broken.append(each.id)
    return AddressReseal(batch[-1].id if batch else 0, changed, broken)


async def _reseal(ports: Ports, subscription: CalendarSubscription) -> bool:
    """Whether the address was sealed again; not where it was removed meanwhile."""
    new = _seal(ports, _open(ports, subscription), subscription.id)

    async def unit(tx: Transaction) -> bool:
        return await tx.calendar_subscriptions.reseal_subscription(
            subscription.id, subscription.address, new
        )

    return await ports.store.run_transaction(unit)


# Reading what is due --------------------------------------------------------------------


async def read_due_calendar(ports: Ports) -> int:
    """Read the calendar that is due first; returns 1 if there was one, else 0."""
    claimed = await _claim(ports)
    if claimed is None:
        return 0
    with suppress(Conflict):  # Removed meanwhile, or the claim has expired.
        await _read_and_save(ports, *claimed)
    return 1


async def _claim(
    ports: Ports, subscription_id: int | None = None
) -> tuple[CalendarSubscription, Lease] | None:
    """Claim the subscription that is due first, or the given one; None where there is none."""
    now = ports.clock.wall()
    lease = Lease(ports.ids.token(), now + ports.policy.calendar_lease)

    async def unit(tx: Transaction) -> Sequence[CalendarSubscription]:
        return await tx.calendar_subscriptions.claim_subscriptions(now, lease, 1, subscription_id)

    claimed = await ports.store.run_transaction(unit)
    return (claimed[0], lease) if claimed else None


async def _read_and_save(ports: Ports, claimed: CalendarSubscription, lease: Lease) -> None:
    """Read a claimed calendar, and save the result. Raises Conflict where the claim was lost."""
    async with ports.store.read_view() as view:
        user = await view.accounts.user(claimed.companion_id)
        companion = await view.companions.companion(claimed.companion_id)
    if user is None or user.disabled_at is not None or companion is None:
        await _postpone(ports, claimed, lease, ports.policy.calendar_read_interval)
        return
    timezone = companion.calendar.timezone
    known = claimed.known_version(timezone, ports.clock.wall())
    result: _CalendarRead | CalendarReadFault
    try:
        result = await _read(ports, _open(ports, claimed), known, timezone)
    except SealBroken:
        _logger.error("the address of calendar subscription %d can't be opened", claimed.id)
        result = CalendarReadFault.ADDRESS_LOST
    await _save_result(ports, claimed, lease, result)


async def _postpone(
    ports: Ports, claimed: CalendarSubscription, lease: Lease, delay: timedelta
) -> None:
    async def unit(tx: Transaction) -> None:
        held = await tx.calendar_subscriptions.lock_subscription(claimed.id, lease)
        later = None if held.is_disabled else ports.clock.wall() + delay
        await tx.calendar_subscriptions.save_subscription(evolve(held, next_read_at=later))

    await ports.store.run_transaction(unit)


async def _save_result(
    ports: Ports,
    claimed: CalendarSubscription,
    lease: Lease,
    result: _CalendarRead | CalendarReadFault,
) -> None:
    """Save the result of a read, and end the claim."""
    now = ports.clock.wall()

    async def unit(tx: Transaction) -> None:
        companion = await tx.companions.lock_companion(claimed.companion_id)
        held = await tx.calendar_subscriptions.lock_subscription(claimed.id, lease)
        others = [
            each
            for each in await tx.calendar_subscriptions.subscriptions_of(held.companion_id)
            if each.id != held.id
        ]
        changed = _apply(ports, held, others, result, now)
        await tx.calendar_subscriptions.save_subscription(changed)
        if companion is not None:
            await _save_busy_times(tx, companion, [*others, changed])
        if changed.is_disabled and not held.is_disabled:
            notification = calendar_disabled_notification(changed, ports.policy)
            await tx.notifications.add_notifications([notification], now)

    await ports.store.run_transaction(unit)


def _apply(
    ports: Ports,
    held: CalendarSubscription,
    others: Sequence[CalendarSubscription],
    result: _CalendarRead | CalendarReadFault,
    now: datetime,
) -> CalendarSubscription:
    """The subscription after a read with this result."""
    policy = ports.policy
    if isinstance(result, CalendarReadFault):
        return held.as_failed(result, now, policy)
    if result.busy is None:
        return held.as_read(now, policy)
    changed = held.with_busy_times(result.busy, result.version, result.timezone, now, policy)
    if not _has_room(ports, [*others, changed]):
        return held.as_failed(CalendarReadFault.TOO_MANY_TIMES, now, policy)
    return changed


# Reading one ----------------------------------------------------------------------------


async def _read(
    ports: Ports, url: str, known: CalendarVersion, timezone: str
) -> _CalendarRead | CalendarReadFault:
    """Read a calendar; whole days and times without a zone are in `timezone`."""
    policy = ports.policy
    fetched = await ports.calendar_fetcher.fetch(
        url, known, policy.max_calendar_bytes, policy.calendar_read_timeout.total_seconds()
    )
    if isinstance(fetched, CalendarReadFault):
        return fetched
    if fetched is None:
        return _CalendarRead(None, known, timezone)
    now = (await ports.clock.business()).replace(microsecond=0)
    window = Interval(now - DAY, now + policy.busy_import_horizon)
    try:
        parsed = await ports.calendars.parse_busy_times(fetched.content, timezone, window)
    except InvalidField:
        return CalendarReadFault.NOT_A_CALENDAR
    return _CalendarRead(parsed.times, fetched.version, timezone)


def _has_room(ports: Ports, subscriptions: Sequence[CalendarSubscription]) -> bool:
    return len(busy_times_of(subscriptions)) <= ports.policy.max_busy_times


async def _save_busy_times(
    tx: Transaction, companion: Companion, subscriptions: Sequence[CalendarSubscription]
) -> None:
    """Save the companion with the busy times of all subscriptions, if they have changed."""
    busy = busy_times_of(subscriptions)
    if busy != companion.calendar.subscribed_busy:
        calendar = evolve(companion.calendar, subscribed_busy=busy)
        await tx.companions.save_companion(evolve(companion, calendar=calendar))


def _seal(ports: Ports, url: str, subscription_id: int) -> bytes:
    return ports.vault.seal(_ADDRESS_PURPOSE, url.encode(), subscription_id)


def _open(ports: Ports, subscription: CalendarSubscription) -> str:
    """The address of a subscription. Raises SealBroken."""
    return ports.vault.open(_ADDRESS_PURPOSE, subscription.address, subscription.id).decode()
