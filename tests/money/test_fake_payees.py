"""The fake processor's payees: accounts of staff members, ready at once or completed by hand."""

from __future__ import annotations

import pytest
from attrs import evolve

from staffbooking_core.domain.payments.payees import PayeeState
from staffbooking_core.domain.payments.processor import (
    OperationKey,
    OperationKeyReused,
    OperationKind,
    Payment,
    PayOut,
    PayoutState,
    ProcessorEvent,
    ProcessorRefused,
    RefusalCode,
    Unknown,
)
from staffbooking_core.ports import PayeePage
from tests.money.fake_helpers import make_fake_bench
from tests.money.processors import (
    CALL_TIMEOUT_SECONDS,
    COMPANION_ID,
    ProcessorBench,
    fake_processor_of,
    make_operation_key,
    make_payee_command,
)
from tests.support.builders import MINUTE, NOW

pytestmark = pytest.mark.anyio


@pytest.fixture
def manual() -> ProcessorBench:
    """A processor whose payees are completed by hand."""
    return make_fake_bench(manual_payees=True)


def key_of(generation: int = 1, companion_id: int = COMPANION_ID) -> OperationKey:
    return OperationKey(0, companion_id, OperationKind.OPEN_PAYEE, generation)


async def opened(
    bench: ProcessorBench,
    generation: int = 1,
    name: str = "Mia Lindqvist",
    companion_id: int = COMPANION_ID,
) -> PayeeState:
    command = evolve(make_payee_command(companion_id), name=name)
    return await bench.payments.open_payee(
        command, key_of(generation, companion_id), CALL_TIMEOUT_SECONDS
    )


async def paid_out(bench: ProcessorBench, payment: Payment, payee_ref: str = "") -> PayoutState:
    command = PayOut(payment.ref, COMPANION_ID, 1, payment.currency, payee_ref)
    return await bench.payments.pay_out(
        command, make_operation_key(OperationKind.PAY_OUT), CALL_TIMEOUT_SECONDS
    )


async def nudges_of(bench: ProcessorBench) -> list[ProcessorEvent]:
    events = await bench.outside_world.events()
    wall = bench.clock.wall()
    return [nudge for event in events for nudge in bench.payments.parse_webhook(*event, wall)]


# Opening ---------------------------------------------------------------------------------------


async def test_a_payee_is_ready_at_once(bench: ProcessorBench) -> None:
    """Nobody has to complete anything, unless it was set so."""
    payee = await opened(bench)
    assert (payee.ready, payee.needs) == (True, ())
    assert await bench.payments.payee(payee.ref, CALL_TIMEOUT_SECONDS) == payee


async def test_a_payee_may_be_incomplete(manual: ProcessorBench) -> None:
    """Where it was set so, an account lacks something at first."""
    payee = await opened(manual)
    assert (payee.ready, payee.needs) == (False, ("details",))
    assert await manual.payments.payee(payee.ref, CALL_TIMEOUT_SECONDS) == payee


async def test_a_reference_names_the_companion_and_cannot_be_guessed(fake: ProcessorBench) -> None:
    """It has 128 bits in hexadecimal at its end."""
    head, companion, secret = (await opened(fake)).ref.split("_")
    assert (head, companion, len(secret)) == ("fpa", str(COMPANION_ID), 32)


async def test_an_opening_is_repeated_under_its_key(manual: ProcessorBench) -> None:
    """The first answer comes again, though the account is complete by now."""
    first = await opened(manual)
    await fake_processor_of(manual).sandbox.complete_payee(first.ref)
    assert await opened(manual) == first


async def test_a_companion_has_one_account(bench: ProcessorBench) -> None:
    """Another key leads to the same account, with the newer name."""
    first = await opened(bench)
    assert (await opened(bench, 2, name="Mia L.")).ref == first.ref
    page = await fake_processor_of(bench).sandbox.payee_page(first.ref)
    assert page is not None
    assert page.name == "Mia L."


async def test_two_companions_have_two_accounts(bench: ProcessorBench) -> None:
    """Each with a reference of its own."""
    assert (await opened(bench)).ref != (await opened(bench, companion_id=3)).ref


async def test_a_key_opens_one_account(bench: ProcessorBench) -> None:
    """The same key with another name is refused as a bug."""
    await opened(bench)
    with pytest.raises(OperationKeyReused):
        await opened(bench, name="Somebody else")


@pytest.mark.parametrize(("kind", "there"), [("timeout_before", False), ("timeout_after", True)])
async def test_faults_strike_openings(bench: ProcessorBench, kind: str, there: bool) -> None:
    """An account was opened or not when the answer is lost, and a repeat heals both."""
    fake = fake_processor_of(bench)
    await fake.sandbox.add_fault("open_payee", kind, 1)
    with pytest.raises(Unknown):
        await opened(bench)
    made = await fake._store.read(lambda view: view.get("payee", str(COMPANION_ID)))
    assert (made is not None) is there
    assert (await opened(bench)).ready


@pytest.mark.parametrize("ref", ["", "\0", "é", "fpa_2_x", "a/b", "x" * 3000])
async def test_an_unknown_payee_is_missing(bench: ProcessorBench, ref: str) -> None:
    """What names no account is refused by the port, and has no page, on every book."""
    fake = fake_processor_of(bench)
    for call in (
        fake.payee(ref, CALL_TIMEOUT_SECONDS),
        fake.onboarding_link(ref, "http://a", "http://b", 1),
    ):
        with pytest.raises(ProcessorRefused) as refused:
            await call
        assert refused.value.reason is RefusalCode.MISSING
    assert await fake.sandbox.payee_page(ref) is None
    assert await fake.sandbox.complete_payee(ref) is None


# The page --------------------------------------------------------------------------------------


async def test_a_link_leads_to_the_page(bench: ProcessorBench) -> None:
    """It lasts five minutes of business time, and the page knows the way back."""
    await bench.clock.set_business(NOW + 10 * MINUTE)
    ref = (await opened(bench)).ref
    link = await bench.payments.onboarding_link(
        ref, "http://back", "http://again", CALL_TIMEOUT_SECONDS
    )
    assert link.url == f"http://test/sandbox/payees/{ref}"
    assert link.expires_at == NOW + 15 * MINUTE
    page = await fake_processor_of(bench).sandbox.payee_page(ref)
    assert page == PayeePage(ref, "Mia Lindqvist", True, "http://back")


async def test_a_payee_is_completed_on_the_page(manual: ProcessorBench) -> None:
    """One act makes the account ready, for good."""
    ref = (await opened(manual)).ref
    for _ in range(2):
        page = await fake_processor_of(manual).sandbox.complete_payee(ref)
        assert page is not None
        assert page.ready
    assert (await manual.payments.payee(ref, CALL_TIMEOUT_SECONDS)) == PayeeState(ref, True)


async def test_completing_is_told_of_once(manual: ProcessorBench) -> None:
    """An event points to the account, and a second act on the page changes nothing."""
    ref = (await opened(manual)).ref
    assert await nudges_of(manual) == []
    for _ in range(2):
        await fake_processor_of(manual).sandbox.complete_payee(ref)
    assert await nudges_of(manual) == [ProcessorEvent("fev_p2_000001", payee_ref=ref)]


async def test_each_change_of_readiness_is_told_of(bench: ProcessorBench) -> None:
    """By an event with a name of its own."""
    ref, fake = (await opened(bench)).ref, fake_processor_of(bench)
    for ready in (False, False, True):
        await fake.dashboard.set_payee_ready(COMPANION_ID, ready)
    assert [nudge.event_id for nudge in await nudges_of(bench)] == [
        "fev_p2_000001",
        "fev_p2_000002",
    ]
    assert (await bench.payments.payee(ref, CALL_TIMEOUT_SECONDS)).ready


async def test_nobody_is_told_of_no_account(fake: ProcessorBench) -> None:
    """There is nothing that an event could point to."""
    await fake_processor_of(fake).dashboard.set_payee_ready(COMPANION_ID, False)
    assert await nudges_of(fake) == []


async def test_an_account_opened_unready_stays_so(bench: ProcessorBench) -> None:
    """Who was not to be paid is not to be paid with an account either."""
    await fake_processor_of(bench).dashboard.set_payee_ready(COMPANION_ID, False)
    assert not (await opened(bench)).ready


# Payouts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("payee_ref", ["", "acct_whatever"])
async def test_anybody_can_be_paid(bench: ProcessorBench, payee_ref: str) -> None:
    """With or without an account, of whatever name."""
    assert (await paid_out(bench, await bench.make_payment(), payee_ref)).amount == 1


async def test_an_unready_companion_is_not_paid(bench: ProcessorBench) -> None:
    """Until it is ready again."""
    payment, fake = await bench.make_payment(), fake_processor_of(bench)
    await fake.dashboard.set_payee_ready(COMPANION_ID, False)
    with pytest.raises(ProcessorRefused) as refused:
        await paid_out(bench, payment)
    assert refused.value.reason is RefusalCode.PAYEE_NOT_READY
    await fake.dashboard.set_payee_ready(COMPANION_ID, True)
    assert (await paid_out(bench, payment)).amount == 1


async def test_only_a_ready_account_is_paid(manual: ProcessorBench) -> None:
    """Where payees are completed by hand: neither no account, nor another, nor an incomplete
    one."""
    payment, payee = await manual.make_payment(), await opened(manual)
    for completed in (False, True):
        for ref in ["", "fpa_2_other", *([] if completed else [payee.ref])]:
            with pytest.raises(ProcessorRefused) as refused:
                await paid_out(manual, payment, ref)
            assert refused.value.reason is RefusalCode.PAYEE_NOT_READY
        await fake_processor_of(manual).sandbox.complete_payee(payee.ref)
    assert (await paid_out(manual, payment, payee.ref)).amount == 1


async def test_readiness_without_an_account_is_not_enough(manual: ProcessorBench) -> None:
    """Where payees are completed by hand a payout has to name an account."""
    payment = await manual.make_payment()
    await fake_processor_of(manual).dashboard.set_payee_ready(COMPANION_ID, True)
    with pytest.raises(ProcessorRefused):
        await paid_out(manual, payment, "")


async def test_the_account_of_another_is_not_paid(manual: ProcessorBench) -> None:
    """A payout goes to its own companion's account."""
    payment, other = await manual.make_payment(), await opened(manual, companion_id=3)
    await fake_processor_of(manual).sandbox.complete_payee(other.ref)
    await fake_processor_of(manual).dashboard.set_payee_ready(COMPANION_ID, True)
    with pytest.raises(ProcessorRefused):
        await paid_out(manual, payment, other.ref)
