"""Imports in memory: many staff members are one after the other."""

from __future__ import annotations

from collections.abc import Sequence, Set
from datetime import datetime

from attrs import evolve, frozen

from staffbooking_adapters.memory.accounts.store import AccountsWriter, find_by_email
from staffbooking_adapters.memory.companions.store import put_companion
from staffbooking_adapters.memory.state import Place, State
from staffbooking_core.domain.accounts.users import User
from staffbooking_core.domain.companions.companion import Companion
from staffbooking_core.ports import Import, NewUser, SkippedRow


@frozen
class ImportsReader:
    place: Place

    async def skipped_rows(
        self, fingerprint: str, after_line: int, limit: int
    ) -> Sequence[SkippedRow]:
        kept = self.place.state.skipped_rows.items()
        rows = [row for (file, line), row in kept if file == fingerprint and line > after_line]
        return sorted(rows, key=lambda row: row.line)[:limit]


@frozen
class ImportsWriter(ImportsReader):
    async def lock(self, fingerprint: str) -> Import | None:
        return self.place.state.imports.get(fingerprint)

    async def save(self, progress: Import, skipped: Sequence[SkippedRow] = ()) -> None:
        state = self.place.state
        state.imports[progress.fingerprint] = progress
        for row in skipped:
            state.skipped_rows[progress.fingerprint, row.line] = row

    async def forget(self, fingerprint: str) -> None:
        _forget(self.place.state, {fingerprint})

    async def lock_people(self, emails: Sequence[str]) -> Sequence[tuple[User, Companion | None]]:
        found = {user.id: user for email in emails if (user := find_by_email(self.place, email))}
        rows = self.place.state.companions
        return [
            (found[number], row.companion if (row := rows.get(number)) else None)
            for number in sorted(found)
        ]

    async def add_people(self, people: Sequence[tuple[NewUser, Companion]]) -> None:
        accounts = AccountsWriter(self.place)
        for new, companion in people:
            user = await accounts.add_user(new)
            put_companion(self.place, evolve(companion, id=user.id))

    async def save_people(self, people: Sequence[tuple[User, Companion]]) -> None:
        accounts = AccountsWriter(self.place)
        for user, companion in people:
            await accounts.save_user(user)
            put_companion(self.place, companion)

    async def end_sessions(self, user_ids: Sequence[int]) -> None:
        accounts = AccountsWriter(self.place)
        for user_id in user_ids:
            await accounts.end_sessions_of(user_id)


def drop_imports(state: State, old_since: datetime) -> int:
    """Forget the files that nobody went on with since then; how many rows went."""
    old = {each.fingerprint for each in state.imports.values() if each.at <= old_since}
    return len(old) + _forget(state, old)


def _forget(state: State, files: Set[str]) -> int:
    """How many skipped rows went with them."""
    skipped = [key for key in state.skipped_rows if key[0] in files]
    for fingerprint in files:
        state.imports.discard(fingerprint)
    for key in skipped:
        state.skipped_rows.discard(key)
    return len(skipped)
