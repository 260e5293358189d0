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
from staffbooking_adapters.fake.book import FakeDocumentStore, FakeStoreReader, FakeStoreTransaction
from staffbooking_adapters.fake.calls import CallExecutor, call_deadline, store_errors_as_unknown
from staffbooking_adapters.fake.cards import parse_outcome
from staffbooking_adapters.fake.faults import FaultInjector
from staffbooking_adapters.fake.machine import FakeIntent
from staffbooking_adapters.fake.outbox import OutgoingEvent
from staffbooking_adapters.fake.payees import LINK_LIFETIME, FakePayee
from staffbooking_adapters.fake.signing import FakeEvent
from staffbooking_core.domain.payments.payees import OnboardingLink, OpenPayee, PayeeState
from staffbooking_core.domain.payments.processor import (
    ChargebackStatus,
    Checkout,
    IntentRefs,
    OpenCheckout,
    OperationKey,
    PayOut,
    PayoutState,
    ProcessorEvent,
    ProcessorRefused,
    RefundPayment,
    RefundState,
    RefusalCode,
    ReversalState,
    ReversePayout,
    Snapshot,
)
from staffbooking_core.domain.reconciliation.statement import Movement
from staffbooking_core.errors import invalid_field
from staffbooking_core.ports import CheckoutPage, CheckupFinding, Clock, PayeePage

T = TypeVar("T")

NOT_A_TEST_CARD: Final = "Only the test cards can pay here"
CHANGES_PAGE_SIZE: Final = 100
"""How many changes are told of at a time."""

_PAYMENT_REF_PATTERN = re.compile(r"fpay_(\d{1,19})_\d+", re.ASCII)


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
        store: FakeDocumentStore,
        clock: Clock,
        *,
        base_url: str,
        secret: bytes,
        make_ref: Callable[[], str] = random_ref,
        manual_payees: bool = False,
        fee_ppm: int = 0,
        injector: FaultInjector = faults.inject_nothing,
    ) -> None:
        self._store = store
        self._clock = clock
        self._calls = CallExecutor(store, clock, injector)
        self._pages_url = f"{base_url.rstrip('/')}/sandbox"
        self._secret = secret
        self._make_ref = make_ref
        self._manual_payees = manual_payees
        self._fee_ppm = fee_ppm
        self._injector = injector

    # Payments: money ------------------------------------------------------------------------

    def min_amount(self, currency: str) -> int:
        return machine.min_amount(currency)

    async def open_checkout(
        self, command: OpenCheckout, key: OperationKey, timeout_seconds: float
    ) -> Checkout:
        ref = self._make_ref()

        def move(intent: FakeIntent, now: datetime, _: str) -> tuple[FakeIntent, Checkout]:
            url = f"{self._pages_url}/checkout/{ref}"
            return machine.open_checkout(intent, command, key.op_id, ref, url, now)

        return await self._calls.execute_on_intent(key, (command,), Checkout, timeout_seconds, move)

    async def close_checkout(self, ref: str, key: OperationKey, timeout_seconds: float) -> Checkout:
        def move(intent: FakeIntent, _: datetime, __: str) -> tuple[FakeIntent, Checkout]:
            return machine.close_checkout(intent, ref)

        return await self._calls.execute_on_intent(key, (ref,), Checkout, timeout_seconds, move)

    async def refund(
        self, command: RefundPayment, key: OperationKey, timeout_seconds: float
    ) -> RefundState:
        def move(intent: FakeIntent, now: datetime, fault: str) -> tuple[FakeIntent, RefundState]:
            return machine.refund(
                intent, command, key.op_id, now, faults.REFUND_PROGRESSIONS.get(fault)
            )

        return await self._calls.execute_on_intent(
            key, (command,), RefundState, timeout_seconds, move
        )

    async def pay_out(
        self, command: PayOut, key: OperationKey, timeout_seconds: float
    ) -> PayoutState:
        async def act(tx: FakeStoreTransaction, now: datetime, _: str) -> PayoutState:
            payee = await self._get_payee(tx, command.companion_id)
            known = payee.ref != "" and payee.ref == command.payee_ref
            ready = payee.ready and (known or not self._manual_payees)
            return await books.change_intent(
                tx,
                key.intent_id,
                now,
                lambda intent: machine.pay_out(intent, command, key.op_id, ready),
            )

        return await self._calls.execute(key, (command,), PayoutState, timeout_seconds, act)

    async def reverse_payout(
        self, command: ReversePayout, payout_ref: str, key: OperationKey, timeout_seconds: float
    ) -> ReversalState:
        def move(intent: FakeIntent, _: datetime, __: str) -> tuple[FakeIntent, ReversalState]:
            return machine.reverse_payout(intent, command, payout_ref, key.op_id)

        return await self._calls.execute_on_intent(
            key, (command, payout_ref), ReversalState, timeout_seconds, move
        )

    # Payments: payees -----------------------------------------------------------------------

    async def open_payee(
        self, command: OpenPayee, key: OperationKey, timeout_seconds: float
    ) -> PayeeState:
        ref = f"fpa_{command.companion_id}_{self._make_ref()}"

        async def act(tx: FakeStoreTransaction, now: datetime, _: str) -> PayeeState:
            was = await self._get_payee(tx, command.companion_id)
            opened = evolve(was, ref=was.ref or ref, name=command.name)
            await books.save_payee(tx, was, opened, now)
            return opened.state

        return await self._calls.execute(key, (command,), PayeeState, timeout_seconds, act)

    async def payee(self, ref: str, timeout_seconds: float) -> PayeeState:
        with call_deadline(timeout_seconds):
            page = await self._store.read(lambda view: self._find_account(view, ref))
        return _require_payee(page).state

    async def onboarding_link(
        self, ref: str, return_url: str, refresh_url: str, timeout_seconds: float
    ) -> OnboardingLink:
        """The page never goes stale, so that nobody is sent to `refresh_url`."""
        with call_deadline(timeout_seconds):
            now = await self._clock.business()
            changed = await self._change_account(
                ref, now, lambda was: evolve(was, return_url=return_url)
            )
        return OnboardingLink(
            f"{self._pages_url}/payees/{_require_payee(changed).ref}", now + LINK_LIFETIME
        )

    async def _get_payee(self, view: FakeStoreReader, companion_id: int) -> FakePayee:
        found = await books.find_payee(view, companion_id)
        return found or FakePayee(companion_id, ready=not self._manual_payees)

    async def _find_account(self, view: FakeStoreReader, ref: str) -> FakePayee | None:
        companion_id = await books.find_companion_by_payee_ref(view, ref)
        return None if companion_id is None else await self._get_payee(view, companion_id)

    async def _change_account(
        self, ref: str, now: datetime, change: Callable[[FakePayee], FakePayee]
    ) -> FakePayee | None:
        found = await self._store.read(lambda view: books.find_companion_by_payee_ref(view, ref))
        return None if found is None else await self._change_payee(found, now, change)

    async def _change_payee(
        self, companion_id: int, now: datetime, change: Callable[[FakePayee], FakePayee]
    ) -> FakePayee:
        async def unit(tx: FakeStoreTransaction) -> FakePayee:
            await tx.lock(books.payee_lock_name(companion_id))
            was = await self._get_payee(tx, companion_id)
            changed = change(was)
            await books.save_payee(tx, was, changed, now)
            return changed

        return await self._store.transact(unit)

    # Payments: looking ----------------------------------------------------------------------

    async def snapshot(self, refs: IntentRefs, timeout_seconds: float) -> Snapshot:
        """Everything is found by the intent's number alone."""
        with call_deadline(timeout_seconds):
            now = await self._clock.business()
            intent = await self._store.read(lambda view: books.get_intent(view, refs.intent_id))
        return machine.snapshot(machine.advance_to(intent, now))

    async def find_intent(self, payment_ref: str, timeout_seconds: float) -> int | None:
        match = _PAYMENT_REF_PATTERN.fullmatch(payment_ref)
        if match is None:
            return None
        with call_deadline(timeout_seconds):
            found = await self._store.read(lambda view: books.get_intent(view, int(match[1])))
        paid = any(each.payment.ref == payment_ref for each in found.charges)
        return found.id if paid else None

    async def list_events(
        self, cursor: str | None, timeout_seconds: float
    ) -> tuple[Sequence[ProcessorEvent], str]:
        """A hundred at most; none, and the same cursor, at the end. A change is listed for 30
        days, whether its event was brought or lost, and none is listed twice."""
        with call_deadline(timeout_seconds):
            await outbox.advance_due_intents(self._store, await self._clock.business())
            beyond = await self._store.read(
                lambda view: view.after(books.EVENT_LOG_KIND, cursor or "")
            )
        listed = beyond[:CHANGES_PAGE_SIZE]
        nudges = [load(body, FakeEvent).processor_event for _, body in listed]
        return nudges, listed[-1][0] if listed else cursor or ""

    async def statement(self) -> AsyncIterator[Movement]:
        """Its sum is the balance. Raises Unknown where the book is out of reach."""
        with store_errors_as_unknown():
            await outbox.advance_due_intents(self._store, await self._clock.business())
        page = await self._statement_page("")
        while page:
            for _, body in page:
                yield load(body, Movement)
            page = await self._statement_page(page[-1][0])

    async def _statement_page(self, key: str) -> Sequence[tuple[str, str]]:
        with store_errors_as_unknown():
            return await self._store.read(lambda view: view.after(books.STATEMENT_LINE_KIND, key))

    async def checkup(self, timeout_seconds: float) -> Sequence[CheckupFinding]:
        with call_deadline(timeout_seconds):
            waiting = await self._store.read(books.pending_faults)
        payees = "are completed by hand" if self._manual_payees else "can be paid at once"
        struck = ", ".join(f"{each.op} {each.kind} x {each.times}" for each in waiting)
        return (
            CheckupFinding("processor", True, "payments are pretended: no money moves"),
            CheckupFinding("payees", True, f"staff members {payees}"),
            CheckupFinding("faults", not waiting, struck or "none are waiting"),
        )

    def parse_webhook(
        self, headers: Mapping[str, str], body: bytes, now: datetime
    ) -> Sequence[ProcessorEvent]:
        signing.verify(headers, body, self._secret, now)
        return signing.parse_events(body)

    # SandboxProcessor -----------------------------------------------------------------------

    async def checkout_page(self, ref: str) -> CheckoutPage | None:
        return await self._page_view(ref, "")

    async def simulate_checkout(self, ref: str, outcome: str) -> CheckoutPage | None:
        """Besides the port's: `insufficient_funds`, `succeed_then_chargeback`, and
        `card:NUMBER` for what the page's form was given. Raises InvalidField on `outcome`."""
        parsed_outcome = parse_outcome(outcome)
        if parsed_outcome is None:
            return await self._page_view(ref, NOT_A_TEST_CARD)
        intent_id = await self._store.read(lambda view: books.find_intent_by_page(view, ref))
        if intent_id is None:
            return None

        def move(intent: FakeIntent, now: datetime) -> tuple[FakeIntent, CheckoutPage]:
            changed, note = machine.apply_outcome(intent, ref, parsed_outcome, now, self._fee_ppm)
            return changed, machine.page_view(changed, ref, note)

        return await self._change_intent(intent_id, move)

    async def _page_view(self, ref: str, note: str) -> CheckoutPage | None:
        now = await self._clock.business()

        async def look(view: FakeStoreReader) -> CheckoutPage | None:
            intent_id = await books.find_intent_by_page(view, ref)
            if intent_id is None:
                return None
            return machine.page_view(
                machine.advance_to(await books.get_intent(view, intent_id), now), ref, note
            )

        return await self._store.read(look)

    async def _change_intent(
        self, intent_id: int, transition: Callable[[FakeIntent, datetime], tuple[FakeIntent, T]]
    ) -> T:
        """What others than the service do to an intent."""
        now = await self._clock.business()

        async def unit(tx: FakeStoreTransaction) -> T:
            await tx.lock(books.intent_lock_name(intent_id))
            return await books.change_intent(
                tx, intent_id, now, lambda intent: transition(intent, now)
            )

        return await self._store.transact(unit)

    async def payee_page(self, ref: str) -> PayeePage | None:
        found = await self._store.read(lambda view: self._find_account(view, ref))
        return None if found is None else found.page

    async def complete_payee(self, ref: str) -> PayeePage | None:
        now = await self._clock.business()
        completed = await self._change_account(ref, now, lambda was: evolve(was, ready=True))
        return None if completed is None else completed.page

    async def chargeback(self, intent_id: int, outcome: str) -> None:
        """A verdict without an open chargeback opens it first. Raises InvalidField on
        `outcome`, and RuleBroken as `machine.chargeback` does."""
        if outcome not in tuple(ChargebackStatus):
            raise invalid_field("outcome", f"must be one of {', '.join(ChargebackStatus)}")
        status = ChargebackStatus(outcome)
        await self._change_intent(intent_id, lambda was, _: (machine.chargeback(was, status), None))

    async def add_fault(self, op: str, kind: str, times: int) -> None:
        """What there is to choose from: `faults`. Raises InvalidField on op, kind, times."""
        fault = faults.make_fault(op, kind, times)

        async def unit(tx: FakeStoreTransaction) -> None:
            await books.save_faults(tx, (*await books.lock_faults(tx), fault))

        await self._store.transact(unit)

    async def clear_faults(self) -> None:
        async def unit(tx: FakeStoreTransaction) -> None:
            await books.lock_faults(tx)
            await books.save_faults(tx, ())

        await self._store.transact(unit)

    async def balance(self) -> int:
        await outbox.advance_due_intents(self._store, await self._clock.business())
        return await self._store.read(lambda view: view.total(books.INTENT_KIND))

    async def take_due_events(self, limit: int) -> Sequence[tuple[Mapping[str, str], bytes]]:
        """Each event is given twice, 30 s of business time apart, and from then on only listed."""
        now = await self._clock.business()
        await outbox.advance_due_intents(self._store, now)
        await outbox.delete_expired(self._store, now, self._clock.wall())
        taken = await outbox.take_due_events(self._store, now, limit, self._injector)
        return [self._sign(sending) for sending in taken]

    async def is_event_taken(self, subject: int | str, since: datetime) -> bool:
        now = await self._clock.business()
        return await self._store.read(
            partial(outbox.was_delivered, subject=subject, since=since, now=now)
        )

    def _sign(self, sending: OutgoingEvent) -> tuple[Mapping[str, str], bytes]:
        body = signing.encode_body(sending.event)
        secret = b"forged:" + self._secret if sending.has_bad_signature else self._secret
        return signing.sign_headers(body, secret, self._clock.wall()), body

    # Beyond the ports: what an operator can do at a real processor -----------------------------

    async def refund_by_hand(self, intent_id: int, amount: int) -> None:
        """A refund that is no operation of ours. Raises Refused like a call."""
        await self._change_intent(
            intent_id, lambda was, now: (machine.refund_by_hand(was, amount, now), None)
        )

    async def reverse_by_hand(self, intent_id: int, amount: int) -> None:
        """A reversal that is no operation of ours. Raises Refused like a call."""
        await self._change_intent(
            intent_id, lambda was, _: (machine.reverse_by_hand(was, amount), None)
        )

    async def set_payee_ready(self, companion_id: int, ready: bool) -> None:
        """Whether payouts to a companion pass, whether or not there is an account."""
        now = await self._clock.business()
        await self._change_payee(companion_id, now, lambda was: evolve(was, ready=ready))


def _require_payee(payee: FakePayee | None) -> FakePayee:
    if payee is None:
        raise ProcessorRefused(RefusalCode.MISSING, "no such payee")
    return payee
