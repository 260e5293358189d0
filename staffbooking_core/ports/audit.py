"""The audit of operators' changes: rows are added, and blanked by erasure, but never changed or
removed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from attrs import frozen

from staffbooking_core.domain.accounts.audit import AuditEntry, AuditSubject, NewAuditEntry

__all__ = ["ALL_ENTRIES", "AuditFilters", "AuditReadPort", "AuditWritePort"]


@frozen
class AuditFilters:
    """Which entries of the audit are wanted; None for all. Those by an admin or by a name where
    both are given."""

    subject: AuditSubject | None = None
    code: str | None = None
    """The code of the booking."""
    actor_id: int | None = None
    """The id of an admin."""
    actor: str | None = None
    """The name given at the command line."""


ALL_ENTRIES = AuditFilters()


class AuditReadPort(Protocol):
    """Queries on the audit."""

    async def audit_entries(
        self, limit: int, offset: int = 0, filters: AuditFilters = ALL_ENTRIES
    ) -> Sequence[AuditEntry]:
        """Up to `limit` of the entries that all the filters select, after the newest `offset`, the
        newest first."""
        ...

    async def audit_entries_about(self, user_id: int, limit: int) -> Sequence[AuditEntry]:
        """Up to `limit` of the newest entries about a person or their companion, the newest
        first."""
        ...


class AuditWritePort(AuditReadPort, Protocol):
    """Commands on the audit."""

    async def add_audit_entry(self, entry: NewAuditEntry) -> None:
        """Add an entry."""
        ...
