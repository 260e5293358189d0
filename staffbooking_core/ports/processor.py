"""The payment processor, and what only a pretended one can do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from attrs import frozen

from staffbooking_core.domain.payments.payees import OnboardingLink, OpenPayee, PayeeState
from staffbooking_core.domain.payments.processor import (
    Checkout,
    IntentRefs,
    OpenCheckout,
    OperationKey,
    PayOut,
    PayoutState,
    ProcessorEvent,
    RefundPayment,
    RefundState,
    ReversalState,
    ReversePayout,
    Snapshot,
)
from staffbooking_core.domain.reconciliation.statement import Movement


@frozen
class CheckupFinding:
    """What a look at the processor's own settings found: right or wrong, and what to do."""

    name: str
    ok: bool
    detail: str


class PaymentProcessor(Protocol):
    """A payment processor. Every method raises only the errors of `domain.payments`, and
    ends within `within` seconds: past that the outcome is `Unknown`. The same key with the
    same command gives the first answer again; it never moves money twice. `key.op_id` is
    kept with what a call makes and comes back in snapshots."""

    @property
    def name(self) -> str: ...

    def min_amount(self, currency: str) -> int:
        """The least total that can be charged, in minor units."""
        ...

    async def open_checkout(
        self, command: OpenCheckout, key: OperationKey, timeout_seconds: float
    ) -> Checkout: ...
    async def close_checkout(self, ref: str, key: OperationKey, timeout_seconds: float) -> Checkout:
        """A checkout that was paid comes back as paid, one that had expired as expired:
        no errors."""
        ...

    async def refund(
        self, command: RefundPayment, key: OperationKey, timeout_seconds: float
    ) -> RefundState: ...
    async def pay_out(
        self, command: PayOut, key: OperationKey, timeout_seconds: float
    ) -> PayoutState: ...
    async def reverse_payout(
        self, command: ReversePayout, payout_ref: str, key: OperationKey, timeout_seconds: float
    ) -> ReversalState: ...
    async def open_payee(
        self, command: OpenPayee, key: OperationKey, timeout_seconds: float
    ) -> PayeeState: ...
    async def payee(self, ref: str, timeout_seconds: float) -> PayeeState: ...
    async def onboarding_link(
        self, ref: str, return_url: str, refresh_url: str, timeout_seconds: float
    ) -> OnboardingLink:
        """A page where the payee completes the account; one for each visit, never kept."""
        ...

    async def snapshot(self, refs: IntentRefs, timeout_seconds: float) -> Snapshot: ...
    async def find_intent(self, payment_ref: str, timeout_seconds: float) -> int | None:
        """The intent that a payment is for; None where it is none of ours."""
        ...

    async def list_events(
        self, cursor: str | None, timeout_seconds: float
    ) -> tuple[Sequence[ProcessorEvent], str]:
        """The events since the cursor that an earlier call gave (None: from a while ago on),
        some of them perhaps again, with the next cursor: what heals lost webhooks."""
        ...

    def statement(self) -> AsyncIterator[Movement]:
        """Every movement of the platform's balance, in the order of intents, those of none
        first. Flat in memory, however many there are."""
        ...

    async def checkup(self, timeout_seconds: float) -> Sequence[CheckupFinding]:
        """Whether the account at the processor is set up so that money held stays there."""
        ...

    def parse_webhook(
        self, headers: Mapping[str, str], body: bytes, now: datetime
    ) -> Sequence[ProcessorEvent]:
        """Verify an incoming event and say where to look; raises BadSignature."""
        ...


@frozen
class CheckoutPage:
    """What the hosted page of the pretended processor shows."""

    ref: str
    intent_id: int
    amount: int
    currency: str
    description: str
    booking_code: str
    customer_email: str
    return_url: str
    state: str
    """open, challenge, paid or expired."""
    message: str = ""
    """Why the last try was declined."""


@frozen
class PayeePage:
    """What the onboarding page of the pretended processor shows."""

    ref: str
    name: str
    ready: bool
    return_url: str


class SandboxProcessor(Protocol):
    """What only a pretended processor can do: the test bench of the whole service."""

    async def checkout_page(self, ref: str) -> CheckoutPage | None: ...
    async def simulate_checkout(self, ref: str, outcome: str) -> CheckoutPage | None:
        """Act on a checkout page as a client would: succeed, decline, expire, challenge."""
        ...

    async def payee_page(self, ref: str) -> PayeePage | None: ...
    async def complete_payee(self, ref: str) -> PayeePage | None:
        """Act on an onboarding page as a staff member would: now the payee is ready."""
        ...

    async def chargeback(self, intent_id: int, outcome: str) -> None:
        """Open, win or lose a chargeback of a paid intent: open, won, lost."""
        ...

    async def add_fault(self, op: str, kind: str, times: int) -> None: ...
    async def clear_faults(self) -> None: ...
    async def balance(self) -> int:
        """What the processor's own book says that the platform holds, in minor units."""
        ...

    async def take_due_events(self, limit: int) -> Sequence[tuple[Mapping[str, str], bytes]]:
        """Take signed events that are to be delivered now: headers and body of each."""
        ...

    async def is_event_taken(self, subject: int | str, since: datetime) -> bool:
        """Whether somebody took an event of an intent (by id) or of a payee (by reference) that
        happened at business time `since` or later; they may not have brought it yet."""
        ...
