"""Payout accounts (payees): a staff member requests one, the processor opens it, and it is synced
until it is ready.

As with operations, a payee is claimed and marked as sent in one transaction, the call is made
outside of transactions, and its outcome is saved in another. Opening moves no money: a lost attempt
is sent again under its key.
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
    reopen_payee,
    start_opening_attempt,
)
from staffbooking_core.domain.payments.processor import (
    OperationKeyReused,
    ProcessorError,
    ProcessorEvent,
    ProcessorMisconfigured,
    ProcessorRefused,
    RefusalCode,
)
from staffbooking_core.domain.privacy import erase_payee
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
from staffbooking_core.validation import validated

__all__ = [
    "get_payee",
    "get_payee_on_return",
    "open_onboarding",
    "payout_ref_of",
    "payouts_need_account",
    "request_sync",
    "run_due_payee",
    "sync_payee",
]

REFUSED_MESSAGE = "The payment processor did not open the account; try another country, or ask us"
"""Shown instead of the processor's message, which may reveal the platform's settings."""


@frozen
class _ClaimedPayee:
    """A claimed payee, exclusive until the lease ends."""

    payee: Payee
    lease: Lease


# Actions of the owner -------------------------------------------------------------------


def payouts_need_account(ports: Ports) -> bool:
    """Whether payouts wait until their receiver has an account that is ready: with every processor
    but a simulated one that does without."""
    return ports.sandbox is None or not ports.sandbox.pays_without_account


@validated
async def get_payee(ports: Ports, actor: Actor) -> Payee | None:
    """The staff member's payee as it is stored; None without one. An imported account is returned
    before it is stored.

    Raises NotFound without such a user.
    """
    async with ports.store.read_view() as view:
        known = await view.payees.payee(ports.payments.name, actor.user_id)
        if known is not None:
            return known
        ref = await _imported_ref(view.payees, view.companions, ports.payments.name, actor.user_id)
        user = await view.accounts.user(actor.user_id)
    return None if ref is None else evolve(_new_payee(ports, user, None), ref=ref)


@validated
async def get_payee_on_return(ports: Ports, actor: Actor) -> Payee | None:
    """The payee when its owner returns from the processor's page: synced now, or as it was last
    known where the processor is unavailable. Synced at most once in 5 seconds."""
    payee = await get_payee(ports, actor)
    if payee is None or payee.ref is None or payee.ready:
        return payee
    name = inbox.visit_event_id(payee.ref, ports.clock.wall())
    if not await inbox.add_events(ports, [ProcessorEvent(name, payee_ref=payee.ref)]):
        return payee
    with suppress(ProcessorError, Conflict):
        await sync_payee(ports, payee.ref, ports.policy.processor_inline_timeout)
    return await get_payee(ports, actor)


@validated
async def open_onboarding(
    ports: Ports, actor: Actor, country: str | None
) -> tuple[Payee, OnboardingLink]:
    """The processor's page where the staff member completes the account, a new one for each visit.
    An account that does not exist is opened first, in `country` (ISO 3166, else the policy's),
    unless the processor knows the imported one. So is one that was deleted at the processor.

    Locks the user to store the payee; the processor is called outside of transactions. Raises
    RuleBroken `payout_account_refused`, after which it may be requested again, and
    ProcessorUnavailable: the request is kept, and the worker continues to open the account;
    NotFound where the user is unknown or erased, also meanwhile.
    """
    deadline = ports.clock.wall() + ports.policy.processor_inline_timeout
    try:
        imported = await _imported_payee(ports, actor.user_id, deadline)
        payee = await _opened_payee(ports, actor.user_id, country, deadline, imported)
        try:
            return payee, await _onboarding_link(ports, payee, deadline)
        except ProcessorRefused as error:
            if error.reason is not RefusalCode.MISSING:
                raise
        payee = await _opened_payee(ports, actor.user_id, country, deadline, missing_ref=payee.ref)
        return payee, await _onboarding_link(ports, payee, deadline)
    except ProcessorRefused as error:
        raise RuleBroken("payout_account_refused", REFUSED_MESSAGE) from error
    except ProcessorError:
        raise ProcessorUnavailable from None


async def _imported_payee(ports: Ports, companion_id: int, deadline: datetime) -> PayeeState | None:
    """The state of the account that was imported with the companion; None where there is none to
    take over, or the processor does not know it."""
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
    """Reference of the imported account, unless it belongs to another payee."""
    companion = await companions.companion(companion_id)
    ref = None if companion is None else companion.payout_account
    if not ref or await payees.payee_by_ref(provider, ref) is not None:
        return None
    return ref


async def _opened_payee(
    ports: Ports,
    user_id: int,
    country: str | None,
    deadline: datetime,
    imported: PayeeState | None = None,
    missing_ref: str | None = None,
) -> Payee:
    """The payee once it is open; a new one in place of that with `missing_ref`. Raises as
    `_wait_until_open`."""
    payee = await _save_requested_payee(ports, user_id, country, imported, missing_ref)
    return payee if payee.ref is not None else await _wait_until_open(ports, payee, deadline)


async def _save_requested_payee(
    ports: Ports,
    user_id: int,
    country: str | None,
    imported: PayeeState | None,
    missing_ref: str | None,
) -> Payee:
    """The stored payee. From now on the worker opens it even if this call fails."""

    async def unit(tx: Transaction) -> Payee:
        # Locked, so that of two concurrent requests the second finds the payee of the first.
        first = _new_payee(ports, await tx.accounts.lock_user(user_id), country)
        known = await tx.payees.payee(first.provider, user_id)
        if known is not None:
            payee = reopen_payee(known, first.command, first.created_at, missing_ref)
        elif imported is None or await tx.payees.payee_by_ref(first.provider, imported.ref):
            payee = first
        else:
            payee = apply_payee_state(first, imported, first.created_at)
        if payee != known:
            await _save_payee(tx, known, payee, first.created_at)
        return payee

    return await ports.store.run_transaction(unit)


def _new_payee(ports: Ports, user: User | None, country: str | None) -> Payee:
    """A payee for a user who has none. Raises NotFound without such a user, or for an erased
    one."""
    if user is None or user.erased_at is not None:
        raise NotFound("User")
    policy, now = ports.policy, ports.clock.wall()
    country_code = (country or policy.country).upper()
    command = OpenPayee(user.id, user.email, user.name, country_code, policy.currency.code)
    return Payee(ports.payments.name, user.id, command, created_at=now, next_at=now)


async def _wait_until_open(ports: Ports, payee: Payee, deadline: datetime) -> Payee:
    """The payee once it is open, by this call or by a concurrent one.

    Raises ProcessorError after one attempt of its own, ProcessorUnavailable at the deadline, and
    NotFound where the user was erased meanwhile.
    """
    while (remaining := deadline - ports.clock.wall()) > timedelta(0):
        claimed = await _claim_payee(ports, payee.companion_id)
        if claimed is not None:
            with suppress(Conflict):  # Taken over by a worker after the lease.
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


# Sync with the processor ----------------------------------------------------------------


async def run_due_payee(ports: Ports) -> int:
    """Open or sync the payee that is due first; returns 1 if there was one, else 0."""
    try:
        claimed = await _claim_payee(ports)
    except NotFound:
        return 1
    if claimed is None:
        return 0
    with suppress(ProcessorError, Conflict):  # Saved with the payee, or taken over.
        await _call_processor(ports, claimed, ports.policy.processor_timeout)
    return 1


@validated
async def sync_payee(ports: Ports, ref: str, time_limit: timedelta) -> None:
    """Read the state of a payee from the processor and save it; unknown references and those of
    erased users are ignored.

    Raises ProcessorError, and Conflict while the payee is claimed elsewhere: retry later.
    """
    async with ports.store.read_view() as view:
        known = await view.payees.payee_by_ref(ports.payments.name, ref)
    if known is None:
        return
    try:
        claimed = await _claim_payee(ports, known.companion_id)
    except NotFound:
        return
    if claimed is None:
        raise Conflict("payee")
    await _call_processor(ports, claimed, time_limit)


async def request_sync(
    payees: PayeesWritePort, provider: str, companion_id: int, now: datetime
) -> None:
    """Let the payee be synced at once, after the processor said that it is not ready."""
    payee = await payees.payee(provider, companion_id)
    if payee is not None and payee.ref is not None:
        await payees.save_payee(evolve(payee, next_at=now))


async def payout_ref_of(
    payees: PayeesReadPort, companions: CompanionsReadPort, provider: str, companion_id: int
) -> str:
    """The processor's reference for payouts to a companion; empty without an account."""
    payee = await payees.payee(provider, companion_id)
    if payee is not None:
        return payee.ref or ""
    return await _imported_ref(payees, companions, provider, companion_id) or ""


# Claim, call and record -----------------------------------------------------------------


async def _claim_payee(ports: Ports, companion_id: int | None = None) -> _ClaimedPayee | None:
    """Claim the payee that is due first, or the given one; an opening is marked as sent.

    Raises NotFound where its user is erased: it is not due any more.
    """
    now = ports.clock.wall()
    lease = Lease(ports.ids.token(), now + ports.policy.lease_duration)

    async def unit(tx: Transaction) -> _ClaimedPayee | NotFound | None:
        name = ports.payments.name
        for payee in await tx.payees.claim_payees(name, now, lease, 1, companion_id):
            user = await tx.accounts.user(payee.companion_id)
            if user is None or user.erased_at is not None:
                await tx.payees.save_payee(erase_payee(payee))
                return NotFound("User")  # Raised after the commit.
            if payee.ref is not None:
                return _ClaimedPayee(payee, lease)
            sent = start_opening_attempt(payee, now)
            await tx.payees.save_payee(sent, lease)
            return _ClaimedPayee(sent, lease)
        return None

    claimed = await ports.store.run_transaction(unit)
    if isinstance(claimed, NotFound):
        raise claimed
    return claimed


async def _call_processor(ports: Ports, claimed: _ClaimedPayee, time_limit: timedelta) -> Payee:
    """Open or read a claimed payee, and save the outcome.

    Raises ProcessorError, which is saved as well, and Conflict where the lease was lost.
    """
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
    """Save the outcome of a claimed payee, and end the claim."""
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
    """Save a payee; once it is ready, the payouts that wait for it become due."""
    await tx.payees.save_payee(payee)
    if payee.ready and not (before is not None and before.ready):
        await tx.operations.wake_payouts(payee.companion_id, now)
