"""Payees in memory: the staff members' accounts at the processor."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from attrs import frozen

from staffbooking_adapters.memory.state import (
    MemoryTransaction,
    PayeeRow,
    holds_lease,
    is_lease_active,
)
from staffbooking_core.domain.payments.payees import Payee
from staffbooking_core.errors import Conflict, ConstraintViolated
from staffbooking_core.ports import PAYEE_REF_TAKEN, Lease


@frozen
class PayeesReader:
    """Reads payees."""

    tx: MemoryTransaction

    async def payee(self, provider: str, companion_id: int) -> Payee | None:
        row = self.tx.state.payees.get((provider, companion_id))
        return None if row is None else row.payee

    async def payee_by_ref(self, provider: str, ref: str) -> Payee | None:
        companion_id = self.tx.state.payee_by_ref.get((provider, ref))
        return None if companion_id is None else await self.payee(provider, companion_id)


@frozen
class PayeesWriter(PayeesReader):
    """Reads and writes payees."""

    async def claim_payees(
        self,
        provider: str,
        now: datetime,
        lease: Lease,
        limit: int,
        companion_id: int | None = None,
    ) -> Sequence[Payee]:
        payees = self.tx.state.payees
        due = [
            row.payee
            for (payee_provider, payee_companion_id), row in payees.items()
            if payee_provider == provider
            and (
                row.payee.is_due(now)
                if companion_id is None
                else payee_companion_id == companion_id
            )
            and not is_lease_active(row.lease, now)
        ]
        due.sort(key=lambda payee: (payee.next_at or now, payee.companion_id))
        for payee in due[:limit]:
            payees[provider, payee.companion_id] = PayeeRow(payee, lease)
        return due[:limit]

    async def lock_payee(self, provider: str, companion_id: int, lease: Lease) -> Payee:
        row = self.tx.state.payees.get((provider, companion_id))
        if row is None or not holds_lease(row.lease, lease):
            raise Conflict("payee")
        return row.payee

    async def save_payee(self, payee: Payee, lease: Lease | None = None) -> None:
        state, name = self.tx.state, (payee.provider, payee.companion_id)
        if lease is not None:
            await self.lock_payee(*name, lease)
        before = await self.payee(*name)
        if before is not None and before.ref is not None:
            state.payee_by_ref.discard((before.provider, before.ref))
        if payee.ref is not None:
            if (payee.provider, payee.ref) in state.payee_by_ref:
                raise ConstraintViolated(PAYEE_REF_TAKEN)
            state.payee_by_ref[payee.provider, payee.ref] = payee.companion_id
        state.payees[name] = PayeeRow(payee, lease)
