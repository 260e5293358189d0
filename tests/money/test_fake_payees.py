"""Payees of the fake processor: accounts of companions, ready at once or completed by hand."""

from __future__ import annotations

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import MINUTE, NOW
from staffbooking_adapters.testing.processor.base import (
    CALL_TIMEOUT_SECONDS,
    COMPANION_ID,
    ProcessorBench,
    make_operation_key,
    make_payee_command,
)
from staffbooking_core.domain.payments.payees import PayeeState
from staffbooking_core.domain.payments.processor import (
    OperationKey,
    OperationKeyReused,
    OperationKind,
    OutcomeUnknown,
    Payment,
    PayOut,
    PayoutState,
    ProcessorEvent,
    ProcessorRefused,
    RefusalCode,
)
from staffbooking_core.ports import PayeePage
from tests.money.fake_helpers import make_fake_bench
from tests.money.processors import fake_processor_of

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


async def sent_events(bench: ProcessorBench) -> list[ProcessorEvent]:
    events = await bench.outside_world.events()
    wall = bench.clock.wall()
    return [sent for event in events for sent in bench.payments.parse_webhook(*event, wall)]


# Opening ---------------------------------------------------------------------------------------


async def test_a_payee_is_ready_at_once(bench: ProcessorBench) -> None:
    """A new account is ready and needs nothing by default."""
    payee = await opened(bench)
    assert (payee.ready, payee.needs) == (True, ())
    assert await bench.payments.payee(payee.ref, CALL_TIMEOUT_SECONDS) == payee


async def test_a_payee_may_be_incomplete(manual: ProcessorBench) -> None:
    """With `manual_payees` a new account is not ready and needs details."""
    payee = await opened(manual)
    assert (payee.ready, payee.needs) == (False, ("details",))
    assert await manual.payments.payee(payee.ref, CALL_TIMEOUT_SECONDS) == payee


async def test_a_reference_names_the_companion_and_cannot_be_guessed(fake: ProcessorBench) -> None:
    """A reference has the companion's id, and ends with 32 characters."""
    head, companion, secret = (await opened(fake)).ref.split("_")
    assert (head, companion, len(secret)) == ("fpa", str(COMPANION_ID), 32)


async def test_an_opening_is_repeated_under_its_key(manual: ProcessorBench) -> None:
    """The same key gets the first answer again, even after the account was completed."""
    first = await opened(manual)
    await fake_processor_of(manual).sandbox.complete_payee(first.ref)
    assert await opened(manual) == first


async def test_a_companion_has_one_account(bench: ProcessorBench) -> None:
    """Another key returns the same account and updates its name."""
    first = await opened(bench)
    assert (await opened(bench, 2, name="Mia L.")).ref == first.ref
    page = await fake_processor_of(bench).sandbox.payee_page(first.ref)
    assert page is not None
    assert page.name == "Mia L."


async def test_two_companions_have_two_accounts(bench: ProcessorBench) -> None:
    """Accounts of two companions have different references."""
    assert (await opened(bench)).ref != (await opened(bench, companion_id=3)).ref


async def test_a_key_opens_one_account(bench: ProcessorBench) -> None:
    """The same key with another name raises `OperationKeyReused`."""
    await opened(bench)
    with pytest.raises(OperationKeyReused):
        await opened(bench, name="Somebody else")


@pytest.mark.parametrize(("kind", "exists"), [("timeout_before", False), ("timeout_after", True)])
async def test_faults_apply_to_openings(bench: ProcessorBench, kind: str, exists: bool) -> None:
    """A lost answer leaves the account opened or not, by the fault, and a repeat gets it ready."""
    fake = fake_processor_of(bench)
    await fake.sandbox.add_fault("open_payee", kind, 1)
    with pytest.raises(OutcomeUnknown):
        await opened(bench)
    made = await fake._store.read(lambda view: view.get("payee", str(COMPANION_ID)))
    assert (made is not None) is exists
    assert (await opened(bench)).ready


@pytest.mark.parametrize("ref", ["", "\0", "é", "fpa_2_x", "a/b", "x" * 3000])
async def test_an_unknown_payee_is_missing(bench: ProcessorBench, ref: str) -> None:
    """An unknown reference is refused as missing, and has no page, on every document store."""
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
    """A link expires after five minutes of business time, and its page has the return URL."""
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
    """Completing the page makes the account ready, and completing it again keeps it ready."""
    ref = (await opened(manual)).ref
    for _ in range(2):
        page = await fake_processor_of(manual).sandbox.complete_payee(ref)
        assert page is not None
        assert page.ready
    assert (await manual.payments.payee(ref, CALL_TIMEOUT_SECONDS)) == PayeeState(ref, True)


async def test_completing_sends_one_event(manual: ProcessorBench) -> None:
    """Completing an account twice sends one event, which names the account."""
    ref = (await opened(manual)).ref
    assert await sent_events(manual) == []
    for _ in range(2):
        await fake_processor_of(manual).sandbox.complete_payee(ref)
    assert await sent_events(manual) == [ProcessorEvent("fev_p2_000001", payee_ref=ref)]


async def test_each_change_of_readiness_has_an_event(bench: ProcessorBench) -> None:
    """Each change of readiness sends one event with its own id; a repeat sends none."""
    ref, fake = (await opened(bench)).ref, fake_processor_of(bench)
    for ready in (False, False, True):
        await fake.dashboard.set_payee_ready(COMPANION_ID, ready)
    assert [sent.event_id for sent in await sent_events(bench)] == [
        "fev_p2_000001",
        "fev_p2_000002",
    ]
    assert (await bench.payments.payee(ref, CALL_TIMEOUT_SECONDS)).ready


async def test_a_missing_account_has_no_event(fake: ProcessorBench) -> None:
    """A change of readiness without an account sends no event."""
    await fake_processor_of(fake).dashboard.set_payee_ready(COMPANION_ID, False)
    assert await sent_events(fake) == []


async def test_an_account_opened_unready_stays_unready(bench: ProcessorBench) -> None:
    """An account opened for a companion who is set not ready is not ready."""
    await fake_processor_of(bench).dashboard.set_payee_ready(COMPANION_ID, False)
    assert not (await opened(bench)).ready


# Payouts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("payee_ref", ["", "acct_whatever"])
async def test_any_account_can_be_paid(bench: ProcessorBench, payee_ref: str) -> None:
    """A payout with no account and one with an unknown account both pass by default."""
    assert (await paid_out(bench, await bench.make_payment(), payee_ref)).amount == 1


async def test_an_unready_companion_is_not_paid(bench: ProcessorBench) -> None:
    """A payout is refused while the companion is not ready, and passes afterwards."""
    payment, fake = await bench.make_payment(), fake_processor_of(bench)
    await fake.dashboard.set_payee_ready(COMPANION_ID, False)
    with pytest.raises(ProcessorRefused) as refused:
        await paid_out(bench, payment)
    assert refused.value.reason is RefusalCode.PAYEE_NOT_READY
    await fake.dashboard.set_payee_ready(COMPANION_ID, True)
    assert (await paid_out(bench, payment)).amount == 1


async def test_only_a_ready_account_is_paid(manual: ProcessorBench) -> None:
    """With `manual_payees` a payout without account, with an unknown or with an incomplete one is
    refused."""
    payment, payee = await manual.make_payment(), await opened(manual)
    for completed in (False, True):
        for ref in ["", "fpa_2_other", *([] if completed else [payee.ref])]:
            with pytest.raises(ProcessorRefused) as refused:
                await paid_out(manual, payment, ref)
            assert refused.value.reason is RefusalCode.PAYEE_NOT_READY
        await fake_processor_of(manual).sandbox.complete_payee(payee.ref)
    assert (await paid_out(manual, payment, payee.ref)).amount == 1


async def test_readiness_without_an_account_is_not_enough(manual: ProcessorBench) -> None:
    """With `manual_payees` a ready companion without an account cannot be paid."""
    payment = await manual.make_payment()
    await fake_processor_of(manual).dashboard.set_payee_ready(COMPANION_ID, True)
    with pytest.raises(ProcessorRefused):
        await paid_out(manual, payment, "")


async def test_another_companions_account_is_not_paid(manual: ProcessorBench) -> None:
    """With `manual_payees` a payout to another companion's account is refused."""
    payment, other = await manual.make_payment(), await opened(manual, companion_id=3)
    await fake_processor_of(manual).sandbox.complete_payee(other.ref)
    await fake_processor_of(manual).dashboard.set_payee_ready(COMPANION_ID, True)
    with pytest.raises(ProcessorRefused):
        await paid_out(manual, payment, other.ref)
