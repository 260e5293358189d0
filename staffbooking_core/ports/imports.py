"""The store's family of imports: staff members many at a time, and how far a file went in."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from attrs import frozen

from staffbooking_core.domain.accounts.users import User
from staffbooking_core.domain.companions.companion import Companion
from staffbooking_core.ports.accounts import NewUser


@frozen
class ImportProgress:
    """How far a file went in, and what came of its rows so far."""

    fingerprint: str
    """Of its content."""
    line: int
    """The last line whose row was decided on; 0 before the first."""
    imported: int
    updated: int
    skipped: int
    at: datetime
    """When that was (wall time)."""

    @property
    def row_count(self) -> int:
        return self.imported + self.updated + self.skipped


@frozen
class SkippedRow:
    """A row that did not go in, and why."""

    line: int
    email: str | None
    reason: str


class ImportsReadPort(Protocol):
    async def skipped_rows(
        self, fingerprint: str, after_line: int, limit: int
    ) -> Sequence[SkippedRow]:
        """In the order of lines, from the first above `after_line`."""
        ...


class ImportsWritePort(ImportsReadPort, Protocol):
    async def lock_progress(self, fingerprint: str) -> ImportProgress | None:
        """That of a file which is not wholly in, or not answered for yet."""
        ...

    async def save_progress(
        self, progress: ImportProgress, skipped: Sequence[SkippedRow] = ()
    ) -> None:
        """Insert or replace, and keep more rows that were skipped."""
        ...

    async def delete_progress(self, fingerprint: str) -> None:
        """With its skipped rows."""
        ...

    async def lock_users_by_email(
        self, emails: Sequence[str]
    ) -> Sequence[tuple[User, Companion | None]]:
        """Whoever has one of these e-mails, of any role, with their companion, all held; found
        by `fold_email`, in the order of ids."""
        ...

    async def add_staff_members(self, staff_members: Sequence[tuple[NewUser, Companion]]) -> None:
        """Add users with their companions, which get the users' ids, in this order. Raises
        ConstraintViolated(EMAIL_TAKEN)."""
        ...

    async def save_staff_members(self, staff_members: Sequence[tuple[User, Companion]]) -> None:
        """Save users and their companions, which may be new; each once. The two must be in step:
        names, and `active`."""
        ...

    async def end_sessions_of_users(self, user_ids: Sequence[int]) -> None:
        """All of these users."""
        ...
