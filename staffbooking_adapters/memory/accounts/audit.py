"""The audit of operators' changes in memory."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import asdict, evolve, frozen

from staffbooking_adapters.memory.state import MemoryTransaction
from staffbooking_core.domain.accounts.audit import (
    BOOKING_SUBJECTS,
    AuditEntry,
    AuditSubject,
    NewAuditEntry,
)
from staffbooking_core.ports import ALL_ENTRIES, AuditFilters


@frozen
class AuditReader:
    """Reads the audit."""

    tx: MemoryTransaction

    async def audit_entries(
        self, limit: int, offset: int = 0, filters: AuditFilters = ALL_ENTRIES
    ) -> Sequence[AuditEntry]:
        newest = sorted(self.tx.state.audit.items(), reverse=True)
        found = [each for _, each in newest if _is_selected(each, filters)]
        return [self._with_actor(each) for each in found[offset : offset + limit]]

    async def audit_entries_about(self, user_id: int, limit: int) -> Sequence[AuditEntry]:
        newest = sorted(self.tx.state.audit.items(), reverse=True)
        subjects = (AuditSubject.PERSON, AuditSubject.COMPANION)
        found = [
            entry
            for _, entry in newest
            if entry.subject in subjects and entry.subject_id == str(user_id)
        ]
        return [self._with_actor(each) for each in found[:limit]]

    def _with_actor(self, entry: AuditEntry) -> AuditEntry:
        if entry.actor is not None or entry.actor_id is None:
            return entry
        return evolve(entry, actor=self.tx.state.users[entry.actor_id].email)


@frozen
class AuditWriter(AuditReader):
    """Reads and extends the audit."""

    async def add_audit_entry(self, entry: NewAuditEntry) -> None:
        entry_id = next(self.tx.shared.audit_ids)
        self.tx.state.audit[entry_id] = AuditEntry(id=entry_id, **asdict(entry, recurse=False))


def _is_selected(entry: AuditEntry, filters: AuditFilters) -> bool:
    is_about = entry.subject in BOOKING_SUBJECTS and entry.subject_id == filters.code
    by = [(filters.actor_id, entry.actor_id), (filters.actor, entry.actor)]
    given = [wanted == actual for wanted, actual in by if wanted is not None]
    return (
        filters.subject in (None, entry.subject)
        and (filters.code is None or is_about)
        and (not given or any(given))
    )
