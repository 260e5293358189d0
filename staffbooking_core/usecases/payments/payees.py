"""Payout accounts: a staff member asks for one, the processor opens it, and is asked how it
stands until it is ready.

As with operations, a payee is claimed and marked as sent in one transaction, the call is made
outside of any, and its outcome is saved in another. Opening moves no money: whatever got lost
is sent again under its key (PAYMENTS 3).
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta

from attrs import evolve, frozen

from staffbooking_core.domain.accounts.users import Actor, User
from staffbooking_core.domain.payments.payees import (
    OnboardingLink,
    OpenPayee,
    Payee,
    PayeeState,
    apply_payee_failure,
    apply_payee_state,
    reopen_refused_payee,
    start_opening_attempt,
)
from staffbooking_core.domain.payments.processor import (
    OperationKeyReused,
    ProcessorError,
    ProcessorEvent,
    ProcessorMisconfigured,
    ProcessorRefused,
)
from staffbooking_core.errors import Conflict, NotFound, ProcessorUnavailable, RuleBroken
from staffbooking_core.ports import (
    CompanionsReadPort,
    Lease,
    PayeesReadPort,
    PayeesWritePort,
    Ports,
    Transaction,
)
from staffbooking_core.usecases.payments import inbox

REFUSED_MESSAGE = "The payment processor did not open the account; try another country, or ask us"
"""What the processor says itself speaks of the platform's settings too: that is for operators."""


@frozen
class _ClaimedPayee:
    """A payee that is at work on, until the lease ends."""

    payee: Payee
    lease: Lease


# What its owner does --------------------------------------------------------------------


async def get_payee(ports: Ports, actor: Actor) -> Payee | None:
    """The staff member's account as it is known here; None where there is none. One that was
    imported is told of before anything is stored of it."""
    async with ports.store.read_view() as view:
        known = await view.payees.payee(ports.payments.name, actor.user_id)
        if known is not None:
            return known
        ref = await _imported_ref(view.payees, view.companions, ports.payments.name, actor.user_id)
        user = await view.accounts.user(actor.user_id)
    return None if ref is None else evolve(_new_payee(ports, user, None), ref=ref)


async def get_payee_on_return(ports: Ports, actor: Actor) -> Payee | None:
    """The same when its owner comes back from the processor's page: as the processor tells
    it now, or as it was last known where the processor is away."""
    payee = await get_payee(ports, actor)
    if payee is None or payee.ref is None or payee.ready:
        return payee
    name = inbox.visit_event_id(payee.ref, ports.clock.wall())
    if not await inbox.add_events(ports, [ProcessorEvent(name, payee_ref=payee.ref)]):
        return payee
    with suppress(ProcessorError, Conflict):
        await sync_payee(ports, payee.ref, ports.policy.processor_inline_timeout)
    return await get_payee(ports, actor)


async def open_onboarding(
    ports: Ports, actor: Actor, country: str | None
) -> tuple[Payee, OnboardingLink]:
    """The page of the processor where the staff member completes the account; another one for
    each visit. Where there is none yet it is opened first, in `country` (ISO 3166) or the
    policy's, unless the processor knows the one that was imported.

    Raises RuleBroken `payout_account_refused`, after which it can be asked for anew, and
    ProcessorUnavailable: then nothing is lost, and the worker goes on opening it.
    """
    deadline = ports.clock.wall() + ports.policy.processor_inline_timeout
    try:
        imported = await _imported_payee(ports, actor.user_id, deadline)
        payee = await _save_requested_payee(ports, actor.user_id, country, imported)
        if payee.ref is None:
            payee = await _wait_until_open(ports, payee, deadline)
        return payee, await _onboarding_link(ports, payee, deadline)
    except ProcessorRefused as error:
        raise RuleBroken("payout_account_refused", REFUSED_MESSAGE) from error
    except ProcessorError:
        raise ProcessorUnavailable from None


async def _imported_payee(ports: Ports, companion_id: int, deadline: datetime) -> PayeeState | None:
    """How the account stands that was imported with the companion; None where there is none to
    be taken over, or the processor does not know it."""
    async with ports.store.read_view() as view:
        known = await view.payees.payee(ports.payments.name, companion_id)
        if known is not None:
            return None
        ref = await _imported_ref(view.payees, view.companions, ports.payments.name, companion_id)
    if ref is None:
        return None
    try:
        return await ports.payments.payee(ref, (deadline - ports.clock.wall()).total_seconds())
    except ProcessorRefused:
        return None


async def _imported_ref(
    payees: PayeesReadPort, companions: CompanionsReadPort, provider: str, companion_id: int
) -> str | None:
    """The account that was imported, unless it is somebody else's here already."""
    companion = await companions.companion(companion_id)
    ref = None if companion is None else companion.payout_account
    if not ref or await payees.payee_by_ref(provider, ref) is not None:
        return None
    return ref


async def _save_requested_payee(
    ports: Ports, user_id: int, country: str | None, imported: PayeeState | None
) -> Payee:
    """The payee as it is stored from now on, whose opening nothing stops any more."""

    async def unit(tx: Transaction) -> Payee:
        # Held, so that of two who ask at once the second finds what the first has stored.
        first = _new_payee(ports, await tx.accounts.lock_user(user_id), country)
        known = await tx.payees.payee(first.provider, user_id)
        if known is not None:
            payee = reopen_refused_payee(known, first.command, first.created_at)
        elif imported is None or await tx.payees.payee_by_ref(first.provider, imported.ref):
            payee = first
        else:
            payee = apply_payee_state(first, imported, first.created_at)
        if payee != known:
            await _save_payee(tx, known, payee, first.created_at)
        return payee

    return await ports.store.run_transaction(unit)


def _new_payee(ports: Ports, user: User | None, country: str | None) -> Payee:
    """The payee of somebody who has none."""
    if user is None:
        raise NotFound("User")
    policy, now = ports.policy, ports.clock.wall()
    country_code = (country or policy.country).upper()
    command = OpenPayee(user.id, user.email, user.name, country_code, policy.currency.code)
    return Payee(ports.payments.name, user.id, command, created_at=now, next_at=now)


async def _wait_until_open(ports: Ports, payee: Payee, deadline: datetime) -> Payee:
    """The payee once it is open, by this call or by whoever is at it already. Raises
    PaymentsError after one try of its own."""
    while (remaining := deadline - ports.clock.wall()) > timedelta(0):
        claimed = await _claim_payee(ports, payee.companion_id)
        if claimed is not None:
            return await _call_processor(ports, claimed, remaining)
        await ports.clock.sleep(0.05)
        async with ports.store.read_view() as view:
            found = await view.payees.payee(payee.provider, payee.companion_id)
        if found is not None and found.ref is not None:
            return found
    raise ProcessorUnavailable


async def _onboarding_link(ports: Ports, payee: Payee, deadline: datetime) -> OnboardingLink:
    assert payee.ref is not None
    page = f"{ports.policy.base_url}/staff/payouts"
    timeout_seconds = (deadline - ports.clock.wall()).total_seconds()
    return await ports.payments.onboarding_link(
        payee.ref, f"{page}?done", f"{page}?again", timeout_seconds
    )


# What the processor knows ---------------------------------------------------------------


async def run_due_payee(ports: Ports) -> int:
    """Open the payee that is due first, or look whether it is ready by now; whether there was
    one, as 1 or 0."""
    claimed = await _claim_payee(ports)
    if claimed is None:
        return 0
    with suppress(ProcessorError, Conflict):  # It is noted, or somebody else has taken it over.
        await _call_processor(ports, claimed, ports.policy.processor_timeout)
    return 1


async def sync_payee(ports: Ports, ref: str, time_limit: timedelta) -> None:
    """Ask the processor how an account stands, and take note; nothing where it is none of
    ours. Raises PaymentsError, and Conflict while somebody else is at it: look again later."""
    async with ports.store.read_view() as view:
        known = await view.payees.payee_by_ref(ports.payments.name, ref)
    if known is None:
        return
    claimed = await _claim_payee(ports, known.companion_id)
    if claimed is None:
        raise Conflict("payee")
    await _call_processor(ports, claimed, time_limit)


async def mark_unready(
    payees: PayeesWritePort, provider: str, companion_id: int, now: datetime
) -> None:
    """The processor says that an account is not ready: look at it soon, whatever is known of
    it here. Should it be ready by then, the payouts that wait for it go out."""
    payee = await payees.payee(provider, companion_id)
    if payee is not None and payee.ref is not None:
        await payees.save_payee(evolve(payee, ready=False, next_at=now))


async def payout_ref_of(
    payees: PayeesReadPort, companions: CompanionsReadPort, provider: str, companion_id: int
) -> str:
    """What a payout to a companion is sent to; empty where there is no account."""
    payee = await payees.payee(provider, companion_id)
    if payee is not None:
        return payee.ref or ""
    return await _imported_ref(payees, companions, provider, companion_id) or ""


# Claim, call and record -----------------------------------------------------------------


async def _claim_payee(ports: Ports, companion_id: int | None = None) -> _ClaimedPayee | None:
    """Claim the payee that is due first, or this one; an opening is marked as sent."""
    now = ports.clock.wall()
    lease = Lease(ports.ids.token(), now + ports.policy.lease_duration)

    async def unit(tx: Transaction) -> _ClaimedPayee | None:
        name = ports.payments.name
        for payee in await tx.payees.claim_payees(name, now, lease, 1, companion_id):
            if payee.ref is not None:
                return _ClaimedPayee(payee, lease)
            sent = start_opening_attempt(payee, now)
            await tx.payees.save_payee(sent, lease)
            return _ClaimedPayee(sent, lease)
        return None

    return await ports.store.run_transaction(unit)


async def _call_processor(ports: Ports, claimed: _ClaimedPayee, time_limit: timedelta) -> Payee:
    """Open the payee or look at it, and save what came of it. Raises PaymentsError, saved too,
    and Conflict where the lease was lost."""
    payee, seconds = claimed.payee, time_limit.total_seconds()
    try:
        if payee.ref is None:
            state = await ports.payments.open_payee(payee.command, payee.key, seconds)
        else:
            state = await ports.payments.payee(payee.ref, seconds)
    except ProcessorError as error:
        await _save_outcome(ports, claimed, error)
        if isinstance(
            error, OperationKeyReused | ProcessorMisconfigured
        ) and payee.last_error != str(error):
            text = f"the payout account of companion {payee.companion_id}: {error}"
            await ports.notifier.alert_operators(0, text)
        raise
    return await _save_outcome(ports, claimed, state)


async def _save_outcome(
    ports: Ports, claimed: _ClaimedPayee, outcome: PayeeState | ProcessorError
) -> Payee:
    """Save what a claimed payee has become, and release it."""
    payee, now = claimed.payee, ports.clock.wall()

    async def unit(tx: Transaction) -> Payee:
        held = await tx.payees.lock_payee(payee.provider, payee.companion_id, claimed.lease)
        if isinstance(outcome, ProcessorError):
            changed = apply_payee_failure(held, outcome, now)
        else:
            changed = apply_payee_state(held, outcome, now)
        await _save_payee(tx, held, changed, now)
        return changed

    return await ports.store.run_transaction(unit)


async def _save_payee(tx: Transaction, before: Payee | None, payee: Payee, now: datetime) -> None:
    """Save a payee; the payouts that wait for it go out once it is ready."""
    await tx.payees.save_payee(payee)
    if payee.ready and not (before is not None and before.ready):
        await tx.operations.wake_payouts(payee.companion_id, now)
