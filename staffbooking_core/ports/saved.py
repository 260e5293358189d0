"""The staff members whom customers have saved."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from attrs import frozen

__all__ = ["MAX_SAVED_PEOPLE", "SavedPerson", "SavedReadPort", "SavedWritePort"]

MAX_SAVED_PEOPLE = 200
"""Maximum saved people per customer."""


@frozen
class SavedPerson:
    """A saved companion."""

    companion_id: int
    saved_at: datetime
    summary: bytes | None
    """The encoded summary; None while the companion is not listed."""


class SavedReadPort(Protocol):
    """Queries on saved people."""

    async def saved_people(
        self, customer_id: int, limit: int, offset: int = 0
    ) -> Sequence[SavedPerson]:
        """Up to `limit` saved people of a customer, after the first `offset` of them, the newest
        first."""
        ...

    async def has_saved(self, customer_id: int, companion_id: int) -> bool:
        """Whether a customer has saved a companion."""
        ...


class SavedWritePort(SavedReadPort, Protocol):
    """Commands on saved people."""

    async def save_person(self, customer_id: int, companion_id: int, at: datetime) -> None:
        """Save a companion; one that is saved keeps its time."""
        ...

    async def unsave_person(self, customer_id: int, companion_id: int) -> None:
        """Save a companion no more; nothing happens where it is not saved."""
        ...
