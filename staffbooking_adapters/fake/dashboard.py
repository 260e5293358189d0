"""What happens at the processor outside the service: an operator's actions on its dashboard, and
appeals."""

from __future__ import annotations

from attrs import evolve, frozen

from staffbooking_adapters.fake import documents, machine
from staffbooking_adapters.fake.accounts import PayeeAccounts
from staffbooking_adapters.fake.documents import FakeDocumentStore
from staffbooking_core.ports import Clock


@frozen
class FakeDashboard:
    """Moves money, changes payees and overturns verdicts of the `FakeProcessor` that created it,
    without any operation of the service."""

    store: FakeDocumentStore
    clock: Clock
    accounts: PayeeAccounts

    async def refund(self, intent_id: int, amount: int) -> None:
        """Refund an amount in minor units. Raises ProcessorRefused like a call."""
        now = await self.clock.business()
        await documents.lock_and_change_intent(
            self.store,
            intent_id,
            now,
            lambda intent: (machine.refund_by_hand(intent, amount, now), None),
        )

    async def reverse_payout(self, intent_id: int, amount: int) -> None:
        """Reverse an amount in minor units. Raises ProcessorRefused like a call."""
        await documents.lock_and_change_intent(
            self.store,
            intent_id,
            await self.clock.business(),
            lambda intent: (machine.reverse_by_hand(intent, amount), None),
        )

    async def overturn_chargebacks(self, intent_id: int) -> None:
        """Give each decided chargeback the opposite verdict, as after an appeal."""
        await documents.lock_and_change_intent(
            self.store,
            intent_id,
            await self.clock.business(),
            lambda intent: (machine.overturn_chargebacks(intent), None),
        )

    async def set_payee_ready(self, companion_id: int, ready: bool) -> None:
        """Set whether a companion can be paid, with or without an account."""
        now = await self.clock.business()
        await self.accounts.change(companion_id, now, lambda payee: evolve(payee, ready=ready))
