"""The fake processor's payees: accounts of staff members, ready at once or completed by hand."""

from __future__ import annotations

import pytest
from attrs import evolve

from staffbooking_core.domain.payments.payees import PayeeState
from staffbooking_core.domain.payments.processor import (
    KeyReused,
    Nudge,
    OpKey,
    OpKind,
    Payment,
    PayOut,
    PayoutState,
    RefusalCode,
    Refused,
    Unknown,
)
from staffbooking_core.ports import PayeePage
from tests.money.fake_helpers import fake_with
from tests.money.processors import COMPANION, WITHIN, Bench, fake_of, make_key, make_payee
from tests.support.builders import MINUTE, NOW

pytestmark = pytest.mark.anyio


@pytest.fixture
def manual() -> Bench:
    """A processor whose payees are completed by hand."""
    return fake_with(manual_payees=True)


def key_of(generation: int = 1, companion_id: int = COMPANION) -> OpKey:
    return OpKey(0, companion_id, OpKind.OPEN_PAYEE, generation)


async def opened(
    bench: Bench, generation: int = 1, name: str = "Mia Lindqvist", companion_id: int = COMPANION
) -> PayeeState:
    command = evolve(make_payee(companion_id), name=name)
    return await bench.payments.open_payee(command, key_of(generation, companion_id), WITHIN)


async def paid_out(bench: Bench, payment: Payment, payee_ref: str = "") -> PayoutState:
    command = PayOut(payment.ref, COMPANION, 1, payment.currency, payee_ref)
    return await bench.payments.pay_out(command, make_key(OpKind.PAY_OUT), WITHIN)


async def nudges_of(bench: Bench) -> list[Nudge]:
    events = await bench.world.events()
    wall = bench.clock.wall()
    return [nudge for event in events for nudge in bench.payments.parse_webhook(*event, wall)]


# Opening ---------------------------------------------------------------------------------------


async def test_a_payee_is_ready_at_once(bench: Bench) -> None:
    """Nobody has to complete anything, unless it was set so."""
    payee = await opened(bench)
    assert (payee.ready, payee.needs) == (True, ())
    assert await bench.payments.payee(payee.ref, WITHIN) == payee


async def test_a_payee_may_be_incomplete(manual: Bench) -> None:
    """Where it was set so, an account lacks something at first."""
    payee = await opened(manual)
    assert (payee.ready, payee.needs) == (False, ("details",))
    assert await manual.payments.payee(payee.ref, WITHIN) == payee


async def test_a_reference_names_the_companion_and_cannot_be_guessed(fake: Bench) -> None:
    """It has 128 bits in hexadecimal at its end."""
    head, companion, secret = (await opened(fake)).ref.split("_")
    assert (head, companion, len(secret)) == ("fpa", str(COMPANION), 32)


async def test_an_opening_is_repeated_under_its_key(manual: Bench) -> None:
    """The first answer comes again, though the account is complete by now."""
    first = await opened(manual)
    await fake_of(manual).complete_payee(first.ref)
    assert await opened(manual) == first


async def test_a_companion_has_one_account(bench: Bench) -> None:
    """Another key leads to the same account, with the newer name."""
    first = await opened(bench)
    assert (await opened(bench, 2, name="Mia L.")).ref == first.ref
    page = await fake_of(bench).payee_page(first.ref)
    assert page is not None
    assert page.name == "Mia L."


async def test_two_companions_have_two_accounts(bench: Bench) -> None:
    """Each with a reference of its own."""
    assert (await opened(bench)).ref != (await opened(bench, companion_id=3)).ref


async def test_a_key_opens_one_account(bench: Bench) -> None:
    """The same key with another name is refused as a bug."""
    await opened(bench)
    with pytest.raises(KeyReused):
        await opened(bench, name="Somebody else")


@pytest.mark.parametrize(("kind", "there"), [("timeout_before", False), ("timeout_after", True)])
async def test_faults_strike_openings(bench: Bench, kind: str, there: bool) -> None:
    """An account was opened or not when the answer is lost, and a repeat heals both."""
    fake = fake_of(bench)
    await fake.add_fault("open_payee", kind, 1)
    with pytest.raises(Unknown):
        await opened(bench)
    made = await fake._book.read(lambda view: view.get("payee", str(COMPANION)))
    assert (made is not None) is there
    assert (await opened(bench)).ready


@pytest.mark.parametrize("ref", ["", "\0", "é", "fpa_2_x", "a/b", "x" * 3000])
async def test_an_unknown_payee_is_missing(bench: Bench, ref: str) -> None:
    """What names no account is refused by the port, and has no page, on every book."""
    fake = fake_of(bench)
    for call in (fake.payee(ref, WITHIN), fake.onboarding_link(ref, "http://a", "http://b", 1)):
        with pytest.raises(Refused) as refused:
            await call
        assert refused.value.reason is RefusalCode.MISSING
    assert await fake.payee_page(ref) is None
    assert await fake.complete_payee(ref) is None


# The page --------------------------------------------------------------------------------------


async def test_a_link_leads_to_the_page(bench: Bench) -> None:
    """It lasts five minutes of business time, and the page knows the way back."""
    await bench.clock.set_business(NOW + 10 * MINUTE)
    ref = (await opened(bench)).ref
    link = await bench.payments.onboarding_link(ref, "http://back", "http://again", WITHIN)
    assert link.url == f"http://test/sandbox/payees/{ref}"
    assert link.expires_at == NOW + 15 * MINUTE
    page = await fake_of(bench).payee_page(ref)
    assert page == PayeePage(ref, "Mia Lindqvist", True, "http://back")


async def test_a_payee_is_completed_on_the_page(manual: Bench) -> None:
    """One act makes the account ready, for good."""
    ref = (await opened(manual)).ref
    for _ in range(2):
        page = await fake_of(manual).complete_payee(ref)
        assert page is not None
        assert page.ready
    assert (await manual.payments.payee(ref, WITHIN)) == PayeeState(ref, True)


async def test_completing_is_told_of_once(manual: Bench) -> None:
    """An event points to the account, and a second act on the page changes nothing."""
    ref = (await opened(manual)).ref
    assert await nudges_of(manual) == []
    for _ in range(2):
        await fake_of(manual).complete_payee(ref)
    assert await nudges_of(manual) == [Nudge("fev_p2_000001", payee_ref=ref)]


async def test_each_change_of_readiness_is_told_of(bench: Bench) -> None:
    """By an event with a name of its own."""
    ref, fake = (await opened(bench)).ref, fake_of(bench)
    for ready in (False, False, True):
        await fake.set_payee_ready(COMPANION, ready)
    assert [nudge.event_id for nudge in await nudges_of(bench)] == [
        "fev_p2_000001",
        "fev_p2_000002",
    ]
    assert (await bench.payments.payee(ref, WITHIN)).ready


async def test_nobody_is_told_of_no_account(fake: Bench) -> None:
    """There is nothing that an event could point to."""
    await fake_of(fake).set_payee_ready(COMPANION, False)
    assert await nudges_of(fake) == []


async def test_an_account_opened_unready_stays_so(bench: Bench) -> None:
    """Who was not to be paid is not to be paid with an account either."""
    await fake_of(bench).set_payee_ready(COMPANION, False)
    assert not (await opened(bench)).ready


# Payouts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("payee_ref", ["", "acct_whatever"])
async def test_anybody_can_be_paid(bench: Bench, payee_ref: str) -> None:
    """With or without an account, of whatever name."""
    assert (await paid_out(bench, await bench.paid(), payee_ref)).amount == 1


async def test_an_unready_companion_is_not_paid(bench: Bench) -> None:
    """Until it is ready again."""
    payment, fake = await bench.paid(), fake_of(bench)
    await fake.set_payee_ready(COMPANION, False)
    with pytest.raises(Refused) as refused:
        await paid_out(bench, payment)
    assert refused.value.reason is RefusalCode.PAYEE_NOT_READY
    await fake.set_payee_ready(COMPANION, True)
    assert (await paid_out(bench, payment)).amount == 1


async def test_only_a_ready_account_is_paid(manual: Bench) -> None:
    """Where payees are completed by hand: neither no account, nor another, nor an incomplete
    one."""
    payment, payee = await manual.paid(), await opened(manual)
    for completed in (False, True):
        for ref in ["", "fpa_2_other", *([] if completed else [payee.ref])]:
            with pytest.raises(Refused) as refused:
                await paid_out(manual, payment, ref)
            assert refused.value.reason is RefusalCode.PAYEE_NOT_READY
        await fake_of(manual).complete_payee(payee.ref)
    assert (await paid_out(manual, payment, payee.ref)).amount == 1


async def test_readiness_without_an_account_is_not_enough(manual: Bench) -> None:
    """Where payees are completed by hand a payout has to name an account."""
    payment = await manual.paid()
    await fake_of(manual).set_payee_ready(COMPANION, True)
    with pytest.raises(Refused):
        await paid_out(manual, payment, "")


async def test_the_account_of_another_is_not_paid(manual: Bench) -> None:
    """A payout goes to its own companion's account."""
    payment, other = await manual.paid(), await opened(manual, companion_id=3)
    await fake_of(manual).complete_payee(other.ref)
    await fake_of(manual).set_payee_ready(COMPANION, True)
    with pytest.raises(Refused):
        await paid_out(manual, payment, other.ref)
