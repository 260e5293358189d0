"""The fake processor's sandbox: hosted pages, chargebacks, faults, and due events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Final

from attrs import evolve, frozen

from staffbooking_adapters.fake import documents, faults, machine, outbox
from staffbooking_adapters.fake.accounts import PayeeAccounts
from staffbooking_adapters.fake.cards import parse_outcome
from staffbooking_adapters.fake.documents import (
    FakeDocumentStore,
    FakeStoreReader,
    FakeStoreTransaction,
)
from staffbooking_adapters.fake.faults import FaultInjector
from staffbooking_adapters.fake.machine import FakeIntent
from staffbooking_core.domain.payments.processor import ChargebackStatus
from staffbooking_core.errors import invalid_field
from staffbooking_core.ports import ArmedFault, CheckoutPage, Clock, PayeePage

NOT_A_TEST_CARD: Final = "Only the test cards can pay here"


@frozen
class FakeSandbox:
    """Implements `SandboxProcessor` over the document store of the `FakeProcessor` that created it.

    The fee is `fee_ppm` millionths of each payment. `secret` signs the events, and `injector`
    may inject a fault into the delivery of each.
    """

    store: FakeDocumentStore
    clock: Clock
    accounts: PayeeAccounts
    injector: FaultInjector
    secret: bytes
    fee_ppm: int

    @property
    def pays_without_account(self) -> bool:
        return not self.accounts.is_manual

    async def checkout_page(self, ref: str) -> CheckoutPage | None:
        return await self._page_view(ref, "")

    async def simulate_checkout(self, ref: str, outcome: str) -> CheckoutPage | None:
        """Besides the port's outcomes: `insufficient_funds`, `succeed_then_chargeback`, and
        `card:NUMBER` for the card entered in the page's form. Raises InvalidField on `outcome`."""
        parsed_outcome = parse_outcome(outcome)
        if parsed_outcome is None:
            return await self._page_view(ref, NOT_A_TEST_CARD)
        intent_id = await self.store.read(lambda view: documents.find_intent_by_page(view, ref))
        if intent_id is None:
            return None
        now = await self.clock.business()

        def transition(intent: FakeIntent) -> tuple[FakeIntent, CheckoutPage]:
            changed, note = machine.apply_outcome(intent, ref, parsed_outcome, now, self.fee_ppm)
            return changed, machine.page_view(changed, ref, note)

        return await documents.lock_and_change_intent(self.store, intent_id, now, transition)

    async def _page_view(self, ref: str, note: str) -> CheckoutPage | None:
        now = await self.clock.business()

        async def look(view: FakeStoreReader) -> CheckoutPage | None:
            intent_id = await documents.find_intent_by_page(view, ref)
            if intent_id is None:
                return None
            intent = await documents.get_intent(view, intent_id)
            return machine.page_view(machine.advance_to(intent, now), ref, note)

        return await self.store.read(look)

    async def payee_page(self, ref: str) -> PayeePage | None:
        found = await self.accounts.find(ref)
        return None if found is None else found.page

    async def complete_payee(self, ref: str) -> PayeePage | None:
        now = await self.clock.business()
        completed = await self.accounts.change_by_ref(
            ref, now, lambda payee: evolve(payee, ready=True)
        )
        return None if completed is None else completed.page

    async def chargeback(self, intent_id: int, outcome: str) -> None:
        """A verdict without an open chargeback opens it first. Raises InvalidField on
        `outcome`, and RuleBroken as `machine.chargeback` does."""
        if outcome not in tuple(ChargebackStatus):
            raise invalid_field("outcome", f"must be one of {', '.join(ChargebackStatus)}")
        status = ChargebackStatus(outcome)
        await documents.lock_and_change_intent(
            self.store,
            intent_id,
            await self.clock.business(),
            lambda intent: (machine.chargeback(intent, status), None),
        )

    async def add_fault(self, op: str, kind: str, times: int) -> None:
        """Queue a fault; `faults` lists the ops and kinds. Raises InvalidField on op, kind,
        times."""
        fault = faults.make_fault(op, kind, times)

        async def unit(tx: FakeStoreTransaction) -> None:
            await documents.save_faults(tx, (*await documents.lock_faults(tx), fault))

        await self.store.transact(unit)

    async def list_faults(self) -> Sequence[ArmedFault]:
        waiting = await self.store.read(documents.pending_faults)
        return [ArmedFault(each.op, each.kind, each.times) for each in waiting]

    async def clear_faults(self) -> None:
        async def unit(tx: FakeStoreTransaction) -> None:
            await documents.lock_faults(tx)
            await documents.save_faults(tx, ())

        await self.store.transact(unit)

    async def balance(self) -> int:
        await outbox.advance_due_intents(self.store, await self.clock.business())
        return await self.store.read(lambda view: view.total(documents.INTENT_KIND))

    async def take_due_events(self, limit: int) -> Sequence[tuple[Mapping[str, str], bytes]]:
        """Each event is due twice, 10 s of business time apart; afterwards it is only listed."""
        now, wall_now = await self.clock.business(), self.clock.wall()
        await outbox.advance_due_intents(self.store, now)
        await outbox.delete_expired(self.store, now, wall_now)
        taken = await outbox.take_due_events(self.store, now, limit, self.injector)
        return [event.sign(self.secret, wall_now) for event in taken]

    async def is_event_taken(self, subject: int | str, since: datetime) -> bool:
        now = await self.clock.business()
        return await self.store.read(
            partial(outbox.was_delivered, subject=subject, since=since, now=now)
        )
