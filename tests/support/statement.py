"""Reconciliation of the ledger with a processor's statement that a test can alter."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from itertools import count
from typing import Any, TypeAlias

from attrs import evolve

from staffbooking_adapters.fake.processor import FakeProcessor
from staffbooking_adapters.memory.sandbox.fake_documents import MemoryFakeDocumentStore
from staffbooking_adapters.testing.builders import make_booking_write, make_posting, next_revision
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.payments.ledger import Account, Leg
from staffbooking_core.domain.payments.processor import OutcomeUnknown
from staffbooking_core.domain.reconciliation.statement import Movement
from staffbooking_core.usecases.payments import statement as payments_statement
from staffbooking_core.usecases.payments.statement import (
    ReconciliationProgress,
    StatementDifference,
)
from tests.support.memory_deployment import BookingScenario, make_booking_scenario, memory_ports

StatementChange: TypeAlias = Callable[[list[Movement]], Sequence[Movement]]

NO_ANSWER = OutcomeUnknown("no answer in time")


class ProcessorWithAlteredStatement:
    """A processor with an altered statement; single calls can be unreachable."""

    def __init__(
        self, inner: Any, change: StatementChange, down: Collection[str], error: Exception
    ) -> None:
        self.inner, self.change, self.down, self.error = inner, change, down, error

    def __getattr__(self, name: str) -> Any:
        async def fail(*_: Any) -> None:
            raise self.error

        return fail if name in self.down else getattr(self.inner, name)

    async def statement(self) -> AsyncIterator[Movement]:
        if "statement" in self.down:
            raise self.error
        for line in self.change([line async for line in self.inner.statement()]):
            yield line


def with_altered_statement(
    scene: BookingScenario,
    change: StatementChange = lambda lines: lines,
    down: Collection[str] = (),
    error: Exception = NO_ANSWER,
) -> BookingScenario:
    """The same scenario with an altered statement."""
    altered: Any = ProcessorWithAlteredStatement(scene.ports.payments, change, down, error)
    return evolve(scene, ports=evolve(scene.ports, payments=altered))


async def reconcile(
    scene: BookingScenario, apply: bool = False
) -> tuple[list[StatementDifference], ReconciliationProgress]:
    """The differences that are found, and the final progress."""
    found = [one async for one in payments_statement.reconcile_statement(scene.ports, apply=apply)]
    differences = [one for one in found if isinstance(one, StatementDifference)]
    (*_, done) = [one for one in found if isinstance(one, ReconciliationProgress)]
    return differences, done


async def difference_texts(scene: BookingScenario, apply: bool = False) -> list[str]:
    differences, _ = await reconcile(scene, apply)
    return [one.text for one in differences]


async def make_scenario_with_fees() -> BookingScenario:
    """A scenario whose processor charges a fee of 2.9 %."""
    ports, refs = memory_ports(), count(1)
    processor = FakeProcessor(
        MemoryFakeDocumentStore(),
        ports.clock,
        base_url=ports.policy.base_url,
        secret=b"events",
        make_ref=lambda: f"page{next(refs)}",
        fee_ppm=29_000,
    )
    return await make_booking_scenario(
        ports=evolve(ports, payments=processor, sandbox=processor.sandbox)
    )


async def add_surplus_posting(
    scene: BookingScenario, booking: Booking, key: str, amount: int = 7
) -> None:
    """Add a posting to a booking that no movement of the processor explains."""
    legs = (Leg(Account.PROCESSOR_BALANCE, amount), Leg(Account.SUSPENSE, -amount))
    posting = make_posting(booking.id, key=key, legs=legs)
    change = make_booking_write(next_revision(await scene.booking(booking)), postings=(posting,))
    await scene.ports.store.run_transaction(lambda tx: tx.bookings.save_booking(change))
