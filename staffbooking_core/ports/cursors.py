"""Cursors: how far a periodic poll of the payment processor has come, and when."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

__all__ = ["CursorsReadPort", "CursorsWritePort"]


class CursorsReadPort(Protocol):
    """Queries on cursors."""

    async def cursor(self, name: str) -> tuple[str, datetime] | None:
        """The cursor of this name (a provider's events, or a periodic sync), and the wall time
        at which it was saved; None before the first time."""
        ...


class CursorsWritePort(CursorsReadPort, Protocol):
    """Commands on cursors."""

    async def save_cursor(self, name: str, cursor: str, now: datetime) -> None:
        """Insert or replace a cursor; `now` is wall time."""
        ...
