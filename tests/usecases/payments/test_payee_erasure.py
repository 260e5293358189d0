"""The payout account of an erased person is neither opened nor polled."""

from __future__ import annotations

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import SECOND, add_companion
from staffbooking_core.domain.payments.processor import ProcessorEvent
from staffbooking_core.errors import NotFound
from staffbooking_core.usecases import privacy
from staffbooking_core.usecases.payments import inbox, payees
from tests.support.memory_deployment import actor_of

pytestmark = pytest.mark.anyio


def erase_during(desk, name):
    """Erase the person while the first call of this name is on its way to the processor."""
    real = getattr(desk.processor.inner, name)

    async def erase_and_call(*given):
        setattr(desk.processor.inner, name, real)
        await privacy.erase_person(desk.ports, desk.staff.user_id)
        return await real(*given)

    setattr(desk.processor.inner, name, erase_and_call)


async def test_a_request_that_is_overtaken_by_the_erasure_stores_nothing(desk):
    """A request whose person is erased while the imported account is looked up raises NotFound,
    and opens no account."""
    staff = actor_of(await add_companion(desk.ports.store, payout_account="acct_typo"))
    desk = evolve(desk, staff=staff)
    erase_during(desk, "payee")
    with pytest.raises(NotFound):
        await desk.open_onboarding()
    assert await desk.payee() is None
    assert desk.processor.calls_of("open_payee") == []


async def test_an_opening_that_is_overtaken_by_the_erasure_is_not_repeated(desk):
    """A request whose person is erased while the account is opened raises NotFound before its
    deadline, and the account is not opened again."""
    erase_during(desk, "open_payee")
    began = desk.ports.clock.now
    with pytest.raises(NotFound):
        await desk.open_onboarding()
    assert desk.ports.clock.now - began < SECOND
    assert len(desk.processor.calls_of("open_payee")) == 1


async def test_an_event_of_an_erased_persons_account_is_ignored(desk):
    """An event about the account of an erased person is processed without asking the processor,
    and the account does not become due."""
    payee, _ = await desk.open_onboarding()
    await privacy.erase_person(desk.ports, desk.staff.user_id)
    await inbox.add_events(desk.ports, [ProcessorEvent("evt_1", payee_ref=payee.ref)])
    await desk.scene.drain()
    assert desk.processor.calls_of("payee") == []
    assert (await desk.payee()).next_at is None
    await payees.sync_payee(desk.ports, payee.ref, 5 * SECOND)


async def test_an_account_that_is_due_after_the_erasure_is_so_no_more(desk):
    """An opening that was stored as due after its person was erased is dropped unsent."""
    payee, _ = await desk.open_onboarding()
    await privacy.erase_person(desk.ports, desk.staff.user_id)
    desk.processor.calls.clear()
    due = evolve(payee, ref=None, next_at=desk.ports.clock.wall())
    await desk.ports.store.run_transaction(lambda tx: tx.payees.save_payee(due))
    assert await payees.run_due_payee(desk.ports) == 1
    assert desk.processor.calls == []
    assert await payees.run_due_payee(desk.ports) == 0
    left = await desk.payee()
    assert (left.next_at, left.command.name) == (None, "Erased")
