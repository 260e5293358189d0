"""The sandbox: moves the service's clock and injects faults into the fake processor (CONTRACT 9);
lets testers sign in as people of the sample, and read the mails that were sent. Available only
where payments are simulated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from attrs import frozen

from staffbooking_core.domain.accounts.users import User
from staffbooking_core.domain.bookings.lifecycle import EventName
from staffbooking_core.domain.payments.processor import ProcessorError
from staffbooking_core.errors import Conflict, NotFound, RuleBroken, invalid_field
from staffbooking_core.ports import (
    CheckoutPage,
    NextTimer,
    PayeePage,
    Ports,
    SandboxMark,
    SandboxProcessor,
    SentMail,
    Transaction,
)
from staffbooking_core.usecases import health
from staffbooking_core.usecases.accounts import sessions
from staffbooking_core.usecases.booking_writes import require_by_code
from staffbooking_core.usecases.payments import payees, reconciliation
from staffbooking_core.validation import validated, validated_lookup

__all__ = [
    "SandboxActivity",
    "advance_clock",
    "complete_payee",
    "find_next_timer",
    "get_mark",
    "get_processor",
    "list_happenings",
    "list_sample_accounts",
    "list_sent_mails",
    "mark_sample_account",
    "require_sandbox",
    "set_clock",
    "sign_in_sample_account",
    "simulate_chargeback",
    "simulate_checkout",
]

_MAX_CLOCK_OFFSET = timedelta(days=3660)
"""Limit of the sandbox clock's offset: calendars and certificates have a last date."""


@validated
async def advance_clock(ports: Ports, step: timedelta) -> datetime:
    """Move business time ahead by `step`; returns the new business time.

    Raises NotFound without a sandbox, RuleBroken `clock_backwards`, and InvalidField on
    `advance_seconds` if the clock would be more than 3,660 days ahead.
    """
    return await _move_clock(ports, "advance_seconds", lambda now: now + step)


@validated
async def set_clock(ports: Ports, to: datetime) -> datetime:
    """Set business time to an instant that is not in its past; returns the new business time.

    Raises NotFound without a sandbox, RuleBroken `clock_backwards`, and InvalidField on `set_to`
    if the clock would be more than 3,660 days ahead.
    """
    return await _move_clock(ports, "set_to", lambda _: to)


async def _move_clock(ports: Ports, field: str, target: Callable[[datetime], datetime]) -> datetime:
    require_sandbox(ports)

    async def unit(tx: Transaction) -> datetime:
        wall = ports.clock.wall()
        now = wall + await tx.sandbox.lock_clock()
        try:
            moved = target(now)
        except OverflowError:
            raise invalid_field(field, "is too far ahead") from None
        if moved < now:
            raise RuleBroken("clock_backwards", "The sandbox's clock only runs forward")
        if moved - wall > _MAX_CLOCK_OFFSET:
            raise invalid_field(field, "is too far ahead")
        await tx.sandbox.set_clock_offset(moved - wall)
        return moved

    return await ports.store.run_transaction(unit)


def get_processor(ports: Ports) -> SandboxProcessor:
    """The fake processor with its hosted pages. Raises NotFound where payments are real."""
    if ports.sandbox is None:
        raise NotFound("Sandbox")
    return ports.sandbox


def require_sandbox(ports: Ports) -> SandboxProcessor:
    """The fake processor with its fault controls. Raises NotFound where the policy has no
    sandbox, and ClockWrong."""
    if not ports.policy.sandbox:
        raise NotFound("Sandbox")
    health.check_clock(ports)
    return get_processor(ports)


@validated_lookup("Checkout")
async def simulate_checkout(ports: Ports, ref: str, outcome: str) -> CheckoutPage:
    """Act on a checkout page as a customer would. A payment is applied to the booking when this
    returns, unless a fault delays the event.

    Raises NotFound, and InvalidField on `outcome`.
    """
    health.check_clock(ports)
    since = await ports.clock.business()
    page = await get_processor(ports).simulate_checkout(ref, outcome)
    if page is None:
        raise NotFound("Checkout")
    await _sync_subject(ports, page.intent_id, since)
    return page


@validated_lookup("Payout account")
async def complete_payee(ports: Ports, ref: str) -> PayeePage:
    """Complete an onboarding page as a staff member would. The payee is ready when this returns,
    unless a fault delays the event. Raises NotFound."""
    health.check_clock(ports)
    since = await ports.clock.business()
    page = await get_processor(ports).complete_payee(ref)
    if page is None:
        raise NotFound("Payout account")
    await _sync_subject(ports, page.ref, since)
    return page


async def _sync_subject(ports: Ports, subject: int | str, since: datetime) -> None:
    """Apply the processor's state of an intent (by id) or a payee (by reference). Another process
    may have taken the event and not processed it yet, so the subject is synced here as well, unless
    a fault holds the event back."""
    await reconciliation.deliver_sandbox_events(ports)
    if not await get_processor(ports).is_event_taken(subject, since):
        return
    timeout = ports.policy.processor_timeout
    with suppress(ProcessorError, Conflict):  # The process that took the event retries it.
        if isinstance(subject, int):
            await reconciliation.sync_intent(ports, subject, timeout)
        else:
            await payees.sync_payee(ports, subject, timeout)


@validated
async def simulate_chargeback(ports: Ports, code: str, outcome: str) -> None:
    """Open, win or lose a chargeback of a booking's payment, and apply it to the booking.

    Raises NotFound, and InvalidField on `outcome`.
    """
    simulated = require_sandbox(ports)
    async with ports.store.read_view() as view:
        booking = await require_by_code(view.bookings, code)
    since = await ports.clock.business()
    await simulated.chargeback(booking.id, outcome)
    await _sync_subject(ports, booking.id, since)


# Testers ----------------------------------------------------------------------------------


@validated
async def mark_sample_account(ports: Ports, user_id: int) -> None:
    """Mark an account that the sample made: everybody may sign in as its owner.

    Raises NotFound without a sandbox.
    """
    require_sandbox(ports)
    await ports.store.run_transaction(lambda tx: tx.accounts.mark_sample_account(user_id))


@validated
async def list_sample_accounts(ports: Ports) -> Sequence[User]:
    """The accounts of the sample that can sign in, by id. Raises NotFound without a sandbox."""
    require_sandbox(ports)
    async with ports.store.read_view() as view:
        return await view.accounts.sample_accounts()


@validated
async def sign_in_sample_account(ports: Ports, user_id: int) -> tuple[User, str]:
    """Sign in as somebody of the sample; returns the user, and the token of a new session.

    Raises NotFound without a sandbox, and for every other account.
    """
    if not any(user.id == user_id for user in await list_sample_accounts(ports)):
        raise NotFound("Account")
    return await sessions.start_session(ports, user_id)


@frozen
class SandboxActivity:
    """Events and mails after a mark."""

    events: Sequence[bytes]
    """Encoded envelopes, the oldest first."""
    mails: Sequence[SentMail]
    """The oldest first."""
    has_more: bool
    """Whether more happened than this."""


@validated
async def find_next_timer(ports: Ports) -> NextTimer | None:
    """The next moment at which a booking changes by itself. Raises NotFound without a sandbox."""
    require_sandbox(ports)
    now = await ports.clock.business()
    async with ports.store.read_view() as view:
        return await view.sandbox.next_timer(now)


@validated
async def get_mark(ports: Ports) -> SandboxMark:
    """The mark of the newest event and mail. Raises NotFound without a sandbox."""
    require_sandbox(ports)
    async with ports.store.read_view() as view:
        return await view.sandbox.mark()


@validated
async def list_happenings(ports: Ports, mark: SandboxMark, limit: int) -> SandboxActivity:
    """Up to `limit` events and as many mails after a mark. Raises NotFound without a sandbox."""
    require_sandbox(ports)
    async with ports.store.read_view() as view:
        events = await view.webhooks.feed_events_after(
            None, mark.position, frozenset(EventName), limit + 1
        )
        mails = await view.sandbox.sent_mails_after(mark.mail_id, limit + 1)
    has_more = len(events) > limit or len(mails) > limit
    return SandboxActivity(events[:limit], mails[:limit], has_more)


@validated
async def list_sent_mails(
    ports: Ports, before_id: int | None, limit: int
) -> tuple[Sequence[SentMail], bool]:
    """Up to `limit` kept mails with ids below `before_id`, the newest first, and whether there are
    more. Raises NotFound without a sandbox, and where mails are not kept."""
    require_sandbox(ports)
    if not ports.policy.keeps_mails:
        raise NotFound("Mails")
    async with ports.store.read_view() as view:
        found = await view.sandbox.sent_mails(limit + 1, before_id)
    return found[:limit], len(found) > limit
