"""The audit of operators' changes in memory."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import asdict, evolve, frozen

from staffbooking_adapters.memory.state import MemoryTransaction
from staffbooking_core.domain.accounts.audit import AuditEntry, AuditSubject, NewAuditEntry


@frozen
class AuditReader:
    """Reads the audit."""

    tx: MemoryTransaction

    async def audit_entries(self, limit: int, offset: int = 0) -> Sequence[AuditEntry]:
        newest = sorted(self.tx.state.audit.items(), reverse=True)
        return [self._with_actor(each) for _, each in newest[offset : offset + limit]]

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
        number = next(self.tx.shared.audit_ids)
        self.tx.state.audit[number] = AuditEntry(id=number, **asdict(entry, recurse=False))
