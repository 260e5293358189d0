"""The sandbox: its business clock, which can be moved ahead of the wall clock."""

from __future__ import annotations

from datetime import timedelta
from typing import Protocol


class SandboxReadPort(Protocol):
    """Queries on the sandbox."""

    async def clock_offset(self) -> timedelta:
        """How far business time is ahead of the wall clock; zero at first."""
        ...


class SandboxWritePort(SandboxReadPort, Protocol):
    """Commands on the sandbox."""

    async def lock_clock(self) -> timedelta:
        """The clock offset, locked until the transaction ends."""
        ...

    async def set_clock_offset(self, offset: timedelta) -> None:
        """Set the clock offset; the caller holds the lock of `lock_clock`."""
        ...
