"""The payment processor, and what only a simulated one can do."""

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

__all__ = [
    "ArmedFault",
    "CheckoutPage",
    "CheckupFinding",
    "PayeePage",
    "PaymentProcessor",
    "SandboxProcessor",
]


@frozen
class CheckupFinding:
    """One result of checking the settings of the processor account: right or wrong, and what to
    do."""

    name: str
    ok: bool
    detail: str


class PaymentProcessor(Protocol):
    """A payment processor. Amounts are in minor units.

    Every method raises only subclasses of ProcessorError, and ends within `timeout_seconds`: past
    that it raises OutcomeUnknown, as the call may have been executed. ProcessorRefused and
    ProcessorBusy mean that it was not. A repeated failure has the same text, without the id of a
    call: operators are told of a new text only. The same key with the same command gives the first
    result again, and never moves money twice; with another command it raises OperationKeyReused.
    `key.op_id` is stored with what a call creates, and comes back in snapshots; what was made by
    hand has None.
    """

    @property
    def name(self) -> str:
        """The provider's name, which stored rows refer to."""
        ...

    @property
    def checkout_origin(self) -> str:
        """The origin of the hosted checkout pages, such as `https://pay.example.com`."""
        ...

    def min_amount(self, currency: str) -> int:
        """The least total that can be charged in a currency."""
        ...

    def max_amount(self, currency: str) -> int:
        """The largest total that can be charged in a currency."""
        ...

    async def open_checkout(
        self, command: OpenCheckout, key: OperationKey, timeout_seconds: float
    ) -> Checkout:
        """Open a hosted checkout page, which can be paid once, until `command.expires_at`. Refused
        as AMOUNT_TOO_SMALL below `min_amount`, for any final reason above `max_amount`."""
        ...

    async def close_checkout(self, ref: str, key: OperationKey, timeout_seconds: float) -> Checkout:
        """Close a checkout. One that was paid is returned as paid, an expired one as expired: these
        are no errors."""
        ...

    async def refund(
        self, command: RefundPayment, key: OperationKey, timeout_seconds: float
    ) -> RefundState:
        """Refund a payment, in full or in part. Refused as MISSING, as EXCEEDS_REMAINING or
        NOTHING_LEFT where less or nothing is left of it, as DISPUTED during a chargeback."""
        ...

    async def pay_out(
        self, command: PayOut, key: OperationKey, timeout_seconds: float
    ) -> PayoutState:
        """Transfer money of a payment to a payee.

        Refused as MISSING where there is no such payment, which ends the payout; as
        PAYEE_NOT_READY, which is tried again, where `payee_ref` is empty (there is no account yet),
        unknown or of an account that is not ready; as EXCEEDS_REMAINING where all payouts of the
        payment, less what was reversed of them, would exceed its amount. Refunds do not count: the
        service leaves room for them.
        """
        ...

    async def reverse_payout(
        self, command: ReversePayout, payout_ref: str, key: OperationKey, timeout_seconds: float
    ) -> ReversalState:
        """Take a payout back, in full or in part. Refused as EXCEEDS_REMAINING beyond it."""
        ...

    async def open_payee(
        self, command: OpenPayee, key: OperationKey, timeout_seconds: float
    ) -> PayeeState:
        """Open a payee's account."""
        ...

    async def payee(self, ref: str, timeout_seconds: float) -> PayeeState:
        """The state of a payee's account. Refused as MISSING where there is none."""
        ...

    async def onboarding_link(
        self, ref: str, return_url: str, refresh_url: str, timeout_seconds: float
    ) -> OnboardingLink:
        """A page where the payee completes the account; a new one for each visit, never stored."""
        ...

    async def snapshot(self, refs: IntentRefs, timeout_seconds: float) -> Snapshot:
        """All that the processor knows of an intent: checkouts, payments, refunds, payouts,
        reversals, chargebacks, fees. Empty for an unknown intent."""
        ...

    async def find_intent(self, payment_ref: str, timeout_seconds: float) -> int | None:
        """The intent that a payment is for; None where the payment is not this service's."""
        ...

    async def list_events(
        self, cursor: str | None, timeout_seconds: float
    ) -> tuple[Sequence[ProcessorEvent], str]:
        """The events since the cursor of an earlier call (with None: of a recent period), with the
        next cursor. Events may come again. Polling recovers lost webhooks."""
        ...

    def statement(self) -> AsyncIterator[Movement]:
        """Every movement of the platform's balance, by intent, those without an intent first. Uses
        constant memory."""
        ...

    async def checkup(self, timeout_seconds: float) -> Sequence[CheckupFinding]:
        """Checks that the account at the processor is set up so that held money stays there."""
        ...

    def parse_webhook(
        self, headers: Mapping[str, str], body: bytes, now: datetime
    ) -> Sequence[ProcessorEvent]:
        """Verify an incoming webhook; its events. `now` is wall time.

        Raises BadEventSignature.
        """
        ...


@frozen
class CheckoutPage:
    """What the checkout page of the simulated processor shows."""

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
    """What the onboarding page of the simulated processor shows."""

    ref: str
    name: str
    ready: bool
    return_url: str


@frozen
class ArmedFault:
    """A fault that the next `times` calls of an operation of the simulated processor meet."""

    op: str
    kind: str
    times: int


class SandboxProcessor(Protocol):
    """Controls of a simulated processor, for sandboxes and tests. Amounts are in minor units."""

    @property
    def pays_without_account(self) -> bool:
        """Whether payouts are made to companions without an account too."""
        ...

    async def checkout_page(self, ref: str) -> CheckoutPage | None:
        """The checkout page with a reference."""
        ...

    async def simulate_checkout(self, ref: str, outcome: str) -> CheckoutPage | None:
        """Act on a checkout page as a customer would: succeed, decline, expire, challenge.

        Raises InvalidField on `outcome`.
        """
        ...

    async def payee_page(self, ref: str) -> PayeePage | None:
        """The onboarding page with a reference."""
        ...

    async def complete_payee(self, ref: str) -> PayeePage | None:
        """Complete an onboarding page as a staff member would: the payee becomes ready."""
        ...

    async def chargeback(self, intent_id: int, outcome: str) -> None:
        """Open, win or lose a chargeback of a paid intent: open, won, lost.

        Raises InvalidField on `outcome`.
        """
        ...

    async def add_fault(self, op: str, kind: str, times: int) -> None:
        """Inject a fault into the next calls of an operation.

        Raises InvalidField on `op`, `kind` or `times`.
        """
        ...

    async def list_faults(self) -> Sequence[ArmedFault]:
        """The faults that are still to come, the oldest first."""
        ...

    async def clear_faults(self) -> None:
        """Remove all injected faults."""
        ...

    async def balance(self) -> int:
        """The platform's balance in the processor's own books."""
        ...

    async def take_due_events(self, limit: int) -> Sequence[tuple[Mapping[str, str], bytes]]:
        """Take up to `limit` signed events that are due for delivery: headers and body of each."""
        ...

    async def is_event_taken(self, subject: int | str, since: datetime) -> bool:
        """Whether an event of an intent (by id) or of a payee (by reference) that happened at
        business time `since` or later was taken; its delivery may not have finished."""
        ...
