"""The ledger check, and the ledger of one booking."""

from __future__ import annotations

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import make_booking_write, make_posting, next_revision
from staffbooking_core.domain.payments.ledger import Account
from staffbooking_core.errors import NotFound
from staffbooking_core.usecases.payments import ledger_check
from tests.support.memory_deployment import with_another_companion

pytestmark = pytest.mark.anyio


async def check(scene):
    return [one async for one in ledger_check.check_ledger(scene.ports)]


async def test_an_empty_book_is_right(scene):
    """Without bookings the check finds no faults."""
    assert await check(scene) == []


async def test_the_check_counts_what_it_has_looked_at(scene, monkeypatch):
    """The check yields its progress after each batch."""
    monkeypatch.setattr(ledger_check, "AUDIT_BATCH_SIZE", 2)
    for number in range(5):
        await (await with_another_companion(scene, id=number)).request()
    assert await check(scene) == [2, 4, 5]


async def test_a_fault_names_its_booking(scene):
    """A fault has the booking code and a text."""
    booking = await scene.paid()

    async def unit(tx):
        await tx.bookings.save_booking(make_booking_write(next_revision(booking, escrow=1)))

    await scene.ports.store.run_transaction(unit)
    faults = [one for one in await check(scene) if isinstance(one, ledger_check.LedgerFault)]
    assert {fault.booking_code for fault in faults} == {booking.code}
    assert "escrow is 40000, should be 1" in {fault.text for fault in faults}


async def test_a_difference_to_the_processors_book_is_found(scene):
    """The check finds a difference of one minor unit to the processor's balance."""
    booking = await scene.paid()
    posting = make_posting(booking.id, amount=1)

    async def unit(tx):
        change = make_booking_write(next_revision(booking, escrow=40_001), postings=(posting,))
        await tx.bookings.save_booking(change)

    await scene.ports.store.run_transaction(unit)
    assert "the processor holds 40000, the ledger says 40001" in await scene.faults()


async def test_real_money_is_not_compared_with_a_pretended_book(scene):
    """Without a sandbox only the ledger itself is checked."""
    await scene.paid()
    real = evolve(scene, ports=evolve(scene.ports, sandbox=None))
    assert await real.faults() == []


async def test_what_is_under_way_is_no_fault(scene):
    """Balances are not compared while the outcome of an operation is unknown."""
    booking = await scene.paid()
    await scene.fault("event", "drop", 10)
    await scene.cancel(booking, scene.staff)
    await scene.fault("refund", "timeout_after")
    await scene.drain()
    assert await scene.processor_balance() == 0
    assert await scene.faults() == []
    await scene.settle_down()
    assert await scene.faults() == []


async def test_a_page_of_the_book_shows_one_booking(scene):
    """The ledger of a booking has its postings and operations, the oldest first."""
    await (await with_another_companion(scene)).request()
    booking = await scene.paid_out()
    page = await ledger_check.get_booking_ledger(scene.ports, booking.code)
    assert page.booking == booking
    assert [posting.key.split(":")[0] for posting in page.postings] == ["pay", "settle", "payout"]
    assert [str(one.kind) for one in page.operations] == ["open_checkout", "pay_out"]
    assert page.postings[0].legs[0].account is Account.PROCESSOR_BALANCE


async def test_a_page_that_is_not_there(scene):
    """The ledger of an unknown booking raises NotFound."""
    with pytest.raises(NotFound):
        await ledger_check.get_booking_ledger(scene.ports, "BK000000000000")
