"""The fake processor behind the ports: its machine, kept in a book, on a clock.

Any number of processes may run one over the same book. What a caller sees is what a real
processor would show: the book's transactions are not the service's.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import contextmanager
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final, TypeVar

import anyio
from attrs import evolve

from staffbooking_adapters.codec import dump, load
from staffbooking_adapters.fake import answers, book, faults, machine, signing
from staffbooking_adapters.fake.answers import Ending, Kept
from staffbooking_adapters.fake.book import FakeBook, Reading, Writing
from staffbooking_adapters.fake.cards import outcome_of
from staffbooking_adapters.fake.machine import Intent
from staffbooking_adapters.fake.signing import Event
from staffbooking_core.domain.payments import (
    Busy,
    ChargebackStatus,
    Checkout,
    Nudge,
    OpenCheckout,
    OpKey,
    PayOut,
    PayoutState,
    Refund,
    RefundState,
    Refused,
    ReversalState,
    ReversePayout,
    Snapshot,
    Unknown,
)
from staffbooking_core.errors import Unavailable, invalid
from staffbooking_core.ports import CheckoutPage, Clock

A = TypeVar("A")
Move = Callable[[Intent, datetime, str], tuple[Intent, object]]
"""From an intent, the time and the fault that strikes, to the next state and the answer."""

SLOW: Final = 2.0
"""Seconds that a slow call takes."""
SENT_AGAIN: Final = timedelta(seconds=30)
"""Each event is brought twice, this far apart: who took it first may have crashed. The
inbox knows it by its id."""


def random_ref() -> str:
    """128 bits from a secure source: who knows it may pay."""
    return secrets.token_hex(16)


class FakeProcessor:
    """Implements `Payments` and `SandboxProcessor`.

    `base_url` is where the hosted page is served, `secret` signs the events. Payees are
    ready at once, by their companion's id, unless `set_payee_ready` says otherwise.
    """

    name = "fake"

    def __init__(
        self,
        book: FakeBook,
        clock: Clock,
        *,
        base_url: str,
        secret: bytes,
        make_ref: Callable[[], str] = random_ref,
    ) -> None:
        self._book = book
        self._clock = clock
        self._base_url = base_url.rstrip("/")
        self._secret = secret
        self._make_ref = make_ref

    # Payments -------------------------------------------------------------------------------

    def min_amount(self, currency: str) -> int:
        return machine.min_amount(currency)

    async def open_checkout(self, command: OpenCheckout, key: OpKey, within: float) -> Checkout:
        ref = self._make_ref()
        url = f"{self._base_url}/sandbox/checkout/{ref}"

        def move(intent: Intent, now: datetime, _: str) -> tuple[Intent, Checkout]:
            return machine.open_checkout(intent, command, key.op_id, ref, url, now)

        return await self._call(key, command, Checkout, within, move)

    async def close_checkout(self, ref: str, key: OpKey, within: float) -> Checkout:
        def move(intent: Intent, _: datetime, __: str) -> tuple[Intent, Checkout]:
            return machine.close_checkout(intent, ref)

        return await self._call(key, ref, Checkout, within, move)

    async def refund(self, command: Refund, key: OpKey, within: float) -> RefundState:
        def move(intent: Intent, now: datetime, fault: str) -> tuple[Intent, RefundState]:
            return machine.refund(intent, command, key.op_id, now, faults.PENDING.get(fault))

        return await self._call(key, command, RefundState, within, move)

    async def pay_out(self, command: PayOut, key: OpKey, within: float) -> PayoutState:
        payee = str(command.companion_id)
        with _own_errors():
            missing = await self._book.read(lambda view: view.get(book.PAYEE, payee))

        def move(intent: Intent, _: datetime, __: str) -> tuple[Intent, PayoutState]:
            return machine.pay_out(intent, command, key.op_id, missing is None)

        return await self._call(key, command, PayoutState, within, move)

    async def reverse_payout(
        self, command: ReversePayout, payout_ref: str, key: OpKey, within: float
    ) -> ReversalState:
        def move(intent: Intent, _: datetime, __: str) -> tuple[Intent, ReversalState]:
            return machine.reverse_payout(intent, command, payout_ref, key.op_id)

        return await self._call(key, (command, payout_ref), ReversalState, within, move)
