"""The fake processor: the payment port over the machine, a document store and a clock.

Several processes may share one document store. Its transactions are separate from the service's,
as with a real processor.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from urllib.parse import urlsplit

from attrs import evolve

from staffbooking_adapters.fake import documents, faults, listing, machine, signing
from staffbooking_adapters.fake.accounts import PayeeAccounts
from staffbooking_adapters.fake.calls import CallExecutor, call_deadline
from staffbooking_adapters.fake.dashboard import FakeDashboard
from staffbooking_adapters.fake.documents import FakeDocumentStore, FakeStoreTransaction
from staffbooking_adapters.fake.faults import FaultInjector
from staffbooking_adapters.fake.machine import FakeIntent
from staffbooking_adapters.fake.payees import LINK_LIFETIME, FakePayee
from staffbooking_adapters.fake.sandbox import FakeSandbox
from staffbooking_core.domain.payments.payees import OnboardingLink, OpenPayee, PayeeState
from staffbooking_core.domain.payments.processor import (
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
from staffbooking_core.domain.shared.money import MAX_AMOUNT_MINOR_UNITS
from staffbooking_core.ports import CheckupFinding, Clock

_PAYMENT_REF_PATTERN = re.compile(r"fpay_(\d{1,19})_\d+", re.ASCII)


def _random_ref() -> str:
    """128 secure random bits, because the reference alone authorizes a payment."""
    return secrets.token_hex(16)


class FakeProcessor:
    """Implements `PaymentProcessor`; its `sandbox` implements `SandboxProcessor`, and its
    `dashboard` has an operator's actions.

    `base_url` serves the hosted pages, `secret` signs the events, `make_ref` returns references
    of pages and payees in letters and digits. Companions can be paid at once, with or without an
    account, unless `dashboard.set_payee_ready` disables it; with `manual_payees` only after
    their account is completed. The fee is `fee_ppm` millionths of each payment.
    `injector` may inject a fault into any call and event (`faults`).
    """

    name = "fake"

    def __init__(
        self,
        store: FakeDocumentStore,
        clock: Clock,
        *,
        base_url: str,
        secret: bytes,
        make_ref: Callable[[], str] = _random_ref,
        manual_payees: bool = False,
        fee_ppm: int = 0,
        injector: FaultInjector = faults.inject_nothing,
    ) -> None:
        self._store = store
        self._clock = clock
        self._calls = CallExecutor(store, clock, injector)
        self._accounts = PayeeAccounts(store, manual_payees)
        self._pages_url = f"{base_url.rstrip('/')}/sandbox"
        parts = urlsplit(base_url)
        self.checkout_origin = f"{parts.scheme}://{parts.netloc}"
        self._secret = secret
        self._make_ref = make_ref
        self.sandbox = FakeSandbox(store, clock, self._accounts, injector, secret, fee_ppm)
        self.dashboard = FakeDashboard(store, clock, self._accounts)

    # Money ------------------------------------------------------------------------

    def min_amount(self, currency: str) -> int:
        return machine.min_amount(currency)

    def max_amount(self, currency: str) -> int:
        return MAX_AMOUNT_MINOR_UNITS

    async def open_checkout(
        self, command: OpenCheckout, key: OperationKey, timeout_seconds: float
    ) -> Checkout:
        ref = self._make_ref()

        def transition(intent: FakeIntent, now: datetime, _: str) -> tuple[FakeIntent, Checkout]:
            url = f"{self._pages_url}/checkout/{ref}"
            return machine.open_checkout(intent, command, key.op_id, ref, url, now)

        return await self._calls.execute_on_intent(
            key, (command,), Checkout, timeout_seconds, transition
        )

    async def close_checkout(self, ref: str, key: OperationKey, timeout_seconds: float) -> Checkout:
        def transition(intent: FakeIntent, _: datetime, __: str) -> tuple[FakeIntent, Checkout]:
            return machine.close_checkout(intent, ref)

        return await self._calls.execute_on_intent(
            key, (ref,), Checkout, timeout_seconds, transition
        )

    async def refund(
        self, command: RefundPayment, key: OperationKey, timeout_seconds: float
    ) -> RefundState:
        def transition(
            intent: FakeIntent, now: datetime, fault: str
        ) -> tuple[FakeIntent, RefundState]:
            return machine.refund(
                intent, command, key.op_id, now, faults.REFUND_PROGRESSIONS.get(fault)
            )

        return await self._calls.execute_on_intent(
            key, (command,), RefundState, timeout_seconds, transition
        )

    async def pay_out(
        self, command: PayOut, key: OperationKey, timeout_seconds: float
    ) -> PayoutState:
        async def pay_out(tx: FakeStoreTransaction, now: datetime, _: str) -> PayoutState:
            payee = await self._accounts.get(tx, command.companion_id)
            known = payee.ref != "" and payee.ref == command.payee_ref
            ready = payee.ready and (known or not self._accounts.is_manual)
            return await documents.change_intent(
                tx,
                key.intent_id,
                now,
                lambda intent: machine.pay_out(intent, command, key.op_id, ready),
            )

        return await self._calls.execute(key, (command,), PayoutState, timeout_seconds, pay_out)

    async def reverse_payout(
        self, command: ReversePayout, payout_ref: str, key: OperationKey, timeout_seconds: float
    ) -> ReversalState:
        def transition(
            intent: FakeIntent, _: datetime, __: str
        ) -> tuple[FakeIntent, ReversalState]:
            return machine.reverse_payout(intent, command, payout_ref, key.op_id)

        return await self._calls.execute_on_intent(
            key, (command, payout_ref), ReversalState, timeout_seconds, transition
        )

    # Payees -----------------------------------------------------------------------

    async def open_payee(
        self, command: OpenPayee, key: OperationKey, timeout_seconds: float
    ) -> PayeeState:
        ref = f"fpa_{command.companion_id}_{self._make_ref()}"

        async def open_payee(tx: FakeStoreTransaction, now: datetime, _: str) -> PayeeState:
            payee = await self._accounts.get(tx, command.companion_id)
            opened = evolve(payee, ref=payee.ref or ref, name=command.name)
            await documents.save_payee(tx, payee, opened, now)
            return opened.state

        return await self._calls.execute(key, (command,), PayeeState, timeout_seconds, open_payee)

    async def payee(self, ref: str, timeout_seconds: float) -> PayeeState:
        with call_deadline(timeout_seconds):
            found = await self._accounts.find(ref)
        return _require_payee(found).state

    async def onboarding_link(
        self, ref: str, return_url: str, refresh_url: str, timeout_seconds: float
    ) -> OnboardingLink:
        """The page never expires, so `refresh_url` is not used."""
        with call_deadline(timeout_seconds):
            now = await self._clock.business()
            changed = await self._accounts.change_by_ref(
                ref, now, lambda payee: evolve(payee, return_url=return_url)
            )
        return OnboardingLink(
            f"{self._pages_url}/payees/{_require_payee(changed).ref}", now + LINK_LIFETIME
        )

    # Queries ----------------------------------------------------------------------

    async def snapshot(self, refs: IntentRefs, timeout_seconds: float) -> Snapshot:
        """The intent's id suffices; the other references are ignored."""
        with call_deadline(timeout_seconds):
            now = await self._clock.business()
            intent = await self._store.read(lambda view: documents.get_intent(view, refs.intent_id))
        return machine.snapshot(machine.advance_to(intent, now))

    async def find_intent(self, payment_ref: str, timeout_seconds: float) -> int | None:
        match = _PAYMENT_REF_PATTERN.fullmatch(payment_ref)
        if match is None:
            return None
        with call_deadline(timeout_seconds):
            found = await self._store.read(lambda view: documents.get_intent(view, int(match[1])))
        paid = any(each.payment.ref == payment_ref for each in found.charges)
        return found.id if paid else None

    async def list_events(
        self, cursor: str | None, timeout_seconds: float
    ) -> tuple[Sequence[ProcessorEvent], str]:
        """As `listing.list_events`."""
        with call_deadline(timeout_seconds):
            return await listing.list_events(self._store, self._clock, cursor)

    def statement(self) -> AsyncIterator[Movement]:
        """As `listing.statement`."""
        return listing.statement(self._store, self._clock)

    async def checkup(self, timeout_seconds: float) -> Sequence[CheckupFinding]:
        with call_deadline(timeout_seconds):
            waiting = await self._store.read(documents.pending_faults)
        payees = "are completed by hand" if self._accounts.is_manual else "can be paid at once"
        listed = ", ".join(f"{each.op} {each.kind} x {each.times}" for each in waiting)
        return (
            CheckupFinding("processor", True, "payments are simulated: no money moves"),
            CheckupFinding("payees", True, f"staff members {payees}"),
            CheckupFinding("faults", not waiting, listed or "none are waiting"),
        )

    def parse_webhook(
        self, headers: Mapping[str, str], body: bytes, now: datetime
    ) -> Sequence[ProcessorEvent]:
        signing.verify(headers, body, self._secret, now)
        return signing.parse_events(body)


def _require_payee(payee: FakePayee | None) -> FakePayee:
    if payee is None:
        raise ProcessorRefused(RefusalCode.MISSING, "no such payee")
    return payee
