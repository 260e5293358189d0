"""A store that takes no changes from a process whose clock is wrong (CONTRACT 10)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import TypeVar

from attrs import frozen

from staffbooking_core.domain.shared.clock_skew import find_clock_fault
from staffbooking_core.errors import ClockWrong
from staffbooking_core.policy import Policy
from staffbooking_core.ports import (
    BookingWrite,
    Clock,
    OpenTransaction,
    ReadView,
    Store,
    Transaction,
)

_T = TypeVar("_T")


@frozen
class GuardedStore:
    """A store whose changing methods raise ClockWrong while the machine's clock differs from the
    store's by more than `max_skew`, or was not compared with it. Reading goes on."""

    store: Store
    clock: Clock
    max_skew: timedelta

    def read_view(self) -> AbstractAsyncContextManager[ReadView]:
        return self.store.read_view()

    async def run_transaction(self, work: Callable[[Transaction], Awaitable[_T]]) -> _T:
        self._check_clock()
        return await self.store.run_transaction(work)

    def open_transaction(
        self, work: Callable[[Transaction], Awaitable[_T]]
    ) -> AbstractAsyncContextManager[OpenTransaction[_T]]:
        self._check_clock()
        return self.store.open_transaction(work)

    async def add_booking(self, booking_write: BookingWrite) -> None:
        self._check_clock()
        await self.store.add_booking(booking_write)

    async def check_writable(self, now: datetime) -> None:
        self._check_clock()
        await self.store.check_writable(now)

    async def delete_expired(self, now: datetime, policy: Policy) -> int:
        self._check_clock()
        return await self.store.delete_expired(now, policy)

    def _check_clock(self) -> None:
        if fault := find_clock_fault(self.clock.skew(), self.max_skew):
            raise ClockWrong(fault)
