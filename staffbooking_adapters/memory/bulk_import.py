"""Bulk imports in memory. Staff members are written one by one."""

from __future__ import annotations

from collections.abc import Sequence, Set
from datetime import datetime

from attrs import evolve, frozen

from staffbooking_adapters.memory.accounts.store import AccountsWriter, find_by_email
from staffbooking_adapters.memory.companions.store import put_companion
from staffbooking_adapters.memory.state import MemoryState, MemoryTransaction
from staffbooking_core.domain.accounts.users import User
from staffbooking_core.domain.companions.companion import Companion
from staffbooking_core.ports import ImportProgress, NewUser, SkippedRow


@frozen
class ImportsReader:
    """Reads bulk imports."""

    tx: MemoryTransaction

    async def skipped_rows(
        self, fingerprint: str, after_line: int, limit: int
    ) -> Sequence[SkippedRow]:
        skipped = self.tx.state.skipped_rows.items()
        rows = [row for (file, line), row in skipped if file == fingerprint and line > after_line]
        return sorted(rows, key=lambda row: row.line)[:limit]


@frozen
class ImportsWriter(ImportsReader):
    """Reads and writes bulk imports."""

    async def lock_progress(self, fingerprint: str) -> ImportProgress | None:
        return self.tx.state.imports.get(fingerprint)

    async def save_progress(
        self, progress: ImportProgress, skipped: Sequence[SkippedRow] = ()
    ) -> None:
        state = self.tx.state
        state.imports[progress.fingerprint] = progress
        for row in skipped:
            state.skipped_rows[progress.fingerprint, row.line] = row

    async def delete_progress(self, fingerprint: str) -> None:
        _delete_imports(self.tx.state, {fingerprint})

    async def lock_users_by_email(
        self, emails: Sequence[str]
    ) -> Sequence[tuple[User, Companion | None]]:
        found = {user.id: user for email in emails if (user := find_by_email(self.tx, email))}
        rows = self.tx.state.companions
        return [
            (found[user_id], row.companion if (row := rows.get(user_id)) else None)
            for user_id in sorted(found)
        ]

    async def add_staff_members(self, staff_members: Sequence[tuple[NewUser, Companion]]) -> None:
        accounts = AccountsWriter(self.tx)
        for new, companion in staff_members:
            user = await accounts.add_user(new)
            put_companion(self.tx, evolve(companion, id=user.id))

    async def save_staff_members(self, staff_members: Sequence[tuple[User, Companion]]) -> None:
        accounts = AccountsWriter(self.tx)
        for user, companion in staff_members:
            await accounts.save_user(user)
            put_companion(self.tx, companion)

    async def end_sessions_of_users(self, user_ids: Sequence[int]) -> None:
        accounts = AccountsWriter(self.tx)
        for user_id in user_ids:
            await accounts.end_sessions_of(user_id)


def drop_imports(state: MemoryState, old_since: datetime) -> int:
    """Delete imports without progress since `old_since`; returns the number of deleted rows."""
    old = {each.fingerprint for each in state.imports.values() if each.at <= old_since}
    return len(old) + _delete_imports(state, old)


def _delete_imports(state: MemoryState, fingerprints: Set[str]) -> int:
    """Delete imports and their skipped rows; returns the number of skipped rows."""
    skipped = [key for key in state.skipped_rows if key[0] in fingerprints]
    for fingerprint in fingerprints:
        state.imports.discard(fingerprint)
    for key in skipped:
        state.skipped_rows.discard(key)
    return len(skipped)
