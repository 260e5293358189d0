"""Payees: the staff members' accounts at the payment processor."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from staffbooking_core.domain.payments.payees import Payee
from staffbooking_core.ports.leases import Lease

__all__ = ["PAYEE_REF_TAKEN", "PayeesReadPort", "PayeesWritePort"]

PAYEE_REF_TAKEN = "uq_payees_ref"
"""Constraint: two companions have the same reference at one provider."""


class PayeesReadPort(Protocol):
    """Queries on payees."""

    async def payee(self, provider: str, companion_id: int) -> Payee | None:
        """A companion's payee at a provider."""
        ...

    async def payee_by_ref(self, provider: str, ref: str) -> Payee | None:
        """The payee with a provider's reference."""
        ...


class PayeesWritePort(PayeesReadPort, Protocol):
    """Commands on payees."""

    async def claim_payees(
        self,
        provider: str,
        now: datetime,
        lease: Lease,
        limit: int,
        companion_id: int | None = None,
    ) -> Sequence[Payee]:
        """Claim up to `limit` payees whose `next_at` (wall time) has come, the earliest first.
        With `companion_id`, claim that one alone, due or not, unless it is claimed already."""
        ...

    async def lock_payee(self, provider: str, companion_id: int, lease: Lease) -> Payee:
        """A claimed payee, locked until the transaction ends.

        Raises Conflict("payee") where the lease was lost.
        """
        ...

    async def save_payee(self, payee: Payee, lease: Lease | None = None) -> None:
        """Insert or replace a payee. With a lease it stays claimed; without, it is released.

        Raises Conflict("payee") where the given lease was lost, or nothing is there to be saved
        under one, and ConstraintViolated(PAYEE_REF_TAKEN).
        """
        ...
