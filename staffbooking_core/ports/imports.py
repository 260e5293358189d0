"""Imports: staff members added in bulk from a file, and the progress of each file."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from attrs import frozen

from staffbooking_core.domain.accounts.users import User
from staffbooking_core.domain.companions.companion import Companion
from staffbooking_core.ports.accounts import NewUser

__all__ = ["ImportProgress", "ImportsReadPort", "ImportsWritePort", "SkippedRow"]


@frozen
class ImportProgress:
    """How far a file is imported, and the outcome of its rows so far."""

    fingerprint: str
    """Of its content."""
    line: int
    """The last line whose row was decided on; 0 before the first, and where the import is being
    deleted."""
    imported: int
    updated: int
    skipped: int
    at: datetime
    """When that was (wall time)."""

    @property
    def row_count(self) -> int:
        """The number of rows decided so far."""
        return self.imported + self.updated + self.skipped


@frozen
class SkippedRow:
    """A row that was not imported, and why."""

    line: int
    email: str | None
    reason: str


class ImportsReadPort(Protocol):
    """Queries on imports. A file is named by the fingerprint of its content."""

    async def skipped_rows(
        self, fingerprint: str, after_line: int, limit: int
    ) -> Sequence[SkippedRow]:
        """Up to `limit` skipped rows of a file above `after_line`, by line."""
        ...


class ImportsWritePort(ImportsReadPort, Protocol):
    """Commands on imports."""

    async def lock_progress(self, fingerprint: str) -> ImportProgress | None:
        """The progress of a file that is not finished or not acknowledged, locked until the
        transaction ends."""
        ...

    async def save_progress(
        self, progress: ImportProgress, skipped: Sequence[SkippedRow] = ()
    ) -> None:
        """Insert or replace the progress of a file, and add more skipped rows."""
        ...

    async def delete_progress(self, fingerprint: str) -> None:
        """Delete the progress of a file with its skipped rows."""
        ...

    async def lock_users_by_email(
        self, emails: Sequence[str]
    ) -> Sequence[tuple[User, Companion | None]]:
        """The users of any role with these e-mails (compared by `normalize_email`), each with their
        companion, all locked in the order of ids."""
        ...

    async def add_staff_members(self, staff_members: Sequence[tuple[NewUser, Companion]]) -> None:
        """Insert users with their companions, which get the users' ids, in this order.

        Raises ConstraintViolated(EMAIL_TAKEN).
        """
        ...

    async def save_staff_members(self, staff_members: Sequence[tuple[User, Companion]]) -> None:
        """Update users and insert or replace their companions; each at most once. A user's names
        and `active` must equal the companion's."""
        ...

    async def end_sessions_of_users(self, user_ids: Sequence[int]) -> None:
        """Delete all sessions of these users."""
        ...
