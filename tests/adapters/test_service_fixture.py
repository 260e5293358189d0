"""The fixture `service`: a booking from its request to its payout, with its webhooks."""

from __future__ import annotations

import pytest

from staffbooking_adapters import memory_ports
from staffbooking_adapters.fake.processor import FakeProcessor
from staffbooking_adapters.memory.doubles import VirtualClock
from staffbooking_adapters.memory.sandbox.fake_documents import MemoryFakeDocumentStore
from staffbooking_adapters.testing.plugin import NOW, clock, ports, service
from staffbooking_adapters.testing.service import Service, make_service
from staffbooking_core import BookingStatus, PayoutStatus

__all__ = ["clock", "ports", "service"]

pytestmark = pytest.mark.anyio


async def test_a_booking_runs_from_request_to_payout(service: Service) -> None:
    """A booking is requested, accepted, paid, completed and paid out, and both receivers get
    their events, each once, in order."""
    booking = await service.request()
    await service.accept(booking)
    paid = await service.pay(booking)
    finished = await service.finish(booking)
    assert paid.status is BookingStatus.PAID
    assert (finished.status, finished.payout_status) == (
        BookingStatus.COMPLETED,
        PayoutStatus.PAID,
    )
    assert service.receiver.events(booking) == [
        "booking.created",
        "booking.accepted",
        "payment.completed",
        "booking.completed",
    ]
    assert service.companion_receiver.events(booking)[-1] == "payout.paid"


async def test_a_failing_receiver_gets_the_event_again(service: Service) -> None:
    """An event that a receiver did not process is sent again, and processed once."""
    service.receiver.status = 503
    booking = await service.request()
    await service.run_due()
    assert service.receiver.events(booking) == []
    service.receiver.status = 204
    await service.pass_time(service.ports.policy.payout_delay / 24)
    assert service.receiver.events(booking) == ["booking.created"]


async def test_a_declined_card_leaves_the_booking_unpaid(service: Service) -> None:
    """A declined card leaves the booking accepted."""
    booking = await service.accept(await service.request())
    assert (await service.pay(booking, "decline")).status is BookingStatus.ACCEPTED


def test_a_test_without_a_loop_gets_a_service(service: Service) -> None:
    """The fixture needs no running loop."""
    assert service.customer != service.companion


async def test_pages_of_other_processors_are_not_paid_here() -> None:
    """Without the fake processor `pay` says whose page is to be paid, and what follows."""
    book = MemoryFakeDocumentStore()
    other = FakeProcessor(book, VirtualClock(NOW), base_url="http://till.test", secret=b"till")
    service = await make_service(memory_ports(now=NOW, payments=other))
    booking = await service.accept(await service.request())
    with pytest.raises(TypeError, match="payments is FakeProcessor: pay the page of"):
        await service.pay(booking)
