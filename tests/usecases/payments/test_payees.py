"""Payout accounts: opened once whatever fails on the way."""

from __future__ import annotations

import anyio
import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import DAY, HOUR, SECOND, add_user
from staffbooking_core.domain.accounts.users import Actor, Role
from staffbooking_core.domain.payments.operations import OPERATION_KEY_LIFETIME
from staffbooking_core.domain.payments.payees import PayeeStatus
from staffbooking_core.domain.payments.processor import (
    OperationKeyReused,
    OutcomeUnknown,
    ProcessorMisconfigured,
    ProcessorRefused,
    RefusalCode,
)
from staffbooking_core.errors import NotFound, ProcessorUnavailable, RuleBroken
from staffbooking_core.usecases.payments import payees
from tests.support.memory_deployment import actor_of

pytestmark = pytest.mark.anyio

UNANSWERED = ["timeout_before", "timeout_after", "error_500", "error_500_after", "slow"]


# Requests for the page ------------------------------------------------------------------


async def test_at_first_there_is_none(desk):
    """Without a request nothing is stored and the processor is not called."""
    assert await desk.payee() is None
    assert await payees.run_due_payee(desk.ports) == 0
    assert desk.processor.calls == []


async def test_asking_opens_the_account_and_gives_a_page(desk):
    """The account is opened with the user's data, and the page links back to the service."""
    payee, link = await desk.open_onboarding()
    assert payee == await desk.payee()
    assert (payee.status, payee.needs) == (PayeeStatus.INCOMPLETE, ("details",))
    assert link.url.endswith(payee.ref)
    ((command, key),) = desk.processor.calls_of("open_payee")
    assert (command.companion_id, command.name) == (desk.staff.user_id, "Mia Lindqvist")
    assert (command.country, command.currency) == ("US", "usd")
    assert key.text == f"open_payee_{desk.staff.user_id}_g1"
    ((_, done, again),) = desk.processor.calls_of("onboarding_link")
    base = f"{desk.ports.policy.base_url}/staff/payouts"
    assert (done, again) == (f"{base}?done", f"{base}?again")


async def test_the_country_is_the_first_one_given(desk):
    """The country is upper-cased, and cannot change once the account is open."""
    await desk.open_onboarding("pt")
    await desk.open_onboarding("es")
    assert (await desk.payee()).command.country == "PT"


async def test_each_visit_gets_a_page_of_its_own(desk):
    """The account is opened once; each visit gets a new page."""
    for _ in range(3):
        await desk.open_onboarding()
    assert len(desk.processor.calls_of("open_payee")) == 1
    assert len(desk.processor.calls_of("onboarding_link")) == 3


async def test_a_staff_member_without_a_profile_can_ask(desk):
    """A newly registered staff member can open an account."""
    user = await add_user(desk.ports.store, role=Role.STAFF, first_name="Noa", last_name="Kim")
    payee, _ = await payees.open_onboarding(desk.ports, actor_of(user), None)
    assert (payee.command.name, payee.command.email) == ("Noa Kim", user.email)


async def test_nobody_has_no_account(desk):
    """An unknown user raises NotFound."""
    with pytest.raises(NotFound):
        await payees.open_onboarding(desk.ports, Actor(999, Role.STAFF), None)


async def test_two_who_ask_at_once_open_one_account(desk):
    """Concurrent requests open one account, and each gets a page of it."""
    found = []

    async def ask():
        found.append((await desk.open_onboarding())[0].ref)

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(ask)
    assert len(set(found)) == 1
    assert len(found) == 20
    assert len(desk.processor.calls_of("open_payee")) == 1


async def test_the_worker_and_the_page_open_one_account(desk):
    """The worker and a request open one account, whichever is first."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(desk.open_onboarding)
        for _ in range(4):
            tasks.start_soon(payees.run_due_payee, desk.ports)
    assert len(desk.processor.calls_of("open_payee")) == 1


# An unavailable processor ---------------------------------------------------------------


@pytest.mark.parametrize("times", [1, 2, 5])
@pytest.mark.parametrize("kind", [*UNANSWERED, "rate_limit", "conflict"])
async def test_whatever_strikes_one_account_is_opened(desk, kind, times):
    """One account is opened, however often the response was lost."""
    await desk.scene.fault("open_payee", kind, times)
    try:
        await desk.open_onboarding()
    except ProcessorUnavailable:
        assert await desk.status() == PayeeStatus.OPENING
    for _ in range(40):
        await desk.run_payees()
        desk.scene.pass_time(HOUR)
    first = await desk.payee()
    assert first.status is PayeeStatus.INCOMPLETE
    assert (await desk.open_onboarding())[0].ref == first.ref


async def test_asking_ends_in_time(desk):
    """All calls of a request together respect the deadline."""
    began, allowed = desk.ports.clock.now, desk.ports.policy.processor_inline_timeout
    real = desk.processor.inner.open_payee

    async def slow(command, key, within):
        desk.scene.pass_time(4 * SECOND)
        return await real(command, key, within)

    desk.processor.inner.open_payee = slow
    await desk.open_onboarding()
    assert desk.processor.calls[0][-1] == allowed.total_seconds()
    assert desk.processor.calls[1][-1] == allowed.total_seconds() - 4
    assert desk.ports.clock.now - began < allowed


async def test_a_claim_of_somebody_who_died_is_waited_for(desk):
    """While a dead process's lease lasts, requests raise ProcessorUnavailable in time; later the
    same key is sent again."""
    await died_after_the_call(desk)
    began = desk.ports.clock.now
    with pytest.raises(ProcessorUnavailable):
        await desk.open_onboarding()
    allowed = desk.ports.policy.processor_inline_timeout
    assert allowed <= desk.ports.clock.now - began < allowed + SECOND
    desk.scene.pass_time(desk.ports.policy.lease_duration)
    await desk.open_onboarding()
    first, second = desk.processor.calls_of("open_payee")
    assert first == second


async def test_a_request_that_loses_its_lease_finds_the_account(desk):
    """A worker whose clock is ahead opens the account during the request, which then returns it."""
    real, lead = desk.processor.inner.open_payee, desk.ports.policy.lease_duration

    async def overtaken(command, key, within):
        desk.processor.inner.open_payee = real
        desk.ports.clock.now += lead
        assert await payees.run_due_payee(desk.ports) == 1
        desk.ports.clock.now -= lead
        return await real(command, key, within)

    desk.processor.inner.open_payee = overtaken
    payee, _ = await desk.open_onboarding()
    assert payee.ref == (await desk.payee()).ref
    first, second = desk.processor.calls_of("open_payee")
    assert first == second


async def died_after_the_call(desk):
    """Open the account at the processor without saving the outcome."""
    real = desk.ports.store.run_transaction
    left = [2]  # The request and the claim are saved; later writes fail.

    async def write(unit):
        if not left[0]:
            raise ConnectionError("killed")
        left[0] -= 1
        return await real(unit)

    desk.ports.store.run_transaction = write
    with pytest.raises(ConnectionError):
        await desk.open_onboarding()
    desk.ports.store.run_transaction = real


async def test_a_crash_between_call_and_save_opens_no_second_account(desk):
    """The worker sends the opening again under its key and gets the first account."""
    await died_after_the_call(desk)
    assert await desk.status() == PayeeStatus.OPENING
    assert await payees.run_due_payee(desk.ports) == 0
    desk.scene.pass_time(desk.ports.policy.lease_duration)
    assert await payees.run_due_payee(desk.ports) == 1
    first, second = desk.processor.calls_of("open_payee")
    assert first == second
    sandbox = desk.processor.inner.sandbox
    assert (await sandbox.payee_page((await desk.payee()).ref)) is not None


async def test_an_old_key_is_not_used_again(desk):
    """An old key, which the processor may have forgotten, is replaced."""
    await died_after_the_call(desk)
    desk.scene.pass_time(OPERATION_KEY_LIFETIME)
    await desk.run_payees()
    (_, first), (_, second) = desk.processor.calls_of("open_payee")
    assert (first.generation, second.generation) == (1, 2)
    assert await desk.status() == PayeeStatus.INCOMPLETE


async def test_a_page_that_is_not_given_loses_nothing(desk):
    """After a failed page request the account stays open, and a repeated request succeeds."""
    desk.processor.errors["onboarding_link"] = OutcomeUnknown("away")
    with pytest.raises(ProcessorUnavailable):
        await desk.open_onboarding()
    assert await desk.status() == PayeeStatus.INCOMPLETE
    desk.processor.errors.clear()
    await desk.open_onboarding()
    assert len(desk.processor.calls_of("open_payee")) == 1


# Refusals and internal errors -----------------------------------------------------------


async def test_a_refusal_is_told_and_can_be_asked_for_anew(desk):
    """A refused opening is not retried automatically; a new request uses a new key and current
    data."""
    await desk.scene.fault("open_payee", "refuse")
    with pytest.raises(RuleBroken) as caught:
        await desk.open_onboarding("zz")
    assert caught.value.code == "payout_account_refused"
    refused = await desk.payee()
    assert refused.status is PayeeStatus.REFUSED
    assert (refused.last_error, caught.value.message) == ("invalid", payees.REFUSED_MESSAGE)
    desk.scene.pass_time(DAY)
    await desk.run_payees()
    assert await desk.status() == PayeeStatus.REFUSED
    payee, _ = await desk.open_onboarding("pt")
    assert (payee.status, payee.command.country) == (PayeeStatus.INCOMPLETE, "PT")
    assert payee.last_error is None
    (_, first), (_, second) = desk.processor.calls_of("open_payee")
    assert (first.generation, second.generation) == (1, 2)


async def test_a_refusal_of_the_page_is_told(desk):
    """An account that the processor has rejected raises `payout_account_refused`."""
    await desk.open_onboarding()
    desk.processor.errors["onboarding_link"] = ProcessorRefused(RefusalCode.INVALID)
    with pytest.raises(RuleBroken) as caught:
        await desk.open_onboarding()
    assert caught.value.code == "payout_account_refused"
    assert len(desk.processor.calls_of("open_payee")) == 1


async def test_an_account_that_was_deleted_is_replaced(desk):
    """The staff member whose account is missing at the processor gets the page of another one, in
    the country that is given now."""
    await desk.open_onboarding()
    await desk.scene.ports.store.run_transaction(
        lambda tx: _lose(tx, desk.ports.payments.name, desk.staff.user_id)
    )
    payee, _ = await desk.open_onboarding("pt")
    assert payee.ref != "acct_closed"
    assert (payee.status, payee.command.country) == (PayeeStatus.INCOMPLETE, "PT")


async def _lose(tx, provider, companion_id):
    payee = await tx.payees.payee(provider, companion_id)
    await tx.payees.save_payee(evolve(payee, ref="acct_closed"))


@pytest.mark.parametrize(
    "error", [ProcessorMisconfigured("wrong key"), OperationKeyReused("other words")]
)
async def test_a_fault_of_ours_is_told_to_operators_alone(desk, error):
    """Wrong settings alert the operators, and the user sees ProcessorUnavailable."""
    desk.processor.errors["open_payee"] = error
    with pytest.raises(ProcessorUnavailable):
        await desk.open_onboarding()
    text = f"the payout account of companion {desk.staff.user_id}: {error}"
    assert desk.ports.notifier.alerts == [(0, text)]
    desk.processor.errors.clear()
    await desk.open_onboarding()
