"""The fake processor behind the ports: its machine, kept in a book, on a clock.

Any number of processes may run one over the same book. A caller sees what a real processor
would show, no more: the book's transactions are not the service's.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Final, TypeVar

from attrs import evolve

from staffbooking_adapters.codec import load
from staffbooking_adapters.fake import book as books, faults, machine, outbox, signing
from staffbooking_adapters.fake.book import FakeBook, Reading, Writing
from staffbooking_adapters.fake.calls import Calls, deadline, in_reach
from staffbooking_adapters.fake.cards import outcome_of
from staffbooking_adapters.fake.faults import Chance
from staffbooking_adapters.fake.machine import Intent
from staffbooking_adapters.fake.outbox import Sending
from staffbooking_adapters.fake.payees import LINK_LASTS, Payee
from staffbooking_adapters.fake.signing import Event
from staffbooking_core.domain.payments.payees import Link, OpenPayee, PayeeState
from staffbooking_core.domain.payments.processor import (
    ChargebackStatus,
    Checkout,
    IntentRefs,
    Nudge,
    OpenCheckout,
    OpKey,
    PayOut,
    PayoutState,
    Refund,
    RefundState,
    RefusalCode,
    Refused,
    ReversalState,
    ReversePayout,
    Snapshot,
)
from staffbooking_core.domain.reconciliation.statement import Movement
from staffbooking_core.errors import invalid
from staffbooking_core.ports import CheckoutPage, Clock, Finding, PayeePage

T = TypeVar("T")

NO_TEST_CARD: Final = "Only the test cards can pay here"
CHANGES: Final = 100
"""How many changes are told of at a time."""

_PAYMENT = re.compile(r"fpay_(\d{1,19})_\d+", re.ASCII)


def random_ref() -> str:
    """128 bits from a secure source: who knows it may pay."""
    return secrets.token_hex(16)


class FakeProcessor:
    """Implements `Payments` and `SandboxProcessor`.

    `base_url` is where the hosted pages are served, `secret` signs the events, `make_ref`
    names pages and payees by letters and digits alone. Companions can be paid at once, with or
    without an account, until `set_payee_ready` says otherwise; with `manual_payees` only those
    whose account was completed. Of each payment it keeps `fee_ppm` millionths. `chance` may
    strike any call and event (`faults`).
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
        manual_payees: bool = False,
        fee_ppm: int = 0,
        chance: Chance = faults.never,
    ) -> None:
        self._book = book
        self._clock = clock
        self._calls = Calls(book, clock, chance)
        self._pages_url = f"{base_url.rstrip('/')}/sandbox"
        self._secret = secret
        self._make_ref = make_ref
        self._manual_payees = manual_payees
        self._fee_ppm = fee_ppm
        self._chance = chance

    # Payments: money ------------------------------------------------------------------------

    def min_amount(self, currency: str) -> int:
        return machine.min_amount(currency)

    async def open_checkout(self, command: OpenCheckout, key: OpKey, within: float) -> Checkout:
        ref = self._make_ref()

        def move(intent: Intent, now: datetime, _: str) -> tuple[Intent, Checkout]:
            url = f"{self._pages_url}/checkout/{ref}"
            return machine.open_checkout(intent, command, key.op_id, ref, url, now)

        return await self._calls.move(key, (command,), Checkout, within, move)

    async def close_checkout(self, ref: str, key: OpKey, within: float) -> Checkout:
        def move(intent: Intent, _: datetime, __: str) -> tuple[Intent, Checkout]:
            return machine.close_checkout(intent, ref)

        return await self._calls.move(key, (ref,), Checkout, within, move)

    async def refund(self, command: Refund, key: OpKey, within: float) -> RefundState:
        def move(intent: Intent, now: datetime, fault: str) -> tuple[Intent, RefundState]:
            return machine.refund(intent, command, key.op_id, now, faults.COURSES.get(fault))

        return await self._calls.move(key, (command,), RefundState, within, move)

    async def pay_out(self, command: PayOut, key: OpKey, within: float) -> PayoutState:
        async def act(tx: Writing, now: datetime, _: str) -> PayoutState:
            payee = await self._payee(tx, command.companion_id)
            known = payee.ref != "" and payee.ref == command.payee_ref
            ready = payee.ready and (known or not self._manual_payees)
            return await books.change(
                tx,
                key.intent_id,
                now,
                lambda intent: machine.pay_out(intent, command, key.op_id, ready),
            )

        return await self._calls.make(key, (command,), PayoutState, within, act)

    async def reverse_payout(
        self, command: ReversePayout, payout_ref: str, key: OpKey, within: float
    ) -> ReversalState:
        def move(intent: Intent, _: datetime, __: str) -> tuple[Intent, ReversalState]:
            return machine.reverse_payout(intent, command, payout_ref, key.op_id)

        return await self._calls.move(key, (command, payout_ref), ReversalState, within, move)

    # Payments: payees -----------------------------------------------------------------------

    async def open_payee(self, command: OpenPayee, key: OpKey, within: float) -> PayeeState:
        ref = f"fpa_{command.companion_id}_{self._make_ref()}"

        async def act(tx: Writing, now: datetime, _: str) -> PayeeState:
            was = await self._payee(tx, command.companion_id)
            opened = evolve(was, ref=was.ref or ref, name=command.name)
            await books.save_payee(tx, was, opened, now)
            return opened.state

        return await self._calls.make(key, (command,), PayeeState, within, act)

    async def payee(self, ref: str, within: float) -> PayeeState:
        with deadline(within):
            page = await self._book.read(lambda view: self._account(view, ref))
        return _known(page).state

    async def onboarding_link(
        self, ref: str, return_url: str, refresh_url: str, within: float
    ) -> Link:
        """The page never goes stale, so that nobody is sent to `refresh_url`."""
        with deadline(within):
            now = await self._clock.business()
            changed = await self._change_account(
                ref, now, lambda was: evolve(was, return_url=return_url)
            )
        return Link(f"{self._pages_url}/payees/{_known(changed).ref}", now + LINK_LASTS)

    async def _payee(self, view: Reading, companion_id: int) -> Payee:
        found = await books.payee(view, companion_id)
        return found or Payee(companion_id, ready=not self._manual_payees)

    async def _account(self, view: Reading, ref: str) -> Payee | None:
        companion_id = await books.companion_of(view, ref)
        return None if companion_id is None else await self._payee(view, companion_id)

    async def _change_account(
        self, ref: str, now: datetime, change: Callable[[Payee], Payee]
    ) -> Payee | None:
        found = await self._book.read(lambda view: books.companion_of(view, ref))
        return None if found is None else await self._change_payee(found, now, change)

    async def _change_payee(
        self, companion_id: int, now: datetime, change: Callable[[Payee], Payee]
    ) -> Payee:
        async def unit(tx: Writing) -> Payee:
            await tx.lock(books.lock_of_payee(companion_id))
            was = await self._payee(tx, companion_id)
            changed = change(was)
            await books.save_payee(tx, was, changed, now)
            return changed

        return await self._book.transact(unit)

    # Payments: looking ----------------------------------------------------------------------

    async def snapshot(self, refs: IntentRefs, within: float) -> Snapshot:
        """Everything is found by the intent's number alone."""
        with deadline(within):
            now = await self._clock.business()
            intent = await self._book.read(lambda view: books.intent(view, refs.intent_id))
        return machine.snapshot(machine.at(intent, now))

    async def find_intent(self, payment_ref: str, within: float) -> int | None:
        form = _PAYMENT.fullmatch(payment_ref)
        if form is None:
            return None
        with deadline(within):
            found = await self._book.read(lambda view: books.intent(view, int(form[1])))
        paid = any(each.payment.ref == payment_ref for each in found.charges)
        return found.id if paid else None

    async def changes(self, cursor: str | None, within: float) -> tuple[Sequence[Nudge], str]:
        """A hundred at most; none, and the same cursor, at the end. A change is listed for 30
        days, whether its event was brought or lost, and none is listed twice."""
        with deadline(within):
            await outbox.move_on(self._book, await self._clock.business())
            beyond = await self._book.read(lambda view: view.after(books.LOG, cursor or ""))
        listed = beyond[:CHANGES]
        nudges = [load(body, Event).nudge for _, body in listed]
        return nudges, listed[-1][0] if listed else cursor or ""

    async def statement(self) -> AsyncIterator[Movement]:
        """Its sum is the balance. Raises Unknown where the book is out of reach."""
        with in_reach():
            await outbox.move_on(self._book, await self._clock.business())
        page = await self._lines("")
        while page:
            for _, body in page:
                yield load(body, Movement)
            page = await self._lines(page[-1][0])

    async def _lines(self, key: str) -> Sequence[tuple[str, str]]:
        with in_reach():
            return await self._book.read(lambda view: view.after(books.LINE, key))

    async def checkup(self, within: float) -> Sequence[Finding]:
        with deadline(within):
            waiting = await self._book.read(books.waiting_faults)
        payees = "are completed by hand" if self._manual_payees else "can be paid at once"
        struck = ", ".join(f"{each.op} {each.kind} x {each.times}" for each in waiting)
        return (
            Finding("processor", True, "payments are pretended: no money moves"),
            Finding("payees", True, f"staff members {payees}"),
            Finding("faults", not waiting, struck or "none are waiting"),
        )

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

        def move(intent: Intent, now: datetime) -> tuple[Intent, CheckoutPage]:
            changed, note = machine.play(intent, ref, wanted, now, self._fee_ppm)
            return changed, machine.view(changed, ref, note)

        return await self._move(intent_id, move)

    async def _view(self, ref: str, note: str) -> CheckoutPage | None:
        now = await self._clock.business()

        async def look(view: Reading) -> CheckoutPage | None:
            intent_id = await books.intent_of_page(view, ref)
            if intent_id is None:
                return None
            return machine.view(machine.at(await books.intent(view, intent_id), now), ref, note)

        return await self._book.read(look)

    async def _move(
        self, intent_id: int, move: Callable[[Intent, datetime], tuple[Intent, T]]
    ) -> T:
        """What others than the service do to an intent."""
        now = await self._clock.business()

        async def unit(tx: Writing) -> T:
            await tx.lock(books.lock_of_intent(intent_id))
            return await books.change(tx, intent_id, now, lambda intent: move(intent, now))

        return await self._book.transact(unit)

    async def payee_page(self, ref: str) -> PayeePage | None:
        found = await self._book.read(lambda view: self._account(view, ref))
        return None if found is None else found.page

    async def complete_payee(self, ref: str) -> PayeePage | None:
        now = await self._clock.business()
        completed = await self._change_account(ref, now, lambda was: evolve(was, ready=True))
        return None if completed is None else completed.page

    async def chargeback(self, intent_id: int, outcome: str) -> None:
        """A verdict without an open chargeback opens it first. Raises InvalidField on
        `outcome`, and RuleBroken as `machine.chargeback` does."""
        if outcome not in tuple(ChargebackStatus):
            raise invalid("outcome", f"must be one of {', '.join(ChargebackStatus)}")
        status = ChargebackStatus(outcome)
        await self._move(intent_id, lambda was, _: (machine.chargeback(was, status), None))

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

    async def balance(self) -> int:
        await outbox.move_on(self._book, await self._clock.business())
        return await self._book.read(lambda view: view.total(books.INTENT))

    async def due_events(self, limit: int) -> Sequence[tuple[Mapping[str, str], bytes]]:
        """Each event is given twice, 30 s of business time apart, and from then on only listed."""
        now = await self._clock.business()
        await outbox.move_on(self._book, now)
        await outbox.forget(self._book, now, self._clock.wall())
        taken = await outbox.take(self._book, now, limit, self._chance)
        return [self._signed(sending) for sending in taken]

    async def was_brought(self, subject: int | str, since: datetime) -> bool:
        now = await self._clock.business()
        return await self._book.read(
            partial(outbox.was_taken, subject=subject, since=since, now=now)
        )

    def _signed(self, sending: Sending) -> tuple[Mapping[str, str], bytes]:
        body = signing.body_of(sending.event)
        secret = b"forged:" + self._secret if sending.forged else self._secret
        return signing.headers_of(body, secret, self._clock.wall()), body

    # Beyond the ports: what an operator can do at a real processor -----------------------------

    async def refund_by_hand(self, intent_id: int, amount: int) -> None:
        """A refund that is no operation of ours. Raises Refused like a call."""
        await self._move(
            intent_id, lambda was, now: (machine.refund_by_hand(was, amount, now), None)
        )

    async def reverse_by_hand(self, intent_id: int, amount: int) -> None:
        """A reversal that is no operation of ours. Raises Refused like a call."""
        await self._move(intent_id, lambda was, _: (machine.reverse_by_hand(was, amount), None))

    async def set_payee_ready(self, companion_id: int, ready: bool) -> None:
        """Whether payouts to a companion pass, whether or not there is an account."""
        now = await self._clock.business()
        await self._change_payee(companion_id, now, lambda was: evolve(was, ready=ready))


def _known(payee: Payee | None) -> Payee:
    if payee is None:
        raise Refused(RefusalCode.MISSING, "no such payee")
    return payee
