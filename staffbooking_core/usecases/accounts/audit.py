"""The audit of operators' changes (CONTRACT 10).

A change is made on the ports that `audited_ports` returns, so that every use-case can be an
operator's, and none knows of the audit.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from typing import Any, TypeVar

from attrs import define, evolve, frozen

from staffbooking_core.domain.accounts.audit import (
    AuditEntry,
    AuditSubject,
    NewAuditEntry,
    Operator,
)
from staffbooking_core.policy import Policy
from staffbooking_core.ports import (
    AuditFilters,
    BookingWrite,
    OpenTransaction,
    Ports,
    ReadView,
    Store,
    Transaction,
)
from staffbooking_core.validation import validated

__all__ = ["OperatorAct", "audited_ports", "list_audit_entries"]

T = TypeVar("T")


@frozen(kw_only=True)
class OperatorAct:
    """What an operator does, to what, and why."""

    operator: Operator
    act: str
    subject: AuditSubject
    subject_id: int | str | None
    """None for something new, whose id the change returns."""
    reason: str | None


def audited_ports(ports: Ports, act: OperatorAct) -> Ports:
    """Ports for one change by an operator: the first transaction that commits on them also adds the
    change's audit entry. A change that is refused leaves no entry."""
    return evolve(ports, store=_AuditedStore(ports.store, act, ports.clock.wall()))


@define
class _AuditedStore:
    """A store that adds an audit entry to its first transaction."""

    _store: Store
    _act: OperatorAct
    _at: datetime
    _is_added: bool = False

    def read_view(self) -> AbstractAsyncContextManager[ReadView]:
        return self._store.read_view()

    async def run_transaction(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        result = await self._store.run_transaction(self._with_entry(work))
        self._is_added = True
        return result

    @asynccontextmanager
    async def open_transaction(
        self, work: Callable[[Transaction], Awaitable[T]]
    ) -> AsyncIterator[OpenTransaction[T]]:
        async with self._store.open_transaction(self._with_entry(work)) as opened:
            yield opened
        self._is_added = True

    def _with_entry(
        self, work: Callable[[Transaction], Awaitable[T]]
    ) -> Callable[[Transaction], Awaitable[T]]:
        """The unit of work with the audit entry, unless that is added already."""
        if self._is_added:
            return work

        async def unit(tx: Transaction) -> T:
            result = await work(tx)
            await tx.audit.add_audit_entry(self._entry(result))
            return result

        return unit

    async def add_booking(self, booking_write: BookingWrite) -> None:
        await self.run_transaction(lambda tx: tx.bookings.add_booking(booking_write))

    async def check_writable(self, now: datetime) -> None:
        await self._store.check_writable(now)

    async def delete_expired(self, now: datetime, policy: Policy) -> int:
        return await self._store.delete_expired(now, policy)

    def _entry(self, result: Any) -> NewAuditEntry:
        act = self._act
        subject_id = result.id if act.subject_id is None else act.subject_id
        return NewAuditEntry(
            at=self._at,
            actor_id=act.operator.actor_id,
            actor=act.operator.actor,
            act=act.act,
            subject=act.subject,
            subject_id=str(subject_id),
            reason=act.reason,
            origin=act.operator.origin,
        )


@validated
async def list_audit_entries(
    ports: Ports,
    page: int = 1,
    limit: int = 50,
    subject: AuditSubject | None = None,
    code: str | None = None,
    actor: str | None = None,
) -> Sequence[AuditEntry]:
    """A page of the audit, the newest first, up to `limit + 1` entries: about one kind of subject,
    about the booking with a code, by an admin with an e-mail address and by a name that was given
    at the command line, which may be an address too."""
    async with ports.store.read_view() as view:
        admin = None if actor is None else await view.accounts.user_by_email(actor)
        filters = AuditFilters(subject, code, None if admin is None else admin.id, actor)
        return await view.audit.audit_entries(limit + 1, (page - 1) * limit, filters)
