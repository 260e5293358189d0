"""The fake processor behind the ports: its machine, kept in a book, on a clock.

Any number of processes may run one over the same book. A caller sees what a real processor
would show, no more: the book's transactions are not the service's.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from staffbooking_adapters.fake import book as books
from staffbooking_adapters.fake import faults, machine, outbox, signing
from staffbooking_adapters.fake.book import FakeBook, Reading, Writing
from staffbooking_adapters.fake.calls import Calls, deadline
from staffbooking_adapters.fake.cards import outcome_of
from staffbooking_adapters.fake.machine import Intent
from staffbooking_adapters.fake.outbox import Sending
from staffbooking_core.domain.payments import (
    ChargebackStatus,
    Checkout,
    Nudge,
    OpenCheckout,
    OpKey,
    PayOut,
    PayoutState,
    Refund,
    RefundState,
    ReversalState,
    ReversePayout,
    Snapshot,
)
from staffbooking_core.errors import invalid
from staffbooking_core.ports import CheckoutPage, Clock

NO_TEST_CARD = "Only the test cards can pay here"


def random_ref() -> str:
    """128 bits from a secure source: who knows it may pay."""
    return secrets.token_hex(16)


class FakeProcessor:
    """Implements `Payments` and `SandboxProcessor`.

    `base_url` is where the hosted page is served, `secret` signs the events, `make_ref`
    names checkouts by letters and digits alone. Payees are known by their companion's id, and
    ready at once unless `set_payee_ready` says otherwise.
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
        self._calls = Calls(book, clock)
        self._pages_url = f"{base_url.rstrip('/')}/sandbox/checkout"
        self._secret = secret
        self._make_ref = make_ref

    # Payments -------------------------------------------------------------------------------

    def min_amount(self, currency: str) -> int:
        return machine.min_amount(currency)

    async def open_checkout(self, command: OpenCheckout, key: OpKey, within: float) -> Checkout:
        ref = self._make_ref()

        def move(intent: Intent, now: datetime, _: str) -> tuple[Intent, Checkout]:
            url = f"{self._pages_url}/{ref}"
            return machine.open_checkout(intent, command, key.op_id, ref, url, now)

        return await self._calls.make(key, (command,), Checkout, within, move)

    async def close_checkout(self, ref: str, key: OpKey, within: float) -> Checkout:
        def move(intent: Intent, _: datetime, __: str) -> tuple[Intent, Checkout]:
            return machine.close_checkout(intent, ref)

        return await self._calls.make(key, (ref,), Checkout, within, move)

    async def refund(self, command: Refund, key: OpKey, within: float) -> RefundState:
        def move(intent: Intent, now: datetime, fault: str) -> tuple[Intent, RefundState]:
            return machine.refund(intent, command, key.op_id, now, faults.PENDING.get(fault))

        return await self._calls.make(key, (command,), RefundState, within, move)

    async def pay_out(self, command: PayOut, key: OpKey, within: float) -> PayoutState:
        payee = str(command.companion_id)
        with deadline(within):
            unready = await self._book.read(lambda view: view.get(books.PAYEE, payee))

        def move(intent: Intent, _: datetime, __: str) -> tuple[Intent, PayoutState]:
            return machine.pay_out(intent, command, key.op_id, ready=unready is None)

        return await self._calls.make(key, (command,), PayoutState, within, move)

    async def reverse_payout(
        self, command: ReversePayout, payout_ref: str, key: OpKey, within: float
    ) -> ReversalState:
        def move(intent: Intent, _: datetime, __: str) -> tuple[Intent, ReversalState]:
            return machine.reverse_payout(intent, command, payout_ref, key.op_id)

        return await self._calls.make(key, (command, payout_ref), ReversalState, within, move)

    async def snapshot(self, intent_id: int, within: float) -> Snapshot:
        with deadline(within):
            now = await self._clock.business()
            intent = await self._book.read(lambda view: books.intent(view, intent_id))
        return machine.snapshot(machine.at(intent, now))

    def parse_webhook(
        self, headers: Mapping[str, str], body: bytes, now: datetime
    ) -> Sequence[Nudge]:
        signing.verify(headers, body, self._secret, now)
        return signing.read(body)

    # SandboxProcessor -----------------------------------------------------------------------

    async def checkout_page(self, ref: str) -> CheckoutPage | None:
        return await self._view(ref, "")

    async def play(self, ref: str, outcome: str) -> CheckoutPage | None:
        """Besides the port's: `insufficient_funds`, `succeed_then_chargeback`, and
        `card:NUMBER` for what the page's form was given. Raises InvalidField on `outcome`."""
        wanted = outcome_of(outcome)
        if wanted is None:
            return await self._view(ref, NO_TEST_CARD)
        intent_id = await self._book.read(lambda view: books.intent_of_page(view, ref))
        if intent_id is None:
            return None
        now = await self._clock.business()

        async def unit(tx: Writing) -> CheckoutPage:
            was = await books.lock_intent(tx, intent_id)
            changed, note = machine.play(machine.at(was, now), ref, wanted, now)
            await books.save_intent(tx, was, changed, now)
            return machine.view(changed, ref, note)

        return await self._book.transact(unit)

    async def _view(self, ref: str, note: str) -> CheckoutPage | None:
        now = await self._clock.business()

        async def look(view: Reading) -> CheckoutPage | None:
            intent_id = await books.intent_of_page(view, ref)
            if intent_id is None:
                return None
            return machine.view(machine.at(await books.intent(view, intent_id), now), ref, note)

        return await self._book.read(look)

    async def chargeback(self, intent_id: int, outcome: str) -> None:
        """A verdict without an open chargeback opens it first. Raises InvalidField on
        `outcome`, and RuleBroken as `machine.chargeback` does."""
        if outcome not in tuple(ChargebackStatus):
            raise invalid("outcome", f"must be one of {', '.join(ChargebackStatus)}")
        now = await self._clock.business()

        async def unit(tx: Writing) -> None:
            was = await books.lock_intent(tx, intent_id)
            changed = machine.chargeback(machine.at(was, now), ChargebackStatus(outcome))
            await books.save_intent(tx, was, changed, now)

        await self._book.transact(unit)

    async def add_fault(self, op: str, kind: str, times: int) -> None:
        """What there is to choose from: `faults`. Raises InvalidField on op, kind, times."""
        fault = faults.fault(op, kind, times)

        async def unit(tx: Writing) -> None:
            await books.save_faults(tx, (*await books.lock_faults(tx), fault))

        await self._book.transact(unit)

    async def clear_faults(self) -> None:
        async def unit(tx: Writing) -> None:
            await books.lock_faults(tx)
            await books.save_faults(tx, ())

        await self._book.transact(unit)

    async def set_payee_ready(self, companion_id: int, ready: bool) -> None:
        """Whether payouts to a companion pass; not a part of the port."""

        async def unit(tx: Writing) -> None:
            if ready:
                await tx.delete(books.PAYEE, str(companion_id))
            else:
                await tx.put(books.PAYEE, str(companion_id), "not ready")

        await self._book.transact(unit)

    async def balance(self) -> int:
        await outbox.move_on(self._book, await self._clock.business())
        return await self._book.read(lambda view: view.total(books.INTENT))

    async def due_events(self, limit: int) -> Sequence[tuple[Mapping[str, str], bytes]]:
        """Each event is given twice, 30 s of business time apart, and then forgotten."""
        now = await self._clock.business()
        await outbox.move_on(self._book, now)
        return [self._signed(sending) for sending in await outbox.take(self._book, now, limit)]

    def _signed(self, sending: Sending) -> tuple[Mapping[str, str], bytes]:
        body = signing.body_of(sending.event)
        secret = b"forged:" + self._secret if sending.forged else self._secret
        return signing.headers_of(body, secret, self._clock.wall()), body
